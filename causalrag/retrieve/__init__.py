"""First stages: dense (Eqs. 1-2), BM25, their fusion, and query expansion by feedback.

Each gives scores that `CausalReranker.rank` takes as ``scores=``, so that the rule can be put on
top of any of them. Nothing here re-ranks.
"""

from __future__ import annotations

from causalrag.retrieve.base import Hits
from causalrag.retrieve.bm25 import BM25Retriever, NoMatchWarning
from causalrag.retrieve.dense import DenseRetriever, dense
from causalrag.retrieve.expansion import Expansion, rm3
from causalrag.retrieve.fusion import reciprocal_rank_fusion, score_fusion

__all__ = [
    "BM25Retriever",
    "DenseRetriever",
    "Expansion",
    "Hits",
    "NoMatchWarning",
    "dense",
    "reciprocal_rank_fusion",
    "rm3",
    "score_fusion",
]
