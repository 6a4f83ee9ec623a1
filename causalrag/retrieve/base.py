"""What the first stages have in common: their result and the checks of what they are given."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from causalrag.documents import Documents

Floats = NDArray[np.float64]


class Hits(NamedTuple):
    """What one query retrieves, best first; unpacks as ``indices, scores``.

    Attributes
    ----------
    indices : (r,) int64 array
        Positions of the documents.
    scores : (r,) float64 array
        Their scores: cosines with the query, or BM25 scores.
    """

    indices: NDArray[np.int64]
    scores: Floats


def as_candidates(documents: Documents, hits: Hits) -> list[dict[str, Any]]:
    """Return retrieved documents in the form `CausalReranker.rank` takes; a vector if one came."""
    found = []
    for index in hits.indices.tolist():
        candidate = {
            "id": documents.ids[index],
            "text": documents.texts[index],
            "document": documents.originals[index],
        }
        if index in documents.vectors:
            candidate["vector"] = documents.vectors[index]
        found.append(candidate)
    return found


def fitted(documents: Documents | None) -> Documents:
    """Return the documents, or say that `fit` was not called."""
    if documents is None:
        raise RuntimeError("this retriever holds no documents yet: call fit(documents) first")
    return documents


def check_list(queries: Any) -> None:
    """Refuse one query where several are taken."""
    if isinstance(queries, str):
        raise TypeError("queries must be a list of str; use search for one query")


def check_count(name: str, value: int) -> None:
    """Refuse what is not an int of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} is {value}; give at least 1")
