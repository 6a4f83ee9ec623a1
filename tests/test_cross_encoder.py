"""Cross-encoders: the contract of the scores for any object, and the real code on tiny models."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_models import QUERY, TEXTS, cached, copied, logits, needs, tiny

import causalrag as cr
from causalrag import _weights
from causalrag.cross_encoder import CrossEncoderAdapter, load_cross_encoder
from causalrag.encoders import UnknownEncoderError


class Counts:
    """Scores a text by its length and remembers what it was shown."""

    def __init__(self, shape=None, value=None):
        self.shape, self.value, self.seen = shape, value, []

    def predict(self, pairs):
        self.seen.append(pairs)
        scores = [float(len(text)) if self.value is None else self.value for _, text in pairs]
        return scores if self.shape is None else np.reshape(scores, self.shape(len(scores)))


# --- the contract, for any object ---------------------------------------------------------------


def test_scores_are_float64_in_the_callers_order_and_pairs_hold_query_and_text():
    model = Counts()
    scores = load_cross_encoder(model).scores(QUERY, TEXTS)
    assert (scores.dtype, scores.shape) == (np.float64, (3,))
    assert scores.tolist() == [len(text) for text in TEXTS]
    assert model.seen == [[(QUERY, text) for text in TEXTS]]


@pytest.mark.parametrize("shape", [lambda n: (), lambda n: (n,), lambda n: (n, 1)])
def test_a_single_pair_gives_an_array_whatever_the_model_returns(shape):  # hard case 20
    assert load_cross_encoder(Counts(shape)).scores(QUERY, ["four"]).tolist() == [4.0]


def test_no_documents_give_an_empty_array_and_the_model_is_not_asked():
    model = Counts()
    scores = load_cross_encoder(model).scores(QUERY, [])
    assert (scores.dtype, scores.shape, model.seen) == (np.float64, (0,), [])


def test_a_blank_text_is_not_shown_to_the_model_and_stands_below_all_others():  # hard case 12
    model = Counts()
    scores = load_cross_encoder(model).scores(QUERY, ["", "abc", " \u200b\n", "ab"])
    assert scores.tolist() == [1.0, 3.0, 1.0, 2.0]
    assert [text for _, text in model.seen[0]] == ["abc", "ab"]
    assert load_cross_encoder(model).scores(QUERY, ["", " "]).tolist() == [0.0, 0.0]


def test_equal_texts_are_scored_once_and_tie_exactly():  # hard case 19
    model = Counts()
    scores = load_cross_encoder(model).scores(QUERY, ["same", "other", "same"])
    assert scores[0] == scores[2]
    assert len(model.seen[0]) == 2


def test_documents_are_read_as_the_reranker_reads_them():
    model = Counts()
    load_cross_encoder(model).scores(QUERY, [{"title": "On", "text": "bread"}, "plain"])
    assert [text for _, text in model.seen[0]] == ["On bread", "plain"]


def test_batches_do_not_change_the_scores_and_report_progress():
    model, told = Counts(), []
    texts = [*TEXTS, "", TEXTS[0], "x"]
    cross = load_cross_encoder(model)
    scores = cross.scores(QUERY, texts, batch=3, progress=lambda *n: told.append(n))
    assert scores.tolist() == cross.scores(QUERY, texts).tolist()
    assert told == [(3, 4), (4, 4)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_not_finite_names_the_text(value):
    with pytest.raises(ValueError, match=rf"{value} for documents\[1\].*'Bread is'"):
        load_cross_encoder(Counts(value=value)).scores(QUERY, ["", "Bread is"])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0], r"shape \(1,\) for 3 pairs"),
        ([[0.1, 0.9]] * 3, "2 values per pair"),
        (["a", "b", "c"], "not a number per pair"),
        (None, r"shape \(\) for 3 pairs"),
    ],
)
def test_what_is_not_one_number_per_pair_is_refused(returned, message):
    model = Counts()
    model.predict = lambda pairs: returned
    with pytest.raises(ValueError, match=message):
        load_cross_encoder(model).scores(QUERY, TEXTS)


@pytest.mark.parametrize(
    ("query", "documents", "batch", "error"),
    [
        ("  ", TEXTS, 8, ValueError),
        (None, TEXTS, 8, TypeError),
        (QUERY, "one text", 8, TypeError),
        (QUERY, None, 8, TypeError),
        (QUERY, [3], 8, TypeError),
        (QUERY, TEXTS, 0, ValueError),
        (QUERY, TEXTS, 1.5, TypeError),
    ],
)
def test_unusable_arguments_are_refused(query, documents, batch, error):
    with pytest.raises(error):
        load_cross_encoder(Counts()).scores(query, documents, batch)


def test_scores_serve_as_the_first_stage_and_the_hybrid_builds_on_them():
    documents = ["", *TEXTS]
    scores = load_cross_encoder(Counts()).scores(QUERY, documents)
    ranking = cr.CausalReranker("use", method="similarity").rank(QUERY, documents, scores)
    assert [place.index for place in ranking] == [3, 2, 1, 0]
    assert [place.base for place in ranking][:3] == [26.0, 20.0, 16.0]
    hybrid = cr.CausalReranker("use", method="hybrid").rank(QUERY, documents, scores)
    assert {place.index: place.base for place in hybrid} == dict(enumerate(scores))


def test_name_and_fingerprint_are_the_models_own_or_follow_its_scores():
    class Own(Counts):
        name, fingerprint = "own", "own:1"

    own, probed = load_cross_encoder(Own()), load_cross_encoder(Counts())
    assert (own.name, own.fingerprint, repr(own)) == ("own", "own:1", "<cross-encoder own>")
    assert probed.fingerprint == load_cross_encoder(Counts()).fingerprint
    assert probed.fingerprint.startswith("test_cross_encoder.Counts:Counts:")
    assert probed.fingerprint != load_cross_encoder(Counts(value=3.0)).fingerprint
    assert load_cross_encoder(probed) is probed
    assert CrossEncoderAdapter(Own(), name="a", fingerprint="b").fingerprint == "b"


# --- what cannot be loaded ----------------------------------------------------------------------


@pytest.mark.parametrize("source", [None, 3, [QUERY], object()])
def test_what_cannot_predict_is_refused(source):
    with pytest.raises(TypeError, match=r"\.predict"):
        load_cross_encoder(source)


def test_a_class_instead_of_an_object_is_refused():
    with pytest.raises(TypeError, match="an instance"):
        load_cross_encoder(Counts)


@pytest.mark.parametrize("source", ["bge-reranker-v3", "", "no/such/folder", Path("no_folder")])
def test_an_unknown_name_or_missing_folder_lists_the_known_names(source):
    with pytest.raises(UnknownEncoderError, match=r"bge-reranker-v2-m3\) and no such folder"):
        load_cross_encoder(source)


def test_a_hugging_face_name_that_is_not_in_the_cache_says_how_to_fetch_it():  # hard case 21
    with pytest.raises(UnknownEncoderError, match=r"bge-reranker.*hf download no/such-reranker$"):
        load_cross_encoder("no/such-reranker")


LOADERS = {
    "bge-reranker-v2-m3": lambda: load_cross_encoder("bge-reranker-v2-m3"),
    "bge-m3": lambda: cr.load_encoder("bge-m3"),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("root", [None, " ", "models"])
def test_absent_weights_are_one_error_that_says_where_they_go_and_how_to_get_them(
    name, root, tmp_path, monkeypatch
):  # hard case 21
    if root is None:
        monkeypatch.delenv("CAUSALRAG_MODELS", raising=False)
    else:
        monkeypatch.setenv("CAUSALRAG_MODELS", str(tmp_path / root) if root.strip() else root)
    with pytest.raises(FileNotFoundError) as caught:
        LOADERS[name]()
    message = str(caught.value)
    assert f"hf download BAAI/{name}" in message
    assert f'--local-dir "$CAUSALRAG_MODELS/{name}"' in message
    expected = f"no folder {tmp_path / 'models' / name}" if root == "models" else "is not set"
    assert expected in message


def folder_of(path, kind="XLMRobertaForSequenceClassification", weights=("model.safetensors",)):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"architectures": [kind] if kind else None}))
    for name in weights:
        (path / name).write_bytes(b"")
    return path


@pytest.mark.parametrize("kind", ["XLMRobertaModel", "Qwen3ForCausalLM", None])
def test_a_folder_without_a_classification_model_is_refused(kind, tmp_path):
    # hard case 21: a head of random numbers must not score
    folder = folder_of(tmp_path / "base", kind)
    with pytest.raises(ValueError, match="not a sequence classification model"):
        load_cross_encoder(folder)


def test_a_folder_without_or_with_a_broken_configuration_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        load_cross_encoder(tmp_path)
    for broken in ("{", "[]", "\ufeff"):
        (tmp_path / "config.json").write_text(broken, encoding="utf-8")
        with pytest.raises(ValueError, match=r"config\.json is no model's configuration"):
            load_cross_encoder(tmp_path)


def test_pickled_weights_are_refused_with_the_command_that_converts_them(tmp_path):
    folder = folder_of(tmp_path / "pickled", weights=["pytorch_model.bin"])
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pickle.*save_file\("):
        load_cross_encoder(folder)
    with pytest.raises(ValueError, match="holds no weights"):
        load_cross_encoder(folder_of(tmp_path / "empty", weights=[]))
    (tmp_path / "empty" / "modules.json").write_text('[{"part": ""}]')
    with pytest.raises(ValueError, match=r"modules\.json is no list of modules"):
        load_cross_encoder(tmp_path / "empty")


@pytest.mark.parametrize("library", ["sentence_transformers", "FlagEmbedding"])
@pytest.mark.parametrize(
    "cause", ["ModuleNotFoundError('no torch')", "RuntimeError('other torch')"]
)
def test_a_missing_or_broken_extra_gives_the_install_line(library, cause, tmp_path, monkeypatch):
    # hard case 22
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{library}.py").write_text(f"raise {cause}\n")
    monkeypatch.delitem(sys.modules, library, raising=False)
    folder = folder_of(tmp_path / "bge-reranker-v2-m3")
    monkeypatch.setenv("CAUSALRAG_MODELS", str(tmp_path))
    with pytest.raises(ImportError) as caught:
        load_cross_encoder(folder.name if library == "FlagEmbedding" else folder)
    message = str(caught.value)
    assert message.startswith("cross-encoder 'bge-reranker-v2-m3' needs the extra 'models'")
    assert 'pip install "causalrag[models]"' in message
    assert cause.split("'")[1] in message
    assert library in message


def test_importing_the_module_loads_no_model_library():
    code = "import sys; from causalrag.cross_encoder import *"
    use = "load_cross_encoder(type('Model', (), {'predict': print})())"
    check = "assert not {'torch', 'sentence_transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"{code}; {use}; {check}"], check=True)


# --- tiny models, loaded as real ones are -------------------------------------------------------


@pytest.fixture(scope="module")
def reranker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-reranker"
    return tiny(folder, "XLMRobertaForSequenceClassification", num_labels=1)


@pytest.mark.models
@needs("sentence_transformers")
def test_a_folder_gives_the_models_raw_outputs(reranker, capsys):
    cross = load_cross_encoder(reranker)
    texts = [*TEXTS, "", "a\0b \ud83d", "word " * 3000]
    scores = cross.scores(QUERY, texts)
    assert scores[:3] == pytest.approx(logits(reranker, [(QUERY, t) for t in TEXTS]), abs=1e-5)
    assert np.isfinite(scores).all()
    assert np.ptp(scores[:3]) > 0.01
    alone = [cross.scores(QUERY, [text])[0] for text in TEXTS]
    assert alone == pytest.approx(scores[:3], abs=1e-5)
    assert capsys.readouterr().out == ""


@pytest.mark.models
@needs("sentence_transformers")
def test_saturated_scores_stay_apart(tmp_path, reranker):  # hard case 20
    from safetensors.numpy import load_file, save_file

    weights = load_file(reranker / "model.safetensors")
    weights["classifier.out_proj.weight"] *= 3.0
    weights["classifier.out_proj.bias"] += 500.0
    folder = copied(reranker, tmp_path / "saturated")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    import sentence_transformers

    model = sentence_transformers.CrossEncoder(str(folder), local_files_only=True)
    assert len(set(model.predict([(QUERY, text) for text in TEXTS]).tolist())) == 1  # a sigmoid's
    for source in (folder, model):
        scores = load_cross_encoder(source).scores(QUERY, TEXTS)
        assert len(set(scores.tolist())) == 3
        assert scores.min() > 100


@pytest.mark.models
@needs("sentence_transformers")
def test_a_hugging_face_name_is_read_from_the_local_cache(reranker, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = cached(reranker, "somebody/tiny-reranker", tmp_path)
    cross, folder = load_cross_encoder("somebody/tiny-reranker"), load_cross_encoder(reranker)
    assert cross.name == "somebody/tiny-reranker"
    assert cross.fingerprint == folder.fingerprint
    assert np.array_equal(cross.scores(QUERY, TEXTS), folder.scores(QUERY, TEXTS))
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no \.safetensors.*hf download somebody/tiny-reranker"):
        load_cross_encoder("somebody/tiny-reranker")


@pytest.mark.models
@needs("sentence_transformers")
def test_a_folder_without_a_vocabulary_is_refused(reranker, tmp_path):
    folder = copied(reranker, tmp_path / "no tokenizer")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match="no vocabulary"):
        load_cross_encoder(folder)


@pytest.mark.models
@needs("sentence_transformers")
def test_the_fingerprint_follows_weights_and_settings_and_nothing_else(reranker, tmp_path):
    whole = _weights.folder_fingerprint(reranker)
    copy = copied(reranker, tmp_path / "other name")
    (copy / "README.md").write_text("read me")
    assert _weights.folder_fingerprint(copy) == whole
    for name in ("tokenizer_config.json", "model.safetensors"):
        with (copy / name).open("ab") as file:
            file.write(b" ")
        changed = _weights.folder_fingerprint(copy)
        assert changed != whole
        whole = changed


@pytest.mark.models
@needs("sentence_transformers")
def test_a_long_text_is_cut_even_if_the_tokenizer_names_no_limit(tmp_path):
    folder = tiny(
        tmp_path / "no limit", "XLMRobertaForSequenceClassification", length=None, num_labels=1
    )
    scores = load_cross_encoder(folder).scores(QUERY, ["bread " * 2000])
    assert np.isfinite(scores).all()


@pytest.mark.models
@needs("sentence_transformers")
def test_a_model_with_several_labels_or_without_a_head_is_refused(tmp_path):
    two = tiny(tmp_path / "two", "XLMRobertaForSequenceClassification", num_labels=2)
    with pytest.raises(ValueError, match=r"two.* has 2 labels"):
        load_cross_encoder(two)
    import sentence_transformers

    with pytest.raises(ValueError, match="2 labels"):
        load_cross_encoder(sentence_transformers.CrossEncoder(str(two), local_files_only=True))
    headless = tiny(tmp_path / "headless", "XLMRobertaModel")
    config = json.loads((headless / "config.json").read_text())
    config |= {"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "x"}}
    (headless / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"lack the classification head \(classifier\.dense"):
        load_cross_encoder(headless)


@pytest.mark.models
@needs("sentence_transformers")
def test_damaged_weights_are_one_error_that_names_the_folder(tmp_path, reranker):
    folder = copied(reranker, tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cannot load the cross-encoder in .*cut"):
        load_cross_encoder(folder)
