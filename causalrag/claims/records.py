"""Records of evidence, and how a notebook shows them.

A cell that ends in a `Record` (or in `Records`) shows a small table and, beside it, carries the
record as JSON. How records are collected and kept is in `files`; which claims exist, and the
ledger of them all, in `claims`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any, overload

from causalrag.claims.verdicts import SETTINGS, Evidence, json_safe
from causalrag.evaluate import half_up

MIME = "application/vnd.causalrag.claim+json"
"""Type under which a cell's output carries its records."""

SCHEMA = 2
"""Version of a record's JSON form."""

REBUILD = "remove it and build the book again (make book)"
"""Remedy for a record that cannot be read."""

_PAPER_ENCODER = "bge-"  # of the source P: bge-m3, and bge-reranker-v2-m3 as the cross-encoder
_CLASSES = {
    "holds": "good",
    "verified": "good",
    "replicated": "good",
    "consistent": "good",
    "supports": "support",
    "violation shown": "note",
    "depends on reading": "note",
    "fails": "bad",
    "refuted": "bad",
    "not verified": "bad",
    "inconsistent": "bad",
    "not replicated": "open",
    "does not support": "open",
    "violation not shown": "open",
    "not run": "none",
}


@dataclass(frozen=True, kw_only=True)
class Record(Evidence):
    """Evidence for one claim, from one cell; its verdict is computed, see `Evidence`.

    Attributes
    ----------
    id
        The claim's id.
    chapter
        Name of the page the cell stands on, without suffix.
    encoder
        Name of the encoder or ranker the value depends on, or None.
    claim, where
        The claim in words and its place in the source, for display.
    note
        A remark: how the interval was made, what the value is of.
    """

    id: str
    chapter: str
    encoder: str | None = None
    claim: str = ""
    where: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "chapter", "claim", "where", "note"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be text, got {getattr(self, name)!r}")
        try:
            super().__post_init__()
            self._check()
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.id}: {error}") from error

    def _check(self) -> None:
        encoder, same = self.encoder, self.setting == "same"
        if encoder is not None and (not isinstance(encoder, str) or not encoder.strip()):
            raise ValueError(f"encoder must be a name or None, got {encoder!r}")
        if self.setting == "other encoder" and encoder is None:
            raise ValueError("setting 'other encoder' needs encoder=, its name")
        is_data = self.kind in ("number", "direction", "null")
        is_data = is_data and self.missing is None and self.printed is None
        if is_data and self.measured is None:
            raise ValueError("measured= is missing: the value the interval is for")
        if is_data and encoder is not None and self.id.startswith("P."):
            papers = encoder.startswith(_PAPER_ENCODER)
            if same and not papers:
                raise ValueError(
                    f"the paper's encoder is bge-m3, not {encoder!r}: "
                    "say setting='other encoder' (or 'analogue')"
                )
            if papers and self.setting == "other encoder":
                raise ValueError(f"{encoder!r} is the paper's own encoder: say setting='same'")

    @property
    def key(self) -> tuple[str, str | None, str]:
        """Claim, encoder and setting: what makes a record the only one of its kind."""
        return self.id, self.encoder, self.setting

    @property
    def anchor(self) -> str:
        """Name of the place on the page; also a file name that every system accepts."""
        parts = [f"claim-{slug(self.id)}"]
        if self.encoder is not None:
            name = slug(self.encoder)[:40]
            if name != self.encoder or name in map(slug, SETTINGS):
                name += f"-{hashlib.sha256(self.encoder.encode()).hexdigest()[:6]}"
            parts.append(name)
        if self.setting != "same":
            parts.append(slug(self.setting))
        return "--".join(parts)

    @property
    def cell(self) -> str:
        """Page and place: ``04_d_separation#claim-p-obs1-opened``."""
        return f"{self.chapter}#{self.anchor}"

    @property
    def reason(self) -> str:
        """Why it was not run; empty for every other verdict."""
        if self.verdict != "not run":
            return ""
        if self.missing is not None:
            return self.missing
        return f"a number is judged in the source's own setting only; this one is: {self.setting}"

    @property
    def readings(self) -> str:
        """Each reading of the printed cells and whether they agree with the claim under it."""
        return "; ".join(
            f"{reading}: {'agrees' if agrees else 'does not agree'}"
            for reading, agrees in (self.printed or {}).items()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON holds it, with its schema and its verdict."""
        return {"schema": SCHEMA, "verdict": self.verdict, **asdict(self)}

    @classmethod
    def from_json(cls, data: Any, source: str = "record") -> Record:
        """Make a record from its JSON form, and judge it again.

        Parameters
        ----------
        data
            What `to_json` gave.
        source
            Where it was found, for messages.

        Raises
        ------
        ValueError
            If the schema is unknown, a field is missing, unknown or wrong, or the stored verdict is
            not what the evidence gives. The message names the source and the remedy.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else type(data).__name__
            raise ValueError(
                f"{source}: not a record of schema {SCHEMA} (found {found!r}); {REBUILD}"
            )
        names = {field.name for field in fields(cls)}
        if wrong := sorted(names.symmetric_difference(set(data) - {"schema", "verdict"})):
            raise ValueError(f"{source}: fields missing or unknown: {', '.join(wrong)}; {REBUILD}")
        try:
            record = cls(**{name: data[name] for name in names})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{source}: not a record ({error}); {REBUILD}") from error
        if data.get("verdict") != record.verdict:
            raise ValueError(
                f"{source}: holds the verdict {data.get('verdict')!r} where its evidence gives "
                f"{record.verdict!r}; {REBUILD}"
            )
        return record

    def __str__(self) -> str:
        parts = [f"{self.id}: {self.verdict}"]
        if self.reason:
            parts.append(self.reason)
        if self.readings:
            parts.append(self.readings)
        if self.paper is not None:
            parts.append(f"paper {show(self.paper)}")
        if self.measured is not None:
            parts.append(f"measured {measured_text(self)}")
        parts.append(", ".join(filter(None, (self.encoder, self.setting))))
        return "; ".join(parts)

    def to_html(self) -> str:
        """Return a small escaped table, in a block that links can point to."""
        columns = {
            "setting": ", ".join(filter(None, (self.setting, self.encoder))),
            "paper": show(self.paper),
            "measured": measured_text(self),
        }
        cells = "".join(
            f'<td data-label="{name}"><span class="claim-label">{name}</span> {escape(text)}</td>'
            for name, text in columns.items()
            if text
        )
        where = f"{self.where}, {self.kind}" if self.where else self.kind
        remarks = "".join(
            f'<p class="claim-remark">{escape(text)}</p>'
            for text in (self.reason, self.readings, self.note)
            if text
        )
        return (
            f'<div class="claim" id="{escape(self.anchor)}">'
            f'<p class="claim-words"><code>{escape(self.id)}</code> {escape(self.claim)} '
            f'<span class="claim-where">({escape(where)})</span></p>'
            f'<table class="claim-row"><tbody><tr>{cells}<td data-label="verdict">'
            f"{verdict_html(self.verdict)}</td></tr></tbody></table>{remarks}</div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": self.to_html(), MIME: self.to_json()}


class Records(Sequence[Record]):
    """Several records of one cell, shown together.

    Parameters
    ----------
    records
        The records, in the order to show.

    Raises
    ------
    TypeError
        If an item is no `Record`.
    ValueError
        If two have the same claim, encoder and setting.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = tuple(records)
        for record in self._records:
            if not isinstance(record, Record):
                raise TypeError(f"Records holds records, got {record!r}")
        unique((record, record.cell) for record in self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Record, ...]: ...
    def __getitem__(self, index: int | slice) -> Record | tuple[Record, ...]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __str__(self) -> str:
        return "\n".join(map(str, self._records))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {
            "text/plain": str(self),
            "text/html": "\n".join(record.to_html() for record in self._records),
            MIME: [record.to_json() for record in self._records],
        }


def slug(text: str) -> str:
    """Lower-case letters, digits and single hyphens: safe in a link and in a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def verdict_class(verdict: str) -> str:
    """CSS class for a verdict: good, support, note, open, bad, or none for "not run"."""
    return f"verdict-{_CLASSES[verdict]}"


def verdict_html(verdict: str) -> str:
    """Return the verdict as a word with its colour class."""
    return f'<span class="verdict {verdict_class(verdict)}">{escape(verdict)}</span>'


def show(value: Any, longest: int = 160) -> str:
    """Short readable form of a recorded value; numbers half-up to at most three decimals.

    A list of numbers keeps as many decimals as its longest member. None inside a list or mapping
    reads "not run"; None alone is empty.
    """
    if value is None:
        return ""
    text = _show(json_safe(value, "value"))
    if len(text) <= longest:
        return text
    return text[:longest].rsplit(", ", 1)[0].rsplit("; ", 1)[0] + ", …"


def _show(value: Any, places: int | None = None) -> str:
    if value is None:
        return "not run"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value and abs(value) < 0.0005:
            return f"{value:.1e}"  # three decimals would print an effect as 0
        text = half_up(value, 3 if places is None else places)
        return text.rstrip("0").rstrip(".") if places is None and "." in text else text
    if isinstance(value, list):
        floats = [item for item in value if isinstance(item, float)]
        longest = max((len(_show(item).partition(".")[2]) for item in floats), default=0)
        flat = not any(isinstance(item, list | dict) for item in value)
        as_one = all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
        parts = [
            _show(float(item), longest) if floats and as_one else _show(item) for item in value
        ]
        return ", ".join(parts) if flat else "; ".join(f"({part})" for part in parts)
    if isinstance(value, dict):
        nested = any(isinstance(item, list | dict) for item in value.values())
        parts = [_show_item(key, item) for key, item in value.items()]
        return ("; " if nested else ", ").join(parts)
    return str(value)


def _show_item(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{key} ({_show(value)})"
    return f"{key}{':' if isinstance(value, list) else ''} {_show(value)}"


def measured_text(record: Record) -> str:
    """Return measured value, interval and n as one phrase; empty when nothing was measured."""
    text = "" if record.measured is None else show(record.measured)
    if record.low is not None and record.high is not None:
        text += f" [{show(record.low)}, {show(record.high)}]"
    if record.n is not None:
        text += f", n = {record.n}"
    return text.lstrip(" ,")


def unique(placed: Iterable[tuple[Record, str]]) -> list[Record]:
    """Return the records; refuse two with the same claim, encoder and setting.

    Parameters
    ----------
    placed
        Records, each with the place it comes from.

    Raises
    ------
    ValueError
        Names the key and both places.
    """
    seen: dict[tuple[str, str | None, str], str] = {}
    records = []
    for record, place in placed:
        if record.key in seen:
            raise ValueError(
                f"{record.id} (encoder {record.encoder}, setting {record.setting}) is recorded "
                f"twice: in {seen[record.key]} and in {place}; keep one, or tell them apart by "
                "encoder= or setting="
            )
        seen[record.key] = place
        records.append(record)
    return records
