"""Cross-encoders: the contract of the scores for any object, and the real code on tiny models."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import causalrag as cr
from causalrag import _models, encoders
from causalrag.cross_encoder import CrossEncoderAdapter, load_cross_encoder
from causalrag.encoders import UnknownEncoderError

QUERY = "why does bread rise"
TEXTS = ["Yeast makes gas.", "Bread, bread, bread.", "The boiler loses pressure."]


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


@pytest.mark.parametrize(
    "cause", ["ModuleNotFoundError('no torch')", "RuntimeError('other torch')"]
)
def test_a_missing_or_broken_extra_gives_the_install_line(cause, tmp_path, monkeypatch):
    # hard case 22
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sentence_transformers.py").write_text(f"raise {cause}\n")
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    folder_of(tmp_path / "bge-reranker-v2-m3")
    folder_of(tmp_path / "bge-m3")
    (tmp_path / "bge-m3" / "modules.json").write_text("[]")
    monkeypatch.setenv("CAUSALRAG_MODELS", str(tmp_path))
    for name, kind in (("bge-reranker-v2-m3", "cross-encoder"), ("bge-m3", "encoder")):
        with pytest.raises(ImportError) as caught:
            LOADERS[name]()
        assert str(caught.value).startswith(f"{kind} {name!r} needs the extra 'models'")
        assert 'pip install "causalrag[models]"' in str(caught.value)
        assert cause.split("'")[1] in str(caught.value)


def test_importing_the_module_loads_no_model_library():
    code = "import sys; from causalrag.cross_encoder import *"
    use = "load_cross_encoder(type('Model', (), {'predict': print})())"
    check = "assert not {'torch', 'sentence_transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"{code}; {use}; {check}"], check=True)


# --- tiny models, loaded as real ones are -------------------------------------------------------

LINES = [QUERY, *TEXTS, "data transfer abroad", "数据出境的安全如何评估", "audit 数据 安全"]
SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}


def needs(*modules):
    missing = [module for module in modules if find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def tiny(folder, kind, length=512, **config):
    """Save a random XLM-RoBERTa of two layers with its tokenizer, in safetensors."""
    import tokenizers
    import torch
    import transformers

    tokens = [SPECIAL[name] for name in ("bos", "pad", "eos", "unk", "mask")]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=300, special_tokens=tokens, unk_token="<unk>"
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    named = {f"{name}_token": token for name, token in SPECIAL.items()}
    named |= {"cls_token": "<s>", "sep_token": "</s>"}
    limit = {} if length is None else {"model_max_length": length}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **named, **limit
    ).save_pretrained(folder)
    settings = {
        "vocab_size": 300,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "initializer_range": 0.5,  # wide, so that scores of different texts differ
    }
    torch.manual_seed(7)
    model = getattr(transformers, kind)(transformers.XLMRobertaConfig(**settings, **config))
    model.eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def reranker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bge-reranker-v2-m3"
    return tiny(folder, "XLMRobertaForSequenceClassification", num_labels=1)


def logits(folder, pairs):
    """The outputs of the model by transformers alone, one pair at a time."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            float(model(**tokenizer(*pair, return_tensors="pt", truncation=True)).logits[0, 0])
            for pair in pairs
        ]


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
    folder = tmp_path / "saturated"
    folder.mkdir()
    for path in reranker.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
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
def test_the_known_name_is_read_from_the_folder_of_models(reranker, monkeypatch):
    monkeypatch.setenv("CAUSALRAG_MODELS", str(reranker.parent))
    cross = load_cross_encoder("bge-reranker-v2-m3")
    assert cross.name == "bge-reranker-v2-m3"
    assert cross.fingerprint == load_cross_encoder(reranker).fingerprint
    assert cross.fingerprint.startswith("sha256:")


