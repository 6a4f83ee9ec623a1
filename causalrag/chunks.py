"""Long texts cut into overlapping chunks, and one vector per text from its chunks' vectors.

Section 4.1 of the paper: chunks of 4,096 characters that overlap by 512, embedded and mean-pooled
per file. Parsing and cleaning files is done before; what a model does with a chunk that is longer
than it reads (most cut it off) is the model's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.encoders import Role, Vectors, load_encoder
from causalrag.vectors import COSINE_ROUNDING, unit

__all__ = ["chunk", "mean_pool", "pooled_vectors"]

SIZE, OVERLAP = 4096, 512  # section 4.1
BATCH = 32

Progress = Callable[[int, int], object]


class Encode(Protocol):
    """A function that encodes chunks, such as `EmbeddingCache.encode`."""

    def __call__(
        self, texts: Sequence[str], *, role: Role, progress: Progress | None
    ) -> NDArray[np.float32]:
        """Encode n texts as unit rows, shape (n, h)."""


def chunk(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[str]:
    """Cut a text into overlapping chunks (section 4.1).

    Parameters
    ----------
    text : str
        Any text.
    size : int
        Characters (code points) of a chunk, at least 1; the last chunk may be shorter.
    overlap : int
        How many characters a chunk shares with the one before, from 0 to `size` - 1.

    Returns
    -------
    list of str
        In order. A new chunk begins every ``size - overlap`` characters, until one reaches the end:
        each holds at least one character that the one before lacks. A text of at most `size`
        characters is one chunk; an empty text gives none.

    Raises
    ------
    TypeError
        If `text` is not a string, or a number not an integer.
    ValueError
        If `size` or `overlap` is out of range.

    Examples
    --------
    >>> chunk("abcdefg", size=4, overlap=2)
    ['abcd', 'cdef', 'efg']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    _check_sizes(size, overlap)
    step = size - overlap
    last = max(0, -(-(len(text) - size) // step))  # the first one that reaches the end
    return [text[i * step : i * step + size] for i in range(last + 1)] if text else []


def mean_pool(vectors: ArrayLike, counts: Iterable[int]) -> Vectors:
    """Give each text the mean of its chunks' vectors, at unit length (section 4.1).

    Parameters
    ----------
    vectors : (m, h) array_like
        The chunks' vectors, text by text; unit rows, as encoders give them.
    counts : iterable of int
        How many chunks each of the n texts has; they sum to m.

    Returns
    -------
    (n, h) float32 array
        Unit rows: the cosine of a query with the mean does not depend on the mean's length. The row
        of a text with one chunk is that chunk's, unchanged; that of a text without a chunk, or
        whose chunks cancel, is zero. A zero chunk turns no mean.

    Raises
    ------
    ValueError
        If `vectors` is no matrix, a count is negative, or they do not sum to m.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    sizes = [int(count) for count in counts]
    if rows.ndim != 2:
        raise ValueError(f"vectors must have one row per chunk; their shape is {rows.shape}")
    if min(sizes, default=0) < 0 or sum(sizes) != len(rows):
        raise ValueError(
            f"the counts sum to {sum(sizes)} for {len(rows)} vectors; give each text its number "
            "of chunks, 0 or more"
        )
    result = np.zeros((len(sizes), rows.shape[1]), dtype=np.float32)
    ends = np.cumsum([0, *sizes]).tolist()
    for place, (start, stop) in enumerate(pairwise(ends)):
        if stop == start + 1:
            result[place] = rows[start]
        elif stop > start:
            mean = rows[start:stop].mean(axis=0, dtype=np.float64)
            if np.linalg.norm(mean) > COSINE_ROUNDING:  # else only rounding is left
                result[place] = unit(mean)
    return result


def pooled_vectors(
    texts: Iterable[str],
    encoder: object,
    size: int = SIZE,
    overlap: int = OVERLAP,
    progress: Progress | None = None,
    encode: Encode | None = None,
) -> Vectors:
    """Encode texts of any length: cut into chunks, encoded, mean-pooled (section 4.1).

    Parameters
    ----------
    texts : iterable of str
        n texts.
    encoder : Encoder, name, folder or object with ``encode``
        Passed through `load_encoder`.
    size, overlap : int
        As in `chunk`.
    progress : callable, optional
        Called as ``progress(done, total)``, counting distinct chunks, after each batch.
    encode : callable, optional
        Encodes the chunks in place of `encoder`; called once, as
        ``encode(chunks, role="document", progress=progress)``. The `encode` of an
        `EmbeddingCache` keeps the chunks' vectors on disk.

    Returns
    -------
    (n, h) float32 array
        As from `mean_pool`. A text of at most `size` characters has the vector that the encoder
        gives it; an empty one has a zero row.

    Raises
    ------
    TypeError, ValueError
        As `chunk`, `mean_pool` and `EncoderAdapter.encode`.
    """
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"texts must be a list of strings, not {type(texts).__name__}")
    _check_sizes(size, overlap)
    cut = [chunk(text, size, overlap) for text in texts]
    parts = list(dict.fromkeys(part for pieces in cut for part in pieces))
    if not parts:
        return np.zeros((len(cut), load_encoder(encoder).dimension), dtype=np.float32)
    if encode is None:
        rows = _in_batches(parts, encoder, progress)
    else:
        rows = encode(parts, role="document", progress=progress)
        if rows.ndim != 2 or len(rows) != len(parts):
            raise ValueError(f"encode gave shape {rows.shape} for {len(parts)} chunks")
    row = {part: number for number, part in enumerate(parts)}
    return mean_pool(rows[[row[part] for pieces in cut for part in pieces]], map(len, cut))


def _in_batches(parts: list[str], encoder: object, progress: Progress | None) -> Vectors:
    adapter, rows = load_encoder(encoder), []
    for start in range(0, len(parts), BATCH):
        rows.append(adapter.encode(parts[start : start + BATCH], role="document"))
        if progress is not None:
            progress(min(start + BATCH, len(parts)), len(parts))
    return np.concatenate(rows)


def _check_sizes(size: int, overlap: int) -> None:
    for name, value in (("size", size), ("overlap", overlap)):
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if size < 1:
        raise ValueError(f"size is {size}; a chunk has at least 1 character")
    if not 0 <= overlap < size:
        raise ValueError(
            f"overlap is {overlap}; it must be from 0 to size - 1 = {size - 1}, or the chunks "
            "would not move on"
        )
