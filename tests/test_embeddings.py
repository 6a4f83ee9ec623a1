"""The cache of vectors: nothing is encoded twice, nothing damaged is read, nothing is lost."""

import hashlib
import io
import subprocess
import sys
import threading

import numpy as np
import pytest
from reranking import HashEncoder

import causalrag as cr
from causalrag import embeddings
from causalrag.embeddings import DamagedPartWarning, EmbeddingCache


class Counting(HashEncoder):
    """Counts the texts that reach the model; breaks at the text "break"."""

    def __init__(self, **options):
        super().__init__(**options)
        self.name = "counting"
        self.seen, self.batches = [], []

    def encode(self, texts, role="document"):
        if "break" in texts:
            raise ValueError("broken at a text")
        self.seen += [(role, text) for text in texts]
        self.batches.append(len(texts))
        return super().encode(texts, role)


@pytest.fixture
def model():
    return Counting()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of two, each a part of its own."""
    monkeypatch.setattr(embeddings, "BATCH", 2)
    monkeypatch.setattr(embeddings, "PART_SECONDS", 0.0)


TEXTS = ["one", "three", "two", "one", "", "数据出境", "e\u0301"]


def parts(folder):
    return sorted(folder.rglob("*.npy"))


def test_vectors_are_those_of_the_encoder_and_each_text_is_encoded_once(tmp_path, model):
    cache = EmbeddingCache(tmp_path, model)
    found = cache.encode(TEXTS)
    assert (found.dtype, found.shape) == (np.float32, (7, 6))
    assert np.array_equal(found, cr.load_encoder(HashEncoder()).encode(TEXTS))
    assert sorted(model.seen) == sorted({("document", text) for text in TEXTS})
    assert cache.encode(iter(TEXTS)).tobytes() == found.tobytes()
    later = EmbeddingCache(tmp_path, model).encode(TEXTS)  # another process
    assert later.tobytes() == found.tobytes()
    assert len(model.seen) == 6


def test_a_text_is_another_entry_in_another_role(tmp_path, model):
    cache = EmbeddingCache(tmp_path, model)
    rows = [cache.encode(["one"], role)[0] for role in ("document", "query", "term")]
    expected = [HashEncoder().vector("one", role) for role in ("document", "query", "term")]
    assert np.allclose(rows, expected)
    # No text can pass for another role's.
    cache.encode(["query\none"], "document")
    assert len(model.seen) == 4


def test_corpora_that_share_texts_share_vectors(tmp_path, model):
    EmbeddingCache(tmp_path, model).encode(["one", "two", "own"])
    EmbeddingCache(tmp_path, model).encode(["two", "one", "other"])
    assert [text for _, text in model.seen].count("one") == 1
    assert len(model.seen) == 4


def test_encoders_of_other_fingerprints_do_not_share(tmp_path):
    first, second = Counting(seed=0), Counting(seed=1)
    one = EmbeddingCache(tmp_path, first)
    two = EmbeddingCache(tmp_path, second)
    assert not np.allclose(one.encode(["one"]), two.encode(["one"]))
    assert one.folder != two.folder
    assert one.folder.parent == two.folder.parent == tmp_path


def test_a_name_cannot_leave_the_folder(tmp_path):
    model = Counting()
    model.name = "../../up 上"
    cache = EmbeddingCache(tmp_path / "in", model)
    cache.encode(["one"])
    assert cache.folder.parent == tmp_path / "in"
    assert [p.parent.parent for p in parts(tmp_path)] == [tmp_path / "in"]


def test_it_is_an_encoder_for_retrieval_and_for_the_rule(tmp_path, model):
    cache = EmbeddingCache(tmp_path, model)
    texts = ["yeast makes gas", "flour and water", "gas stoves and gas"]
    plain = cr.CausalReranker(HashEncoder())
    hits = cr.retrieve.DenseRetriever(cache).fit(texts).search("gas", k=3)
    expected = cr.retrieve.DenseRetriever(HashEncoder()).fit(texts).search("gas", k=3)
    assert hits.indices.tolist() == expected.indices.tolist()
    assert np.allclose(hits.scores, expected.scores)
    ranked = cr.CausalReranker(cache).rank("gas", texts)
    assert [p.score for p in ranked] == pytest.approx([p.score for p in plain.rank("gas", texts)])
    encoded = len(model.seen)
    cr.retrieve.DenseRetriever(EmbeddingCache(tmp_path, model)).fit(texts).search("gas", k=3)
    assert len(model.seen) == encoded


def test_new_texts_come_longest_first_and_progress_counts_them_only(tmp_path, model):
    cache = EmbeddingCache(tmp_path, model)
    cache.encode(["bb", "c"])
    told = []
    model.seen.clear()
    cache.encode(
        ["c", "aaa", "bb", "d", "eeeee"], progress=lambda done, total: told.append((done, total))
    )
    assert [text for _, text in model.seen] == ["eeeee", "aaa", "d"]
    assert told == [(2, 3), (3, 3)]
    cache.encode(["c", "aaa"], progress=lambda *_: pytest.fail("there was nothing to encode"))


def test_what_was_encoded_before_an_error_is_kept(tmp_path, model, monkeypatch):
    monkeypatch.setattr(embeddings, "PART_SECONDS", 1e9)
    with pytest.raises(ValueError, match="broken at a text"):
        EmbeddingCache(tmp_path, model).encode(["long one", "longer two", "break", "x"])
    assert len(model.seen) == 2
    EmbeddingCache(tmp_path, model).encode(["long one", "longer two", "x"])
    assert [text for _, text in model.seen] == ["longer two", "long one", "x"]


def test_an_interrupted_run_gives_the_model_the_same_batches(tmp_path):
    texts = [f"{'x' * (n % 7)}{n}" for n in range(9)]
    whole, first, second = Counting(), Counting(), Counting()
    expected = EmbeddingCache(tmp_path / "whole", whole).encode(texts)

    def stop(done, _):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EmbeddingCache(tmp_path / "cut", first).encode(texts, progress=stop)
    found = EmbeddingCache(tmp_path / "cut", second).encode(texts)
    assert found.tobytes() == expected.tobytes()
    assert first.seen + second.seen == whole.seen
    assert first.batches + second.batches == whole.batches


DAMAGE = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "one bit": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "another file": lambda data: b"<html>not found</html>",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_part_is_named_removed_and_made_again(tmp_path, model, damage):
    expected = EmbeddingCache(tmp_path, model).encode(TEXTS)
    broken, *others = parts(tmp_path)
    before = [path.read_bytes() for path in others]
    lost = len(np.load(io.BytesIO(broken.read_bytes())))
    broken.write_bytes(DAMAGE[damage](broken.read_bytes()))
    encoded = len(model.seen)
    with pytest.warns(DamagedPartWarning, match=f"{broken.name} is damaged .*computed anew"):
        found = EmbeddingCache(tmp_path, model).encode(TEXTS)
    assert found.tobytes() == expected.tobytes()
    assert len(model.seen) == encoded + lost
    assert [path.read_bytes() for path in others] == before
    assert EmbeddingCache(tmp_path, model).encode(TEXTS).tobytes() == expected.tobytes()
    assert len(model.seen) == encoded + lost


@pytest.mark.parametrize("kind", ["pickle", "other fields", "plain numbers"])
def test_no_part_of_another_form_is_read_even_under_its_own_checksum(tmp_path, model, kind):
    cache = EmbeddingCache(tmp_path, model)
    cache.folder.mkdir(parents=True)
    table = {
        "pickle": np.array([{"a": 1}], dtype=object),
        "other fields": np.zeros(1, dtype=[("key", "u1", (32,)), ("vector", "<f8", (6,))]),
        "plain numbers": np.zeros((2, 6), dtype=np.float32),
    }[kind]
    file = io.BytesIO()
    np.save(file, table, allow_pickle=True)
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    (cache.folder / f"{digest}.npy").write_bytes(file.getvalue())
    with pytest.warns(DamagedPartWarning, match=digest):
        assert cache.encode(["one"]).shape == (1, 6)
    assert not (cache.folder / f"{digest}.npy").exists()


def test_vectors_of_another_dimension_are_an_error_that_names_the_folder(tmp_path):
    first, second = Counting(size=6), Counting(size=7)
    first.fingerprint = second.fingerprint = "the same"
    EmbeddingCache(tmp_path, first).encode(["one"])
    cache = EmbeddingCache(tmp_path, second)
    with pytest.raises(ValueError, match="of 6 dimensions, but 'counting' gives 7") as caught:
        cache.encode(["two"])
    assert str(cache.folder) in str(caught.value)


def test_a_lone_surrogate_is_a_text_too(tmp_path):
    class Lengths:
        fingerprint = "lengths"

        def encode(self, texts):
            return [[len(text), 1.0] for text in texts]

    found = EmbeddingCache(tmp_path, Lengths()).encode(["a\ud800", "b"])
    assert EmbeddingCache(tmp_path, Lengths()).encode(["a\ud800", "b"]).tolist() == found.tolist()


def test_a_write_that_fails_leaves_no_part(tmp_path, model, monkeypatch):
    from pathlib import Path

    def full(self, data):
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="no space left"):
            EmbeddingCache(tmp_path, model).encode(["one"])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert EmbeddingCache(tmp_path, model).encode(["one"]).shape == (1, 6)


def test_two_runs_at_once_share_a_folder(tmp_path):
    texts = [f"text {n}" for n in range(40)]
    models = [Counting(), Counting()]
    caches = [EmbeddingCache(tmp_path, model) for model in models]
    found = [None, None]

    def work(at):
        found[at] = caches[at].encode(texts)

    threads = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = cr.load_encoder(HashEncoder()).encode(texts)
    assert all(np.array_equal(rows, expected) for rows in found)
    again = Counting()
    assert np.array_equal(EmbeddingCache(tmp_path, again).encode(texts), expected)
    assert again.seen == []
    # What another run wrote meanwhile is found without a new object.
    EmbeddingCache(tmp_path, again).encode(["new"])
    caches[0].encode(["new"])
    assert models[0].seen.count(("document", "new")) == 0


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from reranking import HashEncoder
from causalrag import embeddings
embeddings.BATCH, embeddings.PART_SECONDS = 2, 0.0
cache = embeddings.EmbeddingCache({folder!r}, HashEncoder())
def kill(done, total):
    if done == 6:
        os.kill(os.getpid(), 9)
cache.encode([f"text {{n}}" for n in range(10)], progress=kill)
"""


