"""BM25 against the plain formula, in both languages, and what it says when nothing matches."""

import itertools
import logging
import math
import subprocess
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalrag as cr
from causalrag.retrieve import BM25Retriever, Hits, NoMatchWarning
from causalrag.text import tokenize

CHINESE = ["数据出境安全评估办法", "个人信息保护法", "面包为什么会发酵", "个人出境旅游的签证"]
WORDS = ["cat", "dog", "fish", "bird", "owl", "the", "数据", "出境", "安全", "的"]


def plain(query, documents, k1=1.5, b=0.75):
    """The formula of the docstring, term by term."""
    tokens = [tokenize(text) for text in documents]
    n, mean = len(tokens), sum(map(len, tokens)) / len(tokens)
    scores = []
    for document in tokens:
        counts, score = Counter(document), 0.0
        for token in tokenize(query):
            df = sum(token in other for other in tokens)
            idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
            length = k1 * (1 - b + b * len(document) / mean) if mean else k1
            score += idf * counts[token] / (counts[token] + length) if counts[token] else 0.0
        scores.append(score)
    return scores


def by_index(scores):
    return sorted(range(len(scores)), key=lambda i: (-round(scores[i], 10), i))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    st.sampled_from([(1.5, 0.75), (0.9, 0.4), (0.0, 0.75), (1.2, 0.0), (2.0, 1.0)]),
)
def test_scores_are_those_of_the_plain_formula(documents, query, parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoMatchWarning)
        retriever = BM25Retriever(*parameters).fit(documents)
        scores, hits = retriever.scores(query), retriever.search(query, k=99)
    expected = plain(query, documents, *parameters)
    assert scores.dtype == np.float64
    assert scores == pytest.approx(expected, abs=1e-6)
    full = [i for i in by_index(expected) if documents[i]]
    assert hits.indices.tolist() == full + [i for i, text in enumerate(documents) if not text]
    assert hits.scores.tolist() == scores[hits.indices].tolist()


def test_a_score_worked_out_by_hand():
    # Two of three documents hold cat; mean length 2; "cat cat dog" has length 3.
    scores = BM25Retriever().fit(["cat cat dog", "cat dog", "fish"]).scores("cat")
    idf = math.log(1 + 1.5 / 2.5)
    assert scores == pytest.approx([idf * 2 / (2 + 1.5 * 1.375), idf / 2.5, 0], abs=1e-12)


def test_hard_case_9_chinese_is_cut_into_words():
    retriever = BM25Retriever().fit(CHINESE)
    assert retriever.search("数据如何出境", k=2).indices.tolist() == [0, 3]
    assert retriever.scores("数据如何出境") == pytest.approx(plain("数据如何出境", CHINESE))
    assert retriever.tokens(0) == tokenize(CHINESE[0])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("photosynthesis chlorophyll", r"tokens \(photosynthesis, chlorophyll\) occurs in the 4"),
        ("为什么是的", "no token, only stop words"),
        ("的 2024!", "no token, only stop words"),
    ],
)
def test_hard_case_9_an_all_zero_score_list_warns_with_the_query_and_the_reason(query, reason):
    retriever = BM25Retriever().fit(CHINESE)
    with pytest.warns(NoMatchWarning, match=reason) as caught:
        scores = retriever.scores(query)
    assert repr(query) in str(caught[0].message)
    assert caught[0].filename == __file__
    assert scores.tolist() == [0, 0, 0, 0]
    with pytest.warns(NoMatchWarning) as caught:
        hits = retriever.search(query, k=3)
    assert caught[0].filename == __file__
    assert hits.indices.tolist() == [0, 1, 2]
    with pytest.warns(NoMatchWarning) as caught:
        retriever.search_all([query, "数据", query])
    assert [warning.filename for warning in caught] == [__file__] * 2


