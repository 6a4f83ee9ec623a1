"""Keyword sets are proper weighted sets; TF-IDF weights are scikit-learn's, checked by hand."""

import copy
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import causalrag as cr
from causalrag.datasets import opening
from causalrag.keywords import Keywords, TfidfKeywords
from causalrag.text import tokenize

CORPUS = ["cat cat dog", "dog fish", "fish bird"]


def test_weights_are_those_computed_by_hand():
    kw = TfidfKeywords.fit(CORPUS)
    # n = 3: cat in 1 document, dog in 2.
    cat, dog = 2 * (math.log(4 / 2) + 1), math.log(4 / 3) + 1
    length = math.hypot(cat, dog)
    assert kw.document("cat cat dog") == pytest.approx({"cat": cat / length, "dog": dog / length})
    assert kw.document("cat cat dog")["cat"] == pytest.approx(0.9347, abs=5e-5)
    assert kw.idf("cat") == pytest.approx(1.693147, abs=1e-6)
    assert kw.idf("zebra") == pytest.approx(math.log(4 / 1) + 1)


def test_weights_are_those_of_scikit_learn_on_both_languages():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [d.text for theme in opening().themes for d in theme.documents]
    reference = TfidfVectorizer(analyzer=tokenize)
    matrix = reference.fit_transform(texts).toarray()
    names = reference.get_feature_names_out()
    kw = TfidfKeywords.fit(texts, top_document=10_000)
    for text, row in zip(texts, matrix, strict=True):
        expected = {names[i]: row[i] for i in np.flatnonzero(row)}
        assert kw.document(text) == pytest.approx(expected, rel=1e-12)


def test_the_cut_keeps_the_heaviest_terms_with_their_uncut_weights():
    kw = TfidfKeywords.fit(CORPUS, top_document=2, top_query=1)
    text = "cat cat cat dog dog fish"
    full = TfidfKeywords.fit(CORPUS).document(text)
    assert list(kw.document(text).items()) == list(full.items())[:2]
    assert list(kw.query(text)) == ["cat"]
    assert list(full) == ["cat", "dog", "fish"]


def test_defaults_are_fifteen_and_ten():
    text = " ".join(f"term{i}" for i in range(40))
    kw = cr.TfidfKeywords.fit([text])
    assert (len(kw.document(text)), len(kw.query(text))) == (15, 10)


def test_terms_outside_the_vocabulary_are_kept_with_the_idf_of_df_zero():
    kw = TfidfKeywords.fit(CORPUS)
    query = kw.query("cat zebra")
    assert query["zebra"] / query["cat"] == pytest.approx(kw.idf("zebra") / kw.idf("cat"))
    assert kw.document("zebra") == {"zebra": 1.0}
    assert kw.idf("CAT") == kw.idf("cat") < kw.idf("zebra")


