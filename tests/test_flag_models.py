"""BGE-M3 and its re-ranker through FlagEmbedding: the real code, on tiny models in folders."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_models import (
    HEADS,
    QUERY,
    TEXTS,
    add_heads,
    add_modules,
    cached,
    change,
    copied,
    logits,
    needs,
    states,
    tiny,
    unit,
)

import causalrag as cr
from causalrag import encoders
from causalrag._flag import BgeM3, BgeReranker, is_bge_m3
from causalrag.cross_encoder import load_cross_encoder
from causalrag.encoders import UnknownEncoderError

CLASSIFIER = "XLMRobertaForSequenceClassification"
flag = needs("FlagEmbedding")


def described(folder, kind="XLMRobertaModel", files=()):
    """Make a folder that looks like a model's, without weights that anyone could load."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(
        json.dumps({"model_type": "xlm-roberta", "architectures": [kind]})
    )
    for name in ("model.safetensors", *files):
        (folder / name).write_text("[]")
    return folder


@pytest.fixture
def models(tmp_path, monkeypatch):
    """The folder of models, which `CAUSALRAG_MODELS` names; nothing is loaded yet."""
    monkeypatch.setenv("CAUSALRAG_MODELS", str(tmp_path))
    monkeypatch.setattr(encoders, "_LOADED", {})
    return tmp_path


# --- which folders are BGE-M3's -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "files", "expected"),
    [
        ("XLMRobertaModel", list(HEADS), True),
        ("XLMRobertaModel", [*HEADS, "modules.json"], True),  # as BAAI publishes it
        ("XLMRobertaModel", ["colbert_linear.pt"], True),
        ("XLMRobertaModel", ["sparse_linear.pt", "modules.json"], True),
        ("XLMRobertaModel", [], True),
        ("XLMRobertaModel", ["modules.json"], False),
        (CLASSIFIER, [], False),
        ("XLMRobertaForMaskedLM", [], False),
    ],
)
def test_a_folder_is_known_by_its_heads_or_as_a_bare_xlm_roberta(kind, files, expected, tmp_path):
    assert is_bge_m3(described(tmp_path / "some name", kind, files)) is expected


def test_a_folder_of_another_family_or_without_a_configuration_is_not_bge_m3(tmp_path):
    folder = described(tmp_path / "bert")
    (folder / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    assert not is_bge_m3(folder)
    (folder / "config.json").unlink()
    (folder / "colbert_linear.pt").write_text("")
    assert not is_bge_m3(folder)


# --- what is missing (hard cases 21, 22); none of this needs torch ------------------------------


@pytest.mark.parametrize("missing", [["colbert_linear.pt"], ["sparse_linear.pt"], list(HEADS)])
@pytest.mark.parametrize("by", ["name", "folder"])
def test_a_missing_head_is_refused(missing, by, models):  # hard case 21
    folder = described(models / "bge-m3", files=set(HEADS) - set(missing))
    with pytest.raises(ValueError, match=f"lacks {' and '.join(missing)}: ") as caught:
        cr.load_encoder("bge-m3" if by == "name" else folder)
    assert f'hf download BAAI/bge-m3 --exclude "onnx/*" --local-dir "{folder}"' in str(caught.value)


def test_a_head_that_the_local_cache_lacks_is_fetched_into_the_cache(tmp_path, monkeypatch):
    # hard case 21
    library = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(library, "HF_HUB_CACHE", str(tmp_path))
    cached(described(tmp_path / "here", files=["sparse_linear.pt"]), "BAAI/bge-m3", tmp_path)
    with pytest.raises(ValueError, match=r"lacks colbert_linear\.pt: .*hf download BAAI/bge-m3$"):
        cr.load_encoder("BAAI/bge-m3")


@pytest.mark.parametrize("load", [cr.load_encoder, load_cross_encoder])
def test_a_missing_folder_is_one_clear_error(load, tmp_path):  # hard case 21
    with pytest.raises(UnknownEncoderError, match="no such folder") as caught:
        load(tmp_path / "bge-m3")
    assert "Repo id" not in str(caught.value)


@pytest.mark.parametrize("load", [cr.load_encoder, load_cross_encoder])
def test_weights_that_would_be_read_from_elsewhere_are_refused(load, models):
    named = {cr.load_encoder: "bge-m3", load_cross_encoder: "bge-reranker-v2-m3"}[load]
    kind = "XLMRobertaModel" if named == "bge-m3" else CLASSIFIER
    folder = described(models / named, kind, [*HEADS, "adapter_config.json"])
    with pytest.raises(ValueError, match="an adapter of another model"):
        load(named)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    (folder / "pytorch_model.bin").write_text("")  # which would be read instead
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor"):
        load(named)
    (folder / "other.safetensors").unlink()
    with pytest.raises(ValueError, match="is a pickle, which is not loaded"):
        load(named)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"no config\.json"):
        load(named)


