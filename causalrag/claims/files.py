"""Records as files: found in executed notebooks, kept one JSON file each.

Files carry a schema version, sorted keys and no date, so that the same book gives the same bytes;
they are written beside their place and renamed. A file that is not fully a record is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from causalrag.claims.records import MIME, REBUILD, Record, unique


def collect(notebook_path: str | PathLike[str], chapter: str | None = None) -> list[Record]:
    """Find the records in an executed notebook.

    Parameters
    ----------
    notebook_path
        An ``.ipynb`` file with outputs.
    chapter
        If given, every record must name this chapter.

    Returns
    -------
    list of Record
        In the order of the cells.

    Raises
    ------
    ValueError
        If the file is no notebook, a record is broken or names another chapter, or two cells record
        the same claim, encoder and setting.
    """
    path = Path(notebook_path)
    notebook = _load_json(path, "execute the notebook again")
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError(f"{path}: not a notebook of format 4; execute the notebook again")
    records = unique(_placed(notebook["cells"], path.name))
    for record in records:
        if chapter is not None and record.chapter != chapter:
            raise ValueError(
                f"{path.name}: {record.id} names the chapter {record.chapter!r}; "
                f"make it Recorder({chapter!r})"
            )
    return records


def _placed(cells: list[Any], name: str) -> Iterator[tuple[Record, str]]:
    for number, cell in enumerate(cells, start=1):
        for output in cell.get("outputs", ()):
            data = output.get("data", {}).get(MIME)
            place = f"{name}, cell {number}"
            for item in data if isinstance(data, list) else [] if data is None else [data]:
                yield Record.from_json(item, place), place


def write_records(
    records: Iterable[Record],
    folder: str | PathLike[str],
    chapters: Iterable[str] | None = None,
) -> list[Path]:
    """Keep records as files, one each, in place of earlier ones.

    Parameters
    ----------
    records
        The records; nothing is written if one is refused.
    folder
        Made if absent. Only files that end in ``.json`` are replaced.
    chapters
        The chapters that were run. Earlier records of other chapters stay. None replaces all.

    Returns
    -------
    list of Path
        The files written, in the order of the records.

    Raises
    ------
    ValueError
        If two records share claim, encoder and setting, or one is of a chapter not in `chapters`.
    """
    new = list(records)
    target = Path(folder)
    kept: list[Record] = []
    if chapters is not None:
        ran = {chapters} if isinstance(chapters, str) else set(chapters)
        for record in new:
            if record.chapter not in ran:
                raise ValueError(f"{record.cell} is of a chapter that was not run: {sorted(ran)}")
        kept = [record for record in read_records(target) if record.chapter not in ran]
    unique((record, record.cell) for record in [*kept, *new])
    target.mkdir(parents=True, exist_ok=True)
    written = [target / f"{record.anchor}.json" for record in new]
    for record, path in zip(new, written, strict=True):
        _write_atomic(path, json_text(record.to_json()))
    keep = {path.name for path in written} | {f"{record.anchor}.json" for record in kept}
    for path in target.glob("*.json"):
        if path.name not in keep:
            path.unlink()
    return written


def read_records(folder: str | PathLike[str]) -> list[Record]:
    """Read the records kept in a folder, in the order of their file names.

    An absent folder holds none.

    Raises
    ------
    ValueError
        If a file is corrupt, of an unknown schema, or under a name that is not its own. The message
        names the file and the remedy.
    """
    records = []
    for path in sorted(Path(folder).glob("*.json")):
        record = Record.from_json(_load_json(path, REBUILD), str(path))
        if path.name != f"{record.anchor}.json":
            raise ValueError(f"{path}: holds the record {record.anchor}; {REBUILD}")
        records.append(record)
    return records


def json_text(data: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no NaN, the same on every machine and day."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True) + "\n"


def _load_json(path: Path, remedy: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not readable as JSON ({error}); {remedy}") from error


def _write_atomic(path: Path, text: str) -> None:
    """Write beside the file and rename, so that no reader meets half a file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(text.encode("utf-8"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
