"""Stored results as Parquet, one table each, with the provenance in the schema's metadata.

For tables of many thousand rows; small ones are JSON (see `stored`). Needs pyarrow (extra
``beir``). What the numbers mean is not known here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalrag.results.kinds import TABLES, Stored, check, write_whole

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
_KEY = b"causalrag"


def save_parquet(
    path: str | PathLike[str], kind: str, provenance: Mapping[str, Any], table: pd.DataFrame
) -> None:
    """Write a result of one table, whole or not at all.

    Parameters
    ----------
    path
        A ``.parquet`` file; its folder is made if absent.
    kind, provenance
        As in `Stored`; a kind with one table.
    table : DataFrame
        With the columns of the kind; its index is not kept.

    Raises
    ------
    ValueError
        If the kind is unknown or has several tables, a column or a part of the provenance is
        missing, a value is missing or not of its column's type, or a number is NaN or infinite.
    ImportError
        If pyarrow is not installed; the message holds the install line.
    """
    pa, pq = _pyarrow()
    check(kind, provenance, {_name(kind): table})
    _check_values(table)
    about = {"schema": SCHEMA, "kind": kind, "provenance": dict(provenance)}
    text = json.dumps(about, ensure_ascii=False, allow_nan=False, sort_keys=True)
    try:
        rows = pa.Table.from_pandas(table, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"the table {_name(kind)!r} cannot be stored: {error}") from error
    out = io.BytesIO()
    pq.write_table(
        rows.replace_schema_metadata({_KEY: text.encode("utf-8")}),
        out,
        compression="zstd",
        compression_level=9,
        write_page_checksum=True,
    )
    write_whole(Path(path), out.getvalue())


def load_parquet(path: str | PathLike[str]) -> Stored:
    """Read a result that `save_parquet` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Stored
        With one table, under the name that `TABLES` gives it.

    Raises
    ------
    FileNotFoundError
        If there is no such file; names the command that makes it.
    ValueError
        If the file is damaged or of another form. The message names the file and the command that
        renews it.
    ImportError
        As `save_parquet`.
    """
    pa, pq = _pyarrow()
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no {source}; make it with: make results")
    try:
        rows = pq.read_table(pa.BufferReader(source.read_bytes()), page_checksum_verification=True)
        about = json.loads((rows.schema.metadata or {})[_KEY])
        if about["schema"] != SCHEMA:
            raise ValueError(f"schema {about['schema']!r}, not {SCHEMA}")
        kind, provenance = about["kind"], about["provenance"]
        tables = {_name(kind): rows.replace_schema_metadata(None).to_pandas()}
        check(kind, provenance, tables)
        _check_values(tables[_name(kind)])
    except (ValueError, TypeError, KeyError, OSError, pa.ArrowException) as error:
        raise ValueError(
            f"{source} is no stored result ({error}); renew it with: make results FORCE=1"
        ) from error
    return Stored(kind, provenance, tables)


def _name(kind: str) -> str:
    """Name the one table of a kind."""
    if kind not in TABLES:
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(TABLES)}")
    if len(TABLES[kind]) > 1:
        raise ValueError(f"the kind {kind!r} has several tables; store it with save")
    return next(iter(TABLES[kind]))


def _check_values(table: pd.DataFrame) -> None:
    import numpy as np

    for column in table.columns:
        values = table[column]
        if values.isna().any():
            raise ValueError(f"the column {column!r} lacks a value in row {values.isna().argmax()}")
        if values.dtype.kind == "O" and any(isinstance(value, bytes) for value in values):
            raise ValueError(f"the column {column!r} holds bytes")
        if values.dtype.kind == "f" and not np.isfinite(values.to_numpy()).all():
            raise ValueError(f"the column {column!r} holds an infinity")


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f'stored Parquet results need pyarrow ({error}): pip install "causalrag[beir]"'
        ) from error
