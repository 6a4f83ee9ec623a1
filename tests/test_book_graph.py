"""The click-to-condition graph in a browser gives the library's answers, by mouse and keyboard."""

from __future__ import annotations

import pytest

import causalrag as cr

pytestmark = pytest.mark.browser

PAGE = "book/explore_graph.html"
GRAPH = cr.graph.retrieval_graph()
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 400, "height": 800}}
SHOWN = """part => ({
  separated: part.querySelector(".dag-verdict").dataset.separated === "1",
  verdict: part.querySelector(".dag-verdict").textContent,
  paths: [...part.querySelectorAll(".dag-path")].map(row => [
    row.querySelector("strong").textContent,
    row.querySelector(".dag-path-text").textContent,
    row.querySelector(".dag-reason").textContent]),
  thick: [...part.querySelectorAll(".dag-edge.dag-open")].length,
  pressed: [...part.querySelectorAll(".dag-node[aria-pressed=true]")].map(n => n.dataset.node),
  text: part.querySelector(".dag-dagitty").textContent})"""


def shown(page):
    return page.locator(".part-graph").evaluate(SHOWN)


def expected(graph, x, y, given):
    paths = cr.graph.paths(graph, x, y, given)
    edges = {
        frozenset(step)
        for p in paths
        if p.is_open
        for step in zip(p.nodes, p.nodes[1:], strict=False)
    }
    return {
        "separated": cr.graph.d_separated(graph, x, y, given),
        "paths": [
            [
                "open" if p.is_open else "blocked",
                p.text,
                p.reason.removeprefix("open: ").removeprefix("blocked "),
            ]
            for p in paths
        ],
        "thick": len(edges),
        "pressed": [node for node in graph if node in given],
        "text": cr.graph.to_dagitty(graph, x, y, given, cr.plots.place_nodes(graph)),
    }


def check(page, graph, x, y, given):
    seen = shown(page)
    verdict = seen.pop("verdict")
    assert seen == expected(graph, x, y, given)
    assert verdict.startswith("Yes. " if seen["separated"] else "No. ")
    assert ("d-separated" in verdict) == seen["separated"]


def press_until(page, given):
    """Bring the conditioned nodes to `given` from the keyboard."""
    for node in page.locator(".dag-node").all():
        name = node.get_attribute("data-node")
        if (node.get_attribute("aria-pressed") == "true") != (name in given):
            node.focus()
            page.keyboard.press("Enter" if name in "Aq" else "Space")


@pytest.mark.parametrize(
    ("size", "mode", "scheme"), [("desktop", "light", "file"), ("phone", "dark", "http")]
)
def test_all_eighty_questions_by_keyboard_alone(visit, size, mode, scheme):
    visitor = visit(PAGE, scheme, viewport=SIZES[size], color_scheme=mode)
    page = visitor.page
    pair = None
    for x, y, given in cr.graph.queries(GRAPH):
        if pair != (x, y):
            page.locator(".dag-clear").focus()
            page.keyboard.press("Enter")
            for which, name, other in (("x", x, "y"), ("y", y, "x")):
                picker = page.locator(f".dag-{which}")
                if picker.input_value() == name:
                    continue
                if page.locator(f".dag-{other}").input_value() == name:  # make room first
                    spare = next(node for node in GRAPH if node not in (x, y))
                    page.locator(f".dag-{other}").focus()
                    page.keyboard.type(spare)
                picker.focus()
                page.keyboard.type(name)
            pair = (x, y)
        press_until(page, given)
        check(page, GRAPH, x, y, given)
    assert visitor.errors == []


@pytest.mark.parametrize("variant", cr.graph.VARIANTS)
def test_every_question_about_a_variant_by_its_link(visit, variant):
    graph = cr.graph.retrieval_graph(variant)
    page = visit(PAGE, "file").page
    for x, y, given in cr.graph.queries(graph):
        hash_ = f"#graph={variant}&x={x}&y={y}&given={','.join(given)}"
        page.evaluate(
            "hash => new Promise(done => { addEventListener('hashchange', done, "
            "{once: true}); location.hash = hash; setTimeout(done, 500); })",
            hash_,
        )
        check(page, graph, x, y, given)


