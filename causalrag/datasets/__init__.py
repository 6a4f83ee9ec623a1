"""Data sets: theme folders with known roles, and BEIR's relevance judgments.

Themes are in `themes`, BEIR in `beir`; this module gathers them.
"""

from causalrag.datasets.beir import beir_qrels
from causalrag.datasets.themes import (
    ROLES,
    Corpus,
    Document,
    Theme,
    diagnostic,
    load_themes,
    opening,
    second,
)

__all__ = [
    "ROLES",
    "Corpus",
    "Document",
    "Theme",
    "beir_qrels",
    "diagnostic",
    "load_themes",
    "opening",
    "second",
]
