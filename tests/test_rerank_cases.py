"""The re-ranking rule on the hard cases 10-26, by their number."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from reranking import ENCODER, HashEncoder, TableEncoder, Written, ids, reranker

import causalrag as cr
from causalrag.rerank import METHODS


def test_hard_case_10_a_zero_vector_scores_0_and_is_flagged():
    encoder = TableEncoder({"q": (1, 0, 0), "void": (0, 0, 0), "thing": (1, 0, 0)})
    rr = cr.CausalReranker(encoder, Written(), method="hybrid")
    ranking = rr.rank("q", ["void", "thing"])
    void = next(r for r in ranking if r.text == "void")
    assert (void.base, void.causal) == (0.0, 0.0)
    assert any("zero vector" in flag for flag in void.flags)
    assert any("zero centroid" in flag for flag in void.flags)
    assert cr.partition({"thing": 1.0}, {"void": 1.0}, encoder, tau=0.1).residual == {"void": 1.0}
    assert cr.partition({"void": 1.0}, {"void": 2.0}, encoder, tau=0.1).shared == {"void": 2.0}
    zero_query = cr.CausalReranker(encoder, Written(), method="causal").rank("void", ["thing"])
    assert zero_query[0].causal == 0.0
    assert any("zero query vector" in flag for flag in zero_query.flags)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("broken", ["query", "document", "term"])
def test_hard_case_10_nan_or_inf_from_an_encoder_is_refused_by_text(bad, broken):
    class Broken(HashEncoder):
        fingerprint = None

        def __init__(self):
            self.size, self.by_role, self.seed = 6, True, 0

        def encode(self, texts, role="document"):
            rows = super().encode(texts, role)
            rows[0, 1] = bad if role == broken else rows[0, 1]
            return rows

    with pytest.raises(ValueError, match=r"not finite .*(yeast|gas)"):
        reranker("hybrid", encoder=Broken()).rank("yeast", ["gas"])


def test_hard_case_10_other_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"documents\[0\].* has 3 dimensions, expected 6"):
        reranker("similarity").rank("q", [{"text": "a", "vector": [1.0, 0, 0]}])
    with pytest.raises(ValueError, match="dimensions"):
        cr.causal_score([1.0, 0.0], {"a": 1.0}, ENCODER)


def test_hard_case_11_empty_b_zero_weights_and_cancelling_vectors_are_defined():
    encoder = TableEncoder({"q": (1, 0, 0), "plus": (0, 1, 0), "minus": (0, -1, 0)})
    assert cr.causal_score([1, 0, 0], {}, encoder) == 0.0
    assert cr.causal_score([1, 0, 0], {"plus": 0.0, "minus": 0.0}, encoder) == 0.0
    assert cr.centroid({"plus": 0.0}, encoder) is None
    assert cr.causal_score([1, 0, 0], {"plus": 0.3, "minus": 0.3}, encoder) == 0.0
    # 0.1 + 0.2 - 0.3 leaves a rounding error, whose direction means nothing.
    table = {"a": (1, 0, 0), "b": (1, 0, 0), "c": (-1, 0, 0)}
    nearly = cr.causal_score([1, 0, 0], {"a": 0.1, "b": 0.2, "c": 0.3}, TableEncoder(table))
    assert nearly == 0.0
    assert cr.causal_score([0, 0, 0], {"plus": 1.0}, encoder) == 0.0
    ranking = cr.CausalReranker(encoder, Written(), method="causal").rank("q", ["plus minus", "q"])
    assert ids(ranking) == ["0", "1"]
    assert ranking[0].contributions == {"plus": 0.0, "minus": 0.0}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("blank", ["", "  \n\t", {"text": " ", "title": None}])
def test_hard_case_12_an_empty_document_is_never_above_content(method, blank):
    class Opposed(HashEncoder):
        """Content is opposite to the query, blank text would be equal to it."""

        fingerprint = "opposed"

        def encode(self, texts, role="document"):
            sign = [-1.0 if text.strip() and role != "query" else 1.0 for text in texts]
            return np.outer(sign, np.ones(6))

    rr = cr.CausalReranker(Opposed(), Written(), tau=1.0, method=method)
    for options in ({}, {"scores": [100, 1, 2]}):
        ranking = rr.rank("q", [blank, "a", "q"], **options)
        assert ranking[-1].index == 0
        assert any("empty document" in flag for flag in ranking[-1].flags)


@pytest.mark.parametrize("times", [2, 10, 100])
def test_hard_case_13_repeating_a_terms_with_the_keyword_set_fixed_changes_nothing(times):
    class Sets(Written):
        """The set of words, whatever their number."""

        def document(self, text):
            return dict.fromkeys(text.split(), 1.0)

        query = document

    for method in ("causal", "hybrid"):
        rr = cr.CausalReranker(ENCODER, Sets(), method=method)
        scores = [0.5, 0.4, 0.1]
        plain = rr.rank("yeast gas", ["yeast gas bread oven", "rye", "oat"], scores=scores)
        stuffed = rr.rank(
            "yeast gas", ["yeast gas " * times + "bread oven", "rye", "oat"], scores=scores
        )
        assert [(r.index, r.causal, r.score) for r in plain] == [
            (r.index, r.causal, r.score) for r in stuffed
        ]
    part = cr.partition({"yeast": 1.0}, {"yeast": 1.0 * times, "bread": 1.0}, ENCODER)
    assert cr.causal_score(ENCODER.vector("q", "query"), part.residual, ENCODER) == (
        cr.causal_score(ENCODER.vector("q", "query"), {"bread": 1.0}, ENCODER)
    )


def test_hard_case_13_through_a_bounded_extractor_repetition_can_raise_the_score():
    encoder = TableEncoder({"yeast": (1, 0, 0), "gas": (0.5, 0.75**0.5, 0), "stone": (-1, 0, 0)})
    kw = cr.TfidfKeywords.fit(["yeast gas stone"], top_document=2)
    rr = cr.CausalReranker(encoder, kw, method="causal")
    plain, stuffed = (
        rr.rank("yeast", [t])[0] for t in ("gas gas stone", "gas gas stone yeast yeast")
    )
    # The repeated query word enters the two heaviest and pushes out the word that counted against.
    assert (set(plain.residual), set(stuffed.residual)) == ({"gas", "stone"}, {"gas"})
    assert stuffed.causal > plain.causal + 0.4


BREAD = [
    "Yeast eats sugar and gives off carbon dioxide, which gluten traps, so the dough swells.",
    "Knead the dough until it stretches without tearing, then let it rest in a warm place.",
    "A hot oven sets the crumb and browns the crust within half an hour.",
    "Sourdough starters hold wild yeast and bacteria that need feeding with flour each day.",
]


@pytest.mark.parametrize("method", METHODS)
def test_hard_case_14_an_off_topic_document_is_not_first_for_its_length(method):
    long = "The council discussed bus lanes and the repair of the harbour wall. " * 60
    ranking = cr.CausalReranker("use", method=method).rank(
        "why does bread rise", [long, "Harbour.", *BREAD]
    )
    assert {r.index for r in ranking[-2:]} == {0, 1}


@pytest.mark.parametrize("method", ["similarity", "hybrid"])
@pytest.mark.parametrize("query", ["why does bread rise", "面包为什么会膨胀"])
def test_hard_case_15_noise_is_last(method, query):
    ranking = cr.CausalReranker("use", method=method).rank(query, ["127563fge81zgy", *BREAD])
    assert ranking[-1].index == 0
    assert not ranking.flags


def test_hard_case_15_a_flat_spread_is_flagged():
    for scores, flat in (([0.90, 0.901, 0.902], True), ([0.9, 0.8, 0.7], False)):
        flags = reranker("similarity").rank("q", ["a", "b", "c"], scores=scores).flags
        assert bool(flags) is flat


def test_hard_case_16_word_order_is_a_limit_of_cosine_rules():
    ranking = cr.CausalReranker("use", method="hybrid").rank(
        "dog bites man", ["man bites dog", "dog bites man", "the weather is fine"]
    )
    reversed_roles = next(r for r in ranking if r.index == 0)
    assert reversed_roles.base > 0.9
    same = next(r for r in ranking if r.index == 1)
    assert reversed_roles.shared == same.shared


@pytest.mark.parametrize("method", METHODS)
def test_hard_case_17_one_document_one_keyword_and_bounds_of_k(method):
    rr = reranker(method)
    assert ids(rr.rank("yeast", ["gas"])) == ["0"]
    assert len(rr.rank("yeast", ["gas", "rye"], top_k=99)) == 2
    assert len(rr.rank("yeast", ["gas", "rye"], top_k=np.int64(1))) == 1
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"top_k is {k}"):
            rr.rank("yeast", ["gas"], top_k=k)


def test_hard_case_17_the_hybrid_of_one_document_says_why_its_score_is_0():
    told = "one candidate: min-max leaves nothing to tell apart, its score is 0"
    assert told in reranker("hybrid").rank("yeast", ["gas"]).flags
    assert told not in reranker("hybrid").rank("yeast", ["gas", "rye"]).flags
    assert told not in reranker("causal").rank("yeast", ["gas"]).flags


def test_hard_case_18_metadata_and_ids_are_kept_and_both_scores_are_named():
    documents = [
        {"id": 7, "text": "gas", "source": {"page": 3}},
        SimpleNamespace(text="rye", id="x"),
    ]
    ranking = reranker("hybrid").rank("yeast", documents, scores=[2.0, 1.0])
    by_id = {r.doc_id: r for r in ranking}
    assert by_id[7].document is documents[0]
    assert by_id["x"].document is documents[1]
    assert (by_id[7].base, by_id["x"].base) == (2.0, 1.0)
    assert {"base", "score"} <= set(ranking.to_frame().columns)


@pytest.mark.parametrize("method", METHODS)
def test_hard_case_19_duplicates_tie_in_input_order_and_duplicate_ids_are_refused(method):
    texts = ["gas:2 rye", "oat", "gas:2 rye", "oat", "gas:2 rye"]
    ranking = reranker(method).rank("yeast", texts)
    for text in set(texts):
        same = [r for r in ranking if r.text == text]
        assert len({r.score for r in same}) == 1
        assert [r.index for r in same] == sorted(r.index for r in same)
    for documents in (
        [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}],
        ["x", {"id": "0", "text": "y"}],
    ):
        with pytest.raises(ValueError, match=r"duplicate document id .*documents\[0\]"):
            reranker(method).rank("q", documents)


def test_hard_case_24_a_constant_scorer_keeps_the_input_order_and_is_flagged():
    texts = ["a", "b", "c"]
    ranking = reranker("similarity").rank("q", texts, scores=[3, 3, 3])
    assert ids(ranking) == ["0", "1", "2"]
    assert any("flat base" in flag for flag in ranking.flags)
    constant = TableEncoder({}, default=(0.0, 1.0, 0.0))
    rr = cr.CausalReranker(constant, Written(), absorption="exact", method="hybrid")
    ranking = rr.rank("q", texts)
    assert ids(ranking) == ["0", "1", "2"]
    assert [r.score for r in ranking] == [0, 0, 0]
    assert {flag.split(":")[0] for flag in ranking.flags} == {
        "flat base scores",
        "flat causal scores",
    }
    assert not reranker("similarity").rank("q", texts, scores=[1, 2, 3]).flags
    assert not reranker("similarity").rank("q", ["a"], scores=[1]).flags


def test_hard_case_26_float32_scores_are_cast_and_nan_scores_refused():
    ranking = reranker("hybrid").rank("q", ["a", "b"], scores=np.array([1, 2], dtype=np.float32))
    for ranked in ranking:
        assert type(ranked.score) is float
        assert type(ranked.base) is float
        assert type(ranked.causal) is float
    for bad in (math.nan, math.inf, None):
        with pytest.raises(ValueError, match=r"scores\[1\]"):
            reranker("hybrid").rank("q", ["a", "b"], scores=[1.0, bad])
