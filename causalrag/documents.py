"""Candidate documents as callers hand them over, read once into plain tuples and arrays.

A document is a ``str``, a mapping with ``text`` (and optionally ``id``, ``title``, ``vector``), or
an object with ``.text`` or ``.page_content``. What is encoded, and what keywords come from, is
``title + " " + text``. Nothing here writes to a caller's object, and nothing here scores.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalrag.encoders import Encoder, Role
from causalrag.vectors import dot, unit, usual_cosines

__all__ = [
    "Documents",
    "check_query",
    "document_cosines",
    "document_vectors",
    "encode",
    "is_blank",
    "joined",
    "query_vector",
    "read_documents",
]

Floats = NDArray[np.float64]

# The usual type first: to ask for an abstract one is slow.
_MAPPINGS, _HASHABLE = (dict, Mapping), (str, Hashable)


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents in the caller's order.

    Attributes
    ----------
    originals : tuple
        The caller's own objects.
    ids : tuple of hashable
        The caller's ids; ``str(index)`` where none was given.
    contents : tuple of str or (str, str)
        Text, or title and text; not yet joined, for that is slow over many documents.
    vectors : mapping of int to array_like
        The precomputed vectors, by position, as given; `document_vectors` checks them.
    """

    originals: tuple[Any, ...]
    ids: tuple[Hashable, ...]
    contents: tuple[str | tuple[str, str], ...]
    vectors: Mapping[int, Any]

    def __len__(self) -> int:
        return len(self.originals)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """``title + " " + text``, or ``text`` where there is no title."""
        return tuple(joined(content) for content in self.contents)

    @cached_property
    def blank(self) -> NDArray[np.bool_]:
        """Which texts have no visible character, shape (n,)."""
        found = (
            is_blank(content) if isinstance(content, str) else all(map(is_blank, content))
            for content in self.contents
        )
        return np.fromiter(found, dtype=np.bool_, count=len(self))

    def name(self, index: int) -> str:
        """Name a document in a message: its position, its id and how its text begins."""
        text = joined(self.contents[index])
        start = text if len(text) <= 40 else text[:40] + "…"
        return f"documents[{index}] (id {self.ids[index]!r}, text {start!r})"


def joined(content: str | tuple[str, str]) -> str:
    """Return the text of one of `Documents.contents`."""
    return content if isinstance(content, str) else f"{content[0]} {content[1]}"


