"""RM3 against a case worked out by hand, and at its edges."""

import math
import warnings

import numpy as np
import pytest

from causalrag.retrieve import BM25Retriever, NoMatchWarning, rm3

DOCUMENTS = ["cat dog", "cat fish fish", "bird"]


def test_a_case_worked_out_by_hand():
    # n = 3, mean length 2. BM25 of cat: idf / 2.5 and idf / 3.0625, as shares:
    first, second = 3.0625 / 5.5625, 2.5 / 5.5625
    cat, dog, fish = first / 2 + second / 3, first / 2, second * 2 / 3
    assert dog < fish < cat  # two terms: cat and fish
    cat, fish = 0.5 + 0.5 * cat / (cat + fish), 0.5 * fish / (cat + fish)

    found = rm3("cat", DOCUMENTS, fb_docs=2, fb_terms=2)
    assert found.terms == pytest.approx({"cat": cat, "fish": fish}, abs=1e-12)
    assert found.feedback.tolist() == [0, 1]
    of_cat, of_fish = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    expected = [cat * of_cat / 2.5, cat * of_cat / 3.0625 + fish * of_fish * 2 / 4.0625, 0]
    assert found.scores == pytest.approx(expected, abs=1e-12)


def test_the_original_query_keeps_its_own_shares():
    found = rm3("bird bird cat owl", DOCUMENTS, fb_docs=1, fb_terms=1, original_weight=0.8)
    assert found.feedback.tolist() == [2]
    assert found.terms == pytest.approx({"bird": 0.8 / 2 + 0.2, "cat": 0.2, "owl": 0.2})


def test_feedback_finds_a_document_that_shares_no_word_with_the_query():
    documents = ["bread yeast gas", "bread yeast", "yeast sourdough", "boiler valve"]
    plain = BM25Retriever().fit(documents).scores("bread")
    found = rm3("bread", documents)
    assert plain[2] == plain[3] == 0
    assert found.scores[2] > found.scores[3] == 0


def test_weights_sum_to_one_and_scores_are_the_weighted_bm25():
    retriever = BM25Retriever(k1=0.9, b=0.4).fit(DOCUMENTS)
    found = rm3("cat bird", retriever, original_weight=0.3)
    assert math.fsum(found.terms.values()) == pytest.approx(1)
    expected = sum(weight * retriever.scores(term) for term, weight in found.terms.items())
    assert found.scores == pytest.approx(expected, abs=1e-11)
    assert found.scores.tolist() == retriever.scores(found.terms).tolist()


def test_the_whole_weight_on_the_query_leaves_its_order_and_none_leaves_the_feedback():
    retriever = BM25Retriever().fit(DOCUMENTS)
    query = "cat fish cat"
    kept = rm3(query, retriever, original_weight=1)
    assert kept.scores == pytest.approx(retriever.scores(query) / 3)
    assert set(kept.terms) == {"cat", "fish"}
    assert set(rm3("cat owl", retriever, original_weight=0).terms) == {"cat", "dog", "fish"}


def test_equal_terms_are_cut_by_the_term_and_zero_scores_are_no_feedback():
    found = rm3("cat", ["cat pear fig apple", "owl"], fb_docs=9, fb_terms=2, original_weight=0)
    assert found.terms.terms == ("apple", "cat")
    assert found.feedback.tolist() == [0]


def test_documents_and_a_fitted_retriever_give_the_same_in_chinese_too():
    documents = ["數據出境安全評估", {"title": "数据", "text": "出境申报"}, "面包发酵"]
    before = [dict(d) if isinstance(d, dict) else d for d in documents]
    one, two = rm3("数据", documents), rm3("數據", BM25Retriever().fit(documents))
    assert one.terms == two.terms
    assert one.scores.tolist() == two.scores.tolist()
    assert set(one.terms) >= {"数据", "出境", "申报"}
    assert documents == before


@pytest.mark.parametrize(("query", "terms"), [("owl", {"owl": 1.0}), ("the of", {})])
def test_without_a_match_there_is_no_feedback_and_one_warning(query, terms):
    with pytest.warns(NoMatchWarning) as caught:
        found = rm3(query, DOCUMENTS)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found.terms == terms
    assert found.scores.tolist() == [0, 0, 0]
    assert found.feedback.tolist() == []


def test_no_documents_are_no_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rm3("cat", [])
    assert (found.terms, found.scores.shape) == ({"cat": 1.0}, (0,))


@pytest.mark.parametrize(
    ("query", "options", "error", "message"),
    [
        ("", {}, ValueError, "query is blank"),
        (None, {}, TypeError, "query must be a str"),
        ({"cat": 1.0}, {}, TypeError, "query must be a str"),
        ("cat", {"fb_docs": 0}, ValueError, "fb_docs is 0"),
        ("cat", {"fb_terms": -1}, ValueError, "fb_terms is -1"),
        ("cat", {"fb_docs": 2.0}, TypeError, "fb_docs must be an int"),
        ("cat", {"original_weight": 1.1}, ValueError, r"original_weight is 1\.1"),
        ("cat", {"original_weight": math.nan}, ValueError, "original_weight is nan"),
        ("cat", {"original_weight": "half"}, TypeError, "original_weight must be a number"),
    ],
)
def test_unusable_arguments_are_refused(query, options, error, message):
    with pytest.raises(error, match=message):
        rm3(query, DOCUMENTS, **options)
    with pytest.raises(RuntimeError, match="call fit"):
        rm3("cat", BM25Retriever())
    with pytest.raises(TypeError, match="one str"):
        rm3("cat", "one text")
    assert isinstance(rm3("cat", DOCUMENTS).feedback, np.ndarray)
