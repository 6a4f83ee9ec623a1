"""The lines of a file of queries, judgments or documents, and which of them it looks like."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["HEADERS", "fields", "is_grade", "is_header", "lines", "refuse_swapped"]

# First fields of a first line that is a header.
HEADERS = ("id", "_id", "qid", "query", "query-id", "query_id")
JUDGMENTS = "judgments (query, document and grade)"
RUN = "a run (query, Q0, document, rank, score and name)"
QUERIES = "queries (id, tab and text), without a grade"
RECORDS = "queries or documents (JSON)"


def lines(path: Path) -> Iterator[tuple[int, str, bytes]]:
    r"""Give number, place and content of each line that is not blank.

    Bytes are split at \n only: U+2028 and its like may stand inside a text.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if content.strip():
                    yield number, f"{path}, line {number}", content.rstrip(b"\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or cut short after line {number}: {error}; make it anew"
        ) from error


def fields(line: str) -> list[str]:
    """Split a judgment: with tabs, an id may hold spaces, as a path may."""
    return [field.strip() for field in (line.split("\t") if "\t" in line else line.split())]


def is_grade(field: str) -> bool:
    """Whether a field is a whole number."""
    return re.fullmatch(r"[-+]?[0-9]+", field) is not None


# --- what a file looks like ---------------------------------------------------------------------


def refuse_swapped(paths: Sequence[Path], queries: Path, qrels: Path) -> None:
    """Refuse a file in the place of another, where its lines or its name tell.

    Raises
    ------
    ValueError
        If every line of the queries is a judgment or of a run, if every line of the judgments is a
        query, a document or of a run, or if one file is given in two places.
    OSError
        If a file cannot be read.
    """
    for path, option, kinds in (
        (queries, "--queries", (JUDGMENTS, RUN)),
        (qrels, "--qrels", (RECORDS, QUERIES, RUN)),
    ):
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give a file with {option}")
        # What is no regular file, such as a pipe, can be read only once.
        found = _looks_like(path) if path.is_file() else None
        if found in kinds:
            wanted = "queries (id and text)" if option == "--queries" else JUDGMENTS
            raise ValueError(f"{path} looks like {found}; give a file of {wanted} with {option}")
    given = [*((path, "the corpus") for path in paths), (queries, "--queries"), (qrels, "--qrels")]
    places: dict[Path, str] = {}
    for path, place in given:
        before = places.setdefault(path.resolve(), place)
        if before != place:
            raise ValueError(f"{path} is given as {before} and as {place}; give a file of its own")


def _looks_like(path: Path) -> str | None:
    """Name what every line of a file is, its header aside; None where they differ."""
    found: str | None = None
    for number, _, raw in lines(path):
        line = raw.decode("utf-8", "replace")
        if number == 1 and is_header(line):
            continue
        kind = _kind(line)
        if kind is None or kind != (found or kind):
            return None
        found = kind
    return found


def is_header(line: str) -> bool:
    """Whether a first line names the columns of judgments."""
    row = fields(line)
    return row[0].casefold() in HEADERS and not is_grade(row[-1])


def _kind(line: str) -> str | None:
    row = fields(line)
    if line.lstrip().startswith("{"):
        return RECORDS if _is_object(line) else None
    if not all(row):
        return None
    if len(row) == 6 and is_grade(row[3]) and _is_number(row[4]):
        return RUN
    if len(row) == 2 and "\t" in line:
        return QUERIES
    # TREC's second column is one word: a query's text may end in a tab and a number.
    judged = len(row) == 3 or (len(row) == 4 and not re.search(r"\s", row[1]))
    return JUDGMENTS if judged and is_grade(row[-1]) else None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
