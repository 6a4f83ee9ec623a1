"""BEIR data sets: corpus, queries and relevance judgments, read from the archive BEIR hands out.

The archive lies in a folder of yours or is fetched by ir_datasets (see `archives`). What is broken
is refused with member and line; judgments of documents that the corpus lacks are kept and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from causalrag.datasets.archives import locate, read_members
from causalrag.datasets.themes import _json_object, _text_field

if TYPE_CHECKING:
    import pandas as pd

# ArguAna's queries are arguments out of its corpus, under the same id. The name says whether a
# query's own document is dropped from its candidates.
_ARGUANA = {"arguana": True, "arguana_with_self": False}


@dataclass(frozen=True, eq=False, repr=False)
class BeirData:
    """One split of a BEIR data set.

    Attributes
    ----------
    name, split : str
        As asked for.
    corpus : dict of str to dict
        Document id → ``{"id", "title", "text"}``, in file order; no title is ``""``. The values
        are documents as `CausalReranker.rank` and the retrievers take them.
    queries : dict of str to str
        Query id → text, those with a judgment in the split, in the order of the judgments.
    qrels : dict of str to dict of str to int
        Query id → document id → grade, as `evaluate` takes them.
    drop_self : bool
        Whether a query's own document, of the same id, is to be dropped from its candidates. True
        for ``"arguana"``, whose queries stand in the corpus word for word; see `without_own`, and
        `twins` for what that leaves.
    """

    name: str
    split: str
    corpus: dict[str, dict[str, str]]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    drop_self: bool = False

    @cached_property
    def outside(self) -> tuple[tuple[str, str], ...]:
        """Judgments (query id, document id) of documents that the corpus lacks.

        They stay in `qrels`, as in BEIR: no run can find them, so they lower recall and nDCG.
        """
        return tuple((q, d) for q, row in self.qrels.items() for d in row if d not in self.corpus)

    @cached_property
    def twins(self) -> tuple[tuple[str, str], ...]:
        """Pairs (query id, document id) of equal text and different id.

        They stay candidates even where `drop_self` is True, which goes by id, as BEIR does.
        """
        asked: dict[str, list[str]] = {}
        for query, text in self.queries.items():
            asked.setdefault(text.strip(), []).append(query)
        return tuple(
            (query, name)
            for name, document in self.corpus.items()
            for query in asked.get(document["text"].strip(), ())
            if query != name
        )

    def without_own(self, run: Mapping[str, Mapping[str, float] | Iterable[str]]) -> dict[str, Any]:
        """Drop each query's own document from a run or from rankings, where `drop_self` says so.

        Parameters
        ----------
        run : mapping
            Query id → ``{doc_id: score}`` or a list of document ids, best first.

        Returns
        -------
        dict
            Query id → dict or list as given, less the document whose id is the query's; all of it
            where `drop_self` is False. Drop before you cut candidates to a window.
        """
        return {query: self._kept(query, ranked) for query, ranked in run.items()}

    def candidates(
        self, query_id: str, doc_ids: Iterable[str] | None = None
    ) -> list[dict[str, str]]:
        """Give a query's candidate documents, its own one dropped where `drop_self` says so.

        Parameters
        ----------
        query_id : str
            A key of `queries`.
        doc_ids : iterable of str, optional
            The documents to give, in this order, such as a first stage's; by default all.

        Returns
        -------
        list of dict
            ``{"id", "title", "text"}`` each.

        Raises
        ------
        ValueError
            If the query or a document is unknown.
        """
        if query_id not in self.queries:
            raise ValueError(f"{self.name} has no query {query_id!r} in its split {self.split!r}")
        ids = self._kept(query_id, list(self.corpus if doc_ids is None else doc_ids))
        if unknown := [name for name in ids if name not in self.corpus]:
            raise ValueError(f"{self.name} has no document {unknown[0]!r}")
        return [self.corpus[name] for name in ids]

    def _kept(self, query: str, ranked: Any) -> Any:
        if isinstance(ranked, Mapping):
            return {d: s for d, s in ranked.items() if not (self.drop_self and d == query)}
        return [d for d in ranked if not (self.drop_self and d == query)]

    def __repr__(self) -> str:
        own = sum(query in self.corpus for query in self.queries)
        judged = sum(map(len, self.qrels.values()))
        parts = [
            f"{len(self.corpus)} documents",
            f"{len(self.queries)} queries",
            f"{judged} judgments ({len(self.outside)} outside the corpus)",
        ]
        if self.name in _ARGUANA:
            done = "dropped from its candidates" if self.drop_self else "kept"
            parts.append(f"the own document of {own} queries is {done}")
            parts.append(f"{len(self.twins)} texts of queries stand under another id and are kept")
        return f"BeirData({self.name}, {self.split}: {', '.join(parts)})"


def beir(name: str, split: str = "test") -> BeirData:
    """Read a BEIR data set: corpus, queries and judgments of a split.

    Parameters
    ----------
    name : str
        Such as ``"scifact"``, see `beir_qrels` for where it is looked for. ``"arguana"`` drops each
        query's own document from its candidates, ``"arguana_with_self"`` keeps it.
    split : str, default "test"
        Which judgments; only queries with one are given.

    Returns
    -------
    BeirData
        All in memory: this is for data sets of some thousand documents.

    Raises
    ------
    FileNotFoundError
        As for `beir_qrels`.
    ValueError
        As for `beir_qrels`; if ``corpus.jsonl`` or ``queries.jsonl`` is absent, has a broken or
        truncated line, a field that is no text, or an id twice; if a judged query has no text.
    """
    archive = locate(_archive_name(name), split)
    wanted = [("corpus.jsonl", "corpus.jsonl.gz"), ("queries.jsonl", "queries.jsonl.gz")]
    members = read_members(archive, [*wanted, (f"qrels/{split}.tsv",)])
    documents, texts, judgments = [
        (f"{archive.path}:{archive.name}/{m}", data) for m, data in members
    ]
    qrels: dict[str, dict[str, int]] = {}
    for (query, document), grade in _judgments(*judgments).items():
        qrels.setdefault(query, {})[document] = grade
    corpus = dict(_documents(*documents))
    if not corpus:
        raise ValueError(f"{documents[0]} holds no document")
    asked = dict(_queries(*texts))
    for query in qrels:
        if not asked.get(query, "").strip():
            raise ValueError(
                f"{judgments[0]} judges query {query!r}, which has no text in {texts[0]}"
            )
    queries = {query: asked[query] for query in qrels}
    return BeirData(name, split, corpus, queries, qrels, _ARGUANA.get(name, False))


def beir_qrels(name: str, split: str = "test") -> pd.DataFrame:
    """Read the relevance judgments of a BEIR data set.

    With ``CAUSALRAG_DATA`` set, the archive in that folder decides. Without it, the package
    ir_datasets (extra ``beir``) fetches the archive once, checks its md5 sum and keeps it in
    ``$IR_DATASETS_HOME``, by default ``~/.ir_datasets``: 2 to 4 MB for arguana, nfcorpus and
    scifact, but up to 1 GB for others (msmarco, fever).

    Parameters
    ----------
    name : str
        Such as ``"scifact"``: the archive ``$CAUSALRAG_DATA/beir/scifact.zip``, or BEIR's own.
    split : str, default "test"
        The member ``scifact/qrels/test.tsv``.

    Returns
    -------
    DataFrame
        Columns query_id, doc_id (str) and grade (int), one row per judgment, in file order.

    Raises
    ------
    FileNotFoundError
        If ``CAUSALRAG_DATA`` is set and the archive is not there; if it is not set and ir_datasets
        is not installed or cannot fetch the archive. Without a network that takes 10 s at most.
    ValueError
        If the name or the split is unknown, the archive is damaged or has a member that points out
        of its folder, a line is not a judgment, there is no judgment, or a pair has two grades.
    """
    import pandas as pd

    archive = locate(_archive_name(name), split)
    [(member, data)] = read_members(archive, [(f"qrels/{split}.tsv",)])
    rows = _judgments(f"{archive.path}:{archive.name}/{member}", data)
    columns = ["query_id", "doc_id", "grade"]
    frame = pd.DataFrame([(q, d, g) for (q, d), g in rows.items()], columns=columns)
    return frame.astype({"grade": "int64"})


def _archive_name(name: str) -> str:
    return "arguana" if name in _ARGUANA else name


# --- members ------------------------------------------------------------------------------------


def _lines(source: str, data: bytes) -> Iterator[tuple[int, str, bytes]]:
    r"""Give number, place and content of each line that is not blank.

    Bytes are split at \n only: U+2028 and its like may stand inside a string.
    """
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip(b" \r"):
            yield number, f"{source}, line {number}", line.removesuffix(b"\r")


def _judgments(source: str, data: bytes) -> dict[tuple[str, str], int]:
    """Read (query, document) → grade; a judgment repeated as it is counts once."""
    rows: dict[tuple[str, str], int] = {}
    for number, where, raw in _lines(source, data):
        try:
            fields = raw.decode("utf-8").split("\t")
        except UnicodeDecodeError as error:
            raise ValueError(f"{where}: not UTF-8 ({error})") from error
        if number == 1 and fields[0] == "query-id":
            continue
        if len(fields) != 3 or not all(fields) or not re.fullmatch(r"-?\d+", fields[2]):
            raise ValueError(f"{where}: expected query, document and grade: {raw!r:.80}")
        query, document, grade = fields[0], fields[1], int(fields[2])
        if rows.setdefault((query, document), grade) != grade:
            raise ValueError(f"{where}: {query} {document} has two grades")
    if not rows:
        raise ValueError(f"{source} holds no judgment")
    return rows


def _documents(source: str, data: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    for name, where, record in _records(source, data):
        title = _text_field(record, "title", where, optional=True)
        text = _text_field(record, "text", where, blank=True)
        yield name, {"id": name, "title": title, "text": text}


def _queries(source: str, data: bytes) -> Iterator[tuple[str, str]]:
    for name, where, record in _records(source, data):
        yield name, _text_field(record, "text", where, blank=True)


def _records(source: str, data: bytes) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give id, place and content of each JSON line; an id that occurs twice is refused."""
    seen = set()
    for _, where, raw in _lines(source, data):
        record = _json_object(raw, where)
        name = _text_field(record, "_id", where)
        if name in seen:
            raise ValueError(f"{where}: id {name!r} occurs twice")
        seen.add(name)
        yield name, where, record
