"""The rule that accounts for A: by hand, on any base, and what must hold whatever the texts."""

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reranking import ENCODER, HashEncoder, ids

import causalrag as cr
from causalrag import adjust
from causalrag.adjust import (
    DEFAULT,
    GUARD,
    NATURAL,
    Adjustment,
    Probe,
    Surface,
    bend,
    fit,
    with_support,
)
from causalrag.surface import own_repetition, token_counts

TEXTS = [
    "bread bread bread bread bread bread oven",
    "yeast gas bread rises in the warm bowl",
    "river rain flood",
    "why bread rises: yeast makes gas",
]
QUERY = "why bread rises"
KEYWORDS = cr.TfidfKeywords.fit(TEXTS)


def surface(coverage, excess, natural=0.25):
    return Surface(np.array(coverage, dtype=float), np.array(excess, dtype=float), natural)


# The rule


def test_scores_by_hand():
    rule = Adjustment(reward=0.5, penalty=2.0)
    found = rule.scores([0.9, 0.5, 0.2, 0.1], surface([1, 0.5, 0.8, 1], [0.5, 0.0, 0.1, 0.0]))
    # The first lies above the bend: it sets no scale, and 0.5 is once more the bend of 0.25. The
    # third gets for its words no more than its base, the last one nothing.
    assert found.tolist() == pytest.approx([1.0 + 0.5 - 2.0, 1.0 + 0.25, 0.25 + 0.25, 0.0])


def test_without_an_ordinary_document_all_set_the_scale():
    rule = Adjustment(reward=0.0, penalty=0.0)
    found = rule.scores([1.0, 3.0], surface([0, 0], [0.9, 0.9]))
    assert found.tolist() == [0.0, 1.0]


def test_ordinary_documents_that_are_all_alike_set_no_scale():
    rule = Adjustment(reward=0.0, penalty=1.0)
    found = rule.parts([5.0, 2.0, 2.0], surface([0, 0, 0], [0.5, 0.0, 0.1]))
    assert found.base.tolist() == [1.0, 0.0, 0.0]  # else the stuffed one's base were lost
    assert found.penalty.tolist() == [1.0, 0.0, 0.0]


@given(
    base=st.lists(st.integers(-50, 50), min_size=1, max_size=9),
    scale=st.sampled_from([1e-3, 0.5, 7.0, 1e4]),
    shift=st.integers(-9, 9),
    data=st.data(),
)
def test_scale_and_shift_of_the_base_change_nothing(base, scale, shift, data):
    n = len(base)
    shares = st.lists(st.floats(0, 0.9), min_size=n, max_size=n)
    seen = surface(data.draw(shares), data.draw(shares))
    moved = [scale * value + shift for value in base]
    assert DEFAULT.scores(moved, seen) == pytest.approx(DEFAULT.scores(base, seen), abs=1e-7)


@given(base=st.lists(st.floats(-9, 9), min_size=1, max_size=9), data=st.data())
def test_the_guard_keeps_the_order_of_all_that_lie_below_the_bend(base, data):
    n = len(base)
    excess = data.draw(st.lists(st.floats(0, 0.25), min_size=n, max_size=n))
    score = GUARD.scores(base, surface([0.3] * n, excess, 0.25))
    order, before = np.argsort(-score, kind="stable"), np.argsort(-np.array(base), kind="stable")
    assert [round(base[i], 6) for i in order] == pytest.approx([round(base[i], 6) for i in before])


