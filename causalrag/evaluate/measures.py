"""Measures of a run against qrels, per query, by the package ir_measures.

What is settled here is what a measure leaves open: which queries count, what an unjudged document
is, and which order documents of equal score stand in. Intervals and tests are in `paired`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from causalrag.evaluate.runs import read_qrels, read_run

if TYPE_CHECKING:
    import ir_measures
    import pandas as pd

    from causalrag.evaluate.runs import Triples

_EXAMPLES = "nDCG@10, P@5, RR@10, AP, R@100, Success@1, P(rel=2)@5"

Scores = Mapping[str, float]
Grades = Mapping[str, int]


def evaluate(
    run: Triples,
    qrels: Triples,
    measures: Iterable[str | ir_measures.Measure] | str = ("nDCG@10", "P@5", "RR@10"),
    *,
    ties: Literal["worst", "best"] = "worst",
) -> pd.DataFrame:
    """Measure a run against qrels, query by query.

    Parameters
    ----------
    run : mapping, DataFrame or iterable
        ``{query_id: {doc_id: score}}``, columns query_id, doc_id, score, or tuples of these three.
        Higher is better; only the order counts. Scores are cast to float; ids that are whole
        numbers become text.
    qrels : mapping, DataFrame or iterable
        The same with whole-number grades in place of scores (column grade), above 0 for relevant.
        A document without a judgment counts as not relevant.
    measures : iterable of str or ir_measures.Measure, or one str
        Any name that ir_measures reads and can compute here. nDCG takes the grade as the gain and
        log2(rank + 1) as the discount; MRR is the mean of RR, "MRR@10" another name for "RR@10".
    ties : {"worst", "best"}
        Documents of equal score (equal as float64) stand in the order that is worst for the run,
        the lowest grade first. So a run is credited with what its scores decide and with no luck of
        order: one that scores all documents alike gets the least that any order would give it. This
        favours the other side of a comparison where only one side has ties; "best" gives the other
        bound. Rankings that have an order of their own, see `run_from_rankings`, have no ties.

    Returns
    -------
    DataFrame
        One row per query of the qrels, in their order, indexed by ``query_id`` (text); one column
        per measure, named as given. ``frame.mean()`` is the usual summary. A query that the run
        lacks, or for which it returned no document, counts 0, and so does one with no relevant
        document. ``frame.attrs`` tells, as lists of query ids, ``missing`` (counted 0 because the
        run has nothing), ``dropped`` (in the run, without qrels) and ``tied`` (some measure depends
        on the order within ties); ``unjudged`` is the number of returned documents without a
        judgment, ``ties`` the rule.

    Raises
    ------
    ValueError
        If a measure is unknown or cannot be computed; if a score is NaN or infinite, a grade not a
        whole number, a pair of query and document given twice; if the qrels are empty, or no query
        of the run is in them: a run that did not happen has no measures, not measures of 0.
    TypeError
        If run or qrels have another form, or an id or a number another type.

    Notes
    -----
    trec_eval and what builds on it break ties by document id, mostly the highest first, and ties
    are those of single precision. Here ties are resolved before ir_measures sees the run, which is
    handed over as ranks, so that every measure sees the same order.
    """
    import pandas as pd

    if ties not in ("worst", "best"):
        raise ValueError(f"ties must be 'worst' or 'best', got {ties!r}")
    parsed = _parsed(measures)
    judged, scored = read_qrels(qrels), read_run(run)
    _check_overlap(scored, judged)
    answered = {query: scored[query] for query in judged if scored.get(query)}
    values, tied = _values(answered, judged, list(parsed.values()), ties)
    nothing = [0.0] * len(parsed)
    frame = pd.DataFrame(
        [values.get(query, nothing) for query in judged],
        index=pd.Index(list(judged), name="query_id"),
        columns=list(parsed),
    )
    frame.attrs.update(
        missing=[query for query in judged if query not in answered],
        dropped=[query for query in scored if query not in judged],
        tied=tied,
        unjudged=sum(len(scores.keys() - judged[q].keys()) for q, scores in answered.items()),
        ties=ties,
    )
    return frame


def _check_overlap(scored: Mapping[str, Scores], judged: Mapping[str, Grades]) -> None:
    if not scored:
        raise ValueError("the run is empty; what did not run has no measures, not measures of 0")
    if scored.keys().isdisjoint(judged):
        raise ValueError(
            f"no query of the run has qrels: the run has {next(iter(scored))!r} and "
            f"{len(scored) - 1} more, the qrels {next(iter(judged))!r} and {len(judged) - 1} more"
        )


# --- order --------------------------------------------------------------------------------------


def _order(scores: Scores, grades: Grades, ties: str) -> list[str]:
    """Order documents by score; within a tie by grade, the lowest first for "worst", then id."""
    sign = 1 if ties == "worst" else -1
    return sorted(scores, key=lambda name: (-scores[name], sign * grades.get(name, 0), name))


def _values(
    answered: Mapping[str, Scores],
    judged: Mapping[str, Grades],
    measures: list[ir_measures.Measure],
    ties: str,
) -> tuple[dict[str, list[float]], list[str]]:
    """Give each query's values, and the queries where another order within ties changes one."""
    orders: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for query, scores in answered.items():
        grades = judged[query]
        orders[query] = _order(scores, grades, ties)
        if len(set(scores.values())) < len(scores):
            other = _order(scores, grades, "best" if ties == "worst" else "worst")
            if [grades.get(d, 0) for d in other] != [grades.get(d, 0) for d in orders[query]]:
                others[query] = other
    values = _measured(orders, judged, measures)
    swapped = _measured(others, judged, measures)
    return values, [query for query in others if swapped[query] != values[query]]


