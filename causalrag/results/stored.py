"""Stored results as JSON, one file each: `save` writes it, `load` and `read` check what they read.

Ranks of themes are held against the packaged corpora as they are now.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalrag.results.kinds import CORPORA, TABLES, Stored, check, write_whole

if TYPE_CHECKING:
    import pandas as pd

    from causalrag.datasets import Corpus

SCHEMA = 1


def corpus_checksums(name: str) -> dict[str, str]:
    """Give the SHA-256 of each file of a packaged corpus of themes.

    Parameters
    ----------
    name : {"opening", "diagnostic", "second"}

    Returns
    -------
    dict of str to str
        ``docs.jsonl`` and ``themes.jsonl`` with their checksums in hexadecimal.

    Raises
    ------
    ValueError
        If `name` is another.
    FileNotFoundError
        If the corpus has no texts.
    """
    folder = _corpus_folder(name)
    paths = [folder / "docs.jsonl", folder / "themes.jsonl"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def save(
    path: str | PathLike[str],
    kind: str,
    provenance: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
) -> None:
    """Write a result, whole or not at all.

    Parameters
    ----------
    path
        A ``.json`` file; its folder is made if absent.
    kind, provenance, tables
        As in `Stored`.

    Raises
    ------
    ValueError
        If the kind is unknown, a table, a column or a part of the provenance is missing, or a
        number is NaN or infinite.
    """
    check(kind, provenance, tables)
    write_whole(Path(path), _text(kind, provenance, tables).encode("utf-8"))


def load(path: str | PathLike[str]) -> Stored:
    """Read one result.

    Parameters
    ----------
    path
        A file that `save` wrote.

    Returns
    -------
    Stored

    Raises
    ------
    FileNotFoundError
        If there is no such file; names the command that makes it.
    ValueError
        If the file is damaged or of another form, or if it was made from other texts than the
        packaged corpus now has. The message names the file and the command that renews it.
    """
    import pandas as pd

    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no {source}; make it with: make results")
    try:
        data = json.loads(source.read_text(encoding="utf-8"), parse_constant=_no_number)
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}, not {SCHEMA}")
        kind, provenance = data["kind"], data["provenance"]
        tables = {
            name: pd.DataFrame(table["rows"], columns=table["columns"])
            for name, table in data["tables"].items()
        }
        check(kind, provenance, tables)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{source} is no stored result ({error}); renew it with: make results FORCE=1"
        ) from error
    if kind == "themes":
        _check_themes(source, provenance, tables["ranks"])
    return Stored(kind, provenance, tables)


def read(folder: str | PathLike[str]) -> pd.DataFrame:
    """Read the ranks of every theme result in a folder.

    Parameters
    ----------
    folder
        Holds the ``.json`` files that `make results` writes for themes; may hold none.

    Returns
    -------
    DataFrame
        One row per corpus, model, theme, method and document: ``corpus``, ``model``, ``theme``,
        ``document`` (its id), ``role``, ``method``, ``rank`` (from 1), ``score``; in the order of
        the file names, then of the files. ``attrs["provenance"]`` has each file's provenance by its
        name.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        As `load`.
    """
    import pandas as pd

    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}; make it with: make results")
    found = {path.name: load(path) for path in sorted(place.glob("*.json"))}
    columns = ["corpus", "model", *TABLES["themes"]["ranks"]]
    frames = []
    for name, stored in found.items():
        if stored.kind != "themes":
            raise ValueError(f"{place / name} holds the kind {stored.kind!r}, not themes; move it")
        about = stored.provenance
        extra = {"corpus": about["corpus"]["name"], "model": about["model"]["name"]}
        frames.append(stored.tables["ranks"].assign(**extra)[columns])
    empty = pd.DataFrame({column: [] for column in columns})
    result = pd.concat(frames, ignore_index=True) if frames else empty
    result.attrs["provenance"] = {name: dict(stored.provenance) for name, stored in found.items()}
    return result


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _check_themes(path: Path, provenance: Mapping[str, Any], ranks: pd.DataFrame) -> None:
    name, renew = provenance["corpus"]["name"], f"renew it with: {provenance['command']}"
    if name not in CORPORA:
        raise ValueError(f"{path} ranks the unknown corpus {name!r}; {renew}")
    now = corpus_checksums(name)
    for file, checksum in now.items():
        if provenance["corpus"]["sha256"].get(file) != checksum:
            raise ValueError(
                f"{path} was made from another {file} than the corpus {name!r} now has (sha256 "
                f"{checksum}); {renew}"
            )
    roles = {
        (theme.theme, document.id): document.role
        for theme in _corpus(name).themes
        for document in theme.documents
    }
    for (theme, method), rows in ranks.groupby(["theme", "method"], sort=False):
        wanted = {document: role for (owner, document), role in roles.items() if owner == theme}
        if dict(zip(rows["document"], rows["role"], strict=True)) != wanted:
            raise ValueError(
                f"{path}: {theme}, {method} has other documents than {name!r}; {renew}"
            )
        if sorted(rows["rank"]) != list(range(1, len(wanted) + 1)):
            raise ValueError(f"{path}: {theme}, {method} has no ranks 1 to {len(wanted)}; {renew}")
    if len(set(ranks.groupby("theme")["method"].nunique())) != 1:
        raise ValueError(f"{path} lacks a method for some theme; {renew}")


def _corpus(name: str) -> Corpus:
    from causalrag.datasets import load_themes

    return load_themes(_corpus_folder(name))


def _corpus_folder(name: str) -> Path:
    if name not in CORPORA:
        raise ValueError(f"unknown corpus {name!r}; known: {', '.join(CORPORA)}")
    return Path(__file__).parents[1] / "data" / name


def _text(kind: str, provenance: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> str:
    """Lay a result out with one row of a table on each line, so that a difference reads well."""
    head = json.dumps(provenance, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True)
    parts = []
    for name, table in tables.items():
        # Column by column: a whole row would turn its integers into floats.
        rows = zip(*(table[column].tolist() for column in table.columns), strict=True)
        lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
        columns = json.dumps(list(table.columns))
        parts.append(f'{json.dumps(name)}: {{"columns": {columns}, "rows": [\n{lines}\n]}}')
    start = f'{{"schema": {SCHEMA}, "kind": {json.dumps(kind)},\n"provenance": {head},\n'
    return start + '"tables": {\n' + ",\n".join(parts) + "\n}}\n"
