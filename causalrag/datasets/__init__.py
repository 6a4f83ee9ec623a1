"""Data sets: theme folders with known roles, the case study's casebook, laws, and BEIR.

Themes are in `themes`, the casebook in `casebook`, the laws in `laws`, BEIR in `beir`; this module
gathers them.
"""

from causalrag.datasets.beir import BeirData, beir, beir_qrels
from causalrag.datasets.casebook import (
    CASE_ROLES,
    CaseDocument,
    CaseQuery,
    CaseStudy,
    Gloss,
    Section,
    case_study,
    load_case_study,
)
from causalrag.datasets.laws import Law, laws, laws_path
from causalrag.datasets.themes import (
    ROLES,
    Corpus,
    Document,
    Theme,
    development,
    diagnostic,
    hard,
    load_themes,
    opening,
    second,
    third,
)

__all__ = [
    "CASE_ROLES",
    "ROLES",
    "BeirData",
    "CaseDocument",
    "CaseQuery",
    "CaseStudy",
    "Corpus",
    "Document",
    "Gloss",
    "Law",
    "Section",
    "Theme",
    "beir",
    "beir_qrels",
    "case_study",
    "development",
    "diagnostic",
    "hard",
    "laws",
    "laws_path",
    "load_case_study",
    "load_themes",
    "opening",
    "second",
    "third",
]