def is_blank(text: str) -> bool:
    """Say whether a text has no visible character: empty, white space, zero-width characters."""
    if text[:1].isalnum():  # nearly always, and the loop below is slow over many texts
        return False
    return all(unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc", "Cf") for char in text)


def check_query(query: object) -> str:
    """Return the query if it is a string with content.

    Raises
    ------
    TypeError
        If `query` is not a string.
    ValueError
        If `query` has no visible character.
    """
    if not isinstance(query, str):
        raise TypeError(f"query must be a str, not {type(query).__name__}")
    if is_blank(query):
        raise ValueError(f"query is blank: {query!r}; give at least one word")
    return query


def read_documents(documents: Iterable[Any]) -> Documents:
    """Read documents of any accepted form.

    Parameters
    ----------
    documents : iterable of str, mapping or object
        See the module's first lines. ``title: None`` counts as no title, ``id: None`` as no id.

    Returns
    -------
    Documents
        In the order given.

    Raises
    ------
    TypeError
        If `documents` is one string, a mapping or not iterable, or if a document, its text, title
        or id is of an unusable type.
    ValueError
        If a mapping has no ``text``, or an id occurs twice.
    """
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
        raise TypeError(
            f"documents must be a list of documents, not one {type(documents).__name__}; "
            "put a single document in a list"
        )
    originals = tuple(documents)
    contents, ids, vectors = [], [], {}
    for index, document in enumerate(originals):
        content, identifier, vector = _read(document, index)
        contents.append(content)
        ids.append(identifier)
        if vector is not None:
            vectors[index] = vector
    _check_unique(ids)
    return Documents(originals, tuple(ids), tuple(contents), vectors)


def query_vector(query: str, encoder: Encoder) -> Floats:
    """Encode one query into a unit vector.

    Parameters
    ----------
    query : str
        Text with content.
    encoder : Encoder
        Called once, with ``role="query"``.

    Returns
    -------
    (h,) float64 array
        Unit length, or zero if the encoder gives a zero vector.

    Raises
    ------
    ValueError
        If the encoder gives a wrong shape, NaN or an infinity.
    """
    vector: Floats = encode([query], encoder, "query")[0]
    return vector


def encode(texts: list[str], encoder: Encoder, role: Role) -> Floats:
    """Encode texts into unit rows.

    Parameters
    ----------
    texts : list of str
        At least one text.
    encoder : Encoder
        Called once.
    role : {"query", "document"}
        Handed to the encoder.

    Returns
    -------
    (n, h) float64 array
        Unit rows; a zero row stays zero.

    Raises
    ------
    ValueError
        If the model gives another shape, NaN or an infinity; the message names the text.
    """
    # Measured again in float64: a float32 row is a unit vector only to seven digits.
    return unit(encoder.encode(texts, role=role))


def document_vectors(
    documents: Documents,
    encoder: Encoder,
    size: int,
    batch: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Floats:
    """Collect precomputed vectors and encode the other texts, each distinct text once.

    Blank texts are not encoded: their row is zero.

    Parameters
    ----------
    documents : Documents
        As read by `read_documents`.
    encoder : Encoder
        Called with ``role="document"`` on the distinct texts that came without a vector.
    size : int
        The number of dimensions h that every row must have.
    batch : int, optional
        How many texts are handed to the encoder at once; None hands over all.
    progress : callable, optional
        Called as ``progress(done, total)``, counting the texts to encode, after each batch.

    Returns
    -------
    (n, h) float64 array
        Unit rows; a zero row stays zero.

    Raises
    ------
    ValueError
        If a vector is not a finite array of shape (h,), or the model gives NaN or an infinity.
    """
    blank = documents.blank
    wanted = [i for i in range(len(documents)) if i not in documents.vectors and not blank[i]]
    distinct = {
        text: row for row, text in enumerate(dict.fromkeys(documents.texts[i] for i in wanted))
    }
    encoded = _encode_all(list(distinct), encoder, batch, progress) if distinct else None
    if encoded is not None and encoded.shape[1] != size:
        raise ValueError(
            f"the encoder gave {documents.name(wanted[0])} {encoded.shape[1]} dimensions, "
            f"expected {size}; encode queries and documents with one model"
        )
    rows = np.zeros((len(documents), size))
    if documents.vectors:
        rows[list(documents.vectors)] = _given_vectors(documents, size)
    if encoded is not None:
        rows[wanted] = encoded[[distinct[documents.texts[i]] for i in wanted]]
    return unit(rows)


def document_cosines(
    documents: Documents, encoder: Encoder, query: Floats
) -> tuple[Floats, frozenset[int]]:
    """Compute the cosine of each document with a query (Eq. 1).

    Parameters
    ----------
    documents, encoder
        As in `document_vectors`.
    query : (h,) float64 array
        A unit or zero vector.

    Returns
    -------
    cosines : (n,) float64 array
        0 for a blank document and for a zero vector.
    zero : frozenset of int
        The positions of documents with a zero vector, blank ones included.

    Raises
    ------
    ValueError
        As `document_vectors`.
    """
    if len(documents.vectors) == len(documents):
        usual = usual_cosines(list(documents.vectors.values()), query)
        if usual is not None:
            return usual, frozenset()
    vectors = document_vectors(documents, encoder, len(query))
    zero = np.flatnonzero(~vectors.any(axis=1))
    return dot(vectors, query), frozenset(zero.tolist())


def _read(document: Any, index: int) -> tuple[str | tuple[str, str], Hashable, Any]:
    """Return content, id and vector of one document."""
    if isinstance(document, str):
        return document, str(index), None
    if isinstance(document, _MAPPINGS):
        if "text" not in document:
            raise ValueError(
                f"documents[{index}] has no 'text'; its keys are {sorted(map(str, document))}"
            )
        text, field = document["text"], document.get
    elif hasattr(document, "text"):
        text, field = document.text, partial(_attribute, document)
    elif hasattr(document, "page_content"):
        text, field = document.page_content, partial(_attribute, document)
    else:
        raise TypeError(
            f"documents[{index}] is a {type(document).__name__}; give a str, a mapping with "
            "'text', or an object with .text or .page_content"
        )
    title, identifier, vector = field("title"), field("id"), field("vector")
    if not isinstance(text, str):
        raise TypeError(f"the text of documents[{index}] is a {type(text).__name__}, not a str")
    if title is not None and not isinstance(title, str):
        kind = type(title).__name__
        raise TypeError(f"the title of documents[{index}] is a {kind}, not a str")
    if identifier is None:
        identifier = str(index)
    elif not isinstance(identifier, _HASHABLE):
        kind = type(identifier).__name__
        raise TypeError(f"the id of documents[{index}] is a {kind}: not hashable")
    content = (title, text) if title and not title.isspace() else text
    return content, identifier, vector


def _attribute(document: Any, name: str) -> Any:
    value = getattr(document, name, None)
    # A method that happens to be called `title` or `id` is not a field.
    return None if callable(value) else value


def _check_unique(ids: Collection[Hashable]) -> None:
    if len(set(ids)) == len(ids):
        return
    first: dict[Hashable, int] = {}
    for index, identifier in enumerate(ids):
        if identifier in first:
            raise ValueError(
                f"duplicate document id {identifier!r}: documents[{first[identifier]}] and "
                f"documents[{index}]; give each its own (the default is the document's position)"
            )
        first[identifier] = index


def _given_vectors(documents: Documents, size: int) -> Floats:
    given = documents.vectors
    try:
        rows = np.asarray(list(given.values()), dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.zeros(0)
    if rows.shape == (len(given), size) and np.isfinite(rows).all():
        return rows
    # One of them is at fault: find it and name it.
    for index, vector in given.items():
        name = f"the vector of {documents.name(index)}"
        try:
            row = np.asarray(vector, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} is not numeric: {error}") from error
        if row.ndim != 1:
            raise ValueError(f"{name} has shape {row.shape}, expected ({size},)")
        if len(row) != size:
            raise ValueError(
                f"{name} has {len(row)} dimensions, expected {size}; precompute it with the "
                "encoder that encodes the query"
            )
        if not np.isfinite(row).all():
            raise ValueError(f"{name} holds NaN or an infinity")
    raise ValueError("the documents' vectors cannot be read as one matrix")


def _encode_all(
    texts: list[str],
    encoder: Encoder,
    batch: int | None,
    progress: Callable[[int, int], object] | None,
) -> Floats:
    step = batch or len(texts)
    parts = []
    for start in range(0, len(texts), step):
        parts.append(encode(texts[start : start + step], encoder, "document"))
        if progress is not None:
            progress(min(start + step, len(texts)), len(texts))
    return np.concatenate(parts)
