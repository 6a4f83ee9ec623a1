"""Fusion by ranks and by scores: worked out by hand, and no credit from the order of the input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalrag as cr
from causalrag.retrieve import BM25Retriever, Hits, reciprocal_rank_fusion, score_fusion

FUSIONS = [reciprocal_rank_fusion, score_fusion]
TABLES = st.integers(1, 4).flatmap(
    lambda m: st.lists(st.tuples(*[st.integers(0, 4)] * m), min_size=1, max_size=12)
)


def hits(indices, scores):
    return Hits(np.array(indices, dtype=np.int64), np.array(scores, dtype=float))


def test_reciprocal_rank_fusion_by_hand():
    fused = reciprocal_rank_fusion([[0.9, 0.5, 0.7], [1.0, 8.0, 3.0]])
    assert fused == pytest.approx([1 / 61 + 1 / 63, 1 / 63 + 1 / 61, 1 / 62 + 1 / 62])
    assert reciprocal_rank_fusion([[5, 7]], k=0).tolist() == [0.5, 1.0]


def test_equal_scores_share_the_mean_of_their_ranks():
    assert reciprocal_rank_fusion([[2, 9, 2, 1]], k=0) == pytest.approx([0.4, 1.0, 0.4, 0.25])
    assert len(set(reciprocal_rank_fusion([[3.0] * 5]).tolist())) == 1


def test_score_fusion_by_hand():
    fused = score_fusion([[2.0, 4.0, 3.0], [-1.0, -1.0, 1.0]])
    assert fused == pytest.approx([0.0, 0.5, 0.75])
    assert score_fusion([[2.0, 4.0, 3.0], [-1.0, -1.0, 1.0]], weights=[6, 2]) == pytest.approx(
        [0.0, 0.75, 0.625]
    )


def test_two_scores_are_fused_as_the_hybrid_does():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 50))
    assert score_fusion([first, second], weights=[0.3, 0.7]) == pytest.approx(
        cr.hybrid(first, second, 0.3), abs=1e-15
    )


@pytest.mark.parametrize("fuse", FUSIONS)
@settings(max_examples=60, deadline=None)
@given(TABLES, st.randoms(use_true_random=False))
def test_hard_case_24_the_order_of_the_input_gives_no_credit(fuse, rows, random):
    order = random.sample(range(len(rows)), len(rows))
    fused = fuse(np.array(rows, dtype=float).T)
    shuffled = fuse(np.array([rows[i] for i in order], dtype=float).T)
    assert shuffled.tolist() == fused[order].tolist()
    # The same scores from other first stages are the same credit.
    turned = fuse(np.array([row[::-1] for row in rows], dtype=float).T)
    assert turned.tolist() == fused.tolist()


@pytest.mark.parametrize("fuse", FUSIONS)
def test_hard_case_24_a_constant_scorer_changes_no_order(fuse):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=30)
    alone, both = fuse([scores]), fuse([scores, np.full(30, 7.0)])
    assert np.argsort(-both, kind="stable").tolist() == np.argsort(-alone, kind="stable").tolist()
    assert not score_fusion([np.full(30, 7.0), 7.0 + 1e-13 * scores]).any()


def test_score_fusion_does_not_depend_on_the_scale_of_a_first_stage():
    first, second = np.array([0.1, 0.4, 0.2]), np.array([3.0, 1.0, 2.0])
    expected = score_fusion([first, second])
    assert score_fusion([first, 1000 * second - 5]) == pytest.approx(expected)
    huge = score_fusion([np.array([-1.7e308, 1.7e308, 0.0])])
    assert huge == pytest.approx([0.0, 1.0, 0.5])
    assert score_fusion([[1e-320, 3e-320, 2e-320]], weights=[1e308]).argmax() == 1


def test_hits_are_ranked_by_their_scores_and_what_is_missing_gets_nothing():
    fused = reciprocal_rank_fusion([hits([4, 0], [0.9, 0.9]), hits([2], [0.1])], k=0, n=5)
    assert fused == pytest.approx([1 / 1.5, 0, 1, 0, 1 / 1.5])
    mixed = reciprocal_rank_fusion([hits([1], [0.5]), [3, 2, 1]], k=0)
    assert mixed == pytest.approx([1, 1.5, 1 / 3])
    assert reciprocal_rank_fusion([hits([], [])], n=2).tolist() == [0, 0]


def test_fused_scores_are_scores_of_the_reranker():
    class Ones:
        fingerprint, dimension = "ones", 2

        def encode(self, texts, role="document"):
            return np.ones((len(texts), 2))

    documents = ["cat", "cat dog", "bird"]
    retriever = BM25Retriever().fit(documents)
    fused = reciprocal_rank_fusion([retriever.scores("dog"), [0.1, 0.2, 0.9]])
    ranking = cr.CausalReranker(Ones(), method="similarity").rank("dog", documents, scores=fused)
    assert [ranked.index for ranked in ranking] == [1, 2, 0]


@pytest.mark.parametrize("fuse", FUSIONS)
def test_inputs_are_not_changed_and_no_candidates_give_no_scores(fuse):
    first = np.array([3.0, 1.0, 2.0])
    fuse([first, first])
    assert first.tolist() == [3.0, 1.0, 2.0]
    assert fuse([np.float32([1, 2])]).dtype == np.float64
    assert fuse([[], []]).tolist() == []


@pytest.mark.parametrize("fuse", FUSIONS)
@pytest.mark.parametrize(
    ("lists", "error", "message"),
    [
        ([], ValueError, "is empty"),
        (None, TypeError, "not NoneType"),
        ("12", TypeError, "not str"),
        ([[1, 2], [1]], ValueError, r"\[2, 1\] scores"),
        ([[1, math.nan]], ValueError, r"\[0\]\[1\] is nan"),
        ([[1, 2], [math.inf, 2]], ValueError, r"\[1\]\[0\] is inf"),
        ([1, 2], ValueError, "shape"),
        ([["a", "b"]], TypeError, "numbers"),
    ],
)
def test_unusable_score_lists_are_refused_by_name(fuse, lists, error, message):
    with pytest.raises(error, match=message):
        fuse(lists)


@pytest.mark.parametrize(
    ("lists", "options", "error", "message"),
    [
        ([[1, 2]], {"k": -1}, ValueError, "k is -1"),
        ([[1, 2]], {"k": math.nan}, ValueError, "k is nan"),
        ([[1, 2]], {"k": "60"}, TypeError, "k must be a number"),
        ([[1, 2]], {"n": 3}, ValueError, r"\[3, 2\] scores"),
        ([[1, 2]], {"n": 2.0}, TypeError, "n must be an int"),
        ([hits([0], [1])], {}, ValueError, "give n"),
        (hits([0], [1]), {"n": 1}, TypeError, "not Hits"),
        ([hits([2], [1])], {"n": 2}, ValueError, "index 2, n is 2"),
        ([hits([-1], [1])], {"n": 2}, ValueError, "index -1"),
        ([hits([1, 1], [1, 2])], {"n": 2}, ValueError, "index 1 twice"),
        ([hits([0, 1], [1])], {"n": 2}, ValueError, "2 indices but 1 score"),
        ([hits([0], [math.nan])], {"n": 2}, ValueError, "is nan"),
    ],
)
def test_unusable_arguments_of_rank_fusion_are_refused(lists, options, error, message):
    with pytest.raises(error, match=message):
        reciprocal_rank_fusion(lists, **options)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1], ValueError, "1 weights for 2"),
        ([1, -1], ValueError, r"weights\[1\] is -1"),
        ([0, 0], ValueError, "all weights are 0"),
        ([math.nan, 1], ValueError, r"weights\[0\] is nan"),
        ([1, "1"], TypeError, r"weights\[1\] must be a number"),
    ],
)
def test_unusable_weights_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        score_fusion([[1, 2], [2, 1]], weights=weights)
