"""Cross-encoders: models that read query and document together and give one score (section 4.4).

`load_cross_encoder` gives an object whose ``scores`` go to `CausalReranker.rank` as a first stage.
Scores are the model's raw outputs: a sigmoid would round the high ones to one value. Nothing is
downloaded, and no pickle is loaded. Those of its `CROSS_ENCODERS` run through FlagEmbedding, any
other folder through sentence-transformers.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalrag._flag import BgeReranker
from causalrag._weights import (
    check_classifier,
    check_safetensors,
    check_vocabulary,
    complete,
    folder_fingerprint,
    import_extra,
    loading_errors,
    stored_tensors,
    weights_folder,
    well_formed,
)
from causalrag.documents import Documents, check_query, read_documents
from causalrag.encoders import _find_folder, _own_text

__all__ = ["CROSS_ENCODERS", "CrossEncoderAdapter", "load_cross_encoder"]

Floats = NDArray[np.float64]

#: Known names, each with the repository that publishes its weights.
CROSS_ENCODERS = {"bge-reranker-v2-m3": "BAAI/bge-reranker-v2-m3"}

_PROBES = (
    ("where does the water go", "Yeast makes gas, and the dough rises."),
    ("数据出境的安全如何评估", "causal re-ranking for retrieval"),
)


class CrossEncoderAdapter:
    """Any object with ``predict(pairs)``, held to one contract.

    Parameters
    ----------
    model : object
        Its ``predict`` takes a list of n (query, text) pairs and returns n numbers, higher for the
        better answer. ``name`` and ``fingerprint`` are used where it has them.
    name, fingerprint : str, optional
        Used instead of the model's own. Without either, a fingerprint is made of the scores of two
        fixed pairs, on first access.
    """

    def __init__(
        self, model: Any, *, name: str | None = None, fingerprint: str | None = None
    ) -> None:
        if isinstance(model, type) or not callable(getattr(model, "predict", None)):
            raise TypeError(
                f"a cross-encoder is an object with .predict(pairs); got {model!r:.60}"
                + ("; pass an instance of the class" if isinstance(model, type) else "")
            )
        self.model = model
        self._name = name or _own_text(model, "name") or type(model).__name__
        self._fingerprint = fingerprint

    def __repr__(self) -> str:
        return f"<cross-encoder {self._name}>"

    @property
    def name(self) -> str:
        """Short name, for tables."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Text that changes when the scores change; the same in every process."""
        if self._fingerprint is None:
            # Asked for late: a folder reads all its weights for it.
            self._fingerprint = _own_text(self.model, "fingerprint") or self._probed()
        return self._fingerprint

    def scores(
        self,
        query: str,
        documents: Iterable[Any],
        batch: int = 32,
        progress: Callable[[int, int], object] | None = None,
    ) -> Floats:
        """Score documents for a query, each distinct text once.

        Parameters
        ----------
        query : str
            Text with content.
        documents : iterable of str, mapping or object
            n texts, or documents as `CausalReranker.rank` takes them; the model reads title and
            text.
        batch : int
            How many pairs the model is given at once, at least 1.
        progress : callable, optional
            Called as ``progress(done, total)`` after each batch; counts distinct texts.

        Returns
        -------
        (n,) float64 array
            The model's raw outputs, higher is better, in the order of `documents`. A text without
            any visible character is not shown to the model: its score is 1 below the lowest, or 0.0
            if there is no other text.

        Raises
        ------
        ValueError
            If the query is blank, `batch` is below 1, or the model returns NaN, an infinity, a
            wrong number of scores or several per pair. The message names the text.
        TypeError
            If an argument is of an unusable type.
        """
        check_query(query)
        if isinstance(batch, bool) or not isinstance(batch, int):
            raise TypeError(f"batch must be an int, not {type(batch).__name__}")
        if batch < 1:
            raise ValueError(f"batch is {batch}; give at least 1")
        read = read_documents(documents)
        found = self._distinct(query, read, batch, progress)
        lowest = min(found.values(), default=1.0)
        return np.array([found.get(text, lowest - 1.0) for text in read.texts], dtype=np.float64)

    def _probed(self) -> str:
        # Two decimals: linear algebra libraries differ in the last bits of a float32.
        scores = [round(float(self._predict([pair], str)[0]), 2) + 0.0 for pair in _PROBES]
        kind = type(self.model)
        digest = hashlib.sha256(json.dumps(scores).encode()).hexdigest()[:16]
        return f"{kind.__module__}.{kind.__qualname__}:{self._name}:{digest}"

    def _distinct(
        self,
        query: str,
        documents: Documents,
        batch: int,
        progress: Callable[[int, int], object] | None,
    ) -> dict[str, float]:
        first: dict[str, int] = {}
        for index, text in enumerate(documents.texts):
            if not documents.blank[index]:
                first.setdefault(text, index)
        texts = list(first)
        found: dict[str, float] = {}
        for start in range(0, len(texts), batch):
            part = texts[start : start + batch]
            rows = self._predict(
                [(query, text) for text in part], lambda i: documents.name(first[i])
            )
            found.update(zip(part, rows.tolist(), strict=True))
            if progress is not None:
                progress(len(found), len(texts))
        return found

    def _predict(self, pairs: list[tuple[str, str]], name: Callable[[str], str]) -> Floats:
        """Score pairs, shape (n,); `name` names a text in a message."""
        raw = self.model.predict(pairs)
        try:
            array = np.asarray(raw, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"cross-encoder {self._name!r} returned {raw!r:.60}, not a number per pair: {error}"
            ) from error
        # A single pair may give a bare number, and a model with one label a column.
        if array.ndim == 2 and array.shape[1] > 1:
            raise ValueError(
                f"cross-encoder {self._name!r} returned {array.shape[1]} values per pair; a model "
                "that re-ranks has one (num_labels 1)"
            )
        if array.size != len(pairs):
            raise ValueError(
                f"cross-encoder {self._name!r} returned shape {array.shape} for {len(pairs)} "
                "pairs; expected one score per pair"
            )
        scores = array.reshape(len(pairs))
        finite = np.isfinite(scores)
        if not finite.all():
            place = int(np.argmin(finite))
            raise ValueError(
                f"cross-encoder {self._name!r} returned {scores[place]} for {name(pairs[place][1])}"
            )
        return scores