def test_a_run_that_is_killed_loses_at_most_one_part(tmp_path):
    from pathlib import Path

    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    model = Counting()
    model.name = "HashEncoder"  # as the killed run had it
    cache = EmbeddingCache(tmp_path, model)
    cache.encode([f"text {n}" for n in range(10)])
    assert len(model.seen) == 4


def test_nothing_to_encode_gives_no_rows_and_makes_no_folder(tmp_path, model):
    assert EmbeddingCache(tmp_path / "none", model).encode([]).shape == (0, 6)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("texts", "role", "error"),
    [("one", "document", TypeError), ([None], "document", TypeError), (["a"], "title", ValueError)],
)
def test_what_is_no_text_or_role_is_refused(tmp_path, model, texts, role, error):
    with pytest.raises(error):
        EmbeddingCache(tmp_path, model).encode(texts, role)
    assert model.seen == []


def test_hard_case_10_an_encoder_that_gives_nan_stores_nothing(tmp_path):
    class Broken:
        fingerprint = "broken"

        def encode(self, texts):
            return [[np.nan, 1.0]] * len(texts)

    with pytest.raises(ValueError, match="not finite for the text 'one'"):
        EmbeddingCache(tmp_path, Broken()).encode(["one"])
    assert parts(tmp_path) == []
