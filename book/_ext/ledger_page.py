"""The ledger's page as static HTML: every claim, its evidence, its verdict, a link to its cell.

`render` is a pure function of claims and records. Each row is a closed box that opens to all there
is to know. Without scripts the boxes open, and the choice of verdicts at the top is a set of radio
buttons that ``_static/ledger.css`` acts on; ``_static/interactive/ledger.js`` adds the other
filters. `badge` draws the counts as a picture, `table` writes them all as CSV. All text is escaped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

from causalrag.claims import (
    NOT_RECORDED,
    SOURCES,
    VERDICTS,
    Claim,
    Record,
    by_claim,
    show,
    verdict_class,
    verdict_html,
)

if TYPE_CHECKING:
    import pandas as pd

PARTS = {
    "graph": "The graph",
    "method": "The rule",
    "case_study": "The case study",
    "testbed": "The testbed",
    "diagnostic": "The diagnostic corpus",
    "beir": "BEIR",
    "gate": "The gate",
    "cara": "CARA",
    "cdf_rag": "CDF-RAG and its review",
}
"""Headings for the sections of ``claims.yaml``; another section is headed by its own name."""

PageOf = Callable[[str], str | None]
Row = tuple[Claim, Record | None]


def render(claims: Mapping[str, Claim], records: Iterable[Record], page_of: PageOf) -> str:
    """Return the ledger as HTML.

    Parameters
    ----------
    claims
        Claims by id; their order is the order of the rows.
    records
        What the chapters recorded. A claim without a record gets one row, "not run".
    page_of
        From a chapter's name to the page's relative address, or None where it has no page: the row
        then names the chapter without a link.

    Returns
    -------
    str
        One ``<div class="ledger">``: counts by verdict, then a section per part with a
        ``<details>`` per row. The first row of a claim has the claim's id as its own.

    Raises
    ------
    ValueError
        If a record does not fit the claims, see `causalrag.claims.by_claim`.
    """
    parts: dict[str, list[Row]] = {}
    for id, found in by_claim(claims, list(records)).items():
        rows = parts.setdefault(claims[id].part, [])
        rows += [(claims[id], record) for record in found] or [(claims[id], None)]
    verdicts = Counter(_verdict(record) for rows in parts.values() for _, record in rows)
    sections = "\n".join(_section(part, rows, page_of) for part, rows in parts.items())
    top = _counts(verdicts, len(claims)) + "\n" + _parts(parts)
    return f'<div class="ledger" data-part="ledger">\n{top}\n{sections}\n</div>\n'


def _verdict(record: Record | None) -> str:
    return "not run" if record is None else record.verdict


def _slug(text: str) -> str:
    return text.replace(" ", "-").replace("_", "-")


def _counts(verdicts: Counter[str], n_claims: int) -> str:
    """Count the rows by verdict; each count is also the button that shows these rows alone."""
    n_rows = verdicts.total()
    choices = [("all", f"all {n_rows} rows", "")]
    choices += [
        (_slug(verdict), f"{verdicts[verdict]} {verdict}", f" verdict {verdict_class(verdict)}")
        for verdict in VERDICTS
        if verdicts[verdict]
    ]
    buttons = "\n".join(
        f'<label class="ledger-choice{css}"><input type="radio" name="ledger-show" value="{value}"'
        f"{' checked' if value == 'all' else ''}> {escape(text)}</label>"
        for value, text, css in choices
    )
    return (
        '<fieldset class="ledger-choices">'
        f"<legend>{n_claims} claims. Show:</legend>\n"
        f"{buttons}\n</fieldset>"
    )


def _parts(parts: Iterable[str]) -> str:
    links = "\n".join(f'<li><a href="#{_anchor(part)}">{_title(part)}</a></li>' for part in parts)
    return f'<nav class="ledger-parts" aria-label="Parts of the ledger"><ul>\n{links}\n</ul></nav>'


def _title(part: str) -> str:
    return escape(PARTS.get(part, part.replace("_", " ").capitalize()))


def _anchor(part: str) -> str:
    return escape(f"ledger-{_slug(part)}")


def _section(part: str, rows: list[Row], page_of: PageOf) -> str:
    anchor = _anchor(part)
    seen: set[str] = set()
    boxes = []
    for claim, record in rows:
        first = claim.id not in seen
        seen.add(claim.id)
        boxes.append(_row(claim, record, first, page_of))
    return (
        f'<section class="ledger-part" id="{anchor}" aria-labelledby="{anchor}-title">\n'
        f'<h2 id="{anchor}-title">{_title(part)}</h2>\n' + "\n".join(boxes) + "\n</section>"
    )


def _row(claim: Claim, record: Record | None, first: bool, page_of: PageOf) -> str:
    """Write one box: id, claim and verdict; opened, the evidence."""
    verdict = _verdict(record)
    setting = "" if record is None else record.setting
    encoder = (record.encoder if record is not None else None) or ""
    tags = {
        "verdict": _slug(verdict),
        "source": claim.source,
        "ledger-part": claim.part,
        "kind": claim.kind,
        "setting": setting,
        "encoder": encoder,
    }
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in tags.items())
    row_id = claim.id if first or record is None else f"{claim.id}--{record.anchor}"
    made_with = f'<span class="ledger-encoder">{escape(encoder)}</span>' if encoder else ""
    return (
        f'<details class="ledger-row" id="{escape(row_id)}"{data}>'
        f'<summary><code>{escape(claim.id)}</code> <span class="ledger-claim">{escape(claim.claim)}'
        f"</span> {made_with} {verdict_html(verdict)}</summary>\n"
        f"{_evidence(claim, record, page_of)}</details>"
    )


def _evidence(claim: Claim, record: Record | None, page_of: PageOf) -> str:
    """Write what an opened row says, as a list of terms; what is empty is left out."""
    source = SOURCES.get(claim.source, claim.source)
    facts = {
        "source": escape(source if claim.where in ("", source) else f"{source}, {claim.where}"),
        "kind": escape(claim.kind),
        "paper says": escape(show(claim.expected if record is None else record.paper)),
    }
    if record is None:
        facts["not run"] = escape(NOT_RECORDED)
    else:
        interval = (
            "" if record.low is None or record.high is None else show([record.low, record.high])
        )
        facts |= {
            "measured": escape(show(record.measured)),
            "interval": escape(interval.replace(", ", " to ")),
            "n": "" if record.n is None else f"{record.n:,}",
            "setting": escape(record.setting),
            "encoder": escape(record.encoder or ""),
            "not run": escape(record.reason),
            "readings": escape(record.readings),
            "remark": escape(record.note),
            "cell": _link(record, page_of),
            "run it again": f"<code>make verify CLAIM={escape(claim.id)}</code>",
        }
    items = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items() if text)
    return f'<dl class="ledger-facts">{items}</dl>'


def _link(record: Record, page_of: PageOf) -> str:
    page = page_of(record.chapter)
    if not page:
        return escape(record.chapter)
    href = escape(f"{page}#{record.anchor}")
    name = escape(record.chapter)
    return f'<a href="{href}" aria-label="{escape(record.id)} in its cell, {name}">{name}</a>'


# -- the same counts elsewhere --------------------------------------------------------------------


def table(frame: pd.DataFrame) -> str:
    """Write a ledger (`causalrag.claims.ledger`) as CSV; nested measured values as JSON."""
    plain = frame.copy()
    plain["measured"] = [
        json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
        for value in plain["measured"]
    ]
    return plain.to_csv(index=False, lineterminator="\n")


SHOWN = ("holds", "replicated", "refuted", "not run")
"""Verdicts that the badge counts."""

_LETTER = 6.6
"""Width of a letter in the badge, in pixels."""


def badge(frame: pd.DataFrame) -> str:
    """Draw how many rows of a ledger have which verdict, as an SVG of 20 pixels' height."""
    counts = Counter(frame["verdict"])
    left = f"ledger: {frame['id'].nunique()} claims"
    right = ", ".join(f"{counts[verdict]} {verdict}" for verdict in SHOWN)
    widths = [round(len(text) * _LETTER + 14) for text in (left, right)]
    text = f"{left}; rows: {right}"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{sum(widths)}" height="20" role="img"
aria-label="{text}">
<title>{text}</title>
<rect width="{widths[0]}" height="20" fill="#3d3d3d"/>
<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="#0b5a8a"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{widths[0] / 2}" y="14">{left}</text>
<text x="{widths[0] + widths[1] / 2}" y="14">{right}</text>
</g>
</svg>
"""
