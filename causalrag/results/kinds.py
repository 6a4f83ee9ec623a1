"""What a stored result holds: its kinds with their tables and columns, and its provenance.

Reading and writing are in `stored` (JSON) and `parquet`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

CORPORA = ("opening", "diagnostic", "second")
BENCHMARKS = ("scifact", "nfcorpus", "arguana", "arguana_with_self")
TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "themes": {"ranks": ("theme", "document", "role", "method", "rank", "score")},
    "cost": {
        "corpus": ("documents", "embed_s", "fit_s", "text_s", "text_low", "text_high", "batches"),
        "queries": (
            "query_id",
            "k",
            "query_s",
            "search_s",
            "cold_s",
            "warm_s",
            "extractions",
            "term_encodings",
            "keywords",
            "residual",
        ),
        "summary": ("k", "measure", "n", "median", "low", "high"),
    },
    # One table each: these are kept as Parquet.
    "beir": {
        "queries": (
            "dataset",
            "encoder",
            "method",
            "window",
            "tau",
            "query_id",
            "nDCG@10",
            "P@5",
            "RR@10",
        )
    },
    "beir_candidates": {
        "candidates": (
            "query_id",
            "first_stage",
            "doc_id",
            "grade",
            "base",
            "causal_exact",
            "causal",
            "has_residual_exact",
            "has_residual",
            "overlap",
            "shared_weight",
            "excess_repetition",
            "coverage",
            "keyword_repetition",
            "bend",
        )
    },
    "beir_scores": {"scores": ("query_id", "doc_id", "score")},
    "phase": {
        "queries": (
            "dataset",
            "encoder",
            "attack",
            "rate",
            "method",
            "query_id",
            "nDCG@10",
            "stuffed_in_10",
            "largest_excess",
        )
    },
    "choice": {"forms": ("form", "attack", "rate", "query_id", "nDCG@10")},
    "adversary": {
        "documents": (
            "attack",
            "strength",
            "query_id",
            "number",
            "method",
            "rank",
            "base",
            "first_base",
            "excess_to_bend",
            "coverage",
        )
    },
    "sign": {"queries": ("documents", "query_id", "measure", "pairing", "value", "others")},
    "ablations": {"measures": ("study", "setting", "method", "query_id", "measure", "value")},
    "case_ranks": {"ranks": ("query_id", "window", "method", "doc_id", "rank")},
    "case_candidates": {
        "candidates": (
            "query_id",
            "doc_id",
            "title",
            "base",
            "causal_exact",
            "causal",
            "has_residual_exact",
            "has_residual",
            "overlap",
            "shared_weight",
            "excess_repetition",
        )
    },
    "case_terms": {
        "terms": (
            "query_id",
            "doc_id",
            "set",
            "term",
            "weight",
            "absorbed_by",
            "cosine",
            "contribution",
        )
    },
    "case_density": {
        "density": (
            "query_id",
            "doc_id",
            "similarity",
            "heading_hits",
            "heading_tokens",
            "body_hits",
            "body_tokens",
        )
    },
    "case_growth": {"growth": ("query_id", "order", "size", "rank")},
    "case_vectors": {"vectors": ("doc_id", "title", "vector")},
}
_PROVENANCE = ("command", "corpus", "made", "model", "platform", "settings", "versions")


@dataclass(frozen=True)
class Stored:
    """One stored result.

    Attributes
    ----------
    kind : str
        A key of `TABLES`: ``"themes"``, ``"cost"``, ``"beir"``, ``"beir_candidates"`` or
        ``"beir_scores"``.
    provenance : dict
        ``command`` (which makes it anew), ``made`` (a date), ``corpus`` (name and checksums),
        ``model`` (name, kind and fingerprint), ``settings``, ``versions`` and ``platform``.
    tables : dict of str to DataFrame
        By the names and columns of `TABLES`.
    """

    kind: str
    provenance: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]


def check(kind: str, provenance: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> None:
    """Refuse an unknown kind, an incomplete provenance, and tables of other columns.

    Raises
    ------
    ValueError
        Says what is wrong.
    """
    if kind not in TABLES:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(TABLES)}")
    if missing := sorted(set(_PROVENANCE) - set(provenance)):
        raise ValueError(f"the provenance lacks {', '.join(missing)}")
    for name, columns in TABLES[kind].items():
        if name not in tables:
            raise ValueError(f"the table {name!r} is missing")
        if tuple(tables[name].columns) != columns:
            raise ValueError(
                f"the table {name!r} has the columns {list(tables[name].columns)}, "
                f"expected {list(columns)}"
            )


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; its folder is made if absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the file and renamed, so that no reader meets half a file; two writers do not share it.
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