@given(st.floats(0, 0.9), st.floats(0, 0.9))
def test_more_repetition_never_helps_and_more_presence_never_hurts(low, high):
    low, high = sorted((low, high))
    same = surface([0.5, 0.5], [low, high])
    first, second = DEFAULT.scores([1.0, 1.0], same)
    assert first >= second
    seen = surface([low, high], [0.0, 0.0])
    first, second = DEFAULT.scores([1.0, 1.0], seen)
    assert first <= second


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Adjustment(-1, 1), ValueError, "reward is -1; it must be finite"),
        (lambda: Adjustment(1, float("nan")), ValueError, "penalty is nan"),
        (lambda: Adjustment("1", 1), TypeError, "reward must be a number, not str"),
        (lambda: DEFAULT.scores([1.0], surface([1, 1], [0, 0])), ValueError, "1 base scores for 2"),
        (lambda: DEFAULT.scores([np.nan], surface([1], [0])), ValueError, r"base\[0\] is nan"),
        (lambda: with_support(surface([1], [0]), [0, 1], [1, 1]), ValueError, "2 causal scores"),
        (lambda: with_support(surface([1], [0]), [np.nan], [1]), ValueError, r"causal\[0\] is nan"),
    ],
)
def test_unusable_settings_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


# The bend


def test_an_extractor_knows_how_often_its_corpus_repeats_its_own_keywords():
    texts = ["gas gas oven dough", "rain rain rain river", "yeast bowl", "heat salt salt", "the of"]
    keywords = cr.TfidfKeywords.fit(texts)
    known = keywords.repetition
    counts = token_counts(texts[:4], keywords)
    own = [keywords.document(text).terms for text in texts[:4]]
    assert own_repetition(counts, own, 1).tolist() == [1 / 4, 2 / 4, 0.0, 1 / 3]
    for size in (1, 2, 4):  # a text without content counts nothing
        values = own_repetition(counts, own, size)
        middle = np.median(values)
        expected = middle + 1.2816 / 0.6745 * np.median(abs(values - middle))
        assert known[size - 1] == pytest.approx(expected)
    assert len(known) == 15
    assert list(known) == sorted(known)
    assert cr.TfidfKeywords.fit(["the of"]).repetition == ()


def test_a_fifth_of_stuffed_documents_does_not_hide_them():
    rng = np.random.default_rng(0)
    words = [f"word{n}" for n in range(400)]
    plain = [" ".join(rng.choice(words, 60)) for _ in range(80)]
    stuffed = [" ".join(rng.choice(words, 3).tolist() * 20) for _ in range(20)]
    alone = cr.TfidfKeywords.fit(plain).repetition[2]
    mixed = cr.TfidfKeywords.fit(plain + stuffed).repetition[2]
    assert alone <= mixed < 2 * alone < 0.5


def test_the_bend_is_the_collections_or_the_natural_one_where_it_has_none():
    class Known:
        repetition = (0.01, 0.01, 0.02, 0.31)

    assert bend(3, Known()) == 0.02
    assert bend(4, Known()) == bend(9, Known()) == 0.31
    Known.repetition = (0.0, 0.0, 0.0, 0.01)
    assert bend(3, Known()) == NATURAL[2]
    for extractor in (object(), None):
        assert bend(4, extractor) == NATURAL[3]
        assert bend(0, extractor) == bend(1) == bend(3) < bend(4) < bend(99) == bend(15)


def test_a_query_of_one_word_spares_what_is_about_it():
    texts = ["gas gas oven dough bowl", "rain river flood", "gas yeast bread"]
    keywords = cr.TfidfKeywords.fit([*texts, *(f"salt{n} salt{n} heat{n} dish" for n in range(9))])
    one, three = (adjust.read_surface(q, texts, keywords) for q in ("gas", "gas oven dough"))
    assert one.bend == three.bend == keywords.repetition[2] > keywords.repetition[0] / 2


@pytest.mark.skipif(
    not Path(os.environ.get("CAUSALRAG_DATA", "/absent"), "beir", "scifact.zip").is_file(),
    reason="needs CAUSALRAG_DATA with beir/scifact.zip",
)
def test_the_natural_bend_is_that_of_scifacts_documents():
    documents = cr.datasets.beir("scifact", split="train").corpus.values()
    texts = [f"{document['title']} {document['text']}" for document in documents]
    keywords = cr.TfidfKeywords.fit(texts)
    assert keywords.repetition == pytest.approx(NATURAL, abs=6e-4)
    counts = token_counts(texts, keywords)
    own = [keywords.document(text).terms for text in texts]
    for size in (3, 5, 10):  # below three keywords it is that of three
        below = own_repetition(counts, own, size) <= bend(size, keywords)
        assert 0.8 <= below.mean() <= 0.93