@pytest.mark.parametrize(
    "cause", ["ModuleNotFoundError('no torch')", "RuntimeError('other torch')"]
)
def test_a_missing_or_broken_stack_gives_the_install_line(cause, models, monkeypatch):
    # hard case 22
    monkeypatch.syspath_prepend(models)
    (models / "FlagEmbedding.py").write_text(f"raise {cause}\n")
    monkeypatch.delitem(sys.modules, "FlagEmbedding", raising=False)
    folder = described(models / "bge-m3", files=HEADS)
    for source in ("bge-m3", folder):
        with pytest.raises(ImportError) as caught:
            cr.load_encoder(source)
        message = str(caught.value)
        assert message.startswith("encoder 'bge-m3' needs the extra 'models'")
        assert message.endswith('Install it with: pip install "causalrag[models]"')
        assert cause.split("'")[1] in message


# Runs in a process of its own: the folder of models, then what makes importing fail.
BROKEN = """
import sys
sys.path.insert(0, {tests!r})
for name in {blocked!r}:
    sys.modules[name] = None
import causalrag as cr
from causalrag.cross_encoder import load_cross_encoder
assert not {{"torch", "transformers", "FlagEmbedding"}} & {{n for n, m in sys.modules.items() if m}}
for load, name in ((cr.load_encoder, "bge-m3"), (load_cross_encoder, "bge-reranker-v2-m3")):
    try:
        load(name)
    except ImportError as error:
        print(error)
"""


def install_lines(folder, blocked, tests, monkeypatch):
    described(folder / "bge-m3", files=HEADS)
    described(folder / "bge-reranker-v2-m3", CLASSIFIER)
    monkeypatch.setenv("CAUSALRAG_MODELS", str(folder))
    code = BROKEN.format(tests=str(tests), blocked=blocked)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.endswith('pip install "causalrag[models]"') for line in lines)
    return lines


def test_without_torch_the_package_imports(tmp_path, request, monkeypatch):  # hard case 22
    blocked = ["torch", "transformers", "FlagEmbedding"]
    lines = install_lines(tmp_path, blocked, request.path.parent, monkeypatch)
    assert all("importing FlagEmbedding failed" in line for line in lines)


@pytest.mark.models
@flag
def test_a_transformers_that_breaks_flagembedding_gives_the_install_line(
    tmp_path, request, monkeypatch
):  # hard case 22: transformers 5.24 took this module away
    import transformers

    blocked = ["transformers.modeling_attn_mask_utils"]
    for line in install_lines(tmp_path, blocked, request.path.parent, monkeypatch):
        assert f"failed with transformers {transformers.__version__}: " in line
        assert blocked[0] in line


# --- tiny models --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    add_heads(tiny(folder / "bge-m3"))
    tiny(folder / "bge-reranker-v2-m3", CLASSIFIER, num_labels=1)
    return folder


@pytest.fixture
def bge_m3(saved, monkeypatch):
    monkeypatch.setenv("CAUSALRAG_MODELS", str(saved))
    monkeypatch.setattr(encoders, "_LOADED", {})
    return saved / "bge-m3"


@pytest.fixture
def reranker(saved, monkeypatch):
    monkeypatch.setenv("CAUSALRAG_MODELS", str(saved))
    return saved / "bge-reranker-v2-m3"


