"""What must hold of every ranking, whatever the keywords and vectors."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reranking import (
    CANDIDATES,
    CAUSAL_METHODS,
    ENCODER,
    ENCODERS,
    KEYWORDS,
    MODES,
    TAUS,
    TERMS,
    TEXTS,
    TableEncoder,
    Written,
    ids,
    plain_hybrid,
    plain_rank,
    reranker,
    steady,
)

import causalrag as cr
from causalrag.rerank import METHODS

SHARES = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def written(keywords):
    return " ".join(f"{term}:{weight}" for term, weight in keywords.items())


# A plain implementation


@pytest.mark.parametrize("absorption", MODES)
@pytest.mark.parametrize("method", ["similarity", *CAUSAL_METHODS])
@steady
@given(query=TEXTS, texts=CANDIDATES, encoder=ENCODERS, tau=TAUS, weight=SHARES)
def test_rank_equals_the_plain_implementation(
    absorption, method, query, texts, encoder, tau, weight
):
    options = {"tau": tau, "absorption": absorption, "weight": weight}
    ranking = reranker(method, encoder, **options).rank(query, texts)
    expected = plain_rank(query, texts, encoder, method=method, **options)
    assert [r.score for r in ranking] == pytest.approx([s for _, s in expected], abs=1e-6)
    by_index = dict(expected)
    assert sorted(r.index for r in ranking) == sorted(by_index)
    for ranked in ranking:
        assert ranked.score == pytest.approx(by_index[ranked.index], abs=1e-6)


@steady
@given(
    pairs=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1, 1)), min_size=1, max_size=9),
    weight=st.floats(0, 1),
)
def test_hybrid_equals_the_plain_implementation(pairs, weight):
    similarity, causal = ([round(value, 3) for value in side] for side in zip(*pairs, strict=True))
    expected = plain_hybrid(similarity, causal, weight)
    assert cr.hybrid(similarity, causal, weight) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("absorption", MODES)
@steady
@given(query=TEXTS, texts=CANDIDATES, encoder=ENCODERS, tau=TAUS)
def test_all_candidates_at_once_are_scored_as_one_by_one(absorption, query, texts, encoder, tau):
    rule = {"tau": tau, "absorption": absorption}
    # The row that `rank` sees: scaled to unit length in float32, which moves its last bit.
    vector = cr.load_encoder(encoder).encode([query], role="query")[0]
    asked = Written().query(query)
    for ranked in reranker("causal", encoder, **rule).rank(query, texts):
        part = cr.partition(asked, Written().document(ranked.text), encoder, **rule)
        assert (ranked.shared, ranked.residual) == (part.shared, part.residual)
        assert ranked.reasons == {
            term: (by, pytest.approx(cosine, abs=1e-12))
            for term, (by, cosine) in part.reasons.items()
        }
        one = cr.causal_score(vector, part.residual, encoder)
        assert ranked.causal == pytest.approx(one, abs=1e-9)


# Order


@pytest.mark.parametrize("method", METHODS)
@steady
@given(data=st.data(), query=TEXTS)
def test_permuting_the_candidates_permutes_the_ranking(method, data, query):
    texts = data.draw(st.lists(TEXTS, min_size=1, max_size=7, unique=True))
    documents = [{"id": text, "text": text} for text in texts]
    shuffled = data.draw(st.permutations(documents))
    first, second = (reranker(method).rank(query, docs) for docs in (documents, shuffled))
    scores = {r.doc_id: r.score for r in first}
    assert {r.doc_id: r.score for r in second} == scores
    if len(set(scores.values())) == len(scores):
        assert ids(first) == ids(second)
    # Where scores tie, the same documents share the same places.
    empty = [
        [method in CAUSAL_METHODS and not r.residual for r in each] for each in (first, second)
    ]
    assert empty[0] == empty[1]
    assert [r.score for r in first] == [r.score for r in second]


@pytest.mark.parametrize("method", CAUSAL_METHODS)
@steady
@given(data=st.data(), query=KEYWORDS, texts=CANDIDATES, tau=TAUS)
def test_a_document_with_an_empty_b_is_never_above_one_with_a_b(method, data, query, texts, tau):
    stuffed = st.dictionaries(st.sampled_from(sorted(query)), st.floats(1, 9), min_size=1).map(
        written
    )
    documents = data.draw(st.permutations([*texts, *data.draw(st.lists(stuffed, min_size=1))]))
    scores = [data.draw(st.floats(-1e3, 1e3)) for _ in documents]
    given_scores = data.draw(st.sampled_from([None, scores]))
    ranking = reranker(method, tau=tau).rank(written(query), documents, scores=given_scores)
    filled = [bool(ranked.residual) for ranked in ranking]
    assert filled == sorted(filled, reverse=True)
    assert not all(filled)


@pytest.mark.parametrize("method", METHODS)
@steady
@given(query=TEXTS, texts=CANDIDATES)
def test_what_was_seen_before_changes_no_score(method, query, texts):
    rr = reranker(method)
    new, known, alone = (
        rr.rank(query, texts),
        rr.rank(query, texts),
        [reranker(method).rank(query, [text])[0] for text in texts],
    )
    assert [(r.index, r.score, r.causal) for r in new] == [
        (r.index, r.score, r.causal) for r in known
    ]
    assert [r.causal for r in alone] == [r.causal for r in sorted(new, key=lambda r: r.index)]


# The causal score


@pytest.mark.parametrize("absorption", MODES)
@steady
@given(
    query=KEYWORDS,
    document=KEYWORDS,
    tau=TAUS,
    times=st.lists(st.sampled_from([1, 2, 3, 10, 1e3, 1e9]), min_size=6, max_size=6),
)
def test_repeating_a_terms_with_the_keyword_set_fixed_changes_no_causal_score(
    absorption, query, document, tau, times
):
    rr = reranker("causal", tau=tau, absorption=absorption)
    plain = rr.rank(written(query), [written(document)])[0]
    repeated = {
        term: weight * (factor if term in plain.shared else 1)
        for (term, weight), factor in zip(document.items(), times, strict=False)
    }
    again = rr.rank(written(query), [written(repeated)])[0]
    assert set(again.shared) == set(plain.shared)
    assert again.residual == plain.residual
    assert again.causal == plain.causal


@steady
@given(
    query=TEXTS, documents=st.lists(KEYWORDS, min_size=1, max_size=5), scale=st.floats(1e-6, 1e6)
)
def test_scaling_a_document_s_weights_changes_neither_sets_nor_score(query, documents, scale):
    scaled = [{term: weight * scale for term, weight in words.items()} for words in documents]
    plain, again = (
        reranker().rank(query, list(map(written, each))) for each in (documents, scaled)
    )
    by_index = {ranked.index: ranked for ranked in again}
    for ranked in plain:
        assert set(ranked.residual) == set(by_index[ranked.index].residual)
        assert ranked.causal == pytest.approx(by_index[ranked.index].causal, abs=1e-11)


# Weights at the ends of float64's range, and vectors that are zero, equal or opposite.
EXTREME = st.dictionaries(
    st.sampled_from(TERMS),
    st.sampled_from([1e-320, 1e-300, 1e-160, 1e-9, 0.1, 0.2, 0.3, 1.0, 1e9, 1e160, 1e300]),
    min_size=1,
    max_size=12,
)
DEGENERATE = st.lists(
    st.sampled_from([(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (-1, 1e-4, 0), (0.6, 0.8, 0)]),
    min_size=len(TERMS),
    max_size=len(TERMS),
)


@pytest.mark.parametrize("method", METHODS)
@steady
@given(
    query=TEXTS,
    documents=st.lists(EXTREME, min_size=1, max_size=5),
    vectors=DEGENERATE,
    direction=st.sampled_from([(1, 0, 0), (-1, 0, 0), (0, 0, 0)]),
)
def test_no_nan_at_the_ends_of_the_range(method, query, documents, vectors, direction):
    encoder = TableEncoder(dict(zip(TERMS, vectors, strict=True)), default=direction)
    ranking = cr.CausalReranker(encoder, Written(), method=method).rank(
        query, list(map(written, documents))
    )
    for ranked in ranking:
        assert math.isfinite(ranked.score)
        assert math.isfinite(ranked.base)
        assert -1 <= ranked.causal <= 1
        assert all(map(math.isfinite, ranked.contributions.values()))
        one = cr.causal_score(direction, ranked.residual, encoder)
        assert ranked.causal == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
@steady
@given(query=TEXTS, texts=CANDIDATES, tau=TAUS)
def test_no_nan_leaves_a_ranking_and_its_parts_agree(method, query, texts, tau):
    for ranked in reranker(method, tau=tau).rank(query, texts):
        assert math.isfinite(ranked.score)
        assert math.isfinite(ranked.base)
        assert -1 <= ranked.causal <= 1
        assert math.fsum(ranked.contributions.values()) == pytest.approx(ranked.causal, abs=1e-9)
        assert set(ranked.contributions) == set(ranked.residual)
        assert {**ranked.shared, **ranked.residual} == Written().document(ranked.text)
        assert ranked.explain()


@pytest.mark.parametrize("method", METHODS)
@steady
@given(query=TEXTS, texts=CANDIDATES, data=st.data())
def test_no_input_is_changed(method, query, texts, data):
    documents = [
        {"id": place, "text": text, "title": None, "vector": ENCODER.vector(text, "document")}
        for place, text in enumerate(texts)
    ]
    scores = np.array([data.draw(st.floats(-9, 9)) for _ in texts])
    before, scores_before = copy.deepcopy(documents), scores.copy()
    rr = reranker(method)
    for ranking in (rr.rank(query, documents), rr.rank(query, documents, scores=scores)):
        ranking.explain()
    assert [str(document) for document in documents] == [str(document) for document in before]
    assert all(
        np.array_equal(document["vector"], old["vector"])
        for document, old in zip(documents, before, strict=True)
    )
    assert np.array_equal(scores, scores_before)


@steady
@given(
    st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(-1, 1)), min_size=1, max_size=9),
    st.floats(0, 1),
)
def test_hybrid_lies_between_0_and_1(pairs, weight):
    result = cr.hybrid(*zip(*pairs, strict=True), weight=weight)
    assert ((result >= 0) & (result <= 1)).all()
