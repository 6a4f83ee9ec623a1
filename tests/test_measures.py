"""Measures of runs against hand computation; what is left out, refused, tied or missing."""

from __future__ import annotations

import itertools
import subprocess
import sys
from math import log2

import ir_measures
import numpy as np
import pandas as pd
import pytest

import causalrag as cr
from causalrag import evaluate as ev

QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"d": 1}}
RUN = {"q1": {"x": 0.9, "a": 0.8, "c": 0.7, "b": 0.6}, "q2": {"e": 2.0, "f": 1.0, "d": 0.5}}


def run_of(*order, query="q"):
    return {query: {name: float(len(order) - at) for at, name in enumerate(order)}}


# --- values -------------------------------------------------------------------------------------


def test_measures_by_hand():
    frame = ev.evaluate(RUN, QRELS)
    assert list(frame.columns) == ["nDCG@10", "P@5", "RR@10"]
    assert list(frame.index) == ["q1", "q2"]
    assert frame.index.name == "query_id"
    # q1: gain 2 at rank 2 and 1 at rank 4, against 2 at rank 1 and 1 at rank 2
    ideal = 2 / log2(2) + 1 / log2(3)
    assert frame.loc["q1"].tolist() == pytest.approx(
        [(2 / log2(3) + 1 / log2(5)) / ideal, 2 / 5, 1 / 2]
    )
    assert frame.loc["q2"].tolist() == pytest.approx([1 / log2(4), 1 / 5, 1 / 3])


def test_a_cutoff_cuts_the_run_and_the_ideal():
    qrels = {"q": dict.fromkeys("abc", 1)}
    frame = ev.evaluate(run_of("x", "a", "b"), qrels, ["nDCG@2", "P@2", "RR@1", "R@2"])
    ideal = 1 + 1 / log2(3)
    assert frame.loc["q"].tolist() == pytest.approx([(1 / log2(3)) / ideal, 1 / 2, 0, 1 / 3])


def test_p_at_5_divides_by_5_when_fewer_documents_come_back():
    assert ev.evaluate(run_of("a"), {"q": {"a": 1}}, "P@5").loc["q", "P@5"] == pytest.approx(0.2)


def test_rr_at_10_does_not_see_the_eleventh():
    order = [f"x{i}" for i in range(10)]
    qrels = {"q": {"a": 1}}
    assert ev.evaluate(run_of(*order, "a"), qrels, "RR@10").loc["q", "RR@10"] == 0
    assert ev.evaluate(run_of(*order[1:], "a"), qrels, "RR@10").loc["q", "RR@10"] == 0.1


def test_mrr_is_another_name_for_rr_and_keeps_the_name_given():
    frame = ev.evaluate(RUN, QRELS, ["MRR@10", "RR@10"])
    assert frame["MRR@10"].tolist() == frame["RR@10"].tolist() == [1 / 2, pytest.approx(1 / 3)]


def test_any_measure_that_ir_measures_reads_is_computed():
    names = ["AP", "R@100", "Success@1", "P(rel=2)@5", "IPrec@0.1", "Bpref", "Rprec"]
    frame = ev.evaluate(RUN, QRELS, [*names, ir_measures.AP @ 2])
    assert list(frame.columns) == [*names, "AP@2"]
    assert frame.loc["q1"].tolist()[:4] == pytest.approx([(1 / 2 + 2 / 4) / 2, 1, 0, 1 / 5])


def test_scores_of_ours_are_those_of_ir_measures_when_nothing_ties():
    rng = np.random.default_rng(1)
    names = [f"d{i}" for i in range(50)]
    qrels = {
        f"q{i}": {d: int(g) for d, g in zip(names, rng.integers(0, 4, 50), strict=True)}
        for i in range(20)
    }
    run = {query: dict(zip(names, rng.permutation(50) / 50, strict=True)) for query in qrels}
    measures = [ir_measures.parse_measure(m) for m in ("nDCG@10", "P@5", "RR@10", "AP")]
    theirs = {
        (m.query_id, str(m.measure)): m.value for m in ir_measures.iter_calc(measures, qrels, run)
    }
    frame = ev.evaluate(run, qrels, [str(m) for m in measures])
    assert len(theirs) == frame.size
    for (query, name), value in theirs.items():
        assert frame.loc[query, name] == pytest.approx(value)


