"""Exact dense search against a plain sort, in blocks of several sizes and with ties."""

import hashlib
import math
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalrag as cr
from causalrag.retrieve import DenseRetriever, Hits, dense

BLOCKS = [1, 2, 7, 64, 10_000]


class HashEncoder:
    """A random unit vector for each text, the same in every run."""

    fingerprint = "hash-8"
    dimension = 8

    def __init__(self):
        self.seen = []

    def encode(self, texts, role="document"):
        self.seen += [(role, text) for text in texts]
        rows = []
        for text in texts:
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
            rows.append(np.random.default_rng(seed).normal(size=self.dimension))
        return np.array(rows, dtype=np.float32)


def naive(query, documents, k, threshold=None):
    """Sort everything by cosine, then by index; cut; apply the threshold."""
    scores = []
    for row in documents:
        norm = math.sqrt(math.fsum(x * x for x in row) * math.fsum(x * x for x in query))
        dot = math.fsum(float(x) * float(y) for x, y in zip(row, query, strict=True))
        scores.append(dot / norm if norm else 0.0)
    order = sorted(range(len(scores)), key=lambda i: (-round(scores[i], 12), i))[:k]
    return [(i, scores[i]) for i in order if threshold is None or scores[i] >= threshold]


def check(hits, expected):
    assert hits.indices.tolist() == [i for i, _ in expected]
    assert hits.scores == pytest.approx([score for _, score in expected], abs=1e-9)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("k", [1, 5, 200, 999])
@pytest.mark.parametrize("threshold", [None, -0.2, 0.3])
def test_dense_equals_a_plain_sort(block, k, threshold):
    random = np.random.default_rng(5)
    documents, queries = random.normal(size=(200, 8)), random.normal(size=(3, 8))
    found = dense(queries, documents, k, threshold=threshold, block=block)
    for query, hits in zip(queries, found, strict=True):
        check(hits, naive(query, documents, k, threshold))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_documents_tie_by_index_wherever_they_lie(block, dtype):
    random = np.random.default_rng(3)
    distinct = random.normal(size=(5, 33)).astype(dtype)
    documents = distinct[random.integers(5, size=300)]
    query = random.normal(size=33)
    hits = dense(query, documents, 170, block=block)
    check(hits, naive(query, documents.astype(float), 170))
    for score in set(hits.scores.tolist()):
        same = hits.indices[hits.scores == score]
        assert same.tolist() == sorted(same.tolist())
    assert len(set(hits.scores.tolist())) <= 5


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1, max_size=30),
    st.integers(1, 35),
    st.integers(1, 35),
    st.sampled_from([None, -0.5, 0.1, 0.9]),
)
def test_blocks_do_not_change_the_result_even_with_ties_and_zero_vectors(rows, k, block, threshold):
    query = [1.0, 0.5, -0.25]
    hits = dense(query, np.array(rows, dtype=float), k, threshold=threshold, block=block)
    check(hits, naive(query, rows, k, threshold))


def test_scores_that_differ_by_less_than_float32_are_ordered_rightly():
    angles = 0.3 + np.arange(50)[::-1] * 1e-6
    documents = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    hits = dense([1.0, 0.0], documents, 5, block=8)
    assert hits.indices.tolist() == [49, 48, 47, 46, 45]


def test_the_lengths_of_vectors_do_not_matter():
    random = np.random.default_rng(1)
    documents, query = random.normal(size=(20, 4)), random.normal(size=4)
    scales = np.array([1e-200, 1e-30, 1, 1e30, 1e200] * 4)[:, np.newaxis]
    plain, scaled = dense(query, documents, 20), dense(1e-9 * query, documents * scales, 20)
    assert plain.indices.tolist() == scaled.indices.tolist()
    assert plain.scores == pytest.approx(scaled.scores)


def test_the_result_is_the_intersection_of_top_k_and_threshold():
    documents = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]])
    assert dense([1, 0], documents, 2, threshold=0.0).indices.tolist() == [0, 1]
    assert dense([1, 0], documents, 4, threshold=0.7).indices.tolist() == [0, 1]
    assert dense([1, 0], documents, 4, threshold=1.0).indices.tolist() == [0]
    assert dense([1, 0], documents.astype(np.float32), 4, threshold=0.8).indices.tolist() == [0, 1]
    assert dense([-1, -1], documents, 4, threshold=0.7).indices.tolist() == []