# The re-ranker


def test_the_reranker_applies_the_rule_to_its_base_score():
    scores = [0.9, 0.4, 0.1, 0.5]
    reranker = cr.CausalReranker(ENCODER, KEYWORDS, method="adjusted")
    ranking = reranker.rank(QUERY, TEXTS, scores=scores)
    seen = adjust.read_surface(QUERY, TEXTS, KEYWORDS)
    assert seen.coverage[3] == 1.0 > seen.coverage[0] > seen.coverage[2] == 0.0
    assert (seen.over > 0).tolist() == [True, False, False, False]
    others = [ranking.outcome.evidence.causal[i] for i in (1, 2, 3)]
    support = np.mean(others < ranking.outcome.evidence.causal[0])
    expected = DEFAULT.scores(scores, seen)
    expected[0] += DEFAULT.penalty * seen.over[0] * support
    assert [r.score for r in ranking] == pytest.approx(sorted(expected, reverse=True))
    assert ids(ranking)[0] == "3"  # as covered as the second, and higher before
    assert f"reward {DEFAULT.reward:g}" in ranking.explain()


def test_the_same_repetition_costs_less_where_the_rest_of_the_document_speaks_for_it():
    class Pointed(HashEncoder):
        """Words of the answer lie along the query, all others across."""

        def vector(self, text, role):
            return np.array([1.0, 0.0] if text in ("why bread", "yeast") else [0.0, 1.0])

    loud = "bread bread bread bread bread bread"
    texts = [f"{loud} yeast", f"{loud} parking", "river flood", "moon crater"]
    keywords = cr.TfidfKeywords.fit([*texts, *(f"word{n} other{n}" for n in range(9))])
    reranker = cr.CausalReranker(Pointed(size=2), keywords, tau=1.0, method="adjusted")
    ranking = reranker.rank("why bread", texts, scores=[1.0, 1.0, 1.0, 0.9])
    score = {r.doc_id: r.score for r in ranking}
    assert score["0"] > score["3"] > score["1"]


# What the rest of a document says


def test_support_by_hand():
    seen = with_support(surface([0] * 5, [0.9, 0.9, 0.9, 0, 0]), [0.5, 0.3, 0.9, 0.1, 0.3], [1] * 5)
    assert seen.support.tolist() == [1.0, 0.75, 1.0, 0.25, 0.75]  # equal ones count half
    bare = with_support(surface([0] * 2, [0.9, 0.0]), [0.5, 0.1], [False, True])
    assert bare.support.tolist() == [0.0, 0.5]
    loud = with_support(surface([0] * 2, [0.9, 0.9]), [0.5, 0.1], [True, True])
    assert loud.support.tolist() == [0.75, 0.25]
    assert with_support(surface([], []), [], []).support.tolist() == []


def test_support_lifts_its_share_of_the_penalty_and_none_is_as_zero():
    rule = Adjustment(reward=0.0, penalty=4.0)
    over = surface([0, 0, 0], [0.5, 0.5, 0.0])
    half = replace(over, support=np.array([0.5, 0.0, 0.0]))
    assert rule.scores([1, 1, 1], half) - rule.scores([1, 1, 1], over) == pytest.approx([2, 0, 0])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9), st.data())
def test_of_the_causal_scores_only_their_order_enters_support(causal, data):
    causal = [round(value, 3) for value in causal]
    n = len(causal)
    excess = data.draw(st.lists(st.sampled_from([0.0, 0.5]), min_size=n, max_size=n))
    seen = surface([0] * n, excess)
    one = with_support(seen, causal, [True] * n).support
    other = with_support(seen, [0.8 + 0.1 * value for value in causal], [True] * n).support
    assert one.tolist() == other.tolist()
    assert (one >= 0).all()
    assert (one <= 1).all()