def test_ids_with_spaces_and_other_scripts_are_read_whole():
    frame = ev.evaluate({"问 1": {"a b": 2.0, "a": 1.0}}, {"问 1": {"a": 1, "c d": 1}}, "RR@10")
    assert frame.loc["问 1", "RR@10"] == 0.5


def test_whole_number_ids_become_text():
    frame = ev.evaluate(
        {7: {np.int64(3): 1.0}}, pd.DataFrame({"query_id": [7], "doc_id": [3], "grade": [1]})
    )
    assert frame.loc["7"].tolist() == pytest.approx([1, 0.2, 1])


def test_the_three_forms_of_run_and_qrels_give_the_same():
    def triples(table):
        return [(q, d, value) for q, row in table.items() for d, value in row.items()]

    def frame(table, value):
        return pd.DataFrame(triples(table), columns=["query_id", "doc_id", value])

    expected = ev.evaluate(RUN, QRELS)
    pd.testing.assert_frame_equal(ev.evaluate(triples(RUN), iter(triples(QRELS))), expected)
    pd.testing.assert_frame_equal(ev.evaluate(frame(RUN, "score"), frame(QRELS, "grade")), expected)
    shuffled = frame(RUN, "score").iloc[::-1].assign(more=1)
    pd.testing.assert_frame_equal(ev.evaluate(shuffled, QRELS), expected)


def test_inputs_are_left_as_they_were():
    run, qrels = {"q": {"b": 1.0, "a": 1.0}}, {"q": {"a": 1}}
    ev.evaluate(run, qrels)
    assert (run, qrels) == ({"q": {"b": 1.0, "a": 1.0}}, {"q": {"a": 1}})


# --- hard case 25: what is missing, dropped, unjudged -------------------------------------------


def test_hard_case_25_a_query_missing_from_the_run_counts_0_and_is_reported():
    frame = ev.evaluate({"q1": RUN["q1"]}, {**QRELS, "q3": {"z": 1}})
    assert frame.loc[["q2", "q3"]].to_numpy().tolist() == [[0, 0, 0]] * 2
    assert frame.attrs["missing"] == ["q2", "q3"]
    assert frame["P@5"].mean() == pytest.approx(0.4 / 3)


def test_hard_case_25_a_query_that_returned_nothing_counts_0():
    frame = ev.evaluate({"q1": {}, "q2": {}}, QRELS)
    assert (frame == 0).all(axis=None)
    assert frame.attrs["missing"] == ["q1", "q2"]


def test_a_query_of_the_run_without_qrels_is_dropped_and_reported():
    frame = ev.evaluate({**RUN, "q8": {"a": 1.0}}, QRELS)
    assert list(frame.index) == ["q1", "q2"]
    assert frame.attrs["dropped"] == ["q8"]


def test_hard_case_25_an_unjudged_document_is_not_relevant_and_is_counted():
    unjudged, judged = run_of("x", "a"), run_of("n", "a")
    qrels = {"q": {"a": 1, "n": 0}}
    first, second = ev.evaluate(unjudged, qrels), ev.evaluate(judged, qrels)
    pd.testing.assert_frame_equal(first, second)
    assert (first.attrs["unjudged"], second.attrs["unjudged"]) == (1, 0)


def test_a_query_with_no_relevant_document_counts_0():
    assert ev.evaluate(run_of("a"), {"q": {"a": 0}}).loc["q"].tolist() == [0, 0, 0]


def test_hard_case_28_a_run_that_did_not_happen_is_no_run_of_zeros():
    with pytest.raises(ValueError, match="the run is empty"):
        ev.evaluate({}, QRELS)
    with pytest.raises(ValueError, match="no query of the run has qrels: the run has '1' and 0"):
        ev.evaluate({1: {"a": 1.0}}, QRELS)


