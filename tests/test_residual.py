"""Eqs. 3-5 for one document, against a plain implementation and by hand."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reranking import (
    ENCODER,
    ENCODERS,
    KEYWORDS,
    MODES,
    TAUS,
    TableEncoder,
    plain_causal,
    plain_partition,
    steady,
)

import causalrag as cr


@pytest.mark.parametrize("absorption", MODES)
@steady
@given(query=KEYWORDS, document=KEYWORDS, encoder=ENCODERS, tau=TAUS)
def test_partition_and_score_equal_the_plain_implementation(
    absorption, query, document, encoder, tau
):
    part = cr.partition(query, document, encoder, tau=tau, absorption=absorption)
    shared, residual = plain_partition(query, document, encoder, tau, absorption)
    assert dict(part.shared) == shared
    assert dict(part.residual) == residual
    vector = encoder.vector("the query", "query")
    expected = plain_causal(vector, residual, encoder)
    assert cr.causal_score(vector, part.residual, encoder) == pytest.approx(expected, abs=1e-6)


@steady
@given(query=KEYWORDS, document=KEYWORDS, tau=TAUS)
def test_a_and_b_partition_the_document_keywords_and_exact_a_is_within_semantic_a(
    query, document, tau
):
    semantic = cr.partition(query, document, ENCODER, tau=tau)
    exact = cr.partition(query, document, ENCODER, tau=tau, absorption="exact")
    for part in (semantic, exact):
        assert {**part.shared, **part.residual} == document
        assert not set(part.shared) & set(part.residual)
        assert set(part.reasons) == set(part.shared)
    assert set(exact.shared) <= set(semantic.shared)
    assert set(exact.shared) == set(document) & set(query)


@steady
@given(query=KEYWORDS, document=KEYWORDS)
def test_a_grows_as_tau_falls(query, document):
    parts = [cr.partition(query, document, ENCODER, tau=tau) for tau in (1, 0.9, 0.6, 0.2, -1)]
    for stricter, looser in itertools.pairwise(parts):
        assert set(stricter.shared) <= set(looser.shared)
    assert not parts[-1].residual


@steady
@given(query=KEYWORDS, document=KEYWORDS, scale=st.floats(1e-6, 1e6))
def test_scaling_all_weights_changes_neither_sets_nor_score(query, document, scale):
    scaled = {term: weight * scale for term, weight in document.items()}
    part, again = (cr.partition(query, words, ENCODER) for words in (document, scaled))
    assert list(part.residual) == list(again.residual)
    vector = ENCODER.vector("q", "query")
    assert cr.causal_score(vector, again.residual, ENCODER) == pytest.approx(
        cr.causal_score(vector, part.residual, ENCODER), abs=1e-12
    )


@steady
@given(residual=KEYWORDS, scale=st.floats(1e-3, 1e3))
def test_causal_score_is_a_cosine_and_ignores_the_query_vector_s_length(residual, scale):
    vector = ENCODER.vector("q", "query").astype(float)
    score = cr.causal_score(vector, residual, ENCODER)
    assert -1 <= score <= 1
    assert cr.causal_score(vector * scale, residual, ENCODER) == pytest.approx(score, abs=1e-9)


def test_centroid_is_the_weighted_mean_by_hand():
    encoder = TableEncoder({"a": (1, 0, 0), "b": (0, 1, 0)})
    assert cr.centroid({"a": 3.0, "b": 1.0}, encoder) == pytest.approx([0.75, 0.25, 0.0])
    assert cr.centroid({}, encoder) is None
    assert cr.causal_score([2, 0, 0], {"a": 3.0, "b": 1.0}, encoder) == pytest.approx(
        0.75 / math.hypot(0.75, 0.25)
    )


@pytest.mark.parametrize("tau", [0.6, 0.7, 0.8, 1.0])
def test_a_term_at_exactly_tau_is_absorbed_and_one_just_below_is_not(tau):
    at, below = (tau, math.sqrt(1 - tau**2), 0), (tau - 1e-4, math.sqrt(1 - (tau - 1e-4) ** 2), 0)
    encoder = TableEncoder({"u": (1, 0, 0), "at": at, "below": below})
    part = cr.partition({"u": 1.0}, {"at": 1.0, "below": 1.0}, encoder, tau=tau)
    assert list(part.shared) == ["at"]
    assert list(part.residual) == ["below"]


def test_reasons_name_the_nearest_query_term_and_the_cosine():
    encoder = TableEncoder({"dog": (1, 0, 0), "cat": (0, 1, 0), "hound": (0.8, 0.6, 0)})
    words = {"hound": 1.0, "cat": 2.0, "sky": 3.0}
    part = cr.partition({"cat": 1.0, "dog": 1.0}, words, encoder, tau=0.6)
    assert part.reasons["hound"] == ("dog", pytest.approx(0.8))
    assert part.reasons["hound"].query_term == "dog"
    assert part.reasons["cat"] == ("cat", 1.0)
    assert dict(part.residual) == {"sky": 3.0}


def test_without_query_keywords_nothing_is_absorbed():
    part = cr.partition({}, {"a": 1.0}, ENCODER, tau=-1)
    assert dict(part.residual) == {"a": 1.0}


def test_exact_absorption_needs_no_encoder():
    part = cr.partition({"a": 1.0}, {"a": 1.0, "b": 1.0}, None, absorption="exact")
    assert (list(part.shared), list(part.residual)) == (["a"], ["b"])


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_keyword_weights_that_are_not_positive_numbers_are_refused(weight):
    with pytest.raises(ValueError, match=r"weight of .*b"):
        cr.partition({"a": 1.0}, {"b": weight}, ENCODER)
    with pytest.raises(ValueError, match=r"weight of .*b"):
        cr.centroid({"b": weight}, ENCODER)
