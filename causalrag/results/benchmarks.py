"""Stored results of the benchmarks: measures for each query and the candidates behind them.

`read_beir` gives both as tables, `local_beir` the data set that they were made from, where this
machine has it. Nothing here computes a measure.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from causalrag.results.kinds import BENCHMARKS, TABLES, Stored
from causalrag.results.parquet import load_parquet

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.datasets import BeirData

MEASURES = ("nDCG@10", "P@5", "RR@10")


class BeirResults(NamedTuple):
    """What `read_beir` found.

    Attributes
    ----------
    queries : DataFrame
        One row per data set, encoder, method and query: ``dataset``, ``encoder``, ``method``,
        ``window``, ``tau``, ``query_id``, ``nDCG@10``, ``P@5``, ``RR@10``; and ``reranker``, the
        name of the cross-encoder that made the row, else ``""``. ``window`` and ``tau`` are the
        settings of the run, also where a method does not use them.
    candidates : DataFrame
        One row per data set, encoder, query, first stage and candidate, best first: ``dataset``,
        ``encoder``, ``query_id``, ``first_stage``, ``doc_id``, ``grade`` (0 also where nobody
        judged), ``base`` (the first stage's score), ``causal_exact``, ``causal``,
        ``has_residual_exact``, ``has_residual``, ``overlap``, ``shared_weight``,
        ``excess_repetition``, and of `adjust.Surface` ``coverage``, ``keyword_repetition``
        (excess) and ``bend``. A first stage may have fewer than ``window``
        candidates for a query, or none.
    scores : DataFrame
        One row per candidate of similarity that a cross-encoder scored: ``dataset``, ``encoder``,
        ``reranker``, ``query_id``, ``doc_id``, ``score`` (raw).
    provenance : dict
        Data set → encoder → the provenance of both tables, as in `Stored`. That of a cross-encoder
        stands under ``"encoder + reranker"``.
    """

    queries: pd.DataFrame
    candidates: pd.DataFrame
    scores: pd.DataFrame
    provenance: dict[str, dict[str, Mapping[str, Any]]]


def read_beir(
    folder: str | PathLike[str],
    datasets: Collection[str] | None = None,
    encoders: Collection[str] | None = None,
) -> BeirResults:
    """Read what `make results` stored for the benchmarks.

    Parameters
    ----------
    folder
        Holds the ``.parquet`` files with measures, and in ``candidates`` those with candidates; may
        hold none.
    datasets, encoders : collection of str, optional
        Names to read; by default all.

    Returns
    -------
    BeirResults
        Unpacks as ``queries, candidates, scores, provenance``. In the order of the file names, then
        of the files.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        As `load_parquet`; if a name is of no data set, or of no encoder where there are results of
        others; if a file is of an unknown data set, holds two methods' results for different
        queries, an impossible value or a pair twice; or if measures and candidates come from
        different runs. The message names the file and the command.
    TypeError
        If datasets or encoders is no collection of names.
    ImportError
        If pyarrow is not installed; the message holds the install line.
    """
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}; make it with: make results")
    datasets, encoders = _datasets(datasets), _names("encoders", encoders)
    seen: set[str] = set()
    found: dict[str, list[pd.DataFrame]] = {"beir": [], "beir_candidates": [], "beir_scores": []}
    provenance: dict[str, dict[str, Mapping[str, Any]]] = {}
    halves: dict[tuple[str, str], set[str]] = {}
    for path in [*sorted(place.glob("*.parquet")), *sorted(place.glob("candidates/*.parquet"))]:
        stored = load_parquet(path)
        about, (dataset, encoder, reranker) = stored.provenance, _made_from(path, stored)
        seen.add(encoder)
        if (datasets is not None and dataset not in datasets) or (
            encoders is not None and encoder not in encoders
        ):
            continue
        [table] = stored.tables.values()
        _CHECKS[stored.kind](path, about, table)
        name = f"{encoder} + {reranker}" if reranker else encoder
        known = provenance.setdefault(dataset, {}).setdefault(name, about)
        if any(known[key] != about[key] for key in ("corpus", "model", "settings", "versions")):
            raise ValueError(
                f"{path} comes from another run than the other file of {dataset} and {name}; "
                f"renew both with: {about['command']} FORCE=1"
            )
        halves.setdefault((dataset, name), set()).add(stored.kind)
        extra = {"dataset": dataset, "encoder": encoder, "reranker": reranker}
        found[stored.kind].append(table.assign(**extra))
    _check_encoders(place, encoders, seen)
    for (dataset, name), kinds in halves.items():
        if len(kinds) < 2:
            raise ValueError(
                f"{place} holds only half of the results of {dataset} and {name}; make them whole "
                f"with: {provenance[dataset][name]['command']} FORCE=1"
            )
    queries, candidates, scores = (
        _joined(tables, _COLUMNS[kind]) for kind, tables in found.items()
    )
    return BeirResults(queries, candidates, scores, provenance)


def read_phase(
    folder: str | PathLike[str],
    datasets: Collection[str] | None = None,
    encoders: Collection[str] | None = None,
) -> tuple[pd.DataFrame, dict[str, dict[str, Mapping[str, Any]]]]:
    """Read what `make results` stored for the benchmarks among stuffed documents.

    Parameters
    ----------
    folder
        Holds the ``.parquet`` files; may hold none.
    datasets, encoders : collection of str, optional
        Names to read; by default all.

    Returns
    -------
    DataFrame
        One row per data set, encoder, attack, rate, method and query: ``dataset``, ``encoder``,
        ``attack``, ``rate`` (share of the window that is stuffed; -1 for documents put into the
        whole collection), ``method``, ``query_id``, ``nDCG@10``, ``stuffed_in_10`` (a count) and
        ``largest_excess`` (the window's largest excess repetition; 0 at rate -1).
    dict
        Data set → encoder → provenance. Its settings name the queries that are probes.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        As `load_parquet`; if a name is of no data set, or of no encoder where there are results of
        others; if a file holds another kind, a measure outside [0, 1] or a row twice.
    TypeError
        If datasets or encoders is no collection of names.
    """
    import pandas as pd

    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}; make it with: make results")
    datasets, encoders = _datasets(datasets), _names("encoders", encoders)
    seen: set[str] = set()
    frames = []
    provenance: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path in sorted(place.glob("*.parquet")):
        stored = load_parquet(path)
        if stored.kind != "phase":
            raise ValueError(f"{path} holds {stored.kind!r}, not 'phase'; remove it")
        table, about = stored.tables["queries"], stored.provenance
        dataset, encoder = about["corpus"]["name"], about["model"]["name"]
        seen.add(encoder)
        if (datasets is not None and dataset not in datasets) or (
            encoders is not None and encoder not in encoders
        ):
            continue
        keys = ["attack", "rate", "method", "query_id"]
        if table.duplicated(keys).any() or not table["nDCG@10"].between(0, 1 + 1e-9).all():
            raise ValueError(
                f"{path} holds a row twice, or a measure outside [0, 1]; make it anew with: "
                f"{about['command']} FORCE=1"
            )
        provenance.setdefault(dataset, {})[encoder] = about
        frames.append(table)
    _check_encoders(place, encoders, seen)
    columns = list(TABLES["phase"]["queries"])
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
    return table, provenance


def beir_checksums(data: BeirData) -> dict[str, str]:
    """Give the SHA-256 of the content of a data set, whatever archive it came in.

    Parameters
    ----------
    data : BeirData
        As from `datasets.beir`.

    Returns
    -------
    dict of str to str
        ``documents``, ``queries`` and ``judgments``, in hexadecimal.
    """
    parts = {
        "documents": list(data.corpus.values()),
        "queries": list(data.queries.items()),
        "judgments": list(data.qrels.items()),
    }
    return {
        name: hashlib.sha256(
            json.dumps(part, ensure_ascii=False).encode("utf-8", "surrogatepass")
        ).hexdigest()
        for name, part in parts.items()
    }


def local_beir(provenance: Mapping[str, Any]) -> BeirData | None:
    """Give the data set that a result was made from, where this machine has its archive.

    Parameters
    ----------
    provenance : mapping
        A stored result's, as in `BeirResults.provenance`.

    Returns
    -------
    BeirData or None
        None if neither ``$CAUSALRAG_DATA`` nor the folder of ir_datasets has the archive. Nothing
        is fetched.

    Raises
    ------
    ValueError
        If the archive is damaged, or holds other texts or judgments than the result was made from.
        The message names the command that renews the result.
    """
    from causalrag.datasets import beir

    about = provenance["corpus"]
    if not _is_here(about["name"]):
        return None
    try:
        data = beir(about["name"])
    except FileNotFoundError:
        return None
    checksums = beir_checksums(data)
    if other := [part for part in checksums if checksums[part] != about["sha256"].get(part)]:
        raise ValueError(
            f"the stored results of {about['name']} were made from other {', '.join(other)} than "
            f"the archive on this machine holds; renew them with: {provenance['command']}"
        )
    return data


def _is_here(name: str) -> bool:
    archive = name.removesuffix("_with_self")
    if root := os.environ.get("CAUSALRAG_DATA", ""):
        return (Path(root) / "beir" / f"{archive}.zip").is_file()
    home = Path(os.environ.get("IR_DATASETS_HOME") or "~/.ir_datasets").expanduser()
    return (home / "beir" / archive / "source.zip").is_file()


# --- checks -------------------------------------------------------------------------------------


def _datasets(given: Collection[str] | None) -> set[str] | None:
    datasets = _names("datasets", given)
    if unknown := sorted((datasets or set()) - set(BENCHMARKS)):
        raise ValueError(f"unknown data set {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    return datasets


def _check_encoders(place: Path, encoders: set[str] | None, seen: set[str]) -> None:
    if seen and (absent := sorted((encoders or set()) - seen)):
        raise ValueError(
            f"{place} has no result of the encoder {absent[0]!r}; it has {', '.join(sorted(seen))}"
        )


def _names(name: str, names: Any) -> set[str] | None:
    """Refuse one name in place of several: its letters would be taken for names."""
    if names is None:
        return None
    several = isinstance(names, Collection) and not isinstance(names, str | bytes)
    if not several or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{name} must be a list of names, such as {_EXAMPLES[name]}, got {names!r}")
    return set(names)


def _made_from(path: Path, stored: Stored) -> tuple[str, str, str]:
    """Name the data set, the encoder and the cross-encoder ("" if none) behind a file."""
    about = stored.provenance
    if stored.kind not in _CHECKS:
        raise ValueError(f"{path} holds the kind {stored.kind!r}, not of a benchmark; move it")
    try:
        dataset, model = about["corpus"]["name"], about["model"]
        reranker = model["name"] if model["kind"] == "cross_encoder" else ""
        encoder = about["settings"]["candidates"]["encoder"] if reranker else model["name"]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: the provenance lacks {error}; renew it with: make results FORCE=1"
        ) from error
    if dataset not in BENCHMARKS:
        raise ValueError(
            f"{path} is of the unknown data set {dataset!r}; known: {', '.join(BENCHMARKS)}"
        )
    return dataset, encoder, reranker


def _check_measures(path: Path, about: Mapping[str, Any], table: pd.DataFrame) -> None:
    renew = f"renew it with: {about['command']} FORCE=1"
    dataset, encoder, _ = _made_from(path, Stored("beir", about, {}))
    if set(table["dataset"]) | set(table["encoder"]) != {dataset, encoder}:
        raise ValueError(f"{path} has rows of another data set or encoder; {renew}")
    _check_types(path, renew, table, dict.fromkeys(MEASURES, "fiu"))
    if not all(table[measure].between(0, 1).all() for measure in MEASURES):
        raise ValueError(f"{path} has a measure outside [0, 1]; {renew}")
    asked = [rows["query_id"].tolist() for _, rows in table.groupby("method", sort=False)]
    if any(ids != asked[0] for ids in asked) or len(set(asked[0])) != len(asked[0]):
        raise ValueError(f"{path} lacks a query for some method, or has one twice; {renew}")


def _check_candidates(path: Path, about: Mapping[str, Any], table: pd.DataFrame) -> None:
    renew = f"renew it with: {about['command']} FORCE=1"
    keys = [key for key in ("query_id", "first_stage", "doc_id") if key in table.columns]
    if table.duplicated(keys).any():
        raise ValueError(f"{path} has a candidate twice; {renew}")
    _check_types(path, renew, table, _TYPES)
    for column, (low, high) in _RANGES.items():
        if column in table.columns and not table[column].between(low, high).all():
            value = table.loc[~table[column].between(low, high), column].iloc[0]
            raise ValueError(f"{path} has the {column} {value}, outside [{low}, {high}]; {renew}")
    if "grade" in table.columns and (table["grade"] % 1 != 0).any():
        grade = table.loc[table["grade"] % 1 != 0, "grade"].iloc[0]
        raise ValueError(f"{path} has the grade {grade}, which is no whole number; {renew}")
    stages = set(table["first_stage"]) if "first_stage" in table.columns else set()
    if stages - set(_FIRST_STAGES):
        raise ValueError(
            f"{path} has the first stage {min(stages - set(_FIRST_STAGES))!r}; known: "
            f"{', '.join(_FIRST_STAGES)}; {renew}"
        )


def _check_types(path: Path, renew: str, table: pd.DataFrame, types: Mapping[str, str]) -> None:
    """Refuse a column that holds another type than it must, such as texts for numbers."""
    for column, kinds in types.items():
        if column in table.columns and len(table) and table[column].dtype.kind not in kinds:
            raise ValueError(
                f"{path} has the {column} {table[column].iloc[0]!r}, which is no "
                f"{_KINDS[kinds[0]]}; {renew}"
            )


_FIRST_STAGES = ("similarity", "bm25", "fusion", "rm3")
# What a candidate's columns can be; a cosine may pass 1 by rounding.
_COSINES = (-1 - 1e-6, 1 + 1e-6)
_ANY = float("inf")
_RANGES = {
    "grade": (0, _ANY),
    "base": (-_ANY, _ANY),
    "score": (-_ANY, _ANY),
    "causal_exact": _COSINES,
    "causal": _COSINES,
    "overlap": (0, 1 + 1e-9),
    "shared_weight": (0, 1 + 1e-9),
    "excess_repetition": (0, 1),
    "coverage": (0, 1 + 1e-9),
    "keyword_repetition": (0, 1),
    "bend": (0, _ANY),
}
# By the letters of numpy's `dtype.kind`, and what the first of them is called.
_TYPES = dict.fromkeys(_RANGES, "fiu") | {
    "has_residual_exact": "b",
    "has_residual": "b",
    "first_stage": "O",
    "query_id": "O",
    "doc_id": "O",
}
_KINDS = {"f": "number", "b": "truth value", "O": "text"}
_EXAMPLES = {"datasets": "['scifact']", "encoders": "['use']"}
_CHECKS = {
    "beir": _check_measures,
    "beir_candidates": _check_candidates,
    "beir_scores": _check_candidates,
}
_COLUMNS = {
    "beir": [*TABLES["beir"]["queries"], "reranker"],
    "beir_candidates": ["dataset", "encoder", *TABLES["beir_candidates"]["candidates"]],
    "beir_scores": ["dataset", "encoder", "reranker", *TABLES["beir_scores"]["scores"]],
}


def _joined(tables: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    if not tables:
        return pd.DataFrame({column: [] for column in columns})
    return pd.concat(tables, ignore_index=True)[columns]