# --- hard case 24: ties -------------------------------------------------------------------------


@pytest.mark.parametrize("relevant", ["a", "m", "z"])
def test_hard_case_24_a_constant_scorer_gets_nothing_from_order_or_names(relevant):
    names = list("abcdefghijklmnopqrstuvwxyz")
    for order in (names, names[::-1]):
        frame = ev.evaluate({"q": dict.fromkeys(order, 0.5)}, {"q": {relevant: 1}})
        assert frame.loc["q"].tolist() == [0, 0, 0]
        assert frame.attrs["tied"] == ["q"]


def test_hard_case_24_the_rule_is_the_worst_and_the_best_of_all_orders():
    scores = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.5, "e": 0.5}
    qrels = {"q": {"a": 2, "b": 0, "d": 1, "n": 1}}
    names = ["nDCG@3", "P@1", "P@4", "RR@10", "AP"]
    all_orders = pd.concat(
        ev.evaluate(run_of(*first, *last), qrels, names)
        for first in itertools.permutations("abc")
        for last in itertools.permutations("de")
    )
    assert (all_orders.min() < all_orders.max()).all()
    for ties, bound in (("worst", all_orders.min()), ("best", all_orders.max())):
        frame = ev.evaluate({"q": scores}, qrels, names, ties=ties)
        assert frame.loc["q"].tolist() == pytest.approx(bound.tolist())
        assert frame.attrs["ties"] == ties


def test_only_queries_whose_values_depend_on_ties_are_listed():
    run = {
        "decided": {"a": 2.0, "b": 1.0},
        "tied": {"a": 1.0, "b": 1.0},
        "alike": {"a": 1.0, "b": 1.0, "c": 0.5},
        "deep": {"a": 3.0, "b": 1.0, "c": 1.0},
    }
    qrels = {
        "decided": {"a": 1},
        "tied": {"a": 1},
        "alike": {"c": 1},
        "deep": {"a": 1, "c": 1},
    }
    assert ev.evaluate(run, qrels, "RR@10").attrs["tied"] == ["tied"]
    assert ev.evaluate(run, qrels, "AP").attrs["tied"] == ["tied", "deep"]


def test_scores_that_differ_in_double_precision_only_are_no_tie():
    run = {"q": {"a": 1 + 2e-16, "b": 1.0}, "r": {"a": 1.0, "b": 1 + 2.3e-16}}
    frame = ev.evaluate(run, {"q": {"a": 1}, "r": {"a": 1}}, ["RR@10", "AP"])
    assert frame.loc["q"].tolist() == [1, 1]
    assert frame.loc["r"].tolist() == [0.5, 0.5]
    assert frame.attrs["tied"] == []


def test_an_unknown_rule_for_ties_is_refused():
    with pytest.raises(ValueError, match="ties must be 'worst' or 'best', got 'first'"):
        ev.evaluate(RUN, QRELS, ties="first")


# --- hard case 26: scores -----------------------------------------------------------------------


def test_hard_case_26_float32_scores_are_cast():
    run = {q: {d: np.float32(s) for d, s in row.items()} for q, row in RUN.items()}
    pd.testing.assert_frame_equal(ev.evaluate(run, QRELS), ev.evaluate(RUN, QRELS))


@pytest.mark.parametrize("bad", [float("nan"), np.float32("inf"), -np.inf])
def test_hard_case_26_a_score_that_is_not_finite_is_refused_with_query_and_document(bad):
    run = {"q1": {"a": 1.0}, "q2": {"d": bad}}
    words = rf"score of document 'd' for query 'q2' is {float(bad)}"
    with pytest.raises(ValueError, match=words):
        ev.evaluate(run, QRELS)
    table = pd.DataFrame({"query_id": ["q1", "q2"], "doc_id": ["a", "d"], "score": [1.0, bad]})
    with pytest.raises(ValueError, match=words):
        ev.evaluate(table, QRELS)


