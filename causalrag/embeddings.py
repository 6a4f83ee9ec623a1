"""Vectors kept on disk, so that no text is encoded twice by one model, whatever interrupts a run.

`EmbeddingCache` is an encoder in front of another: a text and its role are looked up, and encoded
only where they are new. Nothing is searched or scored here, and nothing is ever evicted.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from causalrag.encoders import ROLES, Role, _checked_texts, load_encoder

__all__ = ["DamagedPartWarning", "EmbeddingCache"]

Vectors = NDArray[np.float32]

# Texts that the model is given at once, and what may lie in memory only: so much is lost at most.
BATCH, PART_ROWS, PART_SECONDS = 64, 8192, 10.0


class DamagedPartWarning(UserWarning):
    """A file of the cache was damaged and is removed; its vectors are computed anew."""


class EmbeddingCache:
    """An encoder that keeps its vectors in a folder.

    Parameters
    ----------
    folder : path
        Where the vectors lie; made if absent. Each encoder has a folder of its own in it, named by
        its name and fingerprint, so one place serves all encoders and all corpora.
    encoder : Encoder, str or any object that `load_encoder` accepts
        Encodes what is not there. Its fingerprint must tell models apart: the vectors outlive the
        process.

    Attributes
    ----------
    folder : Path
        The encoder's own folder.
    encoder : EncoderAdapter
        What was given.

    Notes
    -----
    A text is known by the SHA-256 of role and text, so corpora that share texts share vectors.
    Vectors are written in parts of at most a few seconds' work, each a ``.npy`` file under the
    SHA-256 of its content: a part that is cut or changed is seen, named in a
    `DamagedPartWarning`, removed, and made again. A part appears whole or not at all, so a run that
    is killed loses one part at most, and several runs may share a folder; they see each other's
    parts at their next call. New texts are encoded longest first, in batches of a fixed size: a run
    that was interrupted gives a model the same batches as one that was not.

    Examples
    --------
    >>> cache = EmbeddingCache("vectors", "use")  # doctest: +SKIP
    >>> retriever = DenseRetriever(cache).fit(documents)  # doctest: +SKIP
    """

    def __init__(self, folder: str | PathLike[str], encoder: object) -> None:
        self.encoder = load_encoder(encoder)
        named = re.sub(r"[^A-Za-z0-9._-]+", "-", self.name)[:40].strip(".") or "encoder"
        digest = hashlib.sha256(self.fingerprint.encode()).hexdigest()[:16]
        self.folder = Path(folder) / f"{named}-{digest}"
        self._rows: dict[bytes, Vectors] = {}
        self._read: set[str] = set()
        self._size = 0  # h, once a vector is there; asking the encoder may cost it a text

    def __repr__(self) -> str:
        return f"<embeddings of {self.name}: {len(self._rows)} in memory>"

    @property
    def name(self) -> str:
        """The encoder's name."""
        return self.encoder.name

    @property
    def dimension(self) -> int:
        """The encoder's dimension h."""
        if not self._size:
            self._read_parts()
        return self._size or self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    def encode(
        self,
        texts: Iterable[str],
        role: Role = "document",
        progress: Callable[[int, int], object] | None = None,
    ) -> Vectors:
        """Look texts up and encode those that are new.

        Parameters
        ----------
        texts : iterable of str
            n texts; may be empty.
        role : {"query", "document", "term"}
            What the texts are. The same text in another role is another entry.
        progress : callable, optional
            Called as ``progress(done, total)`` after each batch; counts the texts to encode, and is
            not called if there is none.

        Returns
        -------
        (n, h) float32 array
            Unit rows; a zero row of the model stays zero.

        Raises
        ------
        TypeError, ValueError
            As `EncoderAdapter.encode`; if the folder's vectors are of another dimension. What was
            encoded before the error is kept.
        OSError
            If the folder cannot be read or written.

        Warns
        -----
        DamagedPartWarning
            If a part cannot be read as it was written; names the file.
        """
        items = _checked_texts(texts)
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}; known: {', '.join(ROLES)}")
        if not items:
            return np.zeros((0, self.dimension), dtype=np.float32)
        keys = [_key(role, text) for text in items]
        if any(key not in self._rows for key in keys):
            self._read_parts()
            missing = {
                key: text for key, text in zip(keys, items, strict=True) if key not in self._rows
            }
            self._encode_new(missing, role, progress)
        return np.stack([self._rows[key] for key in keys])

    def _encode_new(
        self, missing: dict[bytes, str], role: Role, progress: Callable[[int, int], object] | None
    ) -> None:
        # Equal lengths side by side leave a model little to pad.
        ordered = sorted(missing.items(), key=lambda item: -len(item[1]))
        waiting: dict[bytes, Vectors] = {}
        written = time.monotonic()
        try:
            for start in range(0, len(ordered), BATCH):
                batch = ordered[start : start + BATCH]
                rows = self.encoder.encode([text for _, text in batch], role)
                self._check_size(rows.shape[1])
                waiting.update(zip((key for key, _ in batch), rows, strict=True))
                if len(waiting) >= PART_ROWS or time.monotonic() - written >= PART_SECONDS:
                    self._write(waiting)
                    waiting, written = {}, time.monotonic()
                if progress is not None:
                    progress(start + len(batch), len(ordered))
        finally:  # an interrupt or an error of the model loses no finished batch
            self._write(waiting)

    def _check_size(self, size: int) -> None:
        self._size = self._size or size
        if size != self._size:
            raise ValueError(
                f"{self.folder} holds vectors of {self._size} dimensions, but {self.name!r} gives "
                f"{size}: its fingerprint is that of another encoder; delete the folder"
            )

    def _write(self, rows: dict[bytes, Vectors]) -> None:
        if not rows:
            return
        table = np.empty(len(rows), dtype=_layout(self._size))
        table["key"] = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), 32)
        table["vector"] = list(rows.values())
        file = io.BytesIO()
        np.save(file, table, allow_pickle=False)
        name = f"{hashlib.sha256(file.getvalue()).hexdigest()}.npy"
        self.folder.mkdir(parents=True, exist_ok=True)
        # Under a name that no other run has, and renamed: nobody meets half a part.
        part = self.folder / f".{secrets.token_hex(8)}.part"
        try:
            part.write_bytes(file.getvalue())
            part.replace(self.folder / name)
        finally:
            part.unlink(missing_ok=True)
        self._read.add(name)
        self._rows |= rows

    def _read_parts(self) -> None:
        """Read the parts that appeared since the last call, in the order of their names."""
        for path in sorted(self.folder.glob("*.npy")):
            if path.name in self._read:
                continue
            try:
                table = _table(path.read_bytes(), path.stem)
            except FileNotFoundError:  # another run found it damaged
                continue
            except ValueError as error:
                message = f"{path} is damaged ({error}); its vectors are computed anew"
                warnings.warn(message, DamagedPartWarning, stacklevel=3)
                path.unlink(missing_ok=True)
                continue
            self._check_size(table["vector"].shape[1])
            self._read.add(path.name)
            for key, row in zip(table["key"], table["vector"], strict=True):
                self._rows.setdefault(key.tobytes(), row)


def _key(role: str, text: str) -> bytes:
    # No role holds a line break. A lone surrogate is a text too.
    return hashlib.sha256(f"{role}\n{text}".encode("utf-8", "surrogatepass")).digest()


def _layout(size: int) -> np.dtype[np.void]:
    return np.dtype([("key", "u1", (32,)), ("vector", "<f4", (size,))])


def _table(data: bytes, digest: str) -> NDArray[np.void]:
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError("its checksum is not that of its name")
    table = np.load(io.BytesIO(data), allow_pickle=False)
    if table.ndim != 1 or table.dtype.names != ("key", "vector"):
        raise ValueError(f"its layout is {table.dtype}, shape {table.shape}")
    if table.dtype != _layout(math.prod(table.dtype["vector"].shape)):
        raise ValueError(f"its layout is {table.dtype}")
    found: NDArray[np.void] = table
    return found
