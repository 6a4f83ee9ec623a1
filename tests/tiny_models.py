"""Random XLM-RoBERTa models of two layers, saved as real ones are, for tests that need torch."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

import numpy as np
import pytest

QUERY = "why does bread rise"
TEXTS = ["Yeast makes gas.", "Bread, bread, bread.", "The boiler loses pressure."]
LINES = [QUERY, *TEXTS, "data transfer abroad", "数据出境的安全如何评估", "audit 数据 安全"]
SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
HEADS = {"colbert_linear.pt": 32, "sparse_linear.pt": 1}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def needs(*modules):
    missing = [module for module in modules if find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def tiny(folder, kind="XLMRobertaModel", length=512, **config):
    """Save a model with its tokenizer, in safetensors."""
    import torch
    import transformers

    tokenizer(length).save_pretrained(folder)
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
    model = getattr(transformers, kind)(transformers.XLMRobertaConfig(**(settings | config)))
    model.eval().save_pretrained(folder)
    return folder


def tokenizer(length):
    """Train a tokenizer of XLM-RoBERTa's kind."""
    import tokenizers
    import transformers

    tokens = [SPECIAL[name] for name in ("bos", "pad", "eos", "unk", "mask")]
    trained = tokenizers.Tokenizer(tokenizers.models.Unigram())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trained.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=300, special_tokens=tokens, unk_token="<unk>"
    )
    trained.train_from_iterator(LINES, trainer)
    trained.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    named = {f"{name}_token": token for name, token in SPECIAL.items()}
    named |= {"cls_token": "<s>", "sep_token": "</s>"}
    limit = {} if length is None else {"model_max_length": length}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=trained, **named, **limit)


def add_heads(folder):
    """Add the two heads that make a folder a BGE-M3 model's."""
    import torch

    for name, size in HEADS.items():
        torch.save(torch.nn.Linear(32, size).state_dict(), folder / name)
    return folder


def add_modules(folder, cls=True):
    """Add what sentence-transformers saves beside a model: how its tokens become one vector."""
    (folder / "modules.json").write_text(json.dumps(MODULES))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": cls}
    pooling |= {"pooling_mode_mean_tokens": not cls}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def copied(folder, target):
    """Copy a model's files, to change one of them."""
    target.mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file():
            (target / path.name).write_bytes(path.read_bytes())
    return target


def change(folder, **changes):
    """Change tensors of a saved model: each value is a function of the old one."""
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    for name, new in changes.items():
        key = name.replace("__", ".")
        weights[key] = new(weights[key])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def logits(folder, pairs):
    """The outputs of the model by transformers alone, one pair at a time."""
    import torch
    import transformers

    reader = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            float(model(**reader(*pair, return_tensors="pt", truncation=True)).logits[0, 0])
            for pair in pairs
        ]


def states(folder, texts):
    """The last hidden states by transformers alone, one array per text."""
    import torch
    import transformers

    reader = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            model(**reader(text, return_tensors="pt", truncation=True)).last_hidden_state[0].numpy()
            for text in texts
        ]


def cached(folder, name, root):
    """Lay a model's folder where Hugging Face's cache would hold it; give the snapshot."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = root / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots").mkdir()
    return shutil.copytree(folder, place / "snapshots" / commit)


def unit(row):
    return row / np.linalg.norm(row)
