"""Data sets: theme folders with known roles, and BEIR's collections.

Themes are in `themes`, BEIR in `beir`; this module gathers them.
"""

from causalrag.datasets.beir import BeirData, beir, beir_qrels
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
    "BeirData",
    "Corpus",
    "Document",
    "Theme",
    "beir",
    "beir_qrels",
    "diagnostic",
    "load_themes",
    "opening",
    "second",
]
