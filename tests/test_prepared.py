"""What is remembered of texts: rows and products that give B's length, within a bound."""

import copy
import pickle
import threading

import numpy as np
import pytest
from reranking import HashEncoder

import causalrag as cr
from causalrag.prepared import PAIRED_TERMS, KnownTexts, Prepared, prepare
from causalrag.termtable import TermTable

ENCODER = HashEncoder()


def encode(terms):
    return ENCODER.encode(terms, "term")


def blank(size):
    return Prepared(cr.Keywords(), 0, numbers=np.zeros((1, size)))


def test_rows_weights_and_products_are_those_of_the_sorted_terms():
    words, table = cr.Keywords({"b": 3.0, "c": 2.0, "a": 1.0}), TermTable()
    table.rows(["z", "c"], encode)
    (prepared,) = prepare([words], table, encode)
    terms, weights = ["a", "b", "c"], np.array([1.0, 3.0, 2.0])
    assert (prepared.keywords, prepared.size) == (words, 3)
    assert np.array_equal(prepared.numbers.view(np.int64)[0], table.find(terms))
    assert np.array_equal(prepared.numbers[1], weights)
    weighted = encode(terms).astype(float) * weights[:, np.newaxis]
    assert prepared.numbers[2:] == pytest.approx(weighted @ weighted.T, abs=1e-12)


def test_equal_keywords_have_equal_order_whatever_their_weights():
    table = TermTable()
    one, two = prepare(
        [cr.Keywords({"a": 9.0, "b": 1.0}), cr.Keywords({"a": 1.0, "b": 9.0})], table, encode
    )
    assert np.array_equal(one.numbers.view(np.int64)[0], two.numbers.view(np.int64)[0])


def test_a_text_with_many_keywords_keeps_no_products():
    few, many, none = (
        cr.Keywords({f"t{i}": 1.0 for i in range(size)})
        for size in (PAIRED_TERMS, PAIRED_TERMS + 1, 0)
    )
    prepared = prepare([few, many, none], TermTable(), encode)
    assert [len(each.numbers) for each in prepared] == [PAIRED_TERMS + 2, 2, 2]
    assert [each.size for each in prepared] == [PAIRED_TERMS, PAIRED_TERMS + 1, 0]


def test_the_number_of_texts_and_their_bytes_are_bounded_and_the_first_go_first():
    texts = KnownTexts(max_texts=3, max_bytes=400)
    for name in "abcd":
        texts.put(name, blank(10))
    assert [name for name in "abcd" if texts.get(name)] == ["b", "c", "d"]
    texts.put("e", blank(31))
    assert [name for name in "bcde" if texts.get(name)] == ["d", "e"]
    assert (len(texts), texts.nbytes) == (2, 328)
    texts.put("e", blank(10))  # in place of what was known
    assert (len(texts), texts.nbytes) == (2, 160)
    texts.put("f", blank(1000))  # more than there is room for
    assert (len(texts), texts.nbytes) == (0, 0)


def test_a_copy_starts_empty_and_keeps_the_bounds():
    texts = KnownTexts(max_texts=3, max_bytes=400)
    texts.put("a", blank(1))
    for again in (copy.deepcopy(texts), pickle.loads(pickle.dumps(texts))):
        assert (len(again), again.max_texts, again.max_bytes) == (0, 3, 400)
    reranker = cr.CausalReranker(ENCODER, cr.TfidfKeywords.fit(["gas yeast"]), method="causal")
    reranker.rank("yeast", ["gas", "rye"])
    again = copy.deepcopy(reranker).rank("yeast", ["gas", "rye"])
    assert [r.score for r in again] == [r.score for r in reranker.rank("yeast", ["gas", "rye"])]


def test_threads_keep_the_count_right():
    texts = KnownTexts(max_texts=50, max_bytes=10**6)
    start = threading.Barrier(4)

    def work(number):
        start.wait()
        for turn in range(2000):
            texts.put(f"{(number * turn) % 70}", blank(turn % 9))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [texts.get(str(i)) for i in range(70)]
    assert len(texts) == 50 == len([each for each in kept if each])
    assert texts.nbytes == sum(each.numbers.nbytes for each in kept if each)
