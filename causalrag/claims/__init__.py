"""The ledger: every claim of the sources, and what the book's cells found for it.

A chapter makes one `Recorder` and ends a cell in ``recorder.record(id, ...)``; the build collects
these records, and `ledger` sets them beside the claims that nobody recorded. How evidence becomes a
verdict is in `verdicts`, how a record is shown in `records` and stored in `files`; their
public names are importable from here.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalrag.claims.files import collect, read_records, write_records
from causalrag.claims.records import (
    MIME,
    SCHEMA,
    Record,
    Records,
    measured_text,
    show,
    slug,
    verdict_class,
    verdict_html,
)
from causalrag.claims.verdicts import EXACT, KINDS, PRINTED, SETTINGS, VERDICTS, Evidence, judge

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "EXACT",
    "KINDS",
    "MIME",
    "NOT_RECORDED",
    "PRINTED",
    "SCHEMA",
    "SETTINGS",
    "SOURCES",
    "VERDICTS",
    "Claim",
    "Evidence",
    "Record",
    "Recorder",
    "Records",
    "by_claim",
    "collect",
    "failed",
    "judge",
    "ledger",
    "load_claims",
    "measured_text",
    "read_records",
    "show",
    "verdict_class",
    "verdict_html",
    "write_records",
]

SOURCES = {
    "P": "causal-attention re-ranking paper",
    "A": "CARA",
    "F": "CDF-RAG and its review",
    "O": "ours",
}
"""Prefix of an id and the source it stands for."""

COLUMNS = (
    "id", "source", "claim", "kind", "setting", "paper",
    "measured", "low", "high", "n", "encoder", "verdict", "cell",
)  # fmt: skip
"""Columns of the ledger."""

NOT_RECORDED = "no chapter records this claim yet"
"""Reason given for a claim without a record."""


@dataclass(frozen=True)
class Claim:
    """One checkable claim of a source.

    Attributes
    ----------
    id
        Prefix of the source, then a name: ``P.obs1.opened``.
    part
        Section of ``claims.yaml`` it stands in.
    source
        ``"P"``, ``"A"``, ``"F"`` or ``"O"``, the id's prefix; see `SOURCES`.
    where
        Section, equation or table of the source.
    kind
        One of `KINDS`.
    claim
        The claim in words.
    expected
        The source's own value: None, a number, or nested lists and mappings.
    """

    id: str
    part: str
    source: str
    where: str
    kind: str
    claim: str
    expected: Any = None


def load_claims(path: str | PathLike[str] | None = None) -> dict[str, Claim]:
    """Read the claims to settle.

    Parameters
    ----------
    path
        A YAML file of sections, each a list of mappings with ``id``, ``where``, ``kind``, ``claim``
        and perhaps ``expected``. None reads the packaged file.

    Returns
    -------
    dict
        Claims by id, in the order of the file.

    Raises
    ------
    ValueError
        If the file is no such YAML, or an id is doubled, has an unknown prefix or kind, or differs
        from another only in case or punctuation. The message names the file and the entry.
    """
    if path is None:
        return copy.deepcopy(_packaged())
    return _parse(Path(path).read_text(encoding="utf-8-sig"), str(path))


def _parse(text: str, where: str) -> dict[str, Claim]:
    import yaml

    try:
        sections = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{where} is not valid YAML: {error}") from error
    claims: dict[str, Claim] = {}
    anchors: dict[str, str] = {}
    for claim in _claims(sections, where):
        twin = anchors.setdefault(slug(claim.id), claim.id)
        if claim.id in claims or twin != claim.id:
            raise ValueError(
                f"{where}: {claim.id!r} and {twin!r} cannot be told apart in a link; rename one"
            )
        claims[claim.id] = claim
    return claims


def _claims(sections: Any, where: str) -> Iterator[Claim]:
    if not isinstance(sections, dict) or not all(isinstance(s, list) for s in sections.values()):
        raise ValueError(f"{where}: expected sections, each a list of claims")
    for part, entries in sections.items():
        for entry in entries:
            yield _claim(part, entry, where)


def _claim(part: str, entry: Any, where: str) -> Claim:
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: {entry!r} in section {part!r} is not a mapping")
    texts = ("id", "where", "kind", "claim")
    wrong = [key for key in texts if not isinstance(entry.get(key), str) or not entry[key].strip()]
    wrong += sorted(str(key) for key in set(entry) - {*texts, "expected"})
    if wrong:
        raise ValueError(
            f"{where}: in {entry.get('id', entry)!r} these keys are missing, not text, or unknown: "
            f"{', '.join(wrong)}"
        )
    prefix = entry["id"].split(".")[0]
    if prefix not in SOURCES or not re.fullmatch(r"[A-Z](\.\w+)+", entry["id"], re.ASCII):
        raise ValueError(
            f"{where}: id {entry['id']!r} must be one of the prefixes {', '.join(SOURCES)} "
            "and names joined by dots"
        )
    if entry["kind"] not in KINDS:
        raise ValueError(
            f"{where}: {entry['id']} has the unknown kind {entry['kind']!r}; "
            f"known: {', '.join(KINDS)}"
        )
    return Claim(part=part, source=prefix, **{"expected": None, **entry})


@lru_cache(maxsize=1)
def _packaged() -> dict[str, Claim]:
    text = (resources.files("causalrag") / "data" / "claims.yaml").read_text(encoding="utf-8")
    return _parse(text, "causalrag/data/claims.yaml")


class Recorder:
    """Makes the records of one chapter.

    Parameters
    ----------
    chapter
        Name of the chapter's page, without suffix: ``"04_d_separation"``.

    Raises
    ------
    ValueError
        If the name has a suffix or characters that do not belong in a link.

    Examples
    --------
    >>> claims = Recorder("04_d_separation")
    >>> claims.record("P.obs1.marginal", holds=True).verdict
    'holds'
    """

    def __init__(self, chapter: str) -> None:
        if not isinstance(chapter, str):
            raise TypeError(f"chapter must be text, got {chapter!r}")
        if not re.fullmatch(r"\w[\w-]*(/\w[\w-]*)*", chapter, re.ASCII):
            raise ValueError(
                f"chapter {chapter!r} must be a page name without suffix, such as '04_d_separation'"
            )
        self.chapter = chapter
        self._claims = load_claims()

    def __repr__(self) -> str:
        return f"Recorder({self.chapter!r})"

    def record(
        self,
        id: str,
        *,
        measured: Any = None,
        low: float | None = None,
        high: float | None = None,
        n: int | None = None,
        encoder: str | None = None,
        setting: str = "same",
        paper: Any = None,
        holds: bool | None = None,
        sign: int | None = None,
        margin: float | None = None,
        printed: Mapping[str, bool] | None = None,
        missing: str | None = None,
        note: str = "",
    ) -> Record:
        """Judge the evidence for a claim; end a cell in the result to enter it in the ledger.

        Parameters
        ----------
        id
            A claim's id.
        measured, low, high, n, setting, holds, sign, printed, missing
            The evidence, see `verdicts.Evidence`. "direction", "null" and "number" need measured=.
        encoder
            Name of the encoder or ranker the value depends on.
        paper
            The source's value; None takes the claim's own ``expected``.
        margin
            For a "null" claim. A margin stated in ``claims.yaml`` is used and cannot be changed.
        note
            A remark for the reader: how the interval was made, what the value is of.

        Returns
        -------
        Record

        Raises
        ------
        TypeError, ValueError
            If the id is unknown or the evidence is refused (see `verdicts.Evidence`), or if data
            for source P made with another encoder than the paper's claim the setting "same".
        """
        claim = self._claims.get(id) if isinstance(id, str) else None
        if claim is None:
            near = difflib.get_close_matches(str(id), self._claims, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; see load_claims()"
            raise ValueError(f"unknown claim id {id!r}{hint}")
        if claim.kind == "null" and missing is None:
            margin = _stated_margin(claim, margin)
        return Record(
            id=id,
            chapter=self.chapter,
            kind=claim.kind,
            claim=claim.claim,
            where=claim.where,
            measured=measured,
            low=low,
            high=high,
            n=n,
            encoder=encoder,
            setting=setting,
            paper=claim.expected if paper is None else paper,
            holds=holds,
            sign=sign,
            margin=margin,
            printed=printed,
            missing=missing,
            note=note,
        )


def _stated_margin(claim: Claim, margin: float | None) -> float | None:
    stated = claim.expected.get("margin") if isinstance(claim.expected, dict) else None
    if margin is not None and stated is not None and margin != stated:
        raise ValueError(
            f"{claim.id}: the margin is stated as {stated} and cannot become {margin} "
            "after the data were seen"
        )
    return margin if stated is None else float(stated)


def by_claim(claims: Mapping[str, Claim], records: list[Record]) -> dict[str, list[Record]]:
    """Sort records under their claims: order of the claims, then setting, then encoder.

    Raises
    ------
    ValueError
        If a record's claim is unknown, or is of another kind now.
    """
    sorted_records: dict[str, list[Record]] = {id: [] for id in claims}
    for record in sorted(records, key=lambda r: (SETTINGS.index(r.setting), r.encoder or "")):
        claim = claims.get(record.id)
        if claim is None or claim.kind != record.kind:
            kind = "no such claim" if claim is None else f"a {claim.kind} claim"
            raise ValueError(
                f"{record.cell}: recorded for {record.id} as {record.kind}, but claims.yaml has "
                f"{kind} there; run the chapter again (make book)"
            )
        sorted_records[record.id].append(record)
    return sorted_records


def ledger(path: str | PathLike[str] | None = None) -> pd.DataFrame:
    """Set every claim beside what was found for it.

    Parameters
    ----------
    path
        Folder of records. None takes ``$CAUSALRAG_RECORDS``, else ``book/_build/records`` under the
        current folder. An absent folder means that nothing was run.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`; one row per (id, encoder, setting), in the order of ``claims.yaml``. A
        claim without a record has the verdict "not run", None or NaN as its values, and no cell.

    Raises
    ------
    ValueError
        If a record is corrupt or does not fit the claims (the message names it and the remedy).
    """
    import pandas as pd

    if path is None:
        path = os.environ.get("CAUSALRAG_RECORDS") or Path("book", "_build", "records")
    claims = load_claims()
    rows: list[dict[str, Any]] = []
    for id, found in by_claim(claims, read_records(path)).items():
        rows += [_row(claims[id], record) for record in found] or [_row(claims[id], None)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    return frame.astype({"low": float, "high": float})


def _row(claim: Claim, record: Record | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"id": claim.id, "source": claim.source, "claim": claim.claim, "kind": claim.kind}
    if record is None:
        row |= {"setting": "same", "paper": show(claim.expected), "encoder": ""}
        return row | {"verdict": "not run", "cell": ""}
    return row | {
        "setting": record.setting,
        "paper": show(record.paper),
        "measured": record.measured,
        "low": record.low,
        "high": record.high,
        "n": record.n,
        "encoder": record.encoder or "",
        "verdict": record.verdict,
        "cell": record.cell,
    }


def failed(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of a ledger in which an exact claim (structural or arithmetic) fails."""
    return frame[frame["kind"].isin(EXACT) & (frame["verdict"] == "fails")]
