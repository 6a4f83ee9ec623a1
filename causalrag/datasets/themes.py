"""Themes: a query, its answer, and documents whose roles are known; the packaged corpora.

A folder holds ``themes.jsonl`` and ``docs.jsonl``. What is broken is refused with file and line.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from causalrag.documents import joined

ROLES = ("target", "stuffed", "near", "unrelated")


@dataclass(frozen=True)
class Document:
    """A document of a theme; `extra` holds the fields the format does not name."""

    id: str
    role: str
    title: str
    text: str
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def full_text(self) -> str:
        """Title and text, as `CausalReranker.rank` reads them."""
        return joined((self.title, self.text))


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

    @property
    def texts(self) -> list[str]:
        """The full text of every document, theme by theme; what an extractor is fitted on."""
        return [document.full_text for theme in self.themes for document in theme.documents]


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
    return _packaged("opening")


def diagnostic() -> Corpus:
    """Give the packaged diagnostic corpus: the eight themes of the paper's section 4.4, T1-T8.

    An analogue of the paper's unpublished corpus, five themes in Chinese and three in English. Its
    texts were fixed before any of them was scored; its authors knew the failure it is about.
    """
    return _packaged("diagnostic")


def second() -> Corpus:
    """Give the packaged second corpus: twelve themes on other subjects, S1-S12.

    Two of its targets are rich in the query's words, and two of its stuffed documents are sober
    texts of a neighbouring domain (`Document.extra` has a ``note`` there). Fixed as `diagnostic`.
    """
    return _packaged("second")


def development() -> Corpus:
    """Give the packaged development corpus: twelve themes to look at while a rule is made, C1-C12.

    Not a test: what is shown on it was seen before the rule was fixed. `Document.extra` has a
    ``kind`` that says how a stuffed document is stuffed.
    """
    return _packaged("development")


def hard() -> Corpus:
    """Give the packaged hard corpus: twelve themes that a count of words gets wrong, H1-H12.

    Half of its targets are rich in the query's words; its stuffed documents are loud, quiet, or
    sober texts of a neighbouring domain. `Document.extra` has a ``kind`` for both. Fixed as
    `diagnostic`, to test what was found on `second`.
    """
    return _packaged("hard")


def third() -> Corpus:
    """Give the packaged third corpus: twelve themes, U1-U12, unseen until the rule was fixed.

    Four of its targets are rich in the query's words; its stuffed documents are of five kinds.
    `Document.extra` has a ``kind`` for both. Fixed as `diagnostic`.
    """
    return _packaged("third")


def _packaged(name: str) -> Corpus:
    return load_themes(Path(__file__).parents[1] / "data" / name)


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
