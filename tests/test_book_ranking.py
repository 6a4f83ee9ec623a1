"""The ranking explorer in a browser shows `rank()`'s orders and the library's A and B."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import causalrag as cr
from causalrag import datasets, text

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import ranking_explorer

pytestmark = pytest.mark.browser

PAGE = "book/explore_ranking.html"
PHONE = {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"}
TAUS = list(ranking_explorer.TAUS)
SHOWN = """part => ({
  order: [...part.querySelectorAll(".rank-order button")].map(one => one.dataset.doc),
  chosen: [...part.querySelectorAll(".rank-chosen button")].map(one => one.dataset.doc),
  moves: [...part.querySelectorAll(".rank-order tbody tr")].map(one => one.children[2].textContent),
  marks: [...part.querySelectorAll(".rank-document mark")]
    .map(one => [one.textContent, one.className]),
  text: part.querySelector(".rank-text").textContent,
  words: [...part.querySelectorAll(".rank-words tbody tr")]
    .map(one => [one.children[0].textContent, one.children[1].textContent]),
  verdict: part.querySelector(".rank-verdict").textContent,
  gloss: part.querySelector(".rank-gloss").textContent,
  scores: part.querySelector(".rank-scores").textContent})"""


@pytest.fixture(scope="module")
def rank():
    """Return a function that ranks a theme with the library, and nothing of the page's own."""
    encoder, extractors, known = cr.load_encoder("use"), {}, {}

    def rank(name, theme, method, tau):
        if (name, theme.theme, method, tau) not in known:
            if name not in extractors:
                extractors[name] = cr.TfidfKeywords.fit(getattr(datasets, name)().texts)
            how = {"absorption": "exact"} if tau == "exact" else {}
            if tau != "exact":
                how["tau"] = tau if tau == "auto" else float(tau)
            reranker = cr.CausalReranker(encoder, extractors[name], method=method, **how)
            known[name, theme.theme, method, tau] = reranker.rank(theme.query, theme.documents)
        return known[name, theme.theme, method, tau]

    return rank


def go(page, **view):
    page.evaluate(
        """hash => new Promise(done => {
          addEventListener("hashchange", () => setTimeout(done), {once: true});
          location.hash = hash; })""",
        "&".join(f"{name}={value}" for name, value in view.items()),
    )


def shown(page):
    return page.locator(".part-ranking").evaluate(SHOWN)


def check(seen, ranking, similarity, doc):
    before = {one.doc_id: one.rank for one in similarity}
    assert seen["order"] == [one.doc_id for one in ranking]
    assert seen["chosen"] == [doc]
    for one, move in zip(ranking, seen["moves"], strict=True):
        moved = before[one.doc_id] - one.rank
        word = "▲ up" if moved > 0 else "▼ down"
        expected = f"{word} {abs(moved)}, from {before[one.doc_id]}" if moved else "stays"
        assert move == expected
    one = next(one for one in ranking if one.doc_id == doc)
    sets = dict.fromkeys(one.shared, "A") | dict.fromkeys(one.residual, "B")
    assert dict(seen["words"]) == sets
    tokens = [term for term in text.tokenize(one.text) if term in sets]
    assert [kind for _, kind in seen["marks"]] == [f"rank-{sets[term].lower()}" for term in tokens]
    for (piece, _), term in zip(seen["marks"], tokens, strict=True):
        assert text.normalise(piece) == term or term in text.tokenize(piece)
    assert f"{before[doc]} → {one.rank}" in seen["verdict"]
    for score in (one.base, one.causal):
        assert cr.evaluate.half_up(score, 3).replace("-", "−") in seen["scores"]


@pytest.mark.parametrize("name", ranking_explorer.CORPORA)
@pytest.mark.parametrize("scheme", ["file", "http"])
def test_every_theme_and_method_is_ranked_as_the_library_ranks(visit, rank, name, scheme):
    """Each theme under each method at a threshold that changes, once on a phone from a file."""
    visitor = visit(PAGE, scheme, **(PHONE if scheme == "file" else {}))
    page = visitor.page
    for number, theme in enumerate(getattr(datasets, name)().themes):
        for other, method in enumerate(ranking_explorer.METHODS):
            tau = "0.6" if scheme == "file" else TAUS[(number + other) % len(TAUS)]
            document = theme.documents[(number + other) % len(theme.documents)]
            go(page, corpus=name, theme=theme.theme, doc=document.id, tau=tau, method=method)
            seen = shown(page)
            similarity = rank(name, theme, "similarity", "exact")
            check(seen, rank(name, theme, method, tau), similarity, document.id)
            title = f"{document.title} " if document.title else ""
            assert title + seen["text"] == document.full_text
            assert document.extra.get("gloss", "") in seen["gloss"]
    assert visitor.errors == []


