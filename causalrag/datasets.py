"""Corpora and judgments: theme folders with known roles, and the qrels of BEIR.

`load_themes` reads the format of the diagnostic corpora (section 4.4): themes with one query each,
and documents that are the target, stuffed with the query's words, near, or unrelated. Nothing is
downloaded; BEIR archives are read where ``CAUSALRAG_DATA`` says they lie, and never unpacked.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("target", "stuffed", "near", "unrelated")


@dataclass(frozen=True)
class Document:
    """A document of a theme; `extra` holds the fields the format does not name."""

    id: str
    role: str
    title: str
    text: str
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Theme:
    """A query with its answer and its candidate documents, in the order of the file."""

    theme: str
    query: str
    lang: str
    answer: str
    documents: tuple[Document, ...]
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def with_role(self, role: str) -> tuple[Document, ...]:
        """Give the documents of a role, in order; an unknown role is a `ValueError`."""
        return tuple(d for d in self.documents if d.role == _checked_role(role))


@dataclass(frozen=True)
class Corpus:
    """Themes in the order of the file."""

    themes: tuple[Theme, ...]


def load_themes(folder: str | Path) -> Corpus:
    """Read a themes folder: ``themes.jsonl`` and ``docs.jsonl`` (or either with ``.gz``).

    Parameters
    ----------
    folder : str or Path
        One JSON object a line, UTF-8. ``themes.jsonl``: ``theme``, ``lang``, ``query``, ``answer``.
        ``docs.jsonl``: ``theme``, ``id``, ``role`` (target, stuffed, near, unrelated), ``title``,
        ``text``. More fields are kept in ``extra``. A byte order mark, CRLF line ends and blank
        lines are read; a title or answer that is null or absent becomes ``""``; numbers as ids
        become strings.

    Returns
    -------
    Corpus
        Each theme with its documents. Ids are unique within a theme.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        With file and line: a broken or truncated line, a missing field, an unknown role, a document
        of an unknown theme, a duplicate id. Also for a theme without documents.
    """
    folder = Path(folder)
    themes = _read_themes(_jsonl_path(folder, "themes"))
    path = _jsonl_path(folder, "docs")
    documents: dict[str, dict[str, Document]] = {name: {} for name in themes}
    for where, record in _json_lines(path):
        name = _text_field(record, "theme", where)
        if name not in documents:
            raise ValueError(f"{where}: unknown theme {name!r}; known: {', '.join(themes)}")
        document = Document(
            id=_text_field(record, "id", where),
            role=_checked_role(_text_field(record, "role", where), where),
            title=_text_field(record, "title", where, optional=True),
            text=_text_field(record, "text", where, blank=True),
            extra=_rest(record, ("theme", "id", "role", "title", "text")),
        )
        if document.id in documents[name]:
            raise ValueError(f"{where}: duplicate id {document.id!r} in theme {name!r}")
        documents[name][document.id] = document
    for name, found in documents.items():
        if not found:
            raise ValueError(f"{path}: no document belongs to theme {name!r}")
    return Corpus(
        tuple(
            Theme(**fields, documents=tuple(documents[name].values()))
            for name, fields in themes.items()
        )
    )


def opening() -> Corpus:
    """Give the packaged corpus of the opening example: three themes of seven documents.

    It illustrates the failure of similarity under keyword stuffing and was written for that: no
    rate and no ranking of methods follows from it.
    """
    return load_themes(Path(__file__).parent / "data" / "opening")


def beir_qrels(name: str, split: str = "test") -> pd.DataFrame:
    """Read the relevance judgments of a BEIR data set.

    Parameters
    ----------
    name : str
        Such as ``"scifact"``: the archive ``$CAUSALRAG_DATA/beir/scifact.zip``.
    split : str, default "test"
        The member ``scifact/qrels/test.tsv``.

    Returns
    -------
    DataFrame
        Columns query_id, doc_id (str) and grade (int), one row per judgment, in file order.

    Raises
    ------
    FileNotFoundError
        If ``CAUSALRAG_DATA`` is not set or the archive is not there.
    ValueError
        If the name or the split is unknown, the archive is damaged or has a member that points out
        of its folder, a line is not a judgment, there is no judgment, or a pair has two grades.
    """
    path = _beir_archive(name)
    member = f"{name}/qrels/{split}.tsv"
    try:
        with zipfile.ZipFile(path) as archive:
            members = [_checked_member(item, path) for item in archive.namelist()]
            if member not in members:
                pattern = re.compile(rf"{re.escape(name)}/qrels/(.+)\.tsv")
                splits = [m[1] for m in map(pattern.fullmatch, members) if m]
                raise ValueError(
                    f"{path} has no split {split!r}; it has: {', '.join(sorted(splits)) or 'none'}"
                )
            data = archive.read(member)
    # RuntimeError: an encrypted member, or a compression this Python lacks.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read: {error}; fetch it again") from error
    return _parse_qrels(data, f"{path}:{member}")


# --- themes -----------------------------------------------------------------------------------


def _read_themes(path: Path) -> dict[str, dict[str, Any]]:
    themes: dict[str, dict[str, Any]] = {}
    for where, record in _json_lines(path):
        name = _text_field(record, "theme", where)
        if name in themes:
            raise ValueError(f"{where}: duplicate theme {name!r}")
        themes[name] = {
            "theme": name,
            "lang": _text_field(record, "lang", where),
            "query": _text_field(record, "query", where),
            "answer": _text_field(record, "answer", where, optional=True),
            "extra": _rest(record, ("theme", "lang", "query", "answer")),
        }
    if not themes:
        raise ValueError(f"{path} holds no theme")
    return themes


def _jsonl_path(folder: Path, stem: str) -> Path:
    for suffix in (".jsonl", ".jsonl.gz"):
        if (folder / (stem + suffix)).is_file():
            return folder / (stem + suffix)
    raise FileNotFoundError(f"{folder} has no {stem}.jsonl; a themes folder holds themes and docs")


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give ("path, line n", object) for each line that is not blank."""
    number = 0
    try:
        with _open(path) as lines:
            for number, raw in enumerate(lines, start=1):
                where = f"{path}, line {number}"
                # Bytes are split at \n only: U+2028 and its like may stand inside a string.
                line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if line.strip():
                    yield where, _json_object(line, where)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or cut short after line {number}: {error}; fetch it again"
        ) from error


