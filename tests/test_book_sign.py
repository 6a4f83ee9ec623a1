"""The sign explorer in a browser shows the simulators' numbers, by mouse, keyboard and address."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import sign_explorer

pytestmark = pytest.mark.browser

PAGE = "book/explore_sign.html"
PHONE = {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"}
LAST = sign_explorer.STEPS - 1
SHOWN = """part => ({
  verdict: part.querySelector(".sign-verdict").textContent,
  sign: part.querySelector(".sign-verdict strong").textContent,
  before: part.querySelectorAll(".sign-before circle").length,
  after: part.querySelectorAll(".sign-after circle").length,
  said: part.querySelector(".sign-after figcaption").textContent})"""


@pytest.fixture(scope="module")
def data():
    return sign_explorer.explorer_data()


def shown(page):
    return page.locator(".part-sign").evaluate(SHOWN)


def check(page, told, kept, total):
    text, word = told[-2:]
    seen = shown(page)
    assert seen["sign"] == word
    assert text in seen["verdict"]
    assert (seen["before"], seen["after"]) == (total, kept.count("1"))
    assert f"{kept.count('1'):,} of them are kept" in seen["said"]


def go(page, **view):
    page.evaluate(
        """hash => new Promise(done => {
          addEventListener("hashchange", () => setTimeout(done), {once: true});
          location.hash = hash; })""",
        "&".join(f"{name}={value}" for name, value in view.items()),
    )


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_every_rule_and_pair_of_facts_along_the_slider(visit, data, scheme):
    visitor = visit(PAGE, scheme, **(PHONE if scheme == "file" else {}))
    page, facts = visitor.page, data["facts"]
    for rule, pairs in facts["odds"].items():
        for pair, steps in pairs.items():
            for step in range(scheme == "file", LAST + 1, 5 if scheme == "file" else 1):
                go(page, world="facts", rule=rule, pair=pair.replace("|", "-"), step=step)
                told = (f"odds ratio {steps[step][1]}, exact", steps[step][2])
                check(page, told, facts["kept"][rule][step], sign_explorer.DRAWN_FACTS)
    assert visitor.errors == []


def test_every_rule_pair_and_share_of_numbers(visit, data):
    visitor = visit(PAGE)
    page, numbers = visitor.page, data["numbers"]
    for rule, shares in numbers["estimates"].items():
        for share, pairs in shares.items():
            for pair, told in pairs.items():
                go(page, world="numbers", rule=rule, pair=pair.replace("|", "-"), share=share)
                check(page, told, numbers["kept"][rule][share], sign_explorer.DRAWN_NUMBERS)
    assert visitor.errors == []


def test_the_keyboard_alone_turns_the_sign(visit, data):
    page = visit(PAGE, "file", **PHONE).page
    assert shown(page)["sign"] == "negative"
    page.locator(".sign-slider").focus()
    page.keyboard.press("End")
    assert shown(page)["sign"] == "positive"
    assert f"step={LAST}" in page.url
    page.keyboard.press("ArrowLeft")
    assert page.locator(".sign-slider").input_value() == str(LAST - 1)
    page.locator(".sign-rule").focus()
    page.keyboard.press("ArrowDown")
    kept = data["facts"]["kept"]["d0"][LAST - 1]
    told = data["facts"]["odds"]["d0"]["A|B"][LAST - 1]
    check(page, (f"odds ratio {told[1]}, exact", told[2]), kept, sign_explorer.DRAWN_FACTS)


def test_the_world_of_numbers_shows_its_own_controls(visit):
    page = visit(PAGE).page
    assert page.locator(".sign-slider").is_visible()
    assert not page.locator(".sign-share").is_visible()
    page.locator(".sign-world").select_option("numbers")
    assert not page.locator(".sign-slider").is_visible()
    assert page.locator(".sign-share").is_visible()
    rules = page.locator(".sign-rule option").evaluate_all("all => all.map(one => one.value)")
    assert rules == list(sign_explorer.NUMBER_RULES)


def test_the_address_holds_the_view(visit):
    page = visit(PAGE).page
    page.locator(".sign-world").select_option("numbers")
    page.locator(".sign-rule").select_option("product")
    page.locator(".sign-pair").select_option("q|B")
    page.locator(".sign-share").select_option("0.05")
    before = shown(page)
    page.reload()
    page.wait_for_selector(".part-sign.part-ready")
    assert shown(page) == before


@pytest.mark.parametrize(
    "hash_",
    ["world=elsewhere", "world=facts&rule=sum", "world=facts&step=-3", "%E0%A4%A", "x=__proto__"],
)
def test_an_address_that_means_nothing_shows_the_first_view(visit, hash_):
    visitor = visit(f"{PAGE}#{hash_}")
    seen = shown(visitor.page)
    assert seen["before"] == sign_explorer.DRAWN_FACTS
    assert visitor.errors == []


def test_the_links_below_set_the_view(visit, data):
    page = visit(PAGE).page
    links = page.locator("article a[href^='#world=']")
    assert links.count() >= 5
    for link in links.all():
        link.click()
        href = link.get_attribute("href")
        page.wait_for_function("href => location.hash === href", arg=href)
        asked = dict(part.split("=") for part in href[1:].split("&"))
        pair = asked["pair"].replace("-", "|")
        told = (
            data["facts"]["odds"][asked["rule"]][pair][int(asked["step"])]
            if asked["world"] == "facts"
            else data["numbers"]["estimates"][asked["rule"]][asked["share"]][pair]
        )
        assert shown(page)["sign"] == told[-1]


@pytest.mark.parametrize("view", ["world=facts", "world=numbers&rule=sum"])
def test_nothing_runs_off_a_phone(visit, view):
    page = visit(f"{PAGE}#{view}", **PHONE).page
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
    wide = page.locator(".part-sign *").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().right > 400).length"
    )
    assert wide == 0


def test_without_scripts_the_page_shows_a_table(browser, addresses, data):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{addresses['file']}/{PAGE}")
    table = page.locator(".part-sign table")
    assert table.is_visible()
    assert table.locator("tbody tr").count() == len(sign_explorer.FACT_RULES)
    assert not page.locator(".sign-controls").is_visible()
    context.close()
