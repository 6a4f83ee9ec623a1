"""Text encoders E(.) of section 3.1: one contract for named models, folders and any object.

`load_encoder` gives an object whose ``encode`` returns unit float32 rows, checked for shape and for
values that are not finite. `encode_terms` encodes keyword terms, each at most once per process.
Nothing is downloaded, and no model is imported before it is asked for.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import threading
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from causalrag._models import MODELS, folder_encoder
from causalrag._weights import complete, hub_folder, is_hub_name
from causalrag.termtable import TermTable, TermTables

Vectors = NDArray[np.float32]
Role = Literal["query", "document", "term"]
ROLES: tuple[str, ...] = get_args(Role)

_PROBES = ("causal re-ranking for retrieval", "数据出境安全评估")


class UnknownEncoderError(ValueError, FileNotFoundError):
    """The argument of `load_encoder` is neither a known name nor an existing folder."""


class Encoder(Protocol):
    """What the rest of the library expects of an encoder."""

    @property
    def name(self) -> str:
        """Short name, for tables."""

    @property
    def dimension(self) -> int:
        """Length h of a vector."""

    @property
    def fingerprint(self) -> str:
        """Text that changes when the vectors change; the same in every process."""

    def encode(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Encode n texts as unit rows, float32, shape (n, h)."""


