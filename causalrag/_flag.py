"""BGE-M3 and its re-ranker from a local folder, loaded and run by FlagEmbedding (extra ``models``).

Dense vectors and raw scores only: BGE-M3's sparse and multi-vector outputs are not used, though its
two heads must be there. On the CPU, in this process, in float32; nothing is downloaded.

Read in FlagEmbedding 1.4.2: the heads are loaded by ``torch.load(..., weights_only=True)``
(``finetune/embedder/encoder_only/m3/runner.py``), which builds tensors and runs nothing; one that
is absent is made up at random, so both are asked for here first. The other weights must be
safetensors.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from causalrag._weights import (
    check_classifier,
    check_safetensors,
    check_vocabulary,
    fetch_command,
    folder_fingerprint,
    import_extra,
    is_hub_name,
    loading_errors,
    read_config,
    stored_tensors,
    well_formed,
)

BGE_M3 = "BAAI/bge-m3"
HEADS = ("colbert_linear.pt", "sparse_linear.pt")

# FlagEmbedding runs the first batch of each call twice, to see whether it fits into memory; on a
# CPU a larger one gains little.
_BATCH = 8


def is_bge_m3(folder: Path) -> bool:
    """Tell whether a folder holds a BGE-M3 model.

    It does if ``config.json`` and at least one of the two heads are there. Without a head it does
    if ``config.json`` names a bare XLM-RoBERTa and there is no ``modules.json``: then nothing says
    how the tokens become one vector, and the heads are what is missing. A folder with
    ``modules.json`` and no head, such as a model trained further by sentence-transformers, is
    theirs.
    """
    if not (folder / "config.json").is_file():
        return False
    if any((folder / head).is_file() for head in HEADS):
        return True
    if (folder / "modules.json").is_file():
        return False
    config = read_config(folder)
    return config.get("model_type") == "xlm-roberta" and config.get("architectures") == [
        "XLMRobertaModel"
    ]


class BgeM3:
    """BGE-M3's dense vectors: the first token's last state, of length 1, without an instruction.

    Parameters
    ----------
    folder : Path
        Holds ``config.json``, the tokenizer, ``model.safetensors`` and the two heads.
    name : str, optional
        By default the folder's name.

    Raises
    ------
    ValueError
        If a part of the model is missing, damaged or a pickle; names it.
    ImportError
        If the extra is not installed or broken; the message holds the install line.
    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.name = name or folder.resolve().name
        _check_heads(folder, self.name)
        _check_base(folder)
        library = _flag_embedding(self.name, "encoder")
        try:
            self._model = library.BGEM3FlagModel(str(folder), use_fp16=False, devices="cpu")
            base = self._model.model.model
            # The pooler is no part of the vector, and some files leave it out.
            _check_stored(folder, base, "pooler.")
            check_vocabulary(folder, self._model.tokenizer)
            self._length = _longest(base, self._model.tokenizer)
        except _errors() as error:
            raise ValueError(f"cannot load the model in {folder}: {error}") from error
        self.dimension = int(base.config.hidden_size)
        self.fingerprint = f"FlagEmbedding:{folder_fingerprint(folder)}"
        self._lock = threading.Lock()  # fast tokenizers refuse to be shared by threads
        _prepare(self._model, base)

    def encode(self, texts: list[str]) -> Any:
        """Encode n texts, shape (n, h); a text is cut at the tokens that the model can read.

        Raises
        ------
        RuntimeError
            If the model or its tokenizer fails; holds their message.
        """
        clean = [well_formed(text) for text in texts]
        with self._lock:
            return _run(
                f"encoder {self.name!r}",
                lambda: self._model.encode(clean, batch_size=_BATCH, max_length=self._length),
            )["dense_vecs"]


class BgeReranker:
    """The raw scores of a BGE re-ranker, no sigmoid.

    With transformers 5 FlagEmbedding turns the tokens of a pair into text and reads that again, so
    that an unknown character may weigh otherwise than in one reading.

    Parameters
    ----------
    folder : Path
        Holds ``config.json``, the tokenizer and ``model.safetensors``.
    name : str
        For tables and messages.

    Raises
    ------
    ValueError
        If a part of the model is missing, damaged or a pickle, or it has several labels.
    ImportError
        If the extra is not installed or broken; the message holds the install line.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        check_classifier(folder)
        _check_base(folder)
        library = _flag_embedding(name, "cross-encoder")
        try:
            self._model = library.FlagReranker(
                str(folder), use_fp16=False, devices="cpu", normalize=False
            )
            inner = self._model.model
            _check_stored(folder, inner)
            check_vocabulary(folder, self._model.tokenizer)
            self._length = _longest(inner, self._model.tokenizer)
        except _errors() as error:
            raise ValueError(f"cannot load the cross-encoder in {folder}: {error}") from error
        if inner.config.num_labels != 1:
            raise ValueError(
                f"cross-encoder {name!r} has {inner.config.num_labels} labels; a model that "
                "re-ranks has one (num_labels 1)"
            )
        inner.float()  # loaded as it was stored, and half precision is rough on a CPU
        self._folder = folder
        self._lock = threading.Lock()  # fast tokenizers refuse to be shared by threads
        _prepare(self._model, inner)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the configuration, vocabulary and weights; read when first asked for."""
        return f"FlagEmbedding:{folder_fingerprint(self._folder)}"

    def predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Score n pairs; a list also for one.

        A query is cut at half the tokens that the model can read, its text at the rest.

        Raises
        ------
        RuntimeError
            If the model or its tokenizer fails; holds their message.
        """
        if not pairs:
            return []
        clean = [(well_formed(query), well_formed(text)) for query, text in pairs]
        with self._lock:
            scores = _run(
                f"cross-encoder {self.name!r}",
                lambda: self._model.compute_score(
                    clean,
                    batch_size=_BATCH,
                    max_length=self._length,
                    # Half: read again, the query may double, and it must leave room for a text.
                    query_max_length=max(self._length // 2 - 4, 1),
                    normalize=False,
                ),
            )
        return [float(score) for score in scores]


class _ModelError(Exception):
    """A model's RuntimeError under a name that FlagEmbedding does not retry."""