@pytest.mark.models
@needs("sentence_transformers")
def test_the_fingerprint_follows_weights_and_settings_and_nothing_else(reranker, tmp_path):
    whole = _models.folder_fingerprint(reranker)
    copy = tmp_path / "other name"
    copy.mkdir()
    for path in reranker.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "README.md").write_text("read me")
    assert _models.folder_fingerprint(copy) == whole
    for name in ("tokenizer_config.json", "model.safetensors"):
        with (copy / name).open("ab") as file:
            file.write(b" ")
        changed = _models.folder_fingerprint(copy)
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
    folder = tmp_path / "cut"
    folder.mkdir()
    for path in reranker.iterdir():
        data = path.read_bytes()
        (folder / path.name).write_bytes(data[:-100] if path.suffix == ".safetensors" else data)
    with pytest.raises(ValueError, match=r"cannot load the cross-encoder in .*cut"):
        load_cross_encoder(folder)


# --- bge-m3 -------------------------------------------------------------------------------------

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {
        "idx": 2,
        "name": "2",
        "path": "2_Normalize",
        "type": "sentence_transformers.models.Normalize",
    },
]


@pytest.fixture
def bge_m3(tmp_path, monkeypatch):
    folder = tiny(tmp_path / "bge-m3", "XLMRobertaModel")
    (folder / "modules.json").write_text(json.dumps(MODULES))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True}
    pooling |= {"pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    monkeypatch.setenv("CAUSALRAG_MODELS", str(tmp_path))
    monkeypatch.setattr(encoders, "_LOADED", {})
    return folder


def states(folder, texts):
    """The last hidden states by transformers alone, one array per text."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
            for text in texts
        ]


def unit(row):
    return row / np.linalg.norm(row)


@pytest.mark.models
@needs("sentence_transformers")
def test_bge_m3_takes_the_first_token_as_its_folder_says(bge_m3):
    encoder = cr.load_encoder("bge-m3")
    assert (encoder.name, encoder.dimension) == ("bge-m3", 32)
    assert encoder.fingerprint == _models.folder_fingerprint(bge_m3)
    vectors = encoder.encode([*TEXTS, ""])
    for vector, state in zip(vectors, states(bge_m3, TEXTS), strict=False):
        assert vector == pytest.approx(unit(state[0]), abs=1e-5)
        assert np.abs(vector - unit(state.mean(axis=0))).max() > 0.01
    assert not vectors[3].any()
    assert np.array_equal(encoder.encode(TEXTS, "term"), encoder.encode(TEXTS, "query"))


@pytest.mark.models
@needs("sentence_transformers")
def test_bge_m3_without_its_modules_or_their_settings_is_refused(bge_m3):
    (bge_m3 / "1_Pooling" / "config.json").unlink()
    with pytest.raises(ValueError, match=r"cannot load the model in .*bge-m3"):
        cr.load_encoder("bge-m3")
    (bge_m3 / "1_Pooling").rmdir()
    with pytest.raises(ValueError, match=r"cannot load the model in .*bge-m3"):
        cr.load_encoder("bge-m3")
    (bge_m3 / "modules.json").unlink()
    with pytest.raises(ValueError, match=r"has no modules\.json.*hf download BAAI/bge-m3"):
        cr.load_encoder("bge-m3")


@pytest.mark.models
@needs("sentence_transformers")
def test_the_command_in_the_message_converts_pickled_weights(bge_m3, monkeypatch):
    import torch
    from safetensors.torch import load_file

    expected = cr.load_encoder("bge-m3").encode(TEXTS)
    weights = bge_m3 / "model.safetensors"
    torch.save(load_file(weights), bge_m3 / "pytorch_model.bin")
    weights.unlink()
    monkeypatch.setattr(encoders, "_LOADED", {})
    with pytest.raises(ValueError, match="is a pickle") as caught:
        cr.load_encoder("bge-m3")
    exec(str(caught.value).partition('python -c "')[2].removesuffix('"'), {})
    assert np.array_equal(cr.load_encoder("bge-m3").encode(TEXTS), expected)