def test_equal_weights_are_cut_by_the_term_whatever_the_hash_seed():
    kw = TfidfKeywords.fit(["x"])
    assert kw.query("pear fig apple quince").terms == ("apple", "fig", "pear", "quince")
    code = (
        "from causalrag.keywords import TfidfKeywords as T;"
        "print(T({}, 1, top_query=3).query('pear fig apple quince kiwi plum').terms)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {b"('apple', 'fig', 'kiwi')\n"}


def test_the_order_of_the_corpus_does_not_matter():
    one, two = TfidfKeywords.fit(CORPUS), TfidfKeywords.fit(CORPUS[::-1])
    assert one.vocabulary == two.vocabulary == ("bird", "cat", "dog", "fish")
    assert list(one.query("dog bird cat").items()) == list(two.query("dog bird cat").items())


def test_query_and_document_share_one_spelling():
    kw = TfidfKeywords.fit(["符合GB/T 35273的要求", "不合适"], top_query=15)
    for text in ("ＧＢ/T35273—2020", "不太合适 COVID-19", "我爱上海的水"):
        assert kw.query(text) == kw.document(text)
        assert kw.query(text)
        assert set(kw.query(text)) == set(kw.tokens(text))


def test_tokens_come_in_order_with_repeats():
    assert TfidfKeywords.fit(CORPUS).tokens("Dog bites man, man the dog") == [
        "dog",
        "bites",
        "man",
        "man",
        "dog",
    ]


@pytest.mark.parametrize("text", ["", "  ", "，。！？", "的了是", "😀", "the of", "2020"])
def test_a_text_without_content_has_no_keywords(text):
    kw = TfidfKeywords.fit([*CORPUS, text])
    assert kw.query(text) == kw.document(text) == {}


def test_a_corpus_of_stop_words_is_no_error():
    kw = TfidfKeywords.fit(["的了是", "the of", ""])
    assert kw.vocabulary == ()
    assert kw.query("audit") == {"audit": 1.0}
    assert kw.idf("audit") == pytest.approx(math.log(4) + 1)


def test_an_empty_corpus_is_a_clear_error():
    with pytest.raises(ValueError, match="corpus is empty"):
        TfidfKeywords.fit([])


def test_one_document_is_enough_and_a_generator_will_do():
    kw = TfidfKeywords.fit(text for text in ["cat dog"])
    assert kw.n_documents == 1
    assert kw.document("cat dog") == pytest.approx({"cat": 0.5**0.5, "dog": 0.5**0.5})


@pytest.mark.parametrize("texts", [None, "cat dog", [None], ["cat", 3]])
def test_fit_refuses_what_is_not_a_list_of_texts(texts):
    with pytest.raises(TypeError):
        TfidfKeywords.fit(texts)


@pytest.mark.parametrize("method", ["document", "query", "tokens", "idf"])
def test_none_is_refused(method):
    with pytest.raises(TypeError):
        getattr(TfidfKeywords.fit(CORPUS), method)(None)


@pytest.mark.parametrize("cut", ["top_document", "top_query"])
def test_a_cut_below_one_is_refused(cut):
    for value in (0, -1):
        with pytest.raises(ValueError, match=f"{cut} must be at least 1, got {value}"):
            TfidfKeywords.fit(CORPUS, **{cut: value})
    for value in (None, True, 2.5):
        with pytest.raises(TypeError, match=cut):
            TfidfKeywords.fit(CORPUS, **{cut: value})


# --- the mapping ------------------------------------------------------------------------------


def test_keywords_stand_by_falling_weight_then_by_term():
    keywords = Keywords({"b": 1.0, "z": 2.0, "a": 1.0})
    assert list(keywords.items()) == [("z", 2.0), ("a", 1.0), ("b", 1.0)]
    assert keywords.terms == ("z", "a", "b")
    assert keywords.weights.tolist() == [2.0, 1.0, 1.0]


def test_duplicate_terms_are_summed_whatever_their_order():
    pairs = [("a", 0.1), ("b", 0.5), ("a", 0.2), ("a", 0.3)]
    assert Keywords(pairs) == Keywords(pairs[::-1])
    assert Keywords(pairs)["a"] == math.fsum([0.1, 0.2, 0.3])


def test_keywords_behave_as_a_mapping_and_compare_with_a_dict():
    keywords = Keywords({"a": 1.0})
    assert keywords == {"a": 1.0}
    assert "a" in keywords
    assert keywords.get("b") is None
    assert dict(keywords) == {"a": 1.0}
    assert len(Keywords()) == 0
    assert not Keywords()
    assert len({Keywords({"a": 1.0}), Keywords([("a", 1)])}) == 1


def test_keywords_cannot_be_changed():
    keywords = Keywords({"a": 1.0})
    with pytest.raises(TypeError):
        keywords["b"] = 1.0
    with pytest.raises(AttributeError, match="immutable"):
        keywords._weights = {}
    with pytest.raises(AttributeError, match="immutable"):
        del keywords._weights
    keywords.weights[0] = 5.0
    assert keywords["a"] == 1.0


def test_keywords_survive_copy_and_pickle():
    keywords = Keywords({"a": 1.0, "b": 2.0})
    assert copy.deepcopy(keywords) == pickle.loads(pickle.dumps(keywords)) == keywords


@pytest.mark.parametrize("weight", [0, 0.0, -1.0, math.nan, math.inf, np.float32("nan")])
def test_a_weight_must_be_positive_and_finite(weight):
    with pytest.raises(ValueError, match="'audit' must be positive and finite"):
        Keywords({"audit": weight})


@pytest.mark.parametrize("items", [None, "ab", ["ab"], [("a",)], {"a": None}, {"a": "x"}, {1: 1.0}])
def test_what_is_not_term_and_weight_is_refused(items):
    with pytest.raises(TypeError):
        Keywords(items)


def test_a_blank_term_is_refused():
    with pytest.raises(ValueError, match="blank"):
        Keywords({" ": 1.0})


def test_numpy_weights_become_floats():
    assert type(Keywords({"a": np.float32(0.5)})["a"]) is float


def test_repr_is_short():
    assert repr(Keywords({"a": 1})) == "Keywords(1 terms: a 1.000)"
    assert len(repr(Keywords({f"term{i}": 1.0 for i in range(1000)}))) < 120
    assert repr(Keywords()) == "Keywords(0 terms)"