def load_cross_encoder(source: object) -> CrossEncoderAdapter:
    """Give the cross-encoder for a name, a model folder or an object with ``predict``.

    Parameters
    ----------
    source : str, Path or object
        ``"bge-reranker-v2-m3"``, the paper's (section 4.4): its weights are in no package, and are
        read from the folder of that name in ``$CAUSALRAG_MODELS`` by FlagEmbedding (extra
        ``models``). A folder with a sequence classification model of one label and safetensors
        weights, loaded by sentence-transformers (extra ``models``). A Hugging Face name of the form
        owner/name that is no folder: the same from the local Hugging Face cache. Any object with
        ``predict(pairs)``; of a sentence-transformers CrossEncoder the raw outputs are taken, past
        its activation.

    Returns
    -------
    CrossEncoderAdapter

    Raises
    ------
    TypeError
        If `source` is None or of another type.
    UnknownEncoderError
        If a string or path is neither a known name nor a folder, and in no local cache (a
        `ValueError` and a `FileNotFoundError`).
    FileNotFoundError
        If the weights of a known name are not there; the message says how to get them.
    ValueError
        If the folder holds no sequence classification model, one with several labels, one without
        a trained head or a vocabulary, or pickled weights only.
    ImportError
        If the extra is not installed or broken; the message holds the install line.
    """
    if isinstance(source, CrossEncoderAdapter):
        return source
    if isinstance(source, str) and source in CROSS_ENCODERS:
        folder = weights_folder(source, CROSS_ENCODERS[source])
        return CrossEncoderAdapter(BgeReranker(folder, source))
    if isinstance(source, str | Path):
        folder, hub = _find_folder(source, "cross-encoder", CROSS_ENCODERS)
        kind = BgeReranker if hub in CROSS_ENCODERS.values() else _Folder
        with complete(hub):
            return CrossEncoderAdapter(kind(folder, hub or folder.resolve().name))
    if not hasattr(source, "predict"):
        known = ", ".join(CROSS_ENCODERS)
        raise TypeError(
            f"a cross-encoder is a known name ({known}), a folder or an object with .predict; "
            f"got {source!r:.60}"
        )
    library = sys.modules.get("sentence_transformers")
    if library is not None and isinstance(source, library.CrossEncoder):
        return CrossEncoderAdapter(_Raw(source, "CrossEncoder"))
    return CrossEncoderAdapter(source)


class _Raw:
    """A sentence-transformers CrossEncoder, asked for its raw outputs."""

    def __init__(self, model: Any, name: str) -> None:
        if model.num_labels != 1:
            raise ValueError(
                f"cross-encoder {name!r} has {model.num_labels} labels; a model that re-ranks has "
                "one (num_labels 1)"
            )
        self.name = name
        self._model = model
        self._lock = threading.Lock()  # fast tokenizers refuse to be shared by threads

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """Score n pairs, shape (n,)."""
        # An activation given here comes before the one the model was saved with.
        with self._lock:
            return self._model.predict(
                [(well_formed(query), well_formed(text)) for query, text in pairs],
                activation_fn=_unchanged,
                show_progress_bar=False,
            )


class _Folder(_Raw):
    """A sequence classification model in a folder, loaded through sentence-transformers."""

    def __init__(self, folder: Path, name: str) -> None:
        check_classifier(folder)
        check_safetensors(folder)
        library = import_extra(name, "models", "sentence_transformers", "cross-encoder")
        try:
            model = library.CrossEncoder(
                str(folder),
                local_files_only=True,
                activation_fn=_unchanged,
                # Safetensors only: the other format is a pickle. Half precision is rough on a CPU.
                model_kwargs={"use_safetensors": True, "dtype": "float32"},
            )
            _check_head(folder, model)
            check_vocabulary(folder, model.tokenizer)
        except loading_errors() as error:
            raise ValueError(f"cannot load the cross-encoder in {folder}: {error}") from error
        super().__init__(model, name)
        self._folder = folder
        _limit_length(model)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the configuration, vocabulary and weights; read when first asked for."""
        return folder_fingerprint(self._folder)


def _check_head(folder: Path, model: Any) -> None:
    """Refuse weights without the head, which would be made up at random."""
    inner = model.model
    body = f"{inner.base_model_prefix}."
    head = {key for key in inner.state_dict() if not key.startswith(body)}
    if missing := sorted(head - stored_tensors(folder)):
        raise ValueError(f"the weights lack the classification head ({', '.join(missing)})")


def _limit_length(model: Any) -> None:
    """Keep long texts within the positions that a model of RoBERTa's family has."""
    config = model.model.config
    if "roberta" not in config.model_type:
        return
    # Its positions are counted from the padding token's number on, which the library overlooks
    # where the tokenizer names no limit.
    limit = config.max_position_embeddings - config.pad_token_id - 1
    if model.max_seq_length is None or model.max_seq_length > limit:
        model.max_seq_length = limit


def _unchanged(scores: Any) -> Any:
    return scores