def test_a_query_of_which_one_token_occurs_does_not_warn():
    retriever = BM25Retriever().fit(CHINESE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert retriever.scores("photosynthesis 数据").any()


def test_hard_case_5_traditional_and_simplified_find_each_other():
    retriever = BM25Retriever().fit([*CHINESE, "數據出境安全評估辦法"])
    assert retriever.scores("數據出境").tolist() == retriever.scores("数据出境").tolist()
    assert retriever.search("数据出境", k=2).indices.tolist() == [0, 4]


def test_hard_case_12_empty_documents_come_after_all_others():
    retriever = BM25Retriever().fit(["", "the of", " \n", "cat", "\u200b", "dog"])
    hits = retriever.search("cat", k=9)
    assert hits.indices.tolist() == [3, 1, 5, 0, 2, 4]
    assert hits.scores[1:].tolist() == [0] * 5
    assert retriever.search("cat", k=4).indices.tolist() == [3, 1, 5, 0]


def test_hard_case_14_length_alone_does_not_win():
    on_topic = "bread rises because yeast makes gas in the dough"
    long, short = "boiler pressure valve " * 2000, "boiler"
    hits = BM25Retriever().fit([long, short, on_topic]).search("why does bread rise with yeast")
    assert hits.indices[0] == 2


def test_hard_case_17_bounds_of_k():
    retriever = BM25Retriever().fit(["cat", "dog"])
    assert retriever.search("dog", k=99).indices.tolist() == [1, 0]
    assert retriever.search("dog", k=np.int64(1)).indices.tolist() == [1]
    assert BM25Retriever().fit(["bird"]).search("bird").indices.tolist() == [0]
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"k is {k}"):
            retriever.search("dog", k=k)
        with pytest.raises(ValueError, match=f"k is {k}"):
            retriever.search_all([], k=k)
    with pytest.raises(TypeError, match="k must be an int"):
        retriever.search("dog", k=1.5)


def test_hard_case_19_equal_documents_tie_by_index_whatever_the_order_of_their_words():
    rng = np.random.default_rng(4)
    words = [f"word{i}" for i in range(9)]
    documents = [" ".join(rng.permutation(words)) for _ in range(40)] + ["word1", "other text"]
    hits = BM25Retriever().fit(documents).search(" ".join(words), k=40)
    assert hits.indices.tolist() == list(range(40))
    assert len(set(hits.scores.tolist())) == 1
    with pytest.raises(ValueError, match="duplicate document id 'x'"):
        BM25Retriever().fit([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}])


def test_documents_whose_parts_add_up_to_the_same_tie_whatever_the_order_of_summation():
    words = ["cat", "dog", "fish", "bird"]
    documents = [
        " ".join(word for word, count in zip(words, counts, strict=True) for _ in range(count))
        for counts in itertools.permutations((1, 2, 3, 5))
    ]
    hits = BM25Retriever().fit(documents).search(" ".join(words), k=99)
    assert hits.indices.tolist() == list(range(24))


def test_a_repeated_query_word_counts_as_often_as_it_is_said_and_weights_do_the_same():
    retriever = BM25Retriever().fit(["cat dog", "dog fish", "bird"])
    twice = retriever.scores("cat cat dog")
    assert twice == pytest.approx(2 * retriever.scores("cat") + retriever.scores("dog"))
    assert twice.tolist() == retriever.scores({"cat": 2, "dog": np.float32(1)}).tolist()
    hits = retriever.search({"fish": 5.0, "cat": 0.0}, k=1)
    assert hits.indices.tolist() == [1]
    with pytest.warns(NoMatchWarning, match="weighted query"):
        assert not retriever.scores({"cat": 0.0}).any()
    with pytest.warns(NoMatchWarning, match="no token"):
        assert not retriever.scores({}).any()


@pytest.mark.parametrize("scale", [1e-300, 1e-13, 1e99])
def test_the_scale_of_the_weights_does_not_change_the_order(scale):
    retriever = BM25Retriever().fit(["cat dog fish", "dog fish", "cat owl", "bird"])
    expected = retriever.search({"cat": 1.0, "fish": 0.5})
    scaled = retriever.search({"cat": scale, "fish": 0.5 * scale})
    assert scaled.indices.tolist() == expected.indices.tolist()
    assert scaled.scores == pytest.approx(scale * expected.scores, rel=1e-9, abs=0)


def test_search_all_is_search_for_each_query():
    retriever = BM25Retriever().fit(CHINESE)
    queries = ["出境", "个人信息"]
    several = retriever.search_all((q for q in queries), k=2)
    assert all(isinstance(hits, Hits) for hits in several)
    for query, hits in zip(queries, several, strict=True):
        one = retriever.search(query, k=2)
        assert hits.indices.tolist() == one.indices.tolist()
        assert hits.scores.tolist() == one.scores.tolist()
    assert retriever.search_all([]) == []


