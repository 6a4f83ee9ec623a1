"""Chunks cover a text without waste; a pooled vector is the unit mean of its chunks' vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalrag import encoders
from causalrag.chunks import chunk, mean_pool, pooled_vectors


class Letters:
    """Counts of a, b and c; remembers what it was given."""

    name, dimension = "letters", 3

    def __init__(self):
        self.calls = []

    def encode(self, texts, role="document"):
        self.calls.append((list(texts), role))
        return np.array([[text.count(c) for c in "abc"] for text in texts], dtype=np.float32)


def unit(vector):
    return np.asarray(vector) / np.linalg.norm(vector)


# --- chunks ---------------------------------------------------------------------------------------


@given(st.text(max_size=60), st.integers(1, 20), st.data())
def test_chunks_cover_the_text_in_order_and_each_brings_something_new(text, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    parts = chunk(text, size, overlap)
    step = size - overlap
    assert all(text[i * step : i * step + size] == part for i, part in enumerate(parts))
    assert "".join([parts[0], *(p[overlap:] for p in parts[1:])] if parts else []) == text
    assert all(len(part) > overlap for part in parts[1:])  # none lies inside the one before
    assert all(len(part) == size for part in parts[:-1])
    assert all(parts)


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, []), (1, [1]), (4096, [4096]), (4097, [4096, 513]), (7680, [4096, 4096]), (7681, 3)],
)
def test_the_paper_s_sizes_are_the_default(length, expected):
    lengths = [len(part) for part in chunk("字" * length)]
    assert (lengths if isinstance(expected, list) else len(lengths)) == expected


def test_characters_are_counted_not_bytes():
    assert chunk("数据🙂出境", 3, 1) == ["数据🙂", "🙂出境"]


@pytest.mark.parametrize(
    ("size", "overlap", "error", "message"),
    [
        (0, 0, ValueError, "size is 0; a chunk has at least 1"),
        (10, 10, ValueError, "overlap is 10; it must be from 0 to size - 1 = 9"),
        (10, -1, ValueError, "overlap is -1"),
        (512.0, 0, TypeError, "size must be an int, not float"),
        (10, True, TypeError, "overlap must be an int, not bool"),
        (None, 0, TypeError, "size must be an int, not NoneType"),
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(size, overlap, error, message):
    with pytest.raises(error, match=message):
        chunk("text", size, overlap)
    with pytest.raises(error, match=message):
        pooled_vectors([], Letters(), size, overlap)


def test_what_is_no_text_is_refused():
    with pytest.raises(TypeError, match="text must be a str, not NoneType"):
        chunk(None)
    with pytest.raises(TypeError, match="texts must be a list of strings, not str"):
        pooled_vectors("one text", Letters())
    with pytest.raises(TypeError, match="text must be a str, not bytes"):
        pooled_vectors([b"x"], Letters())


# --- pooling --------------------------------------------------------------------------------------


def test_a_text_of_two_chunks_has_the_unit_mean_of_their_unit_vectors():
    (row,) = pooled_vectors(["aaaab"], Letters(), size=4, overlap=0)
    # aaaa weighs as much as b: the mean is over chunks, not over characters.
    np.testing.assert_allclose(row, unit([1, 1, 0]), atol=1e-7)
    assert row.dtype == np.float32


def test_each_text_gets_its_own_chunks():
    texts = ["aab", "", "c", "bbbcc", "aab"]
    rows = pooled_vectors(texts, Letters(), size=3, overlap=1)
    alone = [pooled_vectors([text], Letters(), size=3, overlap=1)[0] for text in texts]
    np.testing.assert_array_equal(rows, alone)
    np.testing.assert_allclose(rows[3], unit([0, *(unit([3, 0]) + unit([1, 2]))]), atol=1e-7)


def test_a_text_cut_in_one_chunk_equals_plain_encoding():
    texts = ["如何评估数据出境的安全", "数据出境的安全如何评估", "Fire safety in warehouses."]
    plain = encoders.load_encoder("use").encode(texts)
    np.testing.assert_array_equal(pooled_vectors(texts, "use"), plain)
    assert not np.allclose(pooled_vectors(texts, "use", size=5, overlap=2), plain, atol=1e-3)


def test_texts_without_a_chunk_and_chunks_that_cancel_give_a_zero_row():
    rows = mean_pool([[1, 0], [-1, 0], [0, 1]], [2, 0, 1])
    np.testing.assert_array_equal(rows, [[0, 0], [0, 0], [0, 1]])
    assert pooled_vectors(["", ""], Letters()).tolist() == [[0, 0, 0]] * 2
    assert pooled_vectors([], Letters()).shape == (0, 3)


def test_a_zero_chunk_does_not_turn_the_mean():
    np.testing.assert_array_equal(mean_pool([[0, 0], [0.6, 0.8]], [2]), np.float32([[0.6, 0.8]]))


@pytest.mark.parametrize("counts", [[2], [2, 2], [4, -1]])
def test_counts_that_do_not_fit_are_refused(counts):
    with pytest.raises(ValueError, match=f"the counts sum to {sum(counts)} for 3 vectors"):
        mean_pool(np.eye(3), [*counts])


def test_a_matrix_is_wanted():
    with pytest.raises(ValueError, match=r"one row per chunk; their shape is \(3,\)"):
        mean_pool([1, 2, 3], [3])


def test_chunks_are_encoded_once_as_documents_and_progress_is_told():
    model, told = Letters(), []
    texts = ["ab" * i for i in range(1, 41)] * 2
    pooled_vectors(texts, model, progress=lambda done, total: told.append((done, total)))
    given = [text for batch, _ in model.calls for text in batch]
    assert sorted(given) == sorted(set(texts))
    assert {role for _, role in model.calls} == {"document"}
    assert told == [(32, 40), (40, 40)]


def test_another_function_may_encode_the_chunks():
    model, asked = Letters(), []

    def encode(texts, role, progress):
        asked.append((list(texts), role, progress))
        return encoders.load_encoder(Letters()).encode(texts, role)

    def progress(done, total):
        pass

    rows = pooled_vectors(["aaab", "b"], model, 3, 0, progress=progress, encode=encode)
    np.testing.assert_array_equal(rows, pooled_vectors(["aaab", "b"], model, 3, 0))
    assert asked == [(["aaa", "b"], "document", progress)]


def test_a_function_that_loses_a_chunk_is_refused():
    with pytest.raises(ValueError, match=r"encode gave shape \(1, 3\) for 2 chunks"):
        pooled_vectors(["aaab"], Letters(), 3, 0, encode=lambda texts, **_: np.ones((1, 3)))