def test_one_query_gives_hits_and_several_give_a_list():
    documents = np.eye(3)
    one = dense([0, 1, 0], documents, 2)
    assert isinstance(one, Hits)
    indices, scores = one
    assert (indices.tolist(), scores.tolist()) == ([1, 0], [1.0, 0.0])
    assert [h.indices[0] for h in dense(np.eye(3)[::-1], documents, 1)] == [2, 1, 0]
    assert dense(np.zeros((0, 3)), documents, 1) == []
    assert len(dense([0, 1, 0], np.zeros((0, 3)), 4).indices) == 0
    assert len(dense([0, 1, 0], [], 4).indices) == 0


def test_many_queries_are_screened_in_parts(monkeypatch):
    random = np.random.default_rng(2)
    documents, queries = random.normal(size=(50, 6)), random.normal(size=(9, 6))
    whole = dense(queries, documents, 3)
    # The package's name `dense` is the function, hence the import by name.
    monkeypatch.setattr(import_module("causalrag.retrieve.dense"), "SCREENED_AT_ONCE", 100)
    parts = dense(queries, documents, 3, block=16)
    assert [h.indices.tolist() for h in whole] == [h.indices.tolist() for h in parts]


def test_dense_changes_no_input():
    documents, query = np.arange(12.0).reshape(4, 3), np.ones(3)
    before = documents.copy()
    dense(query, documents, 2)
    assert (documents == before).all()
    assert (query == 1).all()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([1, 0], np.eye(2), 0), {}, ValueError, "k is 0"),
        (([1, 0], np.eye(2), -3), {}, ValueError, "k is -3"),
        (([1, 0], np.eye(2), 1.5), {}, TypeError, "k must be an int"),
        (([1, 0], np.eye(2), 1), {"block": 0}, ValueError, "block is 0"),
        (([1, 0], np.eye(2), 1), {"threshold": math.nan}, ValueError, "threshold is nan"),
        (([1, 0], np.eye(2), 1), {"threshold": "high"}, TypeError, "threshold must be a number"),
        (([1, 0, 0], np.eye(2), 1), {}, ValueError, "3 dimensions, document_vectors 2"),
        (([1, math.nan], np.eye(2), 1), {}, ValueError, "query_vectors hold NaN"),
        (([1, 0], [[1, 0], [math.inf, 0]], 1), {}, ValueError, r"document_vectors\[1\]"),
        (([1, 0], [[1, 0], [0, math.nan]], 1), {"block": 1}, ValueError, r"document_vectors\[1\]"),
        (([1, 0], [1, 0], 1), {}, ValueError, "must have shape"),
        (([1, 0], [["a", "b"]], 1), {}, TypeError, "must hold numbers"),
    ],
)
def test_unusable_arguments_are_refused_by_name(arguments, options, error, message):
    with pytest.raises(error, match=message):
        dense(*arguments, **options)


# DenseRetriever


def test_search_equals_a_plain_sort_of_the_encoded_texts():
    texts = [f"text {i}" for i in range(40)]
    encoder = HashEncoder()
    retriever = DenseRetriever(encoder).fit(texts)
    query = encoder.encode(["find it"])[0]
    expected = naive(query, encoder.encode(texts), 7)
    hits = retriever.search("find it", k=7)
    assert hits.indices.tolist() == [i for i, _ in expected]
    assert hits.scores == pytest.approx([score for _, score in expected], abs=1e-6)
    assert len(retriever.search("find it", k=7, threshold=0.3).indices) == sum(
        score >= 0.3 for _, score in expected
    )
    several = retriever.search_all(["find it", "lose it"], k=7)
    assert several[0].indices.tolist() == hits.indices.tolist()
    assert retriever.search_all([]) == []


def test_hard_case_17_bounds_of_k():
    retriever = DenseRetriever(HashEncoder()).fit(["a", "b"])
    assert sorted(retriever.search("q", k=99).indices.tolist()) == [0, 1]
    assert len(DenseRetriever(HashEncoder()).fit(["only"]).search("q").indices) == 1
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"k is {k}"):
            retriever.search("q", k=k)


