"""What the command ``gate`` reads: a corpus, queries and relevance judgments (qrels).

Nothing is half read: every broken line is named, and then the input is refused. Judgments that
point outside the queries or the corpus are counted, for the command to report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from causalrag.cli.files import no_text, texts
from causalrag.cli.lines import HEADERS, fields, is_grade, is_header, lines, refuse_swapped
from causalrag.cli.output import say
from causalrag.datasets.themes import _json_object, _text_field

__all__ = ["Probes", "read_probes"]

# How many broken lines of a file are named; the rest are counted.
NAMED = 20
# Above it a grade is a mistake, and no measure can count with it.
MOST_GRADE = 2**31 - 1
# The ending of a BEIR file, compressed or not.
JSON_LINES = (".jsonl", ".jsonl.gz")

Document: TypeAlias = dict[str, str]
Qrels: TypeAlias = dict[str, dict[str, int]]
Pair: TypeAlias = tuple[str, str]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Probes:
    """The corpus, and the queries that can show a gain or a loss.

    Attributes
    ----------
    documents
        ``{"id", "title", "text"}`` each, in file order.
    queries
        Query id → text, in file order: those with a relevant document in the corpus.
    qrels
        Query id → document id → grade, of these queries. Documents that the corpus lacks stay.
    counts
        What was read and what was left out, by name.
    warnings
        What was left out, in words.
    """

    documents: list[Document]
    queries: dict[str, str]
    qrels: Qrels
    counts: dict[str, int]
    warnings: list[str]


def read_probes(paths: Sequence[Path], queries: Path, qrels: Path) -> Probes:
    """Read the three inputs and match them.

    Raises
    ------
    ValueError
        If a file looks like another of them; after each broken line was named; if a file holds
        nothing, or no query has a relevant document in the corpus.
    OSError
        If a path cannot be read.
    """
    for path in (*paths, queries, qrels):
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
    refuse_swapped(paths, queries, qrels)
    broken: list[str] = []
    documents, names = _corpus(paths, broken)
    asked = _table(queries, _query, "query", broken)
    judged = _table(qrels, _judgment, "judgment", broken)
    if broken:
        lines = "1 line is" if len(broken) == 1 else f"{len(broken)} lines are"
        raise ValueError(f"{lines} broken; mend the input: nothing was measured")
    return _Matching(queries, qrels, documents, names, asked, judged).probes()


# --- lines --------------------------------------------------------------------------------------


def _table(
    path: Path,
    parse: Callable[[int, str, bytes], tuple[Key, Value] | None],
    what: str,
    broken: list[str],
) -> dict[Key, Value]:
    """Read one entry per line; name on standard error, and note, each line that has none."""
    table: dict[Key, Value] = {}
    before = len(broken)
    for number, where, raw in lines(path):
        try:
            entry = parse(number, where, raw)
            if entry is not None:
                _enter(table, *entry, what, where)
        except ValueError as error:
            broken.append(where)
            if len(broken) - before <= NAMED:
                say(f"error: {error}")
    unnamed = len(broken) - before - NAMED
    if unnamed > 0:
        say(f"error: {path}: {unnamed} more broken lines")
    if not table and len(broken) == before:
        raise ValueError(f"{path} holds no {what}")
    return table


def _enter(table: dict[Key, Value], key: Key, value: Value, what: str, where: str) -> None:
    # A judgment that is repeated as it is says nothing new; two texts of one id are a mistake.
    if key in table and not (what == "judgment" and table[key] == value):
        name = repr(key) if isinstance(key, str) else f"of {key}"
        raise ValueError(f"{where}: {what} {name} occurs twice; keep one")
    table[key] = value


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 ({error})") from error


def _document(number: int, where: str, raw: bytes) -> tuple[str, Document]:
    record = _json_object(raw, where)
    name = _text_field(record, "_id", where)
    title = _text_field(record, "title", where, optional=True)
    return name, {
        "id": name,
        "title": title,
        "text": _text_field(record, "text", where, blank=True),
    }


def _query(number: int, where: str, raw: bytes) -> tuple[str, str] | None:
    from causalrag.documents import is_blank

    if raw.lstrip().startswith(b"{"):
        record = _json_object(raw, where)
        name, text = _text_field(record, "_id", where), _text_field(record, "text", where)
    else:
        name, _, text = (part.strip() for part in _text(raw, where).partition("\t"))
        if number == 1 and name.casefold() in HEADERS:
            return None
    if not name or is_blank(text):
        raise ValueError(f"{where}: expected a query's id, a tab and its text: {raw!r:.80}")
    return name, text


def _judgment(number: int, where: str, raw: bytes) -> tuple[Pair, int] | None:
    """Read ``query document grade`` (BEIR) or ``query 0 document grade`` (TREC)."""
    text = _text(raw, where)
    if number == 1 and is_header(text):
        return None
    row = fields(text)
    if len(row) not in (3, 4) or not all(row) or not is_grade(row[-1]):
        raise ValueError(
            f"{where}: expected query, document and whole-number grade, or TREC's four columns: "
            f"{raw!r:.80}"
        )
    if len(row[-1]) > 20 or abs(int(row[-1])) > MOST_GRADE:  # no number of any length
        raise ValueError(
            f"{where}: the grade {row[-1]:.24} is out of range; grades are small whole numbers, "
            f"at most {MOST_GRADE}"
        )
    return (row[0], row[-2]), int(row[-1])


# --- the corpus ---------------------------------------------------------------------------------


def _corpus(
    paths: Sequence[Path], broken: list[str]
) -> tuple[list[Document], Mapping[str, Sequence[str]]]:
    """Read the documents, and the ids that each other name of a file stands for."""
    if not any(path.name.endswith(JSON_LINES) for path in paths):
        return _files(paths)
    if len(paths) > 1:
        raise ValueError(
            f"got {len(paths)} paths with a .jsonl among them; give one corpus.jsonl by itself, or "
            "text files and folders"
        )
    return list(_table(paths[0], _document, "document", broken).values()), {}


def _files(paths: Sequence[Path]) -> tuple[list[Document], Mapping[str, Sequence[str]]]:
    documents: list[Document] = []
    names: dict[str, list[str]] = {}
    folders = [path for path in paths if path.is_dir()]
    for path, text in texts(paths):
        documents.append({"id": str(path), "title": "", "text": text})
        inside = {path.relative_to(f).as_posix() for f in folders if path.is_relative_to(f)}
        for name in {path.name, *inside} - {str(path)}:
            names.setdefault(name, []).append(str(path))
    if not documents:
        beir = [path / "corpus.jsonl" for path in folders if (path / "corpus.jsonl").is_file()]
        hint = f"; for the BEIR corpus in it give {beir[0]}" if beir else ""
        raise ValueError(f"{no_text(paths)}{hint}")
    return documents, names


# --- matching -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Matching:
    """Judgments beside the queries and the documents that they name."""

    query_file: Path
    qrels_file: Path
    documents: list[Document]
    names: Mapping[str, Sequence[str]]
    asked: Mapping[str, str]
    judged: Mapping[Pair, int]

    def probes(self) -> Probes:
        """Keep the queries with a relevant document in the corpus; count the rest."""
        known = {document["id"] for document in self.documents}
        qrels, no_query, no_document = self._by_query(known)
        usable = {
            query: row
            for query, row in qrels.items()
            if any(grade > 0 and document in known for document, grade in row.items())
        }
        if not usable:
            raise ValueError(self._disjoint(qrels))
        queries = {query: text for query, text in self.asked.items() if query in usable}
        counts = {
            "documents": len(self.documents),
            "queries": len(self.asked),
            "judgments": len(self.judged),
            "probes": len(queries),
            "judgments_of_unknown_queries": len(no_query),
            "judgments_of_unknown_documents": len(no_document),
            "queries_without_judgment": len(self.asked.keys() - qrels.keys()),
            "queries_without_relevant_document": len(qrels) - len(usable),
        }
        warnings = list(self._warnings(counts, no_query, no_document))
        qrels = {query: usable[query] for query in queries}
        return Probes(self.documents, queries, qrels, counts, warnings)

    def _by_query(self, known: Collection[str]) -> tuple[Qrels, list[Pair], list[Pair]]:
        """Give the judgments by query, those of unknown queries and those of unknown documents."""
        qrels: Qrels = {}
        no_query, no_document = [], []
        for (query, name), grade in self.judged.items():
            if query not in self.asked:
                no_query.append((query, name))
                continue
            document = name if name in known else self._file(name)
            if document not in known:
                no_document.append((query, name))
            row = qrels.setdefault(query, {})
            if row.setdefault(document, grade) != grade:
                raise ValueError(
                    f"{self.qrels_file}: query {query!r} grades {document!r} twice, differently, "
                    "under two of its names; keep one"
                )
        return qrels, no_query, no_document

    def _file(self, name: str) -> str:
        """Give the file that a name stands for, if there is one and no other."""
        found = self.names.get(Path(name).as_posix(), ())
        return found[0] if len(found) == 1 else name

    def _warnings(
        self,
        counts: Mapping[str, int],
        no_query: Sequence[Pair],
        no_document: Sequence[Pair],
    ) -> Iterable[str]:
        if no_query:
            yield (
                f"{_number(len(no_query), 'judgment')} of unknown queries left out, the first of "
                f"{no_query[0][0]!r}: {self.query_file} lacks it"
            )
        if no_document:
            query, name = no_document[0]
            several = len(self.names.get(Path(name).as_posix(), ())) > 1
            yield (
                f"{_number(len(no_document), 'judgment')} of unknown documents, the first of "
                f"{name!r} for query {query!r}: "
                + ("it names several files" if several else "the corpus lacks it")
                + "; no order can find them, both orders score as much lower"
            )
        if counts["queries_without_judgment"]:
            left = counts["queries_without_judgment"]
            yield f"{_number(left, 'query', 'queries')} without a judgment left out"
        if counts["queries_without_relevant_document"]:
            left = counts["queries_without_relevant_document"]
            yield (
                f"{_number(left, 'query', 'queries')} without a relevant document in the corpus "
                "left out: neither order could gain"
            )

    def _disjoint(self, qrels: Qrels) -> str:
        query, document = next(iter(self.judged))
        if not qrels:
            return (
                f"no query of {self.query_file} has a judgment in {self.qrels_file}: the queries "
                f"begin with {next(iter(self.asked))!r}, the judgments with {query!r}"
                f"{self._swapped()}"
            )
        return (
            f"no query has a relevant document (grade above 0) in the corpus: the documents begin "
            f"with {self.documents[0]['id']!r}, the judgments with {document!r}{self._swapped()}"
        )

    def _swapped(self) -> str:
        """Say which file stands in another's place, where the judgments tell."""
        queries, documents = ({pair[column] for pair in self.judged} for column in (0, 1))
        known = {document["id"] for document in self.documents}
        asked_judged, known_asked = not documents.isdisjoint(self.asked), bool(queries & known)
        if asked_judged and known_asked:
            return (
                f"; {self.query_file} holds what the judgments call documents, and the corpus what "
                "they call queries: exchange the two, or the first and the last id in each judgment"
            )
        if asked_judged:
            return f"; {self.query_file} looks like the corpus, for its ids are judged as documents"
        if known_asked:
            return "; the corpus looks like the queries, for its ids are those judged for"
        return ""


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