def test_another_setting_is_taken_and_the_base_may_be_any():
    plain = cr.CausalReranker(ENCODER, KEYWORDS, method="similarity")
    none = Adjustment(0.0, 0.0)
    off = cr.CausalReranker(ENCODER, KEYWORDS, method="adjusted", adjustment=none)
    for scores in ([3, 1, 2, 0], [-30.0, 10.0, -20.0, 0.0]):
        assert ids(off.rank(QUERY, TEXTS, scores)) == ids(plain.rank(QUERY, TEXTS, scores))


def test_an_empty_document_comes_last_and_sets_no_scale():
    reranker = cr.CausalReranker(ENCODER, KEYWORDS, method="adjusted")
    with_it = reranker.rank(QUERY, [*TEXTS, "  "], scores=[0.9, 0.4, 0.1, 0.5, 99.0])
    without = reranker.rank(QUERY, TEXTS, scores=[0.9, 0.4, 0.1, 0.5])
    assert [r.score for r in with_it][:-1] == [r.score for r in without]
    assert with_it[-1].doc_id == "4"


def test_a_query_without_keywords_is_ordered_by_the_base_and_flagged():
    ranking = cr.CausalReranker(ENCODER, KEYWORDS, method="adjusted").rank("the of", TEXTS)
    assert any("nothing is adjusted" in flag for flag in ranking.flags)
    assert [r.base for r in ranking] == sorted((r.base for r in ranking), reverse=True)


def test_a_chinese_document_is_read_as_its_query_is():
    texts = [
        "数据出境安全评估，数据出境安全评估，数据出境安全评估，数据出境安全评估。",
        "申报材料由省级部门收取。",
    ]
    keywords = cr.TfidfKeywords.fit(texts)
    seen = adjust.read_surface("如何评估数据出境的安全", texts, keywords)
    assert seen.coverage[0] == pytest.approx(1.0)
    assert seen.excess[0] > bend(3)
    assert seen.excess[1] == 0


def test_one_candidate_an_empty_list_and_no_extractor_are_ranked_and_flagged():
    reranker = cr.CausalReranker(ENCODER, method="adjusted")
    assert list(reranker.rank(QUERY, [])) == []
    assert any("one candidate" in flag for flag in reranker.rank(QUERY, TEXTS[:1]).flags)
    loud = ["bread rises " * 30, "why bread rises " * 20, "bread " * 50, TEXTS[1]]
    ranking = reranker.rank(QUERY, loud, scores=[0.9, 0.9, 0.9, 0.1])
    assert ranking.outcome.surface.bend == bend(3)  # not what these four say
    assert ids(ranking)[0] == "3"
    assert any("abstracts say what is natural" in flag for flag in ranking.flags)


def test_the_explanation_shows_what_the_score_is_made_of():
    ranking = cr.CausalReranker(ENCODER, KEYWORDS, method="adjusted").rank(QUERY, TEXTS)
    seen = ranking.outcome.surface
    loud = next(r for r in ranking if r.index == 0)
    assert f"repetition {seen.excess[0]:.3f}, natural up to {seen.bend:.3f}" in loud.explain()
    assert f"support {seen.support[0]:.2f}" in loud.explain()
    for place in ranking:
        line = next(row for row in place.explain().splitlines() if "score: base" in row)
        base, presence, penalty = (float(part.split()[-1]) for part in re.split("[+-]", line))
        assert place.score == pytest.approx(base + presence - penalty, abs=2e-4)


def test_a_tau_that_leaves_no_residual_keyword_is_flagged_with_its_remedy():
    flag = "no document has a residual keyword at tau -1: repetition is punished in full"
    everything = cr.CausalReranker(ENCODER, KEYWORDS, tau=-1.0, method="adjusted")
    found = everything.rank(QUERY, TEXTS)
    assert not found.outcome.surface.support.any()
    assert any(flag in told and 'give tau="auto"' in told for told in found.flags)
    assert not any(flag in told for told in everything.rank(QUERY, TEXTS[1:]).flags)  # none loud
    usual = replace(everything, tau=0.6).rank(QUERY, TEXTS)
    assert not any("residual" in told for told in usual.flags)


