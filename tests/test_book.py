"""The built site works for a reader: offline, by file:// and by http, small screen, dark, keyboard.

This is hard case 34. The tests run over every page of ``book/_build/html``, so a new chapter is
covered once it is built. `built_site` holds the browser, and says where the site is found.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from built_site import CHAPTERS, PAGES, SCHEMES, SITE, need_site

pytestmark = pytest.mark.browser

NONE = ["no page"]  # so that a test without pages skips with the reason that `built` gives
every_page = pytest.mark.parametrize("page_name", PAGES or NONE)
every_chapter = pytest.mark.parametrize("page_name", CHAPTERS or NONE)
both_schemes = pytest.mark.parametrize("scheme", SCHEMES)


@pytest.fixture(autouse=True)
def built() -> None:
    need_site()


# -- what a page holds, read without a browser ----------------------------------------------------


@dataclass
class Html(HTMLParser):
    """Links, loads, anchors and interactive parts of a page."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.parts |= {values["data-part"]} if "data-part" in values else set()
        if tag in ("a", "area") and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and "href" in values and values.get("rel") not in ("canonical",):
            self.loads.append(values["href"])
        self.loads += [values[name] for name in ("src", "data", "poster") if values.get(name)]
        self.loads += [
            part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()
        ]
        self.loads += css_urls(values.get("style", ""))


@functools.cache
def read(page_name: str) -> Html:
    parser = Html()
    parser.feed((SITE / page_name).read_text(encoding="utf-8"))
    return parser


def css_urls(css: str) -> list[str]:
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    found = re.findall(r"url\(\s*['\"]?([^'\")]+)", css) + re.findall(
        r"@import\s+['\"]([^'\"]+)", css
    )
    return [url for url in found if not url.startswith(("data:", "#"))]