def _flag_embedding(name: str, kind: str) -> Any:
    try:
        beside = f" with transformers {metadata.version('transformers')}"
    except metadata.PackageNotFoundError:
        beside = ""
    return import_extra(name, "models", "FlagEmbedding", kind, beside)


def _errors() -> tuple[type[Exception], ...]:
    # The last three: a head that is no file of tensors, or a configuration of odd types.
    return (*loading_errors(), pickle.UnpicklingError, EOFError, AttributeError)


def _check_heads(folder: Path, name: str) -> None:
    missing = [head for head in HEADS if not (folder / head).is_file()]
    if not missing:
        return
    message = (
        f"{folder} lacks {' and '.join(missing)}: BGE-M3 has two heads, and one that is absent "
        "would be made up at random"
    )
    if not is_hub_name(name):  # the cache is filled by another command, which the caller adds
        message += f". Fetch the whole model: {fetch_command(BGE_M3, folder)}"
    if len(missing) == len(HEADS) and not (folder / "modules.json").is_file():
        message += (
            " (if it is another model, it lacks modules.json, which says how tokens become one "
            "vector: save it with sentence-transformers)"
        )
    raise ValueError(message)


def _check_base(folder: Path) -> None:
    """Refuse what transformers would read from elsewhere, or from a pickle."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} has no config.json; fetch the whole folder again")
    check_safetensors(folder)
    names = ("model.safetensors", "model.safetensors.index.json")
    if not any((folder / name).is_file() for name in names):
        raise ValueError(
            f"{folder} has neither {' nor '.join(names)}; fetch the whole folder again"
        )
    if (folder / "adapter_config.json").is_file():
        raise ValueError(
            f"{folder} holds an adapter of another model; merge it into its base first"
        )


def _check_stored(folder: Path, model: Any, *spare: str) -> None:
    """Refuse weights that lack a part of the model, which was then made up at random."""
    stored = stored_tensors(folder)
    # One model may be stored with its family's prefix or without it.
    stored |= {key.removeprefix(f"{model.base_model_prefix}.") for key in stored}
    missing = sorted(set(model.state_dict()) - stored)
    if missing := [key for key in missing if not key.startswith(spare)]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ValueError(f"the weights lack {', '.join(missing[:3])}{more}")


def _longest(model: Any, tokenizer: Any) -> int:
    """Count the tokens that a model reads at most; not every tokenizer names a limit."""
    config = model.config
    # A model of RoBERTa's family counts its positions from the padding token's number on.
    used = config.pad_token_id + 1 if "roberta" in config.model_type else 0
    return int(min(config.max_position_embeddings - used, tokenizer.model_max_length))


def _prepare(flag_model: Any, inner: Any) -> None:
    """Make a model of FlagEmbedding tell its errors, and draw no progress bars."""
    forward = inner.forward

    def told(*arguments: Any, **inputs: Any) -> Any:
        try:
            return forward(*arguments, **inputs)
        except RuntimeError as error:
            # Fewer texts at once may fit into memory. Fewer than one is no remedy, and there
            # FlagEmbedding ends in an error that says nothing.
            if len(inputs.get("input_ids", ())) > 1:
                raise
            raise _ModelError(str(error)) from error

    inner.forward = told
    # It draws bars for every call of more than one batch, whatever it is asked.
    module = sys.modules[type(flag_model).__module__]
    for name, quiet in (("tqdm", _same), ("trange", _range)):
        if hasattr(module, name):
            setattr(module, name, quiet)


def _same(items: Iterable[Any], **_: Any) -> Iterable[Any]:
    return items


def _range(*bounds: int, **_: Any) -> Iterable[int]:
    return range(*bounds)


def _run(who: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    # Fast tokenizers raise Exception itself.
    except Exception as error:
        raise RuntimeError(f"{who} failed: {error}") from error