def _measured(
    orders: Mapping[str, list[str]],
    judged: Mapping[str, Grades],
    measures: list[ir_measures.Measure],
) -> dict[str, list[float]]:
    """Hand orders over to ir_measures; values in the order of `measures`.

    Queries and documents go under names of our own: some of the programs behind ir_measures write
    ids to files and misread those with spaces, or take only numbers.
    """
    import ir_measures

    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    numbers = {str(number): query for number, query in enumerate(orders, start=1)}
    for number, query in numbers.items():
        order, grades = orders[query], judged[query]
        place = {name: str(at) for at, name in enumerate(dict.fromkeys([*order, *grades]))}
        # Ranks instead of scores: no program's precision can turn them into ties.
        run[number] = {place[name]: float(len(order) - at) for at, name in enumerate(order)}
        qrels[number] = {place[name]: grade for name, grade in grades.items()}
    if not run:
        return {}
    found = {
        (metric.query_id, metric.measure): float(metric.value)
        for metric in ir_measures.iter_calc(measures, qrels, run)
    }
    return {
        query: [found.get((number, measure), float(measure.DEFAULT)) for measure in measures]
        for number, query in numbers.items()
    }


# --- names --------------------------------------------------------------------------------------


def _parsed(
    measures: Iterable[str | ir_measures.Measure] | str | ir_measures.Measure,
) -> dict[str, ir_measures.Measure]:
    """Read measures; the keys are their names as given."""
    import ir_measures

    if isinstance(measures, str | ir_measures.Measure):
        measures = (measures,)
    parsed: dict[str, ir_measures.Measure] = {}
    for given in measures:
        if not isinstance(given, str | ir_measures.Measure):
            raise TypeError(f"a measure is a name such as 'nDCG@10', got {given!r:.60}")
        name = str(given).strip()
        if name in parsed:
            raise ValueError(f"the measure {name!r} is given twice")
        parsed[name] = _measure(given, name)
    if not parsed:
        raise ValueError(f"no measure is given; examples: {_EXAMPLES}")
    return parsed


def _measure(given: str | ir_measures.Measure, name: str) -> ir_measures.Measure:
    import ir_measures

    try:
        measure = _by_name(name) if isinstance(given, str) else given
        measure.validate_params()  # type: ignore[no-untyped-call]
    except (AssertionError, NameError, TypeError, ValueError) as error:
        raise ValueError(f"unknown measure {name!r} ({error}); examples: {_EXAMPLES}") from error
    for key in ("cutoff", "rel"):  # some programs end the whole process on a 0 here
        if measure.params.get(key, 1) < 1:
            raise ValueError(f"{name!r}: {key} must be at least 1; examples: {_EXAMPLES}")
    if not ir_measures.DefaultPipeline.supports(measure):  # type: ignore[no-untyped-call]
        raise ValueError(
            f"{name!r} cannot be computed by what is installed (see the extras of ir-measures); "
            f"examples of what can: {_EXAMPLES}"
        )
    return measure


def _by_name(name: str) -> ir_measures.Measure:
    import ir_measures

    # The usual form is read here: ir_measures' own reader needs parts of `ast` that Python 3.12
    # deprecates and 3.14 lacks.
    plain = re.fullmatch(r"(\w+?)(?:@(\d+))?", name)
    if plain is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return ir_measures.parse_measure(name)
    if plain[1] not in ir_measures.measures.registry:
        registry = ir_measures.measures.registry
        known = {name.casefold(): str(measure) for name, measure in registry.items()}
        meant = known.get(plain[1].casefold())
        raise NameError(
            f"there is no {plain[1]}" + (f"; names have their case: {meant}" if meant else "")
        )
    measure: ir_measures.Measure = ir_measures.measures.registry[plain[1]]
    return measure if plain[2] is None else measure @ int(plain[2])
