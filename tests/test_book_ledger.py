"""The ledger in a browser: filters, addresses of rows and views, the table, the badge."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest
from built_site import SITE, need_site

from causalrag.claims import ledger

pytestmark = pytest.mark.browser

PAGE = "book/ledger.html"
PHONE = {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"}
BADGE = Path(__file__).parents[1] / "book" / "ledger-badge.svg"
SHOWN = """ledger => [...ledger.querySelectorAll(".ledger-row")]
  .filter(row => row.checkVisibility())
  .map(row => [row.dataset.verdict, row.dataset.source, row.dataset.encoder,
    row.querySelector("code").textContent])"""


@pytest.fixture(scope="module")
def rows():
    need_site()
    return ledger(SITE.parent / "records")


def shown(page):
    return page.locator(".ledger").evaluate(SHOWN)


def expected(frame):
    return [
        [row.verdict.replace(" ", "-"), row.source, row.encoder, row.id]
        for row in frame.itertuples()
    ]


def same(page, frame):
    assert sorted(shown(page)) == sorted(expected(frame))
    said = page.locator(".ledger-said").text_content()
    told = f"{len(frame)} rows of {frame['id'].nunique()} claims shown."
    assert said == (told if len(frame) else "No row meets all of this.")


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_filters_show_the_rows_of_the_records(visit, rows, scheme):
    visitor = visit(PAGE, scheme, **(PHONE if scheme == "file" else {}))
    page = visitor.page
    same(page, rows)
    for verdict in rows["verdict"].unique():
        page.locator(f'input[value="{verdict.replace(" ", "-")}"]').check()
        same(page, rows[rows["verdict"] == verdict])
    page.get_by_label("Source").select_option("P")
    page.locator('input[value="refuted"]').check()
    chosen = rows[(rows["verdict"] == "refuted") & (rows["source"] == "P")]
    same(page, chosen)
    page.locator(".ledger-filters select").last.select_option(chosen["encoder"].iloc[0])
    same(page, chosen[chosen["encoder"] == chosen["encoder"].iloc[0]])
    address = page.url
    page.get_by_role("button", name="Show all rows").click()
    same(page, rows)
    assert "#" not in page.url
    page.goto("about:blank")
    page.goto(address)
    same(page, chosen[chosen["encoder"] == chosen["encoder"].iloc[0]])
    assert visitor.errors == []


def test_words_find_a_claim_and_its_address_opens_it(visit, rows):
    page = visit(PAGE, "file", **PHONE).page
    page.get_by_label("Find").fill("P.obs1.opened")
    assert {row[-1] for row in shown(page)} >= {"P.obs1.opened"}
    page.get_by_label("Find").fill("xyzzy")
    assert shown(page) == []
    page = visit(f"{PAGE}#P.obs1.opened", "file", **PHONE).page
    row = page.locator('[id="P.obs1.opened"]')
    assert row.evaluate("row => row.open")
    assert row.locator("dl").is_visible()
    row.get_by_role("link").click()
    assert page.url.endswith("#claim-p-obs1-opened")
    page.locator("#claim-p-obs1-opened").wait_for()


def test_by_keyboard_alone(visit, rows):
    page = visit(PAGE, "file", **PHONE).page
    page.get_by_label("Kind").focus()
    page.keyboard.type("nul")
    page.keyboard.press("Tab")
    same(page, rows[rows["kind"] == "null"])
    first = page.locator(".ledger-row:not([hidden]) > summary").first
    first.focus()
    page.keyboard.press("Enter")
    assert first.locator("xpath=..").evaluate("row => row.open")


def test_without_scripts_every_row_is_there_and_opens(visit, rows):
    page = visit(PAGE, "file", java_script_enabled=False).page
    assert page.locator(".ledger-row").count() == len(rows)
    page.locator(".ledger-row > summary").first.click()
    assert page.locator(".ledger-row dl").first.is_visible()


def test_the_table_for_download_is_the_ledger(visit, rows):
    page = visit(PAGE, "http").page
    link = page.get_by_role("link", name="ledger.csv")
    with page.expect_download() as loaded:
        link.click()
    text = Path(loaded.value.path()).read_text(encoding="utf-8")
    read = [line["id"] for line in csv.DictReader(io.StringIO(text))]
    assert read == list(rows["id"])


@pytest.mark.skipif(
    not os.environ.get("CAUSALRAG_DATA"), reason="without CAUSALRAG_DATA a claim reads not run"
)
def test_the_badge_in_the_readme_is_the_ledgers(rows):
    built = SITE / "_static" / "ledger-badge.svg"
    assert BADGE.read_text(encoding="utf-8") == built.read_text(encoding="utf-8"), (
        f"the verdicts changed: cp {built} {BADGE}"
    )
