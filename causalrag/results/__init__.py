"""Stored results: tables that were made once, with where they come from.

What needs torch, a download or a quiet machine is run by `make results` and kept. Small tables are
JSON (`save`, `load`, `read`; in `stored`), large ones Parquet (`save_parquet`, `load_parquet`; in
`parquet`), those of the benchmarks among them (`read_beir`, `local_beir`; in `benchmarks`) and of
the case study (`read_cases`, `local_laws`; in `cases`). What each kind holds stands in `kinds`.
Nothing here ranks or measures, and where the files lie is the caller's to say.
"""

from __future__ import annotations

from causalrag.results.benchmarks import (
    BeirResults,
    beir_checksums,
    local_beir,
    read_beir,
    read_phase,
)
from causalrag.results.cases import (
    CaseResults,
    LawVectors,
    case_checksums,
    local_laws,
    read_cases,
)
from causalrag.results.kinds import BENCHMARKS, CORPORA, TABLES, Stored
from causalrag.results.parquet import load_parquet, save_parquet
from causalrag.results.stored import corpus_checksums, load, read, save

__all__ = [
    "BENCHMARKS",
    "CORPORA",
    "TABLES",
    "BeirResults",
    "CaseResults",
    "LawVectors",
    "Stored",
    "beir_checksums",
    "case_checksums",
    "corpus_checksums",
    "load",
    "load_parquet",
    "local_beir",
    "local_laws",
    "read",
    "read_beir",
    "read_cases",
    "read_phase",
    "save",
    "save_parquet",
]