@pytest.mark.models
@flag
def test_dense_vectors_are_those_of_the_first_token_by_transformers_alone(bge_m3):
    encoder = cr.load_encoder("bge-m3")
    assert type(encoder.model._model).__module__.startswith("FlagEmbedding.")
    assert (encoder.name, encoder.dimension) == ("bge-m3", 32)
    assert cr.load_encoder("bge-m3") is encoder
    long = "bread " * 2000
    vectors = encoder.encode([*TEXTS, long, ""])
    assert (vectors.shape, vectors.dtype) == ((5, 32), np.float32)
    for vector, state in zip(vectors, states(bge_m3, [*TEXTS, long]), strict=False):
        assert vector == pytest.approx(unit(state[0]), abs=1e-5)
        assert np.abs(vector - unit(state.mean(axis=0))).max() > 0.01
    assert not vectors[4].any()
    assert encoder.encode([TEXTS[0]])[0] == pytest.approx(vectors[0], abs=1e-5)


@pytest.mark.models
@flag
def test_queries_documents_and_terms_are_encoded_alike_and_again_the_same(bge_m3):
    encoder = cr.load_encoder("bge-m3")
    rows = [encoder.encode(TEXTS, role) for role in ("query", "document", "term", "query")]
    assert all(np.array_equal(rows[0], other) for other in rows[1:])
    encoders._LOADED.clear()
    assert np.array_equal(cr.load_encoder("bge-m3").encode(TEXTS), rows[0])


@pytest.mark.models
@flag
def test_a_folder_of_bge_m3_is_loaded_as_the_name_is(bge_m3, tmp_path, monkeypatch):
    from huggingface_hub import constants

    expected = cr.load_encoder("bge-m3")
    folder = cr.load_encoder(add_modules(copied(bge_m3, tmp_path / "mine"), cls=False))
    assert isinstance(folder.model, BgeM3)
    assert folder.name == "mine"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    cached(bge_m3, "somebody/bge-m3", tmp_path)
    hub = cr.load_encoder("somebody/bge-m3")
    assert isinstance(hub.model, BgeM3)
    assert hub.name == "somebody/bge-m3"
    assert hub.fingerprint == expected.fingerprint != folder.fingerprint
    for encoder in (folder, hub):
        assert np.array_equal(encoder.encode(TEXTS), expected.encode(TEXTS))


@pytest.mark.models
@flag
@needs("sentence_transformers")
def test_modules_without_heads_are_left_to_sentence_transformers(bge_m3, tmp_path):
    folder = add_modules(copied(bge_m3, tmp_path / "mean"), cls=False)
    for head in HEADS:
        (folder / head).unlink()
    vectors = cr.load_encoder(folder).encode(TEXTS)
    for vector, state in zip(vectors, states(folder, TEXTS), strict=True):
        assert vector == pytest.approx(unit(state.mean(axis=0)), abs=1e-5)


@pytest.mark.models
@flag
def test_many_texts_of_any_length_are_encoded_without_a_word(bge_m3, capfd):
    encoder = cr.load_encoder("bge-m3")
    capfd.readouterr()
    texts = [f"{word} bread " * n for word in ("why", "gas") for n in (1, 40, 3, 900, 7, 90, 2)]
    texts += ["\0", "cut \ud83d short", "🙂", "</s>", "的"]
    together = encoder.encode(texts)
    assert len(texts) > 2 * 8
    for text, row in zip(texts, together, strict=True):
        assert encoder.encode([text])[0] == pytest.approx(row, abs=1e-5)
    assert capfd.readouterr() == ("", "")


@pytest.mark.models
@flag
def test_threads_take_turns_at_a_tokenizer(bge_m3, reranker):
    encoder, cross = cr.load_encoder("bge-m3"), load_cross_encoder("bge-reranker-v2-m3")
    inside = []

    def watch(owner, name):
        call = getattr(owner, name)

        def watched(*arguments, **options):
            inside.append(name)
            assert inside == [name]
            time.sleep(0.01)  # time for another thread to come in
            result = call(*arguments, **options)
            inside.remove(name)
            return result

        setattr(owner, name, watched)

    watch(encoder.model._model, "encode")
    with ThreadPoolExecutor(4) as pool:
        shared = list(pool.map(lambda text: encoder.encode([text]), TEXTS * 4))
    assert all(np.array_equal(a, b) for a, b in zip(shared[:3], shared[-3:], strict=True))
    watch(cross.model._model, "compute_score")
    with ThreadPoolExecutor(4) as pool:
        shared = list(pool.map(lambda text: cross.scores(QUERY, [text])[0], TEXTS * 4))
    assert shared[:3] == shared[-3:]


