"""The ledger's page: every claim with its verdict as a word, escaped, and linked to its cell."""

import csv
import importlib.util
import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from causalrag.claims import VERDICTS, Claim, Recorder, ledger, load_claims, write_records

BOOK = Path(__file__).parents[1] / "book"
spec = importlib.util.spec_from_file_location("ledger_page", BOOK / "_ext" / "ledger_page.py")
ledger_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ledger_page)
render = ledger_page.render

CSS = (BOOK / "_static" / "ledger.css").read_text(encoding="utf-8")
CLAIMS = load_claims()
FOUR = Recorder("04_d_separation")
RECORDS = [
    FOUR.record("P.graph.dag", holds=True),
    FOUR.record("P.graph.colliders", holds=False, note="a remark"),
    FOUR.record("P.t2.grim", holds=True),
    Recorder("12_beir").record(
        "P.t3.order",
        measured=-0.0312,
        low=-0.04,
        high=-0.02,
        n=300,
        sign=-1,
        encoder="use",
        setting="other encoder",
    ),
    Recorder("12_beir").record(
        "P.t3.order",
        measured=0.01,
        low=-0.04,
        high=0.02,
        n=300,
        sign=-1,
        encoder="minilm",
        setting="other encoder",
    ),
    Recorder("12_beir").record("P.t1.promote", missing="private corpus: make results"),
]


def page_of(chapter):
    return f"../notebooks/{chapter}.html"


HTML = render(CLAIMS, RECORDS, page_of)


class Reader(HTMLParser):
    """Reads tags, ids, links and the rows' text; fails on tags that do not nest."""

    VOID = frozenset({"input", "br", "img"})

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.rows = [], [], [], [], []
        self.attributes = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.attributes.append((tag, attrs))
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "href" in attrs:
            self.links.append(attrs["href"])
        if tag == "details":
            self.rows.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "details" in self.open:
            self.rows[-1] += data


PAGE = Reader(HTML)


def row(id):
    return [text for text in PAGE.rows if text.startswith(f"{id} ")]


def test_every_claim_has_a_row_and_every_record_its_own():
    assert all(row(id) for id in CLAIMS)
    body = [attrs for tag, attrs in PAGE.attributes if tag == "details"]
    assert len(body) == len(CLAIMS) + 1
    assert len(row("P.t3.order")) == 2


def test_a_row_says_all_there_is_to_know():
    (text,) = [text for text in row("P.t3.order") if "use" in text]
    claim = CLAIMS["P.t3.order"]
    told = [claim.claim, claim.where, claim.kind, "other encoder", "use", "replicated"]
    told += ["measured-0.031", "interval-0.04 to -0.02", "n300"]
    assert all(part in text for part in [*told, "make verify CLAIM=P.t3.order"])
    assert "baseline 6, reranked 3" in row("P.t1.promote")[0]
    assert "a remark" in row("P.graph.colliders")[0]


def test_counts_by_verdict_stand_on_top_and_add_up():
    top = HTML.split("<details", 1)[0]
    counts = {word: int(n) for n, word in re.findall(r"> (\d+) ([a-z ]+)</label>", top)}
    assert counts == {
        "holds": 2,
        "fails": 1,
        "replicated": 1,
        "not replicated": 1,
        "not run": len(CLAIMS) - 4,
    }
    assert sum(counts.values()) == len(CLAIMS) + 1
    assert f"all {len(CLAIMS) + 1} rows" in top
    assert f"{len(CLAIMS)} claims" in top


def test_each_part_has_its_section_in_the_order_of_the_claims():
    parts = list(dict.fromkeys(claim.part for claim in CLAIMS.values()))
    anchors = [f"ledger-{part.replace('_', '-')}" for part in parts]
    sections = [id for id in PAGE.ids if id.startswith("ledger-") and not id.endswith("-title")]
    assert sections == anchors
    assert [link for link in PAGE.links if link.startswith("#")] == [f"#{a}" for a in anchors]
    assert set(parts) == set(ledger_page.PARTS)


def test_each_claim_has_its_id_as_an_address_and_a_second_row_its_own():
    rows = [attrs["id"] for tag, attrs in PAGE.attributes if tag == "details"]
    assert set(CLAIMS) <= set(rows)
    (second,) = set(rows) - set(CLAIMS)
    assert second == "P.t3.order--claim-p-t3-order--use--other-encoder"


def test_the_filters_read_what_the_rows_carry():
    (attrs,) = [a for t, a in PAGE.attributes if t == "details" and a["data-encoder"] == "use"]
    assert (attrs["data-source"], attrs["data-kind"]) == ("P", "direction")
    assert (attrs["data-ledger-part"], attrs["data-setting"]) == ("beir", "other encoder")
    assert attrs["data-verdict"] == "replicated"


def test_the_table_for_download_holds_every_row_and_nested_values_as_json(tmp_path):
    write_records(RECORDS, tmp_path)
    frame = ledger(tmp_path)
    read = list(csv.DictReader(io.StringIO(ledger_page.table(frame))))
    assert [line["id"] for line in read] == list(frame["id"])
    (order,) = [line for line in read if line["encoder"] == "use"]
    assert (order["measured"], order["low"], order["n"]) == ("-0.0312", "-0.04", "300")


