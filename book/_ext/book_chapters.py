"""What the build needs to know about chapters: which exist, and which claims each one settles.

Chapters are MyST Markdown notebooks (`notebooks/NN_name.md`). A chapter settles the claims that it
names under "Claims settled here" and those that its code cells record. Both are read from the
source, so that a record which never reached an output is missed. Nothing is executed here.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import jupytext

_HASHED_BYTES = 64 * 2**20  # a larger file of data is known by its size and time of change
_ID = r"[A-Z]\.\w+(?:\.\w+)*"
_SECTION = re.compile(r"^## Claims settled here\s*$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(rf"`({_ID})`")
_RECORDED = re.compile(rf"""\.record\(\s*["']({_ID})["']""")


def chapters(root: Path) -> list[Path]:
    """Return the chapters of the checkout at `root`, in reading order."""
    return sorted((root / "notebooks").glob("[0-9][0-9]_*.md"))


def settles(chapter: Path) -> set[str]:
    """Return the ids of the claims that the chapter's source says it settles."""
    cells = jupytext.read(chapter).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    section = _SECTION.search(text)
    return set(_NAMED.findall(section[1] if section else "")) | set(_RECORDED.findall(code))


def inputs_key(root: Path, package: Path) -> str:
    """Return a key that changes with all that a chapter's outputs depend on, bar its own cells.

    That is the library's source and data (`package`), the lock, the Python version, stored results,
    and the data: under ``$CAUSALRAG_DATA``, or as ir_datasets keeps them. The cache itself
    compares the cells.
    """
    digest = hashlib.sha256()
    digest.update(f"{platform.python_implementation()} {platform.python_version()}".encode())
    lock = root / "requirements" / "book.lock"
    sources = [*_files(package), *_files(root / "book" / "results")]
    sources += [lock] if lock.is_file() else []
    for path in sources:
        # Relative names: the same tree in another folder has the same key.
        base = package if path.is_relative_to(package) else root
        digest.update(f"\0{path.relative_to(base).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for path in _data_files():
        digest.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        if path.stat().st_size <= _HASHED_BYTES:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        else:
            digest.update(str(path.stat().st_mtime_ns).encode())
    return digest.hexdigest()[:20]


def _data_files() -> Iterator[Path]:
    """Yield the data that chapters read: ``$CAUSALRAG_DATA``, else what ir_datasets fetched."""
    if data := os.environ.get("CAUSALRAG_DATA"):
        yield from _files(Path(data))
    else:
        home = Path(os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets")
        yield from (path for path in _files(home / "beir") if path.suffix != ".tmp")


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield path


def plain_ipython(build: Path) -> None:
    """Let kernels started from here ignore the reader's own IPython profile, and start quietly.

    A start-up script of the reader's could change what a chapter prints. The folder lies below
    `build`.
    """
    profile = build / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    # Kernels warn at each start that TCP on the loopback interface is not encrypted.
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
    os.environ["IPYTHONDIR"] = str(profile.parent)
