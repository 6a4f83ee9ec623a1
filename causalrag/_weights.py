"""Folders of models: where they lie, what they must hold, and what to say when they do not.

Used by the classes that load encoders (`causalrag._models`, `causalrag._flag`) and cross-encoders.
Nothing is downloaded, and nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


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
        "folder for models and fetch them into it: "
        + fetch_command(repository, f"$CAUSALRAG_MODELS/{name}")
    )


def fetch_command(repository: str, folder: Path | str) -> str:
    """Give the command that fetches a whole repository into a folder."""
    return f'hf download {repository} --exclude "onnx/*" --local-dir "{folder}"'


def is_hub_name(source: object) -> bool:
    """Tell a Hugging Face name, of the form owner/name."""
    return isinstance(source, str) and _HUB_NAME.fullmatch(source) is not None


def hub_folder(name: str, kind: str) -> Path | None:
    """Give the folder of a Hugging Face name in the local cache, or None; asks no network.

    Raises
    ------
    ImportError
        If huggingface_hub is not installed; the message holds the install line.
    """
    library = import_extra(name, "models", "huggingface_hub", kind)
    for file in ("config.json", "modules.json"):
        try:
            found = library.try_to_load_from_cache(name, file)
        except ValueError:  # a name that the library does not allow, such as one with ".."
            return None
        if isinstance(found, str):  # neither absent nor known to be absent
            return Path(found).parent
    return None


@contextmanager
def complete(name: str | None) -> Iterator[None]:
    """Add to an error of a model from the local cache, if `name` is one, how to complete it."""
    try:
        yield
    except ValueError as error:
        if name is None:
            raise
        raise ValueError(
            f"{error}. If the local Hugging Face cache holds only a part of the model, complete it "
            f"with: hf download {name}"
        ) from error


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


def check_vocabulary(folder: Path, tokenizer: Any) -> None:
    """Refuse a tokenizer without a vocabulary, to which all texts are one unknown token.

    That is what transformers makes, without a word, of a folder that lacks ``tokenizer.json``.
    """
    special = getattr(tokenizer, "all_special_tokens", None)  # not every kind has them
    if special is not None and len(tokenizer) <= len(special):
        raise ValueError(f"{folder} holds no vocabulary: it has no tokenizer.json; fetch it again")


def stored_tensors(folder: Path) -> set[str]:
    """List the names of the tensors in a folder's safetensors files."""
    safe_open = import_module("safetensors").safe_open
    stored: set[str] = set()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(str(path), framework="numpy") as weights:
            stored.update(weights.keys())
    return stored


def read_config(folder: Path) -> dict[str, Any]:
    """Read a folder's config.json."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise TypeError("it holds no object")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no model's configuration ({error}); fetch it again") from error
    return config


def check_classifier(folder: Path) -> None:
    """Refuse a folder whose configuration names no sequence classification model."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} is not a cross-encoder's folder: it has no config.json")
    named = read_config(folder).get("architectures")
    kinds = named if isinstance(named, list) else []
    if not any(str(kind).endswith("ForSequenceClassification") for kind in kinds):
        # Loaded anyway, such a model would be given a head of random numbers.
        raise ValueError(
            f"{folder} holds {', '.join(map(str, kinds)) or 'no named architecture'}, not a "
            "sequence classification model; a cross-encoder's score comes from that head"
        )


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


def import_extra(
    model: str, extra: str, module: str, kind: str = "encoder", beside: str = ""
) -> Any:
    """Import a module of an extra, or say how to install it; `beside` is added to the reason."""
    try:
        return import_module(module)
    # A broken pair of torch and transformers fails with more than ImportError.
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        reason = f"importing {module} failed{beside}: {error}"
        raise missing_extra(model, extra, reason, kind) from error


def missing_extra(model: str, extra: str, reason: str, kind: str = "encoder") -> ImportError:
    """Give the error for an extra that is absent or broken."""
    return ImportError(
        f"{kind} {model!r} needs the extra {extra!r} ({reason}). Install it with: "
        f'pip install "causalrag[{extra}]"'
    )


def package_fingerprint(name: str, package: str) -> str:
    """Give a fingerprint of what a package's version decides."""
    return f"{name}:{package}=={metadata.version(package)}"


def well_formed(text: str) -> str:
    """Give a text that every tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates become "?"
