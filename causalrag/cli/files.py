"""The text files that a command is given: single files, and folders searched for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from causalrag.cli.output import skip

__all__ = ["SUFFIXES", "no_text", "texts"]

SUFFIXES = (".txt", ".md")


def texts(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each readable file once with its text; name on standard error what is skipped."""
    seen: set[Path] = set()
    for path in _files(paths):
        try:
            identity = path.resolve()
            if identity in seen:
                continue
            seen.add(identity)
            if not path.is_file():
                raise ValueError("not a regular file")
            content = path.read_bytes()
            if b"\0" in content:
                raise ValueError("not a text file")
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            skip(path, "not UTF-8 text; convert it to UTF-8 first")
        except (OSError, ValueError, RuntimeError) as error:
            skip(path, getattr(error, "strerror", None) or str(error))
        else:
            yield path, text


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        if path.is_dir():
            yield from sorted(_walk(path))
        else:
            yield path


def _walk(folder: Path) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        skip(error.filename, error.strerror or "unreadable")

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.lower().endswith(SUFFIXES):
                yield Path(parent, name)


def no_text(paths: Sequence[Path]) -> ValueError:
    """Return the error for paths without any text."""
    return ValueError("no readable .txt or .md file in " + ", ".join(map(str, paths)))
