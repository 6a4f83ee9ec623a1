"""Presence and repetition of a query's words, against counting by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reranking import TableEncoder

import causalrag as cr
from causalrag.encoders import load_encoder
from causalrag.surface import (
    absorbed_tokens,
    coverage,
    equal_tokens,
    excess_repetition,
    own_repetition,
    token_counts,
)

TEXTS = ["bread bread bread oven", "loaf loaf gas dough gas", "", "oven bread gas"]
KEYWORDS = cr.TfidfKeywords.fit(TEXTS)
COUNTS = token_counts(TEXTS, KEYWORDS)


def test_tokens_are_counted_in_order_and_remembered():
    assert COUNTS[1].terms == ("loaf", "gas", "dough")
    assert COUNTS[1].counts.tolist() == [2, 2, 1]
    assert COUNTS[2].terms == ()
    assert token_counts(TEXTS[:1], KEYWORDS)[0] is COUNTS[0]


def test_an_extractor_without_tokens_gets_the_librarys():
    class Bare:
        def document(self, text):
            return {}

        query = document

    assert token_counts(["Bread, the bread."], Bare())[0].counts.tolist() == [2]


def test_coverage_is_the_weighted_share_of_the_query_that_is_there_however_often():
    query = {"bread": 2.0, "gas": 1.0, "heat": 1.0}
    assert coverage(COUNTS, query).tolist() == [2 / 4, 1 / 4, 0.0, 3 / 4]
    assert coverage(COUNTS, {}).tolist() == [0.0] * 4
    assert coverage([], query).shape == (0,)


def test_excess_repetition_counts_what_is_said_again_and_nothing_said_once():
    flags = equal_tokens(COUNTS, [{"bread", "gas"}] * 4)
    assert excess_repetition(COUNTS, flags).tolist() == [2 / 4, 1 / 5, 0.0, 0.0]


def test_semantic_absorption_flags_near_tokens_too():
    encoder = load_encoder(TableEncoder({"bread": (1.0, 0.0, 0.0), "loaf": (0.8, 0.6, 0.0)}))
    near = absorbed_tokens(COUNTS, ["bread"], encoder, 0.7)
    assert excess_repetition(COUNTS, near).tolist() == [2 / 4, 1 / 5, 0.0, 0.0]
    far = absorbed_tokens(COUNTS, ["bread"], encoder, 0.9)
    assert far.tolist() == equal_tokens(COUNTS, [{"bread"}] * 4).tolist()


def test_own_repetition_takes_the_heaviest_keywords_of_each_text():
    own = [KEYWORDS.document(text).terms for text in TEXTS]
    assert own_repetition(COUNTS, own, 1).tolist() == [2 / 4, 1 / 5, 0.0, 0.0]
    assert own_repetition(COUNTS, own, 9).tolist() == [2 / 4, 2 / 5, 0.0, 0.0]


@given(st.lists(st.sampled_from(["bread", "oven", "gas", "heat"]), min_size=1, max_size=12))
def test_repeating_every_word_raises_repetition_and_leaves_coverage(words):
    once, twice = token_counts([" ".join(words), " ".join(words * 2)], KEYWORDS)
    query = {"bread": 1.0, "heat": 3.0}
    assert coverage([once], query) == coverage([twice], query)
    flags = equal_tokens([once, twice], [query] * 2)
    low, high = excess_repetition([once, twice], flags)
    assert high > low if set(words) & set(query) else high == low == 0
    assert 0 <= high < 1


def test_texts_and_terms_must_be_as_many():
    with pytest.raises(ValueError, match="zip"):
        equal_tokens(COUNTS, [{"bread"}])
    assert equal_tokens([], []).dtype == np.bool_