def test_what_the_collection_repeats_is_known_from_a_fitted_extractor_only():
    flag = "abstracts say what is natural"
    repeating = cr.TfidfKeywords.fit(["river flood, river rain: the flood, the rain"] * 3)
    assert not any(KEYWORDS.repetition)  # short texts repeat nothing by nature
    for keywords, told in (
        (None, True),
        (cr.TextRankKeywords(), True),
        (KEYWORDS, True),
        (repeating, False),
    ):
        found = cr.CausalReranker(ENCODER, keywords, method="adjusted").rank(QUERY, TEXTS)
        assert any(flag in one for one in found.flags) == told
    assert "coverage" not in cr.CausalReranker(ENCODER, KEYWORDS).rank(QUERY, TEXTS).explain()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: surface([1, 1], [0]), ValueError, "2 values of coverage for 1 of excess"),
        (lambda: surface([1], [0], 0.0), ValueError, "bend is 0.0; it must be finite and above 0"),
        (lambda: surface([1], [0], float("nan")), ValueError, "bend is nan"),
        (
            lambda: replace(surface([1], [0]), support=np.zeros(2)),
            ValueError,
            "2 values of support for 1",
        ),
        (lambda: surface([5.0], [0]), ValueError, r"coverage lies outside \[0, 1\]"),
        (lambda: surface([np.nan], [0]), ValueError, r"coverage\[0\] is nan"),
        (lambda: fit(iter([])), ValueError, "at least one labelled probe"),
        (lambda: adjust.read_surface(QUERY, "one text", KEYWORDS), TypeError, "list of documents"),
        (lambda: fit([{"base": [1.0]}]), TypeError, "each probe must be a Probe"),
    ],
)
def test_what_is_no_surface_and_no_probe_is_refused_by_name(make, error, message):
    with pytest.raises(error, match=message):
        make()


# Fitting


def probes(n, gain):
    """Candidates of which the covered one is relevant if `gain` is positive, else the first."""
    for number in range(n):
        base = [1.0, 0.9, 0.0]
        grades = [0, 1, 0] if gain else [1, 0, 0]
        yield Probe(base, surface([0.0, 0.05 + number % 2 * 0.01, 0.0], [0.0] * 3), grades)


def test_probes_that_agree_move_the_coefficients_part_of_the_way():
    found = fit(list(probes(30, gain=True)))
    assert found.best.reward > DEFAULT.reward
    share = 30 / (30 + adjust.fitting.PRIOR_PROBES)
    assert found.shrunk.reward == pytest.approx(
        DEFAULT.reward + share * (found.best.reward - DEFAULT.reward)
    )
    assert found.decision.enabled
    assert found.adjustment == found.shrunk
    assert found.n == 30


def test_probes_that_do_not_tell_leave_the_setting_as_it_was():
    few = fit(list(probes(3, gain=True)))
    assert few.decision.decision == "abstain"
    assert few.adjustment == DEFAULT
    ties = fit(list(probes(30, gain=False)))
    assert ties.best == DEFAULT == ties.adjustment


def test_where_nothing_can_be_gained_a_fit_is_enabled_no_more_often_than_the_gate_allows():
    rng = np.random.default_rng(8)
    enabled = 0
    for _ in range(120):
        some = [
            Probe(rng.normal(size=8), surface(rng.random(8), rng.random(8) * 0.5), grades)
            for grades in (rng.random((20, 8)) < 0.3).astype(float)
        ]
        enabled += fit(some, rewards=(0.0, 1.0, 4.0), penalties=(0.0, 4.0, 8.0)).decision.enabled
    assert enabled <= 8  # 2.5 % of 120 are 3; on the probes it was chosen on a fit wins far oftener


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one labelled probe"),
        ([Probe([1.0], surface([0], [0]), [1, 0])], "probe 0 has 1 base scores, 2 grades and 1"),
        ([Probe([1.0], surface([0], [0]), [-1])], "grade -1"),
        ([Probe([np.inf], surface([0], [0]), [1])], "base of probe 0"),
    ],
)
def test_unusable_probes_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        fit(given)
