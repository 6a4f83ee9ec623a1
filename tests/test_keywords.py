"""Keyword sets are proper sets, TF-IDF weights scikit-learn's; hard cases 1-8, 13 and 17."""

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
from causalrag.keywords import (
    KeywordExtractor,
    Keywords,
    TextRankKeywords,
    TfidfKeywords,
    as_extractor,
)
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


# --- hard cases -------------------------------------------------------------------------------


def same_on_both_sides(text):
    """Terms of a text as document and as query, which must be the same."""
    kw = TfidfKeywords.fit([text, "something else"], top_document=100, top_query=100)
    assert kw.query(text) == kw.document(text)
    assert set(kw.query(text)) == set(kw.tokens(text))
    return set(kw.query(text))


def test_hard_case_1_chinese_words_of_one_character_are_kept_on_both_sides():
    assert same_on_both_sides("我爱上海的水") == {"爱", "上海", "水"}


def test_hard_case_2_a_negated_word_is_never_the_word_itself():
    assert same_on_both_sides("不合适") == {"不合适"}
    assert same_on_both_sides("适合 / 不适合") == {"适合", "不适合"}
    kw = TfidfKeywords.fit(["这个方法不太合适", "这个方法合适"])
    assert not set(kw.query("合适")) & set(kw.document("这个方法不太合适"))


def test_hard_case_3_latin_words_are_folded_and_pure_numbers_dropped():
    assert same_on_both_sides("用AI 和ai、Ai 写的 2024 报告") == {"ai", "写", "报告"}
    assert TfidfKeywords.fit(["x"]).query("AI ai Ai") == {"ai": 1.0}


def test_hard_case_4_identifiers_survive_whole_on_both_sides():
    assert same_on_both_sides("0.5g, COVID-19, GPT-4o; GB/T 35273") == {
        "0.5g",
        "covid-19",
        "gpt-4o",
        "gb/t 35273",
    }


def test_hard_case_5_traditional_and_simplified_give_the_same_keywords():
    kw = TfidfKeywords.fit(["数据出境安全评估", "其他"])
    assert kw.query("數據出境安全評估") == kw.query("数据出境安全评估")
    assert kw.document("數據出境安全評估") == kw.document("数据出境安全评估")
    assert kw.idf("數據") == kw.idf("数据") < kw.idf("unseen")


def test_hard_case_6_full_width_is_plain_width():
    assert same_on_both_sides("ＡＢＣ１２３") == {"abc123"}


@pytest.mark.parametrize("text", ["", "  ", "，。！？", "的了是", "😀", "the of", "2020"])
def test_hard_case_7_a_text_without_content_has_no_keywords(text):
    kw = TfidfKeywords.fit([*CORPUS, text])
    assert kw.query(text) == kw.document(text) == {}


def test_hard_case_8_chinese_is_cut_into_words_and_stop_words_alone_give_none():
    assert same_on_both_sides("数据出境的安全如何评估") == {"数据", "出境", "安全", "评估"}
    kw = TfidfKeywords.fit(["数据 出境", "的了是"])
    assert kw.document("的了是") == {}
    assert kw.vocabulary == ("出境", "数据")


@pytest.mark.parametrize("times", [2, 10, 100])
def test_hard_case_13_repeating_a_term_keeps_the_ratios_of_the_others(times):
    kw = TfidfKeywords.fit(CORPUS)
    once, often = kw.document("cat dog fish bird"), kw.document("cat " * times + "dog fish bird")
    assert set(once) == set(often)
    assert often["cat"] > once["cat"]
    for term in ("dog", "bird"):
        assert often[term] / often["fish"] == pytest.approx(once[term] / once["fish"], rel=1e-12)


def test_hard_case_13_repeated_terms_can_push_weak_ones_out_of_the_cut():
    # Ten words of the query and nine others. All once: equal weights, so the term decides, and all
    # nine are in. The ten twice: they stand first, and leave five places.
    query, rest = [f"w{i}x" for i in range(10)], [f"a{i}x" for i in range(9)]
    kw = TfidfKeywords.fit(["nothing"])
    once = kw.document(" ".join(query + rest))
    twice = kw.document(" ".join(query * 2 + rest))
    assert len(once) == len(twice) == 15
    assert (len(set(once) & set(rest)), len(set(twice) & set(rest))) == (9, 5)


def test_hard_case_17_one_query_keyword_is_enough():
    assert TfidfKeywords.fit(CORPUS).query("cat") == {"cat": 1.0}
    assert TfidfKeywords.fit(["cat"]).query("the cat, Cat") == {"cat": 1.0}


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
    # claim P.kw.merge
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


# --- any extractor ----------------------------------------------------------------------------


class Bare:
    """The least that an extractor has."""

    def document(self, text):
        return dict.fromkeys(text.split(), 1.0)

    def query(self, text):
        return [(word, 2.0) for word in text.split()]


class Counting(Bare):
    def tokens(self, text):
        return text.split()

    def idf(self, term):
        return 3.0


def test_an_extractor_without_tokens_and_idf_gets_ours():
    bare = Bare()
    full = as_extractor(bare)
    assert full.tokens("The Data, data 评估") == ["data", "data", "评估"]
    assert full.idf("data") == full.idf("unseen") == 1.0
    assert full.document("the cat") == bare.document("the cat")
    assert full.query("the cat") == bare.query("the cat")
    assert "Bare" in repr(full)
    for method in (full.tokens, full.idf):
        with pytest.raises(TypeError):
            method(None)


def test_an_extractor_with_tokens_and_idf_stays_itself():
    for extractor in (Counting(), TfidfKeywords.fit(CORPUS), TextRankKeywords()):
        assert as_extractor(extractor) is extractor
    full = as_extractor(Bare())
    assert as_extractor(full) is full


@pytest.mark.parametrize("missing", ["tokens", "idf"])
def test_only_what_is_missing_is_given(missing):
    kind = type("Half", (Counting,), {missing: None})
    full = as_extractor(kind())
    assert full.tokens("The cat") == (["cat"] if missing == "tokens" else ["The", "cat"])
    assert full.idf("cat") == (1.0 if missing == "idf" else 3.0)


@pytest.mark.parametrize("source", [None, "tfidf", {"a": 1.0}, TfidfKeywords, Bare])
def test_what_is_no_extractor_is_refused_with_the_remedy(source):
    with pytest.raises(TypeError, match="give an extractor"):
        as_extractor(source)


def test_old_names_are_where_they_were():
    assert cr.keywords.KeywordExtractor is KeywordExtractor
    assert cr.Keywords is Keywords
    assert cr.TfidfKeywords is TfidfKeywords
