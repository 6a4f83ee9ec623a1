"""The ledger's page as static HTML: every claim, its evidence, its verdict, a link to its cell.

`render` is a pure function of claims and records. The page needs no script: the choice of verdicts
at its top is a set of radio buttons that `_static/ledger.css` acts on, and where a browser cannot,
every row stays visible. All text is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from html import escape

from causalrag.claims import (
    NOT_RECORDED,
    SOURCES,
    VERDICTS,
    Claim,
    Record,
    by_claim,
    measured_text,
    show,
    verdict_class,
    verdict_html,
)

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

HEADINGS = ("Claim", "Setting", "Paper", "Measured", "Verdict", "Cell")

PageOf = Callable[[str], str | None]


def render(claims: Mapping[str, Claim], records: Iterable[Record], page_of: PageOf) -> str:
    """Return the ledger's table as HTML.

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
        One ``<div class="ledger">``: counts by verdict, then a section and a table per part.

    Raises
    ------
    ValueError
        If a record does not fit the claims, see `causalrag.claims.by_claim`.
    """
    parts: dict[str, list[tuple[Claim, Record | None]]] = {}
    for id, found in by_claim(claims, list(records)).items():
        rows = parts.setdefault(claims[id].part, [])
        rows += [(claims[id], record) for record in found] or [(claims[id], None)]
    verdicts = Counter(_verdict(record) for rows in parts.values() for _, record in rows)
    sections = "\n".join(_section(part, rows, page_of) for part, rows in parts.items())
    top = _counts(verdicts, len(claims)) + "\n" + _parts(parts)
    return f'<div class="ledger">\n{top}\n{sections}\n</div>\n'


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


def _section(part: str, rows: list[tuple[Claim, Record | None]], page_of: PageOf) -> str:
    anchor = _anchor(part)
    names = "".join(f'<th role="columnheader" scope="col">{name}</th>' for name in HEADINGS)
    body = "\n".join(_row(claim, record, page_of) for claim, record in rows)
    return (
        f'<section class="ledger-part" id="{anchor}" aria-labelledby="{anchor}-title">\n'
        f'<h2 id="{anchor}-title">{_title(part)}</h2>\n'
        # The roles keep it a table for screen readers where the narrow layout makes cards of rows.
        '<table class="ledger-table" role="table">\n'
        f'<thead role="rowgroup"><tr role="row">{names}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{body}\n</tbody></table>\n</section>'
    )


def _row(claim: Claim, record: Record | None, page_of: PageOf) -> str:
    source = SOURCES.get(claim.source, claim.source)
    cells = [
        f"<code>{escape(claim.id)}</code> {escape(claim.claim)}"
        + _small(
            f"{source}; {claim.kind}"
            if claim.where == source
            else f"{source}, {claim.where}; {claim.kind}"
        ),
        "" if record is None else escape(record.setting) + _small(record.encoder),
        escape(show(claim.expected if record is None else record.paper)),
        "" if record is None else escape(measured_text(record)) + _small(record.note),
        verdict_html(_verdict(record)) + _small(NOT_RECORDED if record is None else record.reason),
        "" if record is None else _link(record, page_of),
    ]
    tags = "".join(
        f'<td role="cell" data-label="{name}">'
        f'<span class="ledger-label" aria-hidden="true">{name}</span>'
        f'<div class="ledger-value">{cell}</div></td>'
        if cell
        else '<td role="cell" class="ledger-empty"></td>'
        for name, cell in zip(HEADINGS, cells, strict=True)
    )
    return f'<tr role="row" data-verdict="{_slug(_verdict(record))}">{tags}</tr>'


def _small(text: str | None) -> str:
    return f'<div class="ledger-small">{escape(text)}</div>' if text else ""


def _link(record: Record, page_of: PageOf) -> str:
    page = page_of(record.chapter)
    if not page:
        return escape(record.chapter)
    href = escape(f"{page}#{record.anchor}")
    return f'<a href="{href}" aria-label="{escape(record.id)} in its cell">cell</a>'
