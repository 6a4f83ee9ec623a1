"""The casebook: a small Chinese compliance knowledge base of our own, which mirrors Table 1.

A folder holds ``docs.jsonl`` and ``queries.jsonl``. What is broken is refused with file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalrag.datasets.themes import _json_lines, _rest, _text_field
from causalrag.documents import joined

__all__ = [
    "CASE_ROLES",
    "CaseDocument",
    "CaseQuery",
    "CaseStudy",
    "Gloss",
    "Section",
    "case_study",
    "load_case_study",
]

CASE_ROLES = ("target", "draft", "automotive", "law", "filler")


@dataclass(frozen=True)
class Section:
    """A section of a document: its heading and its text."""

    heading: str
    text: str


@dataclass(frozen=True)
class Gloss:
    """A document in English: its title, one heading per section, and what it answers."""

    title: str
    headings: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class CaseDocument:
    """A document; `extra` holds the fields the format does not name.

    Attributes
    ----------
    id, title : str
        As in the file.
    role : {"target", "draft", "automotive", "law", "filler"}
        The one document with the answer; drafts on the same matter; documents of another field that
        use the query's words; the general law; others.
    sections : tuple of Section
        In order.
    gloss : Gloss
        For readers; no scorer sees it.
    """

    id: str
    role: str
    title: str
    sections: tuple[Section, ...]
    gloss: Gloss
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """Headings and texts of the sections, each on a line."""
        return "\n".join(part for s in self.sections for part in (s.heading, s.text))

    @property
    def full_text(self) -> str:
        """Title and text, as `CausalReranker.rank` reads them."""
        return joined((self.title, self.text))

    @property
    def headings(self) -> tuple[str, ...]:
        """The sections' headings, in order."""
        return tuple(section.heading for section in self.sections)

    @property
    def body(self) -> str:
        """The sections' texts without headings, each on a line."""
        return "\n".join(section.text for section in self.sections)


@dataclass(frozen=True)
class CaseQuery:
    """A query with its English gloss; `extra` holds the fields the format does not name."""

    id: str
    query: str
    gloss: str
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class CaseStudy:
    """Documents and queries in the order of their files."""

    documents: tuple[CaseDocument, ...]
    queries: tuple[CaseQuery, ...]

    @property
    def texts(self) -> list[str]:
        """The full text of every document; what an extractor is fitted on."""
        return [document.full_text for document in self.documents]

    @property
    def target(self) -> CaseDocument:
        """The one document with the role target."""
        return self.with_role("target")[0]

    def with_role(self, role: str) -> tuple[CaseDocument, ...]:
        """Give the documents of a role, in order; an unknown role is a `ValueError`."""
        return tuple(d for d in self.documents if d.role == _checked_role(role))


def case_study() -> CaseStudy:
    """Give the packaged casebook of the case study.

    An analogue of the paper's unpublished knowledge base (section 4.2). Its texts and queries were
    fixed before any of them was scored; its authors knew the situation of Table 1.
    """
    return load_case_study(Path(__file__).parents[1] / "data" / "casebook")


def load_case_study(folder: str | Path) -> CaseStudy:
    """Read a folder of the casebook's form.

    Parameters
    ----------
    folder : str or Path
        One JSON object a line, UTF-8. ``docs.jsonl``: ``id``, ``role`` (target, draft, automotive,
        law, filler), ``title``, ``sections`` (a list of ``{"heading", "text"}``), ``gloss``
        (``{"title", "headings", "summary"}``, one heading per section). ``queries.jsonl``: ``id``,
        ``query``, ``gloss``. More fields are kept in ``extra``.

    Returns
    -------
    CaseStudy

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        With file and line: a broken or truncated line, a missing or blank field, an unknown role,
        an id that occurs twice, another number of gloss headings than sections. Also for a file
        without a record, and for no target or more than one.
    """
    folder = Path(folder)
    documents = tuple(_documents(_path(folder, "docs")))
    queries = tuple(_queries(_path(folder, "queries")))
    targets = [document.id for document in documents if document.role == "target"]
    if len(targets) != 1:
        raise ValueError(
            f"{folder / 'docs.jsonl'} has {len(targets)} documents of the role target "
            f"({', '.join(targets) or 'none'}); a case study has one"
        )
    if not queries:
        raise ValueError(f"{folder / 'queries.jsonl'} holds no query")
    return CaseStudy(documents, queries)


def _documents(path: Path) -> Iterator[CaseDocument]:
    for where, name, record in _records(path):
        sections = tuple(
            Section(_text_field(part, "heading", where), _text_field(part, "text", where))
            for part in _objects(record, "sections", where)
        )
        yield CaseDocument(
            id=name,
            role=_checked_role(_text_field(record, "role", where), where),
            title=_text_field(record, "title", where),
            sections=sections,
            gloss=_gloss(record.get("gloss"), len(sections), where),
            extra=_rest(record, ("id", "role", "title", "sections", "gloss")),
        )


def _queries(path: Path) -> Iterator[CaseQuery]:
    for where, name, record in _records(path):
        query, gloss = (_text_field(record, key, where) for key in ("query", "gloss"))
        yield CaseQuery(name, query, gloss, _rest(record, ("id", "query", "gloss")))


def _records(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    seen = set()
    for where, record in _json_lines(path):
        name = _text_field(record, "id", where)
        if name in seen:
            raise ValueError(f"{where}: duplicate id {name!r}")
        seen.add(name)
        yield where, name, record


def _objects(record: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    value = record.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        raise ValueError(f"{where}: field {key!r} must be a list of objects, got {value!r:.60}")
    return value


def _gloss(value: Any, sections: int, where: str) -> Gloss:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: field 'gloss' must be an object, got {value!r:.60}")
    title, summary = (_text_field(value, key, where) for key in ("title", "summary"))
    headings = value.get("headings")
    if not isinstance(headings, list) or len(headings) != sections:
        raise ValueError(f"{where}: the gloss needs one heading for each of {sections} sections")
    if not all(isinstance(heading, str) and heading.strip() for heading in headings):
        raise ValueError(f"{where}: a heading of the gloss is blank or no string")
    return Gloss(title, tuple(headings), summary)


def _path(folder: Path, stem: str) -> Path:
    path = folder / f"{stem}.jsonl"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no {path.name}; a casebook holds docs and queries")
    return path


def _checked_role(role: str, where: str = "") -> str:
    if role not in CASE_ROLES:
        start = f"{where}: " if where else ""
        raise ValueError(f"{start}unknown role {role!r}; known: {', '.join(CASE_ROLES)}")
    return role
