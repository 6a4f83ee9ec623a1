"""Causal re-ranking for retrieval-augmented generation, taught and tested.

The package holds the causal graph of terminal retrieval (`graph`, `simulate`), the re-ranking
rule (`keywords`, `encoders`, `rerank`), the first stage (`retrieve`), the gate that says whether to
use the rule (`gate`) and the ledger of claims (`claims`). Every name below is loaded on first use,
so that ``import causalrag`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = (
    "adjust",
    "calibrate",
    "chat",
    "chunks",
    "claims",
    "cross_encoder",
    "datasets",
    "embeddings",
    "encoders",
    "evaluate",
    "gate",
    "graph",
    "keywords",
    "plots",
    "rerank",
    "results",
    "retrieve",
    "simulate",
    "stuffing",
    "text",
)
_NAMES = {
    "load_encoder": "encoders",
    "load_cross_encoder": "cross_encoder",
    "Keywords": "keywords",
    "TfidfKeywords": "keywords",
    "TextRankKeywords": "keywords",
    "KeyBertKeywords": "keywords",
    "LLMKeywords": "keywords",
    "ChatModel": "chat",
    "partition": "rerank",
    "centroid": "rerank",
    "causal_score": "rerank",
    "hybrid": "rerank",
    "CausalReranker": "rerank",
    "Ranking": "rerank",
}

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