@pytest.mark.parametrize("bad", ["0.5", None, [1.0]])
def test_a_score_that_is_no_number_is_refused(bad):
    with pytest.raises(TypeError, match=r"score of document 'a' for query 'q1' is .*not a number"):
        ev.evaluate({"q1": {"a": bad}}, QRELS)


@pytest.mark.parametrize("bad", [0.5, float("nan")])
def test_a_grade_that_is_no_whole_number_is_refused(bad):
    with pytest.raises(ValueError, match=r"grade of document 'a' for query 'q' is .*whole number"):
        ev.evaluate(run_of("a"), {"q": {"a": bad}})
    assert ev.evaluate(run_of("a"), {"q": {"a": 2.0}}, "RR@10").loc["q", "RR@10"] == 1


def test_duplicates_are_refused():
    pairs = [("q1", "a", 1.0), ("q1", "a", 1.0)]
    with pytest.raises(ValueError, match="run: document 'a' comes twice for query 'q1'"):
        ev.evaluate(pairs, QRELS)
    with pytest.raises(ValueError, match="qrels: document '1' comes twice for query 'q1'"):
        ev.evaluate(RUN, {"q1": {1: 1, "1": 1}})
    with pytest.raises(ValueError, match="query '1' occurs twice in the run"):
        ev.evaluate({1: {"a": 1.0}, "1": {"b": 1.0}}, QRELS)


@pytest.mark.parametrize(
    ("run", "qrels", "error", "words"),
    [
        (RUN, {}, ValueError, "qrels hold no judgment"),
        (RUN, {"q1": {}}, ValueError, "query 'q1' has no judgment"),
        (RUN, None, TypeError, "qrels: got NoneType; give a mapping"),
        ("run.txt", QRELS, TypeError, "run: got str; give a mapping"),
        ({"q1": ["a", "b"]}, QRELS, TypeError, "query 'q1' has list"),
        ([("q1", "a")], QRELS, TypeError, "run: got .'q1', 'a'.; give"),
        ([("q1", None, 1.0)], QRELS, TypeError, "a document id of query 'q1' must be text"),
        ({float("nan"): {"a": 1.0}}, QRELS, TypeError, "a query id must be text.*nan"),
        ({True: {"a": 1.0}}, QRELS, TypeError, "a query id must be text.*True"),
        ({"": {"a": 1.0}}, QRELS, ValueError, "a query id is empty"),
        (pd.DataFrame({"query_id": [], "docno": []}), QRELS, ValueError, "no column doc_id, score"),
    ],
)
def test_other_forms_are_refused_with_what_is_expected(run, qrels, error, words):
    with pytest.raises(error, match=words):
        ev.evaluate(run, qrels)


# --- names of measures --------------------------------------------------------------------------


def test_a_measure_in_the_wrong_case_is_answered_with_the_right_one():
    with pytest.raises(ValueError, match=r"unknown measure 'ndcg@10'.*names have their case: nDCG"):
        ev.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, measures=["ndcg@10"])


@pytest.mark.parametrize(
    "name",
    ["ndgc@10", "nDCG@", "nDCG@x", "nDCG@1.5", "", "P", "import os", "P(5)", "nDCG(depth=3)@5"],
)
def test_an_unknown_measure_lists_examples(name):
    with pytest.raises(ValueError, match=r"unknown measure .*examples: nDCG@10, P@5, RR@10"):
        ev.evaluate(RUN, QRELS, [name])


@pytest.mark.parametrize("name", ["P@0", "nDCG@0", "RR@0", "R@0", "P(rel=0)@5", "RR(rel=0)@10"])
def test_a_cutoff_or_grade_of_0_is_refused_before_it_ends_the_process(name):
    with pytest.raises(ValueError, match="must be at least 1; examples"):
        ev.evaluate(RUN, QRELS, [name])


def test_a_measure_that_nothing_installed_computes_is_refused():
    with pytest.raises(ValueError, match=r"'RBP\(p=0.8\)@3' cannot be computed.*examples"):
        ev.evaluate(RUN, QRELS, ["RBP(p=0.8)@3"])