class EncoderAdapter:
    """Any object with ``encode``, held to the contract of `Encoder`.

    Parameters
    ----------
    model : object
        Its ``encode(texts)`` returns n rows for n texts. ``role`` is passed only if the signature
        names it. Attributes ``name``, ``dimension`` and ``fingerprint`` are used where they exist.
    name, fingerprint : str, optional
        Used instead of the model's own.
    blank_is_zero : bool, default False
        Give a text without any visible character a zero row, and do not hand it to the model.

    Notes
    -----
    Equal texts in one call are encoded once, so their rows are identical to the last bit. Without a
    fingerprint of its own, a model gets one from its class, name, dimension and the vectors of two
    fixed probe texts, on first access. The term cache does not rely on those two probes: it tells
    such models apart by object.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        fingerprint: str | None = None,
        blank_is_zero: bool = False,
    ) -> None:
        encode = getattr(model, "encode", None)
        if isinstance(model, type) or not callable(encode):
            raise TypeError(
                f"an encoder is an object with .encode(texts); got {_short(model)}"
                + ("; pass an instance of the class" if isinstance(model, type) else "")
            )
        self.model = model
        declared = getattr(model, "dimension", None)
        self._dimension = int(declared) if _is_count(declared) else None
        self._name = name or _own_text(model, "name") or type(model).__name__
        self._declared = fingerprint or _own_text(model, "fingerprint")
        self._fingerprint = self._declared
        self._takes_role = _takes_role(encode)
        self._blank_is_zero = blank_is_zero
        # Two objects may agree on the probes and differ elsewhere: never let them share terms.
        self._cache_key = self._declared or _object_key(model)

    def __repr__(self) -> str:
        return f"<encoder {self._name}>"

    @property
    def name(self) -> str:
        """Short name, for tables."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length h of a vector; a model that does not declare it encodes one probe text."""
        if self._dimension is None:
            self.encode(_PROBES[:1])
        return int(self._dimension or 0)

    @property
    def fingerprint(self) -> str:
        """Text that changes when the vectors change; see the class notes."""
        if self._fingerprint is None:
            # Two decimals: linear algebra libraries differ in the last bits of a float32.
            rounded = np.round(self.encode(_PROBES).astype(np.float64), 2) + 0.0
            digest = hashlib.sha256(rounded.tobytes()).hexdigest()[:16]
            kind = type(self.model)
            self._fingerprint = (
                f"{kind.__module__}.{kind.__qualname__}:{self._name}:{self._dimension}:{digest}"
            )
        return self._fingerprint

    def encode(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Encode texts as unit rows.

        Parameters
        ----------
        texts : sequence of str
            n texts; may be empty.
        role : {"query", "document", "term"}
            What the texts are; matters to models with prefixes.

        Returns
        -------
        ndarray of float32, shape (n, h)
            Rows of length 1. A zero row of the model stays zero.

        Raises
        ------
        TypeError
            If `texts` is one string or None, or holds something that is not a string.
        ValueError
            If `role` is unknown, or the model returns a wrong number of rows, another dimension
            than before, or a value that is not finite.
        """
        items = _checked_texts(texts)
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}; known: {', '.join(ROLES)}")
        if not items:
            return np.zeros((0, self.dimension), dtype=np.float32)
        unique = list(dict.fromkeys(items))
        visible = [t for t in unique if not (self._blank_is_zero and _is_blank(t))]
        rows = self._call(visible, role) if visible else self.encode([], role)
        # Row -1 is the zero row of the texts that were not handed to the model.
        table = np.concatenate([rows, np.zeros((1, rows.shape[1]), dtype=np.float32)])
        position = {text: i for i, text in enumerate(visible)}
        return table[[position.get(text, -1) for text in items]]

    def _call(self, texts: list[str], role: Role) -> Vectors:
        raw = self.model.encode(texts, role=role) if self._takes_role else self.model.encode(texts)
        try:
            array = np.asarray(raw, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"encoder {self._name!r} returned {_short(raw)}, not one vector per text: {error}"
            ) from error
        if array.ndim != 2 or len(array) != len(texts) or array.shape[1] == 0:
            raise ValueError(
                f"encoder {self._name!r} returned shape {array.shape} for {len(texts)} texts; "
                "expected one row per text"
            )
        if self._dimension is None:
            self._dimension = array.shape[1]
        elif array.shape[1] != self._dimension:
            raise ValueError(
                f"encoder {self._name!r} returned vectors of dimension {array.shape[1]}; "
                f"its dimension is {self._dimension}"
            )
        return _unit_rows(array, texts, self._name)


def load_encoder(source: object) -> EncoderAdapter:
    """Give the encoder for a name, a model folder or an object with ``encode``.

    Parameters
    ----------
    source : str, Path or object
        A known name: ``"use"`` (Universal Sentence Encoder multilingual v3; Chinese, English and
        more; 512 dimensions), ``"minilm"`` (all-MiniLM-L6-v2, English; extra ``models``), ``"e5"``
        (multilingual-e5-small in 4 bits; extra ``e5``), ``"bge-m3"`` (BGE-M3, dense; extra
        ``models``; the folder ``bge-m3`` below ``$CAUSALRAG_MODELS``). A folder (extra ``models``):
        BGE-M3, if it holds ``colbert_linear.pt`` or ``sparse_linear.pt``, or a bare XLM-RoBERTa
        without ``modules.json``; a model saved by sentence-transformers otherwise. A Hugging Face
        name of the form owner/name that is no folder, such as
        ``"sentence-transformers/all-mpnet-base-v2"``: the same from the local Hugging Face cache.
        Any object with ``encode(texts)`` or ``encode(texts, role)``.

    Returns
    -------
    EncoderAdapter
        The same object each time for a known name.

    Raises
    ------
    TypeError
        If `source` is None or of another type.
    UnknownEncoderError
        If a string or path is neither a known name nor a folder, and in no local cache (a
        `ValueError` and a `FileNotFoundError`).
    FileNotFoundError
        If there is no folder with the weights of ``"bge-m3"``; the message says how to get them.
    ValueError
        If the folder holds no such model, or one that lacks a part; BGE-M3 needs both its heads.
    ImportError
        If the encoder needs an extra that is not installed; the message holds the install line.
    """
    if isinstance(source, EncoderAdapter):
        return source
    if isinstance(source, str) and source in MODELS:
        with _LOADING:
            if source not in _LOADED:
                _LOADED[source] = EncoderAdapter(MODELS[source](), blank_is_zero=True)
            return _LOADED[source]
    known = ", ".join(MODELS)
    if isinstance(source, str | Path):
        folder, hub = _find_folder(source, "encoder", MODELS)
        with complete(hub):
            # In the cache a folder is named for the commit that it holds.
            model = folder_encoder(folder, hub, hub and f"{hub}@{folder.name}")
        return EncoderAdapter(model, blank_is_zero=True)
    if not hasattr(source, "encode"):
        raise TypeError(
            f"an encoder is a known name ({known}), a folder or an object with .encode; "
            f"got {_short(source)}"
        )
    return EncoderAdapter(source)


def _find_folder(source: str | Path, kind: str, known: Iterable[str]) -> tuple[Path, str | None]:
    """Give a model's folder and, if it lies in the local cache, its Hugging Face name."""
    folder = Path(source).expanduser()
    if str(source).strip() and folder.is_dir():
        return folder, None
    names = f"unknown {kind} {str(source)!r}: not a known name ({', '.join(known)})"
    if not isinstance(source, str) or not is_hub_name(source):
        raise UnknownEncoderError(f"{names} and no such folder")
    cached = hub_folder(source, kind)
    if cached is None:
        raise UnknownEncoderError(
            f"{names}, no such folder, and no model of that name in the local Hugging Face cache. "
            f"Nothing is downloaded here; fetch it once with: hf download {source}"
        )
    return cached, source


class TermCache(TermTables):
    """Vectors of terms, kept by encoder fingerprint and text; safe to share by threads.

    Parameters
    ----------
    max_bytes : int, default 256 MiB
        Bound on the stored vectors. The least recently used go first. 256 MiB hold about 130,000
        terms of 512 dimensions. Room for new ones, at most as much again, comes on top.

    Notes
    -----
    One lock is held while missing terms are encoded, so that no term is encoded twice. A model
    without a fingerprint of its own is keyed by object: change its weights in place and its old
    vectors stay until `clear` is called.
    """

    def __init__(self, max_bytes: int = 256 * 2**20) -> None:
        if not _is_count(max_bytes):
            raise ValueError(f"max_bytes must be a positive integer, got {max_bytes!r}")
        super().__init__(max_bytes)

    def lend(self, encoder: object) -> AbstractContextManager[TermTable]:
        """Lend the table of an encoder's terms; see `TermTables.lend_key`."""
        return self.lend_key(load_encoder(encoder)._cache_key)

    def encode(self, encoder: object, terms: Iterable[str]) -> Vectors:
        """Encode terms with role ``"term"``; see `encode_terms`."""
        adapter = load_encoder(encoder)
        items = _checked_texts(terms)
        if not items:
            return np.zeros((0, adapter.dimension), dtype=np.float32)
        with self.lend(adapter) as table:
            rows = table.rows(items, partial(adapter.encode, role="term"))
            found: Vectors = table.vectors[rows]
        return found


def encode_terms(encoder: object, terms: Iterable[str], cache: TermCache | None = None) -> Vectors:
    """Encode keyword terms E(t), each at most once per process (section 3.4).

    Parameters
    ----------
    encoder : Encoder, name, folder or object with ``encode``
        Passed through `load_encoder`.
    terms : iterable of str
        n terms, such as a `Keywords` mapping; may be empty.
    cache : TermCache, optional
        By default `TERM_CACHE`, which the process shares.

    Returns
    -------
    ndarray of float32, shape (n, h)
        A new array; unit rows, a zero row stays zero.

    Raises
    ------
    TypeError, ValueError
        As `EncoderAdapter.encode`.
    """
    return (TERM_CACHE if cache is None else cache).encode(encoder, terms)


def _unit_rows(array: NDArray[np.float64], texts: Sequence[str], name: str) -> Vectors:
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        text = texts[int(np.argmin(finite))]
        raise ValueError(
            f"encoder {name!r} returned a value that is not finite for the text {_short(text)}"
        )
    # Scaled by the largest entry first: the square of a huge or a tiny value leaves float64.
    largest = np.abs(array).max(axis=1, keepdims=True)
    scaled = np.divide(array, largest, out=np.zeros_like(array), where=largest > 0)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit: Vectors = np.divide(scaled, length, out=scaled, where=length > 0).astype(np.float32)
    return unit


def _checked_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str | bytes) or texts is None:
        raise TypeError(f"texts must be a list of strings, got {_short(texts)}; wrap one as [text]")
    items = list(texts)
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise TypeError(f"text {i} must be a string, got {_short(item)}")
    return items