def test_candidates_and_scores_feed_the_reranker():
    class Letters:
        fingerprint, dimension = "letters", 26

        def encode(self, texts, role="document"):
            return [[text.count(chr(97 + i)) + 0.1 for i in range(26)] for text in texts]

    documents = [
        {"id": "a", "title": None, "text": "boiler pressure"},
        {"id": "b", "title": "Bread", "text": "yeast makes gas", "vector": np.ones(26)},
        {"id": "c", "text": "bread and water", "extra": 1},
    ]
    retriever = BM25Retriever().fit(documents)
    reranker = cr.CausalReranker(Letters(), method="similarity")
    whole = reranker.rank("bread yeast", documents, scores=retriever.scores("bread yeast"))
    hits = retriever.search("bread yeast", k=2)
    candidates = retriever.candidates(hits)
    top = reranker.rank("bread yeast", candidates, scores=hits.scores)
    assert [ranked.doc_id for ranked in whole] == ["b", "c", "a"]
    assert [ranked.doc_id for ranked in top] == ["b", "c"]
    assert [ranked.base for ranked in top] == hits.scores.tolist()
    assert top[0].text == "Bread yeast makes gas"
    assert top[1].document["document"] is documents[2]
    assert ("vector" in candidates[0], "vector" in candidates[1]) == (True, False)


def test_fitting_again_replaces_the_documents_and_progress_counts_them():
    calls = []
    retriever = BM25Retriever().fit(["cat"] * 250, progress=lambda *call: calls.append(call))
    assert calls == [(100, 250), (200, 250), (250, 250)]
    assert len(retriever) == 250
    assert retriever.fit(text for text in ["dog", "cat"]) is retriever
    assert retriever.scores("dog").tolist()[1] == 0
    assert len(retriever) == 2


@pytest.mark.parametrize("documents", [["", "  "], ["the of", "的了"]])
def test_documents_without_a_token_score_zero(documents):
    retriever = BM25Retriever().fit(documents)
    with pytest.warns(NoMatchWarning):
        assert retriever.search("cat").indices.tolist() == [0, 1]


def test_no_documents_give_no_hits_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(BM25Retriever().fit([]).search("cat").indices) == 0


def test_unusable_calls_are_refused():
    retriever = BM25Retriever()
    for call in (retriever.scores, retriever.search, retriever.search_all, retriever.tokens, len):
        with pytest.raises(RuntimeError, match="call fit"):
            call(retriever) if call is len else call(["cat"] if "all" in call.__name__ else "cat")
    retriever.fit(["cat"])
    for query, error in (("", ValueError), (" \u200b", ValueError), (None, TypeError)):
        with pytest.raises(error, match="query"):
            retriever.search(query)
    with pytest.raises(TypeError, match="use search"):
        retriever.search_all("cat")
    for weights, error in (
        ({"cat": -1}, ValueError),
        ({"cat": math.nan}, ValueError),
        ({"cat": math.inf}, ValueError),
        ({"cat": 1e101}, ValueError),
        ({"cat": "x"}, TypeError),
        ({3: 1.0}, TypeError),
    ):
        with pytest.raises(error, match=r"cat|3"):
            retriever.scores(weights)
    for options, error in (
        ({"k1": -0.1}, ValueError),
        ({"k1": math.inf}, ValueError),
        ({"k1": math.nan}, ValueError),
        ({"b": 1.1}, ValueError),
        ({"b": None}, TypeError),
        ({"k1": True}, TypeError),
    ):
        with pytest.raises(error, match=next(iter(options))):
            BM25Retriever(**options)


def test_loading_is_late_and_nothing_is_logged_or_drawn_even_at_debug_level():
    code = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG)\n"
        "handlers = list(logging.root.handlers)\n"
        "from causalrag.retrieve import BM25Retriever\n"
        "assert 'bm25s' not in sys.modules\n"
        "BM25Retriever().fit(['cat', 'dog']).search('cat')\n"
        "assert 'bm25s' in sys.modules\n"
        "assert logging.root.level == logging.DEBUG and logging.root.handlers == handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_level_that_the_caller_set_is_left_alone():
    BM25Retriever().fit(["cat"])
    logger = logging.getLogger("bm25s")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        BM25Retriever().fit(["cat"])
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)


@settings(max_examples=60, deadline=None)
@given(
    documents=st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
)
def test_a_documents_own_text_scores_as_the_document(documents, query):
    fitted = BM25Retriever().fit(documents)
    if not any(map(tokenize, documents)):
        with pytest.raises(ValueError, match="hold no token"):
            fitted.scores_of(query, documents)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoMatchWarning)
        own = fitted.scores(query)
    assert fitted.scores_of(query, documents) == pytest.approx(own, abs=1e-9)


def test_a_text_from_outside_changes_no_statistics():
    fitted = BM25Retriever().fit(["cat dog", "dog fish fish"])
    found = fitted.scores_of("cat fish", ["cat cat cat", "owl", ""])
    assert found[0] > fitted.scores("cat fish")[0]
    assert found[1:].tolist() == [0.0, 0.0]
    assert fitted.fit(["cat", "cat"]).scores_of("cat", ["cat"]) == fitted.scores("cat")[:1]