def test_no_measure_one_twice_and_no_name_are_refused():
    with pytest.raises(ValueError, match="no measure is given"):
        ev.evaluate(RUN, QRELS, [])
    with pytest.raises(ValueError, match="'P@5' is given twice"):
        ev.evaluate(RUN, QRELS, ["P@5", "P@5"])
    with pytest.raises(TypeError, match="a measure is a name such as 'nDCG@10', got 10"):
        ev.evaluate(RUN, QRELS, [10])


# --- runs from rankings -------------------------------------------------------------------------


class Letters:
    """Encode a text as its counts of a, b and c."""

    def encode(self, texts):
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], float)


def ranking(texts, query="a"):
    documents = [{"id": f"d{at}", "text": text} for at, text in enumerate(texts)]
    return cr.CausalReranker(encoder=Letters(), method="similarity").rank(query, documents)


def test_a_run_from_rankings_keeps_their_order():
    ranked = ranking(["b", "a b", "a", "a a b"])
    run = ev.run_from_rankings({"q": ranked, 2: ["y", "x", 3]})
    assert run == {
        "q": {"d2": 4.0, "d3": 3.0, "d1": 2.0, "d0": 1.0},
        "2": {"y": 3.0, "x": 2.0, "3": 1.0},
    }
    assert ev.evaluate(run, {"q": {"d3": 1}}, "RR@10").loc["q", "RR@10"] == 0.5


def test_ties_of_a_ranking_are_kept_on_request_only():
    ranked = ranking(["a", "b", "a", "b a"])
    assert ev.run_from_rankings({"q": ranked}) == run_of("d0", "d2", "d3", "d1")
    kept = ev.run_from_rankings({"q": ranked}, keep_ties=True)
    assert kept == {"q": {"d0": 4.0, "d2": 4.0, "d3": 2.0, "d1": 1.0}}


def test_hard_case_24_candidates_in_the_order_of_the_answers_give_a_constant_scorer_nothing():
    ranked = ranking(["a"] * 12)
    qrels = {"q": {"d0": 1}}
    kept = ev.run_from_rankings({"q": ranked}, keep_ties=True)
    assert ev.evaluate(kept, qrels).loc["q"].tolist() == [0, 0, 0]
    assert ev.evaluate(ev.run_from_rankings({"q": ranked}), qrels, "P@1").loc["q", "P@1"] == 1


def test_a_list_of_ids_has_no_ties():
    assert ev.run_from_rankings({"q": ["a", "b"]}, keep_ties=True) == run_of("a", "b")


def test_an_empty_ranking_is_a_query_that_returned_nothing():
    run = ev.run_from_rankings({"q1": [], "q2": ["d"]})
    assert run["q1"] == {}
    assert ev.evaluate(run, QRELS).attrs["missing"] == ["q1"]


@pytest.mark.parametrize(
    ("rankings", "error", "words"),
    [
        ({"q": ["a", "b", "a"]}, ValueError, "'a' stands twice in the ranking of query 'q'"),
        ({"q": [1, "1"]}, ValueError, "'1' stands twice"),
        ({1: ["a"], "1": ["a"]}, ValueError, "query '1' occurs twice in the rankings"),
        ({"q": "abc"}, TypeError, "query 'q': a ranking is a list of ids, got str"),
        ({"q": {"a": 1.0}}, TypeError, "query 'q': a ranking is a list of ids, got dict"),
        ({"q": [None]}, TypeError, "a document id of query 'q' must be text"),
        (["a"], TypeError, "must map query ids to rankings, got list"),
    ],
)
def test_what_is_no_ranking_is_refused(rankings, error, words):
    with pytest.raises(error, match=words):
        ev.run_from_rankings(rankings)


def test_importing_evaluate_loads_neither_pandas_nor_ir_measures():
    code = (
        "import sys, causalrag.evaluate; "
        "print([m for m in ('scipy', 'pandas', 'ir_measures') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