@pytest.mark.models
@flag
@pytest.mark.parametrize("limit", [64, 1000])
def test_inputs_are_cut_where_the_positions_end_if_the_tokenizer_names_no_limit(limit, models):
    # A model of this family has two more positions than it reads tokens; the library cuts at 512.
    add_heads(tiny(models / "bge-m3", length=None, max_position_embeddings=limit + 2))
    words = ["gas " * (limit + n) for n in (100, 200)]
    vectors = cr.load_encoder("bge-m3").encode(words)
    assert np.array_equal(vectors[0], vectors[1])
    tokenizer = json.loads((models / "bge-m3" / "tokenizer_config.json").read_text())
    tokenizer["model_max_length"] = limit
    (models / "bge-m3" / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (state,) = states(models / "bge-m3", words[:1])
    assert len(state) == limit
    assert vectors[0] == pytest.approx(unit(state[0]), abs=1e-5)
    tiny(
        models / "bge-reranker-v2-m3",
        CLASSIFIER,
        length=None,
        max_position_embeddings=limit + 2,
        num_labels=1,
    )
    cross = load_cross_encoder("bge-reranker-v2-m3")
    # Read again, the second grows by a half: beside an unknown character a word begins.
    for query in ("bread " * 2000, "的🙂" * 2000, QUERY):
        assert np.isfinite(cross.scores(query, ["gas " * 2000, "的🙂" * 2000, "gas"])).all()
    # What is left for a text beside a long query still counts.
    assert np.ptp(cross.scores("bread " * 2000, TEXTS)) > 0.01


# --- damaged folders ----------------------------------------------------------------------------


@pytest.mark.models
@flag
def test_a_head_that_is_no_file_of_tensors_or_of_another_shape_is_refused(bge_m3, tmp_path):
    # hard case 21
    import torch

    folder = copied(bge_m3, tmp_path / "damaged")
    head = folder / "colbert_linear.pt"
    for data in (b"", b"no tensors", head.read_bytes()[:200]):
        head.write_bytes(data)
        with pytest.raises(ValueError, match=r"cannot load the model in .*damaged: "):
            cr.load_encoder(folder)
    torch.save(torch.nn.Linear(32, 8).state_dict(), head)
    with pytest.raises(ValueError, match="size mismatch"):
        cr.load_encoder(folder)


class Runs:
    """Pickled, it makes a file as soon as it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.models
@flag
def test_a_head_that_would_run_code_is_refused_unread(bge_m3, tmp_path):
    import torch

    folder, proof = copied(bge_m3, tmp_path / "hostile"), tmp_path / "it ran"
    torch.save({"weight": Runs(str(proof))}, folder / "sparse_linear.pt")
    with pytest.raises(ValueError, match="cannot load the model in"):
        cr.load_encoder(folder)
    assert not proof.exists()
    torch.load(folder / "sparse_linear.pt", weights_only=False)  # the file does what it says
    assert proof.exists()


@pytest.mark.models
@flag
def test_weights_that_lack_a_layer_are_refused(bge_m3, reranker, tmp_path, monkeypatch):
    from safetensors.numpy import load_file, save_file

    def without(folder, part):
        weights = load_file(folder / "model.safetensors")
        kept = {key: value for key, value in weights.items() if part not in key}
        assert len(kept) < len(weights)
        save_file(kept, folder / "model.safetensors", {"format": "pt"})
        return folder

    m3 = copied(bge_m3, tmp_path / "bge-m3")
    expected = cr.load_encoder("bge-m3").encode(TEXTS)
    assert np.array_equal(cr.load_encoder(without(m3, "pooler.")).encode(TEXTS), expected)
    with pytest.raises(ValueError, match=r"the weights lack encoder\.layer\.1.* and \d+ more"):
        cr.load_encoder(without(m3, "layer.1."))
    monkeypatch.setenv("CAUSALRAG_MODELS", str(tmp_path))
    without(copied(reranker, tmp_path / reranker.name), "classifier.out_proj")
    with pytest.raises(ValueError, match=r"the weights lack classifier\.out_proj\.bias"):
        load_cross_encoder(reranker.name)


@pytest.mark.models
@flag
def test_weights_stored_with_the_familys_prefix_are_the_same_model(bge_m3, tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = copied(bge_m3, tmp_path / "prefixed")
    weights = load_file(folder / "model.safetensors")
    prefixed = {f"roberta.{key}": value for key, value in weights.items()}
    save_file(prefixed, folder / "model.safetensors", {"format": "pt"})
    expected = cr.load_encoder("bge-m3").encode(TEXTS)
    assert np.array_equal(cr.load_encoder(folder).encode(TEXTS), expected)


@pytest.mark.models
@flag
def test_a_folder_without_a_vocabulary_is_refused(bge_m3, tmp_path):
    folder = copied(bge_m3, tmp_path / "no words")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match=r"no words.* no vocabulary"):
        cr.load_encoder(folder)


@pytest.mark.models
@flag
def test_the_command_in_the_message_converts_pickled_weights(bge_m3, tmp_path):
    import torch
    from safetensors.torch import load_file

    folder = copied(bge_m3, tmp_path / "pickled")
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(ValueError, match="is a pickle") as caught:
        cr.load_encoder(folder)
    exec(str(caught.value).partition('python -c "')[2].removesuffix('"'), {})
    expected = cr.load_encoder("bge-m3").encode(TEXTS)
    assert np.array_equal(cr.load_encoder(folder).encode(TEXTS), expected)


@pytest.mark.models
@flag
def test_a_value_that_is_not_finite_is_refused_and_names_the_text(bge_m3, reranker, tmp_path):
    m3 = change(copied(bge_m3, tmp_path / "m3"), embeddings__LayerNorm__weight=lambda w: w * np.nan)
    with pytest.raises(ValueError, match=r"'m3' returned .* not finite for the text 'Yeast"):
        cr.load_encoder(m3).encode(TEXTS)
    broken = copied(reranker, tmp_path / "reranker")
    change(broken, classifier__out_proj__bias=lambda bias: bias * np.nan + np.nan)
    with pytest.raises(ValueError, match=r"'broken' returned nan for documents\[0\]"):
        load_cross_encoder(BgeReranker(broken, "broken")).scores(QUERY, TEXTS)


# --- what FlagEmbedding retries and hides -------------------------------------------------------


def failing(base, largest):
    """Make a base model fail on more than so many texts at once; give the sizes it is asked."""
    seen = []

    def check(module, arguments, inputs):
        seen.append(len(inputs["input_ids"]))
        if seen[-1] > largest:
            raise RuntimeError("no memory for that many")

    base.embeddings.register_forward_pre_hook(check, with_kwargs=True)
    return seen


@pytest.mark.models
@flag
def test_an_error_of_the_model_is_told_and_fewer_texts_are_tried_first(bge_m3, reranker):
    m3 = cr.load_encoder("bge-m3")
    expected = m3.encode(TEXTS)
    base = m3.model._model.model.model
    seen = failing(base, largest=1)
    assert m3.encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    assert seen == [3, 3, 3, 3, 2, 1, 1, 1, 1]  # tries of 8, 6, 4, 3, 2 and 1, then each alone
    failing(base, largest=0)
    with pytest.raises(RuntimeError, match=r"^encoder 'bge-m3' failed: no memory for that many$"):
        m3.encode(TEXTS)
    cross = load_cross_encoder("bge-reranker-v2-m3")
    failing(cross.model._model.model.roberta, largest=0)
    with pytest.raises(RuntimeError, match=r"^cross-encoder 'bge-reranker-v2-m3' failed: no mem"):
        cross.scores(QUERY, TEXTS)


# --- the re-ranker ------------------------------------------------------------------------------


@pytest.mark.models
@flag
def test_scores_are_the_raw_outputs_by_transformers_alone(reranker, capfd):
    cross = load_cross_encoder("bge-reranker-v2-m3")
    assert type(cross.model._model).__module__.startswith("FlagEmbedding.")
    assert cross.name == "bge-reranker-v2-m3"
    assert cross.fingerprint.startswith("FlagEmbedding:sha256:")
    capfd.readouterr()
    texts = [*TEXTS, *(f"{text} {n}" for text in TEXTS for n in range(9))]
    scores = cross.scores(QUERY, texts)
    assert capfd.readouterr() == ("", "")
    assert scores[:3] == pytest.approx(logits(reranker, [(QUERY, t) for t in TEXTS]), abs=1e-5)
    assert np.ptp(scores[:3]) > 0.01
    again = load_cross_encoder("bge-reranker-v2-m3").scores(QUERY, texts)
    assert np.array_equal(again, scores)


@pytest.mark.models
@flag
def test_a_single_pair_gives_a_list(reranker):  # hard case 20
    cross = load_cross_encoder("bge-reranker-v2-m3")
    alone = cross.model.predict([(QUERY, TEXTS[0])])
    assert isinstance(alone, list)
    assert alone == pytest.approx(cross.scores(QUERY, TEXTS)[:1], abs=1e-5)
    scores = cross.scores(QUERY, TEXTS[:1])
    assert (scores.shape, scores.dtype) == ((1,), np.float64)
    assert scores.tolist() == alone
    assert cross.model.predict([]) == []


@pytest.mark.models
@flag
def test_saturated_scores_stay_apart(reranker, tmp_path):  # hard case 20
    folder = change(
        copied(reranker, tmp_path / "saturated"),
        classifier__out_proj__weight=lambda weight: weight * 3,
        classifier__out_proj__bias=lambda bias: bias + 500,
    )
    model = BgeReranker(folder, "saturated")
    squashed = model._model.compute_score([(QUERY, text) for text in TEXTS], normalize=True)
    assert len(set(squashed)) == 1
    scores = load_cross_encoder(model).scores(QUERY, TEXTS)
    assert len(set(scores.tolist())) == 3
    assert scores.min() > 100


@pytest.mark.models
@flag
def test_weights_in_half_precision_are_run_in_single(reranker, tmp_path):
    import torch
    import transformers

    folder = copied(reranker, tmp_path / "half")
    stored = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float16
    )
    stored.save_pretrained(folder)
    model = BgeReranker(folder, "half")
    assert {p.dtype for p in model._model.model.parameters()} == {torch.float32}
    whole = load_cross_encoder("bge-reranker-v2-m3").scores(QUERY, TEXTS)
    assert load_cross_encoder(model).scores(QUERY, TEXTS) == pytest.approx(whole, abs=0.05)


@pytest.mark.models
@flag
def test_a_model_with_several_labels_is_refused(models):
    tiny(models / "bge-reranker-v2-m3", CLASSIFIER, num_labels=2)
    with pytest.raises(ValueError, match="'bge-reranker-v2-m3' has 2 labels"):
        load_cross_encoder("bge-reranker-v2-m3")


@pytest.mark.models
@flag
def test_the_rerankers_hugging_face_name_is_read_from_the_local_cache(
    reranker, tmp_path, monkeypatch
):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = cached(reranker, "BAAI/bge-reranker-v2-m3", tmp_path)
    cross = load_cross_encoder("BAAI/bge-reranker-v2-m3")
    assert isinstance(cross.model, BgeReranker)
    assert cross.fingerprint == load_cross_encoder("bge-reranker-v2-m3").fingerprint
    (snapshot / "config.json").unlink()
    with pytest.raises(UnknownEncoderError, match=r"hf download BAAI/bge-reranker-v2-m3$"):
        load_cross_encoder("BAAI/bge-reranker-v2-m3")


# --- offline ------------------------------------------------------------------------------------

ALONE = """
import socket, sys
asked = []
def refuse(self, address, *rest):
    asked.append(address)
    raise OSError("there is no network")
socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = lambda *address, **_: refuse(None, address)
import causalrag as cr
from causalrag.cross_encoder import load_cross_encoder
print(cr.load_encoder("bge-m3").encode(["bread"]).shape)
print(load_cross_encoder("bge-reranker-v2-m3").scores("bread", ["gas"]).shape)
for load, missing in ((cr.load_encoder, "nobody/nothing"), (load_cross_encoder, "no/such/folder")):
    try:
        load(missing)
    except FileNotFoundError as error:
        print(str(error).split(":")[0])
import multiprocessing
print(multiprocessing.active_children(), asked)
"""


@pytest.mark.models
@flag
def test_a_local_folder_works_offline_and_no_host_is_asked(saved, tmp_path, monkeypatch):
    # hard case 21
    monkeypatch.setenv("CAUSALRAG_MODELS", str(saved))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "(1, 32)",
        "(1,)",
        "unknown encoder 'nobody/nothing'",
        "unknown cross-encoder 'no/such/folder'",
        "[] []",
    ]