def test_the_badge_counts_rows_by_verdict(tmp_path):
    write_records(RECORDS, tmp_path)
    svg = ledger_page.badge(ledger(tmp_path))
    root = ElementTree.fromstring(svg)
    told = root.attrib["aria-label"]
    assert f"{len(CLAIMS)} claims" in told
    assert "2 holds, 1 replicated, 0 refuted" in told
    assert f"{len(CLAIMS) - 4} not run" in told


def test_ids_are_unique_and_tags_nest():
    assert len(PAGE.ids) == len(set(PAGE.ids))


def test_each_record_links_to_its_cell():
    assert [link for link in PAGE.links if not link.startswith("#")] == [
        "../notebooks/04_d_separation.html#claim-p-graph-dag",
        "../notebooks/04_d_separation.html#claim-p-graph-colliders",
        "../notebooks/12_beir.html#claim-p-t1-promote",
        "../notebooks/04_d_separation.html#claim-p-t2-grim",
        "../notebooks/12_beir.html#claim-p-t3-order--minilm--other-encoder",
        "../notebooks/12_beir.html#claim-p-t3-order--use--other-encoder",
    ]
    for record in RECORDS:
        assert f'id="{record.anchor}"' in record.to_html()


def test_a_chapter_without_a_page_is_named_but_not_linked():
    html = render(CLAIMS, RECORDS[:1], lambda chapter: None)
    assert "04_d_separation" in html
    assert [link for link in Reader(html).links if not link.startswith("#")] == []


def test_what_was_not_run_says_why_in_grey_and_shows_no_number():
    assert "private corpus: make results" in row("P.t1.promote")[0]
    (unrecorded,) = row("P.obs1.opened")
    assert "no chapter records this claim yet" in unrecorded
    empty = Reader(render({"P.obs1.opened": CLAIMS["P.obs1.opened"]}, [], page_of))
    assert not re.search(r"\d", empty.rows[0].replace("Obs. 1", "").replace("P.obs1", ""))
    for css in re.findall(r'<span class="([^"]+)">not run</span>', HTML):
        assert css == "verdict verdict-none"
    assert "verdict-good" not in render(CLAIMS, [], page_of)


def test_a_failed_exact_claim_is_shown_as_failing():
    assert '<span class="verdict verdict-bad">fails</span>' in HTML
    assert "fails" in row("P.graph.colliders")[0]


def test_text_cannot_become_markup():
    hostile = '"><script>alert(1)</script>&'
    claim = Claim("O.x", hostile, "O", hostile, "number", hostile, {hostile: [hostile]})
    record = FOUR.record(
        "A.fusion",
        holds=True,
        measured=hostile,
        note=hostile,
        paper=hostile,
        encoder=hostile,
    )
    claims = {"O.x": claim, "A.fusion": CLAIMS["A.fusion"]}
    html = render(claims, [record], lambda chapter: hostile)
    assert "<script" not in html
    assert "script" not in Reader(html).tags
    assert html.count("&lt;script&gt;") > 8


def test_the_page_needs_no_script_and_no_other_host():
    assert not {"script", "link", "img", "iframe", "style"} & set(PAGE.tags)
    assert not re.search(r"https?:|//\w", HTML + CSS)
    assert not [a for _, attrs in PAGE.attributes for a in attrs if a.startswith("on")]
    assert "@import" not in CSS
    assert "url(" not in CSS


def test_the_page_is_the_same_whatever_the_order_of_the_records():
    assert render(CLAIMS, RECORDS[::-1], page_of) == HTML


def test_a_record_for_no_claim_is_refused():
    with pytest.raises(ValueError, match=r"P\.graph\.dag"):
        render({}, RECORDS[:1], page_of)


def test_the_style_knows_every_verdict():
    for verdict in VERDICTS:
        slug = verdict.replace(" ", "-")
        assert f'input[value="{slug}"]:checked) .ledger-row:not([data-verdict="{slug}"])' in CSS
        assert f'.ledger-part:not(:has([data-verdict="{slug}"]))' in CSS
        assert f".{ledger_page.verdict_class(verdict)} {{" in CSS
    grey = re.search(r"\.verdict-none \{(.*?)\}", CSS, re.DOTALL).group(1)
    assert "success" not in grey
    assert "success" not in re.sub(r"\.verdict-good \{.*?\}", "", CSS, flags=re.DOTALL)


def test_every_class_in_the_page_is_styled_and_every_colour_has_a_theme_variable():
    shown = HTML + RECORDS[1].to_html()
    classes = {name for group in re.findall(r'class="([^"]+)"', shown) for name in group.split()}
    plain = {"claim-words"}  # blocks that need no style of their own
    assert {name for name in classes - plain if f".{name}" not in CSS} == set()
    assert all("var(--" in line for line in CSS.splitlines() if re.search(r"#[0-9a-f]{3,6};", line))