@pytest.mark.parametrize("kind", ["a", "b"])
def test_a_and_b_differ_not_by_colour_alone(visit, kind):
    mark = visit(PAGE).page.locator(f".rank-document mark.rank-{kind}").first
    style = mark.evaluate("one => getComputedStyle(one).textDecorationStyle")
    assert style == {"a": "solid", "b": "dashed"}[kind]
    line = mark.evaluate("one => getComputedStyle(one).textDecorationLine")
    assert line == "underline"


def test_the_keyboard_alone_reaches_another_document_and_method(visit, rank):
    visitor = visit(PAGE, "file", **PHONE)
    page, theme = visitor.page, datasets.diagnostic().themes[0]
    page.locator(".rank-corpus").focus()
    for _ in range(4):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "rank-method"
    page.keyboard.press("ArrowUp")
    similarity = rank("diagnostic", theme, "similarity", "0.6")
    assert shown(page)["order"] == [one.doc_id for one in similarity]
    page.keyboard.press("Tab")  # to the keywords
    page.keyboard.press("Enter")
    assert page.locator(".rank-words table").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.doc") == similarity[0].doc_id
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert shown(page)["chosen"] == [similarity[1].doc_id]
    assert page.evaluate("document.activeElement.dataset.doc") == similarity[1].doc_id
    check(shown(page), similarity, similarity, similarity[1].doc_id)
    assert visitor.errors == []


def test_the_address_holds_the_view(visit):
    page = visit(PAGE).page
    page.locator(".rank-corpus").select_option("second")
    page.locator(".rank-theme").select_option("S11")
    page.locator(".rank-doc").select_option("S11-d7")
    page.locator(".rank-tau").select_option("0.4")
    page.locator(".rank-method").select_option("causal_fallback")
    before = shown(page)
    assert page.url.endswith("#corpus=second&theme=S11&doc=S11-d7&tau=0.4&method=causal_fallback")
    page.reload()
    page.wait_for_selector(".part-ranking.part-ready")
    assert shown(page) == before
    assert "B has no centroid" in page.locator(".rank-near").text_content()


def test_the_button_gives_the_link(visit):
    page = visit(PAGE).page
    page.locator(".rank-method").select_option("hybrid")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".rank-link").click()
    page.wait_for_function("document.querySelector('.rank-done').textContent !== ''")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert page.url.endswith("method=hybrid")


@pytest.mark.parametrize(
    "hash_",
    ["corpus=elsewhere", "theme=T99", "method=best", "tau=0.61", "%E0%A4%A", "corpus=__proto__"],
)
def test_an_address_that_means_nothing_shows_the_first_view(visit, hash_):
    visitor = visit(f"{PAGE}#{hash_}")
    seen = shown(visitor.page)
    assert seen["chosen"] == ["T1-d2"]
    assert visitor.errors == []


def test_a_document_of_another_theme_gives_way_to_one_of_this(visit):
    visitor = visit(f"{PAGE}#corpus=second&theme=S2&doc=T1-d2")
    first = next(d for d in datasets.second().themes[1].documents if d.role == "stuffed")
    assert shown(visitor.page)["chosen"] == [first.id]
    assert visitor.errors == []


def test_the_links_below_set_the_view(visit):
    page = visit(PAGE).page
    links = page.locator("article a[href^='#corpus=']")
    assert links.count() >= 5
    for link in links.all():
        link.click()
        href = link.get_attribute("href")
        page.wait_for_function("href => location.hash === href", arg=href)
        asked = dict(part.split("=") for part in href[1:].split("&"))
        assert shown(page)["chosen"] == [asked["doc"]]
        for name, value in asked.items():
            assert page.locator(f".rank-{name}").input_value() == value


@pytest.mark.parametrize("view", ["theme=T1", "corpus=second&theme=S11&tau=0.4&method=adjusted"])
def test_nothing_runs_off_a_phone(visit, view):
    page = visit(f"{PAGE}#{view}", "file", **PHONE).page
    page.locator(".rank-words summary").click()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
    wide = page.locator(".part-ranking *").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().right > 400)"
        ".map(one => one.outerHTML.slice(0, 80))"
    )
    assert wide == []


def test_without_scripts_the_page_shows_a_table(browser, addresses):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{addresses['file']}/{PAGE}")
    table = page.locator(".part-ranking table")
    assert table.is_visible()
    documents = datasets.diagnostic().themes[0].documents
    assert table.locator("tbody tr").count() == len(documents)
    assert not page.locator(".rank-controls").is_visible()
    context.close()