def _is_blank(text: str) -> bool:
    # Zs, Zl, Zp: spaces; Cc, Cf: controls and zero-width characters.
    return all(unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc", "Cf") for c in text)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) > 0


def _own_text(model: object, attribute: str) -> str | None:
    value = getattr(model, attribute, None)
    return value if isinstance(value, str) and value else None


def _takes_role(encode: Callable[..., Any]) -> bool:
    try:
        parameter = inspect.signature(encode).parameters.get("role")
    except (TypeError, ValueError):  # some compiled callables have no signature
        return False
    return parameter is not None and parameter.kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )


def _object_key(model: object) -> str:
    """Give one key per live object, never used again for another one."""
    number = id(model)
    with _LOADING:
        known = _OBJECTS.get(number)
        if known is not None and known[0]() is model:
            return known[1]
        key = f"object {next(_SERIAL)}"
        with suppress(TypeError):  # without weak references the key lives as long as the adapter
            _OBJECTS[number] = (weakref.ref(model, lambda _: _OBJECTS.pop(number, None)), key)
        return key


def _short(value: object, width: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


_LOADED: dict[str, EncoderAdapter] = {}
_OBJECTS: dict[int, tuple[weakref.ref[Any], str]] = {}
_SERIAL = itertools.count(1)
_LOADING = threading.RLock()
TERM_CACHE = TermCache()