def problem(page_name: str, link: str) -> str | None:
    """Say what is wrong with a link within the site; None when it leads somewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = SITE / page_name
    if parts.path:
        target = (target.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"{link}: no such file"
    if not target.is_relative_to(SITE.resolve()):
        return f"{link}: outside the site"
    fragment = unquote(parts.fragment)
    if not fragment or target.suffix != ".html":
        return None
    html = read(target.relative_to(SITE.resolve()).as_posix())
    if "=" in fragment and html.parts:  # a view of an interactive part, which has tests of its own
        return None
    return None if fragment in html.anchors else f"{link}: no such anchor"


@every_page
def test_every_link_and_anchor_within_the_site_is_alive(page_name):
    html = read(page_name)
    assert [p for link in html.links + html.loads if (p := problem(page_name, link))] == []


@every_page
def test_a_page_loads_nothing_from_another_host(page_name):
    assert [url for url in read(page_name).loads if urlsplit(url).netloc] == []


def test_no_style_sheet_loads_from_another_host():
    sheets = list(SITE.rglob("*.css"))
    assert sheets
    remote = {
        f"{sheet.relative_to(SITE)}: {url}"
        for sheet in sheets
        for url in css_urls(sheet.read_text(encoding="utf-8"))
        if urlsplit(url).netloc
    }
    assert remote == set()


@every_page
def test_a_page_shows_no_date_of_the_build_and_no_foreign_repository(page_name):
    text = (SITE / page_name).read_text(encoding="utf-8")
    assert "executablebooks/jupyter-book" not in text
    assert "thebe" not in text.lower()
    assert not re.search(r"Last updated on", text)


@every_chapter
def test_a_chapter_offers_its_executed_notebook(page_name):
    offered = [link for link in read(page_name).links if link.endswith(".ipynb")]
    assert len(offered) == 1
    notebook = json.loads(
        (SITE / page_name).parent.joinpath(offered[0]).read_text(encoding="utf-8")
    )
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["nbformat"] == 4
    assert any(cell["outputs"] for cell in code)
    assert not any(out["output_type"] == "error" for cell in code for out in cell["outputs"])


def test_the_page_of_run_times_gives_each_chapter_its_seconds():
    text = (SITE / "book/runs.html").read_text(encoding="utf-8")
    rows = re.findall(
        r'<tr.*?href="\.\./(notebooks/[^"#]+\.html)".*?<p>(\d+)</p>.*?<p>(\d+\.\d)</p>.*?</tr>',
        text,
        re.DOTALL,
    )
    assert [chapter for chapter, *_ in rows] == CHAPTERS
    assert all(int(cells) > 0 and float(seconds) > 0 for _, cells, seconds in rows)
    (total,) = re.findall(r"<strong>(\d+)</strong>", text)
    assert abs(int(total) - sum(float(seconds) for *_, seconds in rows)) < 1 + 0.05 * len(rows)


# Light enough for a slow line: what a reader waits for before the first picture.
HEAVIEST = 500_000


@every_page
def test_a_page_without_its_pictures_is_light(page_name):
    assert (SITE / page_name).stat().st_size < HEAVIEST


# -- in the browser -------------------------------------------------------------------------------


UNRENDERED = r"""() => {
  const article = document.querySelector("main");
  const problems = [...article.querySelectorAll(".math")]
    .filter(node => !node.querySelector("mjx-container"))
    .map(node => "not rendered: " + node.textContent);
  for (const node of article.querySelectorAll("mjx-merror"))
    problems.push("error in a formula: " + node.textContent);
  const words = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const text = words.currentNode;
    if (!text.parentElement.closest("pre, code, script, style") && /\\[(\[]|\$\$/.test(text.data))
      problems.push("raw TeX: " + text.data.trim());
  }
  return problems;
}"""


@both_schemes
@every_page
def test_a_page_loads_clean_and_shows_its_formulas(visit, page_name, scheme):
    visitor = visit(page_name, scheme)
    visitor.page.evaluate("document.fonts.ready")
    assert visitor.page.evaluate(UNRENDERED) == []
    assert visitor.errors == []


@both_schemes
def test_the_address_of_the_site_leads_to_its_first_page(visit, scheme):
    page = visit("index.html", scheme).page
    page.wait_for_url("**/book/index.html")
    assert page.locator("article h1").count() == 1


# What a reader at this width cannot reach: parts beyond the right edge that no box scrolls to.
BEYOND_THE_EDGE = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = node => {
    for (let box = node.parentElement; box && box.tagName != "BODY"; box = box.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)
          && box.getBoundingClientRect().right <= width + 1) return true;
    return false;
  };
  return [...document.querySelectorAll("main article *, .bd-search-container *")].filter(node => {
    if (node.closest("mjx-assistive-mml, .sr-only, .visually-hidden")) return false;
    if (!node.checkVisibility()) return false;
    const box = node.getBoundingClientRect();
    return box.width > 1 && box.right > width + 1 && !scrolls(node);
  }).map(node => node.outerHTML.slice(0, 120));
}"""


@every_page
def test_nothing_runs_off_a_screen_of_400_pixels(visit, page_name):
    page = visit(page_name, viewport={"width": 400, "height": 800}).page
    open_all(page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
    assert page.evaluate(BEYOND_THE_EDGE) == []


# Contrast as in WCAG 2.1, of each piece of text against the nearest opaque background.
LOW_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = colour => {  // whatever notation the style uses
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  };
  const background = node => {
    for (let box = node; box; box = box.parentElement) {
      const colour = rgba(getComputedStyle(box).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const low = new Map();
  const content = document.querySelector("main article, .bd-search-container");
  const words = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const node = words.currentNode.parentElement;
    const text = words.currentNode.data.trim();
    if (!text || !node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (node.closest(".headerlink, script, style, mjx-assistive-mml, button, form, .sr-only"))
      continue;
    const box = node.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const [ink, ground] = [rgba(getComputedStyle(node).color), background(node)].map(luminance);
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (contrast < 4.5) low.set(`${node.className} ${contrast.toFixed(1)}`, text.slice(0, 60));
  }
  return [...low].map(([where, text]) => `${where}: ${text}`);
}"""


@pytest.mark.parametrize("mode", ["light", "dark"])
@every_page
def test_text_is_legible(visit, page_name, mode):
    page = visit(page_name, color_scheme=mode).page
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    open_all(page)
    red, green, blue = map(
        int,
        re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3],
    )
    assert (max(red, green, blue) < 60) if mode == "dark" else (min(red, green, blue) > 200)
    assert page.evaluate(LOW_CONTRAST) == []


# A figure drawn for a light page needs an opaque light ground of its own, or one put behind it.
SEE_THROUGH = """() => [...document.querySelectorAll("main .cell_output img")].filter(image => {
  const ground = getComputedStyle(image).backgroundColor.match(/[\\d.]+/g).map(Number);
  if (ground.length == 3 && Math.min(...ground) > 200) return false;
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.drawImage(image, 0, 0);
  return canvas.getImageData(0, 0, 1, 1).data[3] < 255;
}).map(image => image.src)"""


@every_chapter
def test_figures_are_legible_in_dark_mode_and_told_in_words(visit, page_name):
    page = visit(page_name, color_scheme="dark").page
    page.wait_for_load_state("load")
    assert page.evaluate(SEE_THROUGH) == []
    wordless = "images => images.filter(image => !image.alt.trim()).map(image => image.src)"
    assert page.locator("article img").evaluate_all(wordless) == []


# -- by keyboard alone ----------------------------------------------------------------------------

REVEALS = "main :is(button.predict-reveal, summary, button.toggle-button)"
NOTE_FOCUS = """reveals => {
  window.focused = {main: false, starts: 0, reveals: new Set()};
  document.addEventListener("focusin", ({target}) => {
    window.focused.main ||= !!target.closest("main");
    window.focused.starts += !!target.closest("#pst-skip-link");
    if (target.matches(reveals)) window.focused.reveals.add(target);
  });
}"""
IS_OPEN = """button => button.tagName == "SUMMARY" ? button.parentElement.open
  : button.getAttribute("aria-expanded") == "true" """


def open_all(page: Any) -> None:
    """Open every reveal, so that what they hide is checked too."""
    curtains = page.locator("main .predict-reveal[aria-expanded=false]")
    curtains.evaluate_all("all => all.forEach(button => button.click())")
    page.locator("main details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    shut = page.locator("main .toggle-hidden > .admonition-title button")
    shut.evaluate_all("all => all.forEach(button => button.click())")


@every_page
def test_the_keyboard_skips_to_the_text_and_reaches_and_opens_every_reveal(visit, page_name):
    page = visit(page_name).page
    page.keyboard.press("Tab")
    if page_name != "search.html":  # which starts in its search field
        assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to main content"
        page.keyboard.press("Enter")
        page.wait_for_function("location.hash == '#main-content'")
    reveals = page.locator(REVEALS)
    for index in range(reveals.count()):  # an outer one comes before those inside it
        reveal = reveals.nth(index)
        if not reveal.evaluate(IS_OPEN):
            reveal.focus()
            page.keyboard.press("Enter")
        assert reveal.evaluate(IS_OPEN), f"reveal {index} stays shut"
    page.evaluate("document.activeElement.blur()")
    page.evaluate(NOTE_FOCUS, REVEALS)
    for pressed in range(1000):
        page.keyboard.press("Tab")
        if pressed % 20 == 19 and page.evaluate("window.focused.starts > 1"):  # round once
            break
    assert page.evaluate("window.focused.main")
    assert page.evaluate("window.focused.reveals.size") == reveals.count()


# -- search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page_name", "scheme"),
    [(name, "file") for name in CHAPTERS or NONE] + [(name, "http") for name in CHAPTERS[:1]],
)
def test_the_search_finds_a_chapter_by_its_title(visit, page_name, scheme):
    """From the keyboard, on another page."""
    visitor = visit("book/index.html", scheme)
    page = visitor.page
    html = (SITE / page_name).read_text(encoding="utf-8")
    title = re.search(r"<h1>(.*?)<a class=\"headerlink", html[html.index("<article") :], re.DOTALL)[
        1
    ]
    words = re.findall(r"[A-Za-z]{4,}", re.sub(r"<.*?>", " ", title))
    page.keyboard.press("Control+k")
    page.locator("#pst-search-dialog input").wait_for()
    page.keyboard.type(" ".join(words))
    page.keyboard.press("Enter")
    page.locator(f"#search-results a[href*='{page_name}']").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert visitor.errors == []