def test_hard_case_12_empty_documents_come_after_all_content():
    class Opposed(HashEncoder):
        fingerprint = "opposed"

        def encode(self, texts, role="document"):
            return np.full((len(texts), 8), 1.0 if role == "query" else -1.0)

    retriever = DenseRetriever(Opposed()).fit(["", "a", " \n", "b", "\u200b"])
    hits = retriever.search("q", k=9)
    assert hits.indices.tolist() == [1, 3, 0, 2, 4]
    assert (np.diff(hits.scores) <= 0).all()
    assert retriever.search("q", k=3).indices.tolist() == [1, 3, 0]
    assert retriever.search("q", k=2).indices.tolist() == [1, 3]
    assert retriever.search("q", k=9, threshold=0.5).indices.tolist() == []


def test_hard_case_19_equal_texts_are_encoded_once_and_tie_by_index():
    encoder = HashEncoder()
    texts = ["same", "other", "same", "same"] * 5
    retriever = DenseRetriever(encoder).fit(texts, batch=3)
    assert sorted(text for role, text in encoder.seen if role == "document") == ["other", "same"]
    found = retriever.search("same", k=15)
    assert found.indices.tolist() == [i for i in range(20) if i % 4 != 1]
    assert set(found.scores.tolist()) == {1.0}
    with pytest.raises(ValueError, match="duplicate document id 'x'"):
        DenseRetriever(encoder).fit([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}])


def test_candidates_and_scores_feed_the_reranker_without_encoding_documents_again():
    encoder = HashEncoder()
    documents = [{"id": f"d{i}", "title": "On", "text": f"gas yeast word{i}"} for i in range(30)]
    retriever = DenseRetriever(encoder).fit(documents)
    hits = retriever.search("yeast", k=10)
    candidates = retriever.candidates(hits)
    encoder.seen.clear()
    reranker = cr.CausalReranker(retriever.encoder, method="similarity")
    with_scores = reranker.rank("yeast", candidates, scores=hits.scores)
    from_vectors = reranker.rank("yeast", candidates)
    assert not [role for role, _ in encoder.seen if role == "document"]
    assert [r.doc_id for r in with_scores] == [f"d{i}" for i in hits.indices]
    assert [r.doc_id for r in from_vectors] == [r.doc_id for r in with_scores]
    assert [r.base for r in from_vectors] == pytest.approx(hits.scores.tolist(), abs=1e-6)
    assert with_scores[0].text == "On " + documents[hits.indices[0]]["text"]
    assert with_scores[0].document["document"] is documents[hits.indices[0]]


def test_precomputed_vectors_are_used_and_progress_counts_what_is_encoded():
    encoder = HashEncoder()
    vector = encoder.encode(["find"])[0] * 3
    encoder.seen.clear()
    calls = []
    documents = ["a", {"text": "b", "vector": vector}, "c", "d", "a"]
    retriever = DenseRetriever(encoder).fit(documents, batch=2, progress=lambda *c: calls.append(c))
    assert sorted(text for _, text in encoder.seen) == ["a", "c", "d"]
    assert calls == [(2, 3), (3, 3)]
    hits = retriever.search("find", k=1)
    assert (hits.indices.tolist(), hits.scores.tolist()) == ([1], [pytest.approx(1)])


def test_unusable_calls_are_refused():
    retriever = DenseRetriever(HashEncoder())
    with pytest.raises(RuntimeError, match="call fit"):
        retriever.search("q")
    retriever.fit(["a"])
    for query, error in (("", ValueError), (None, TypeError)):
        with pytest.raises(error, match="query"):
            retriever.search(query)
    with pytest.raises(TypeError, match="use search"):
        retriever.search_all("q")
    with pytest.raises(ValueError, match=r"documents\[0\].* 3 dimensions, expected 8"):
        retriever.fit([{"text": "a", "vector": [1.0, 0.0, 0.0]}])
    assert len(DenseRetriever(HashEncoder()).fit([]).search("q").indices) == 0