def _open(path: Path) -> BinaryIO:
    return io.BufferedReader(gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _json_object(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 ({error})") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: broken or cut JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected a JSON object, got {type(record).__name__}")
    return record


def _text_field(
    record: Mapping[str, Any], key: str, where: str, *, optional: bool = False, blank: bool = False
) -> str:
    """Read a field as a string: `optional` ones may be absent or null, `blank` ones empty."""
    value = record.get(key)
    if value is None and optional:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # ids and theme names are often numbers
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {key!r} must be a string, got {value!r:.60}")
    if not (optional or blank or value.strip()):
        raise ValueError(f"{where}: field {key!r} is blank")
    return value


def _rest(record: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in known}


def _checked_role(role: str, where: str = "") -> str:
    if role not in ROLES:
        start = f"{where}: " if where else ""
        raise ValueError(f"{start}unknown role {role!r}; known: {', '.join(ROLES)}")
    return role


# --- BEIR -------------------------------------------------------------------------------------


def _beir_archive(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
        raise ValueError(f"{name!r} is not the name of a data set, such as 'scifact'")
    root = os.environ.get("CAUSALRAG_DATA", "")
    if not root:
        raise FileNotFoundError(
            f"no BEIR archives: set CAUSALRAG_DATA to the folder that holds beir/{name}.zip"
        )
    path = Path(root) / "beir" / f"{name}.zip"
    if not path.is_file():
        there = sorted(p.stem for p in path.parent.glob("*.zip"))
        raise FileNotFoundError(
            f"{path} does not exist (archives there: {', '.join(there) or 'none'}); set "
            f"CAUSALRAG_DATA to the folder that holds beir/{name}.zip"
        )
    return path


def _checked_member(member: str, archive: Path) -> str:
    parts = PurePosixPath(member.replace("\\", "/")).parts
    if not parts or parts[0] == "/" or ":" in parts[0] or ".." in parts:
        raise ValueError(f"{archive} is refused: its member {member!r} points out of its folder")
    return member


def _parse_qrels(data: bytes, source: str) -> pd.DataFrame:
    import pandas as pd

    rows: dict[tuple[str, str], int] = {}
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        fields = raw.decode("utf-8", "replace").strip("\r").split("\t")
        if fields == [""] or (number == 1 and fields[0] == "query-id"):
            continue
        if len(fields) != 3 or not all(fields) or not re.fullmatch(r"-?\d+", fields[2]):
            raise ValueError(
                f"{source}, line {number}: expected query, document and grade: {raw!r}"
            )
        if rows.setdefault((fields[0], fields[1]), int(fields[2])) != int(fields[2]):
            raise ValueError(f"{source}, line {number}: {fields[0]} {fields[1]} has two grades")
    if not rows:
        raise ValueError(f"{source} holds no judgment")
    columns = ["query_id", "doc_id", "grade"]
    frame = pd.DataFrame([(q, d, g) for (q, d), g in rows.items()], columns=columns)
    return frame.astype({"grade": "int64"})
