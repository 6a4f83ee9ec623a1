"""Runs and qrels as callers hand them over, read once into query → document → number.

A run is what a system returned: a score per query and document. Qrels are the judgments: a grade
per query and document. No measure is computed here (see `measures`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.ranking import Ranking

    Triples: TypeAlias = (
        Mapping[Any, Mapping[Any, Any]] | pd.DataFrame | Iterable[tuple[Any, Any, Any]]
    )

Number = TypeVar("Number", int, float)


class _Placed(Protocol):
    """A document at its place, as in a `Ranking`."""

    @property
    def doc_id(self) -> Hashable: ...
    @property
    def score(self) -> float: ...


def run_from_rankings(
    rankings: Mapping[Any, Ranking | Iterable[Hashable]], *, keep_ties: bool = False
) -> dict[str, dict[str, float]]:
    """Make a run from rankings, with scores that fall by rank so that their order is kept.

    Parameters
    ----------
    rankings : mapping of query id to `Ranking` or iterable of document ids
        Best first. An empty ranking is kept: its query returned nothing.
    keep_ties : bool, default False
        By default the order is the order, also where a `Ranking` put documents of equal score in
        the order they came in. True gives neighbours of equal score in a `Ranking` the same score
        in the run, so that `evaluate` applies its rule for ties: needed where the candidates came
        in an order that knows the answers. A list of ids has no scores, hence no ties.

    Returns
    -------
    dict of str to dict of str to float
        The last document of each ranking scores 1, the one before it more, and so on.

    Raises
    ------
    ValueError
        If a document stands twice in a ranking, or two query ids are equal as text.
    TypeError
        If an id is neither text nor a whole number, or a ranking is one string.
    """
    if not isinstance(rankings, Mapping):
        raise TypeError(f"rankings must map query ids to rankings, got {_type(rankings)}")
    run: dict[str, dict[str, float]] = {}
    for query, ranking in rankings.items():
        name = _identifier(query, "query")
        if name in run:
            raise ValueError(f"query {name!r} occurs twice in the rankings")
        if isinstance(ranking, str | bytes | Mapping) or not isinstance(ranking, Iterable):
            raise TypeError(f"query {name!r}: a ranking is a list of ids, got {_type(ranking)}")
        run[name] = _falling(list(ranking), name, keep_ties)
    return run


def _falling(places: list[_Placed | Hashable], query: str, keep_ties: bool) -> dict[str, float]:
    ids: list[str] = []
    scores: list[float] = []
    for place in places:
        scored = hasattr(place, "doc_id")
        ids.append(_identifier(place.doc_id if scored else place, "document", query))  # type: ignore[union-attr]
        # Without a score of its own a document ties with none.
        scores.append(place.score if scored and keep_ties else math.nan)  # type: ignore[union-attr]
    run: dict[str, float] = {}
    score = float(len(ids))
    for at, name in enumerate(ids):
        if name in run:
            raise ValueError(f"document {name!r} stands twice in the ranking of query {query!r}")
        if not (at and scores[at] == scores[at - 1]):
            score = float(len(ids) - at)
        run[name] = score
    return run


def read_run(run: Triples) -> dict[str, dict[str, float]]:
    """Read a run into query → document → float; `evaluate` says what is accepted."""
    return _read(run, "run", "score", _score)


def read_qrels(qrels: Triples) -> dict[str, dict[str, int]]:
    """Read qrels into query → document → int; `evaluate` says what is accepted."""
    table = _read(qrels, "qrels", "grade", _grade)
    if not table:
        raise ValueError("the qrels hold no judgment")
    for query, grades in table.items():
        if not grades:
            raise ValueError(f"query {query!r} has no judgment in the qrels; leave it out")
    return table


def _read(
    source: Triples, kind: str, value: str, cast: Callable[[Any], Number]
) -> dict[str, dict[str, Number]]:
    table: dict[str, dict[str, Number]] = {}
    for query, pairs in _by_query(source, kind, value):
        documents = table.setdefault(query, {})
        for document, given in pairs:
            name = _identifier(document, "document", query)
            if name in documents:
                raise ValueError(
                    f"{kind}: document {name!r} comes twice for query {query!r}; keep one {value}"
                )
            try:
                documents[name] = cast(given)
            except (TypeError, ValueError) as error:
                message = f"the {value} of document {name!r} for query {query!r} {error}"
                raise type(error)(message) from None
    return table


def _by_query(
    source: Triples, kind: str, value: str
) -> Iterator[tuple[str, Iterable[tuple[Any, Any]]]]:
    """Yield (query id, pairs of document and value); a query may come again from a table."""
    forms = (
        f"a mapping {{query_id: {{doc_id: {value}}}}}, a DataFrame with the columns query_id, "
        f"doc_id, {value}, or (query_id, doc_id, {value}) tuples"
    )
    if isinstance(source, Mapping):
        seen = set()
        for query, documents in source.items():
            name = _identifier(query, "query")
            if not isinstance(documents, Mapping):
                raise TypeError(f"{kind}: query {name!r} has {_type(documents)}; give {forms}")
            if name in seen:
                raise ValueError(f"query {name!r} occurs twice in the {kind}")
            seen.add(name)
            yield name, documents.items()
        return
    if hasattr(source, "columns"):
        frame: Any = source
        columns = ("query_id", "doc_id", value)
        if absent := [column for column in columns if column not in frame.columns]:
            found = ", ".join(map(str, frame.columns))
            raise ValueError(
                f"{kind}: no column {', '.join(absent)} (found: {found}); give {forms}"
            )
        source = zip(*(frame[column].tolist() for column in columns), strict=True)
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise TypeError(f"{kind}: got {_type(source)}; give {forms}")
    for triple in source:
        if not isinstance(triple, tuple | list) or len(triple) != 3:
            raise TypeError(f"{kind}: got {triple!r:.80}; give {forms}")
        yield _identifier(triple[0], "query"), [(triple[1], triple[2])]


def _identifier(value: object, what: str, query: str | None = None) -> str:
    """Read an id: text as it is, a whole number as text, so that frames and files agree."""
    if isinstance(value, str) and value:
        return str(value)
    where = "" if query is None else f" of query {query!r}"
    if value == "":
        raise ValueError(f"a {what} id{where} is empty")
    if isinstance(value, bool):
        raise TypeError(f"a {what} id{where} must be text or a whole number, got {value!r}")
    try:
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        message = f"a {what} id{where} must be text or a whole number, got {value!r:.60}"
        raise TypeError(message) from None


def _score(value: Any) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError(f"is {number}; mend the scorer, or leave the document out")
    return number


def _grade(value: Any) -> int:
    number = _number(value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"is {number}; a grade is a whole number, above 0 for relevant")
    return int(number)


def _number(value: Any) -> float:
    if not isinstance(value, str | bytes):  # float() would read them
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise TypeError(f"is {value!r:.60}, which is not a number")


def _type(value: object) -> str:
    return type(value).__name__