def test_a_click_conditions_a_second_takes_it_back_and_the_address_keeps_it(visit):
    page = visit(PAGE, "file").page
    check(page, GRAPH, "q", "B", ())
    page.locator('.dag-node[data-node="d"]').click()
    check(page, GRAPH, "q", "B", ("d",))
    assert page.evaluate("location.hash") == "#graph=base&x=q&y=B&given=d"
    page.reload()
    check(page, GRAPH, "q", "B", ("d",))
    page.locator('.dag-node[data-node="d"]').click()
    check(page, GRAPH, "q", "B", ())


def test_a_node_asked_about_cannot_be_conditioned_on_and_says_so(visit):
    page = visit(PAGE).page
    page.locator('.dag-node[data-node="q"]').click(force=True)
    check(page, GRAPH, "q", "B", ())
    assert "q is asked about" in page.locator(".dag-done").text_content()
    page.locator('.dag-node[data-node="d"]').click()
    page.locator(".dag-y").select_option("d")
    check(page, GRAPH, "q", "d", ())
    assert "no longer conditioned on" in page.locator(".dag-done").text_content()


@pytest.mark.parametrize(
    "hash_",
    ["#graph=nothing&x=q&y=B", "#x=q&y=q", "#x=z&y=B", "#graph=base&x=<b>&y=B", "#try-these"],
)
def test_a_broken_link_gives_the_first_view(visit, hash_):
    visitor = visit(PAGE + hash_, "file")
    check(visitor.page, GRAPH, "q", "B", ())
    assert visitor.errors == []


def test_a_link_may_name_nodes_that_cannot_be_conditioned_on(visit):
    page = visit(PAGE + "#graph=base&x=q&y=B&given=d,q,nothing,B", "file").page
    check(page, GRAPH, "q", "B", ("d",))


def test_another_graph_keeps_what_it_can_of_the_view(visit):
    page = visit(PAGE + "#graph=selection_qd&x=q&y=B&given=A,s", "file").page
    check(page, cr.graph.retrieval_graph("selection_qd"), "q", "B", ("A", "s"))
    page.locator(".dag-graph").select_option("base")
    check(page, GRAPH, "q", "B", ("A",))


def test_the_view_is_copied_for_dagitty_and_as_a_link(visit):
    page = visit(
        PAGE + "#graph=topic&x=q&y=y&given=U",
        "http",
        permissions=["clipboard-read", "clipboard-write"],
    ).page
    graph = cr.graph.retrieval_graph("topic")
    page.get_by_role("button", name="Copy for dagitty").press("Enter")
    page.wait_for_function("document.querySelector('.dag-done').textContent")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == cr.graph.to_dagitty(graph, "q", "y", "U", cr.plots.place_nodes(graph))
    page.get_by_role("button", name="Copy link to this view").press("Enter")
    page.wait_for_function("document.querySelector('.dag-done').textContent.includes('link')")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.endswith("/book/explore_graph.html#graph=topic&x=q&y=y&given=U")


def test_where_the_clipboard_is_shut_the_text_is_shown_and_selected(visit):
    page = visit(PAGE, "http").page
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('shut')); }"
    )
    page.get_by_role("button", name="Copy for dagitty").click()
    page.wait_for_function("getSelection().toString().includes('dag {')")
    assert page.locator(".dag-dagitty").is_visible()


def test_without_scripts_the_first_view_and_its_reasons_remain(visit):
    page = visit(PAGE, "file", java_script_enabled=False).page
    rows = page.locator(".dag-path").all_text_contents()
    assert [
        GRAPH_path.text in row
        for row, GRAPH_path in zip(rows, cr.graph.paths(GRAPH, "q", "B"), strict=True)
    ] == [True, True]
    assert not page.locator(".dag-controls").is_visible()
