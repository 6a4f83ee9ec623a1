"""The click-to-condition graph: every question about every variant, answered at build time.

`explorer_data` asks `causalrag.graph` each question "is x independent of y given the set?" about
the paper's graph and its variants, with the reason for each path; the page's script only looks the
answers up. `explorer_html` draws the first view, which a reader without scripts keeps.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from page_parts import embed
from sphinx.util.docutils import SphinxDirective

from causalrag import graph as cr_graph
from causalrag.plots import place_nodes

if TYPE_CHECKING:
    import networkx as nx
    from docutils.nodes import Node
    from sphinx.application import Sphinx

BASE = "base"
GRAPHS = {
    BASE: ("the paper's graph", "Section 3.2: five nodes, five arrows."),
    "topic": ("with a topic U", "A common cause that the paper leaves out: U → q and U → B."),
    "selection_d": (
        "candidates chosen by d alone",
        "A score s of the document alone chooses the candidates (Remark 1): d → s.",
    ),
    "selection_qd": (
        "candidates chosen by s(q, d)",
        "A score s of query and document chooses the candidates (Eqs. 1-2): q → s ← d.",
    ),
    "manipulation": (
        "with a writer M",
        "Somebody writes the document whatever A and B are: M → d.",
    ),
}
"""{name: (how the page calls the graph, what it adds)}; every variant of `retrieval_graph`."""

MEANINGS = {
    "A": "keywords that query and document share",
    "B": "the document's other keywords",
    "q": "the query",
    "d": "the retrieved document",
    "y": "the ideal answer",
    "U": "a topic that the graph leaves out",
    "s": "a score that chooses the candidates",
    "M": "somebody who writes the document on purpose",
}
FIRST = (BASE, "q", "B", ())
"""The view that the page opens with: the path between q and B before d is known."""

UNIT, RADIUS, MARGIN = 110, 25, 34  # of the drawing, in its own units


def explorer_data() -> dict[str, Any]:
    """Answer every question about every graph.

    Returns
    -------
    dict
        ``graphs``: per graph its ``nodes``, ``edges``, ``places`` (pixels), ``dagitty`` (each
        node's line by its role, and the rest), and per pair of nodes (``"q|B"``, both ways round)
        the ``paths`` (text, edges by number) and the ``answers``: for each set, written as the sum
        of 2^position over its nodes, [1 if d-separated else 0, the reasons' numbers of all paths].
        ``reasons``: the words, [is it open, text].
    """
    reasons: dict[tuple[bool, str], int] = {}
    graphs = {name: _graph_data(name, reasons) for name in GRAPHS}
    return {
        "first": dict(zip(("graph", "x", "y", "given"), FIRST, strict=True)),
        "graphs": graphs,
        "reasons": [[int(is_open), text] for is_open, text in reasons],
        "meanings": MEANINGS,
    }


def build(name: str) -> nx.DiGraph:
    """Return one of `GRAPHS`."""
    return cr_graph.retrieval_graph(None if name == BASE else name)


def mask(graph: nx.DiGraph, given: Any) -> int:
    """Write a set of nodes as one number."""
    return sum(1 << position for position, node in enumerate(graph.nodes) if node in given)


def _graph_data(name: str, reasons: dict[tuple[bool, str], int]) -> dict[str, Any]:
    graph = build(name)
    edges = [edge[:2] for edge in graph.edges]
    independent = set(cr_graph.implied_independencies(graph))
    pairs: dict[str, Any] = {}
    for one, other, given in cr_graph.queries(graph):
        separated = int((one, other, given) in independent)
        for x, y in ((one, other), (other, one)):  # a path is read from x to y
            paths = cr_graph.paths(graph, x, y, given)
            pair = pairs.setdefault(f"{x}|{y}", {"paths": _paths_data(paths, edges), "answers": {}})
            keys = [(path.is_open, path.reason) for path in paths]
            for key in keys:
                reasons.setdefault(key, len(reasons))
            numbers = [reasons[key] for key in keys]
            pair["answers"][mask(graph, given)] = [separated, *numbers]
    label, note = GRAPHS[name]
    return {
        "label": label,
        "note": note,
        "nodes": list(graph.nodes),
        "edges": edges,
        "places": _pixels(graph),
        "pairs": pairs,
        "dagitty": _dagitty(graph),
    }


def _paths_data(paths: list[cr_graph.Path], edges: list[tuple[str, str]]) -> list[dict[str, Any]]:
    found = []
    for path in paths:
        steps = zip(path.nodes, path.nodes[1:], path.arrows, strict=False)
        along = [edges.index((u, v) if arrow == "→" else (v, u)) for u, v, arrow in steps]
        found.append({"text": path.text, "edges": along})
    return found


def _pixels(graph: nx.DiGraph) -> dict[str, tuple[int, int]]:
    places = place_nodes(graph)
    left = min(across for across, _ in places.values())
    top = max(up for _, up in places.values())
    return {
        node: (
            round((across - left) * UNIT + RADIUS + MARGIN),
            round((top - up) * UNIT + RADIUS + MARGIN),
        )
        for node, (across, up) in places.items()
    }


def _dagitty(graph: nx.DiGraph) -> dict[str, Any]:
    """Cut the library's text into each node's line by its role, and the lines after the nodes."""
    places = place_nodes(graph)
    nodes = list(graph.nodes)

    def line(node: str, role: str) -> str:
        other = next(name for name in nodes if name != node)
        asked = {
            "none": {},
            "x": {"x": node, "y": other},
            "y": {"x": other, "y": node},
            "given": {"given": node},
        }[role]
        return cr_graph.to_dagitty(graph, places=places, **asked).splitlines()[
            1 + nodes.index(node)
        ]

    roles = ("none", "x", "y", "given")
    rest = cr_graph.to_dagitty(graph, places=places).splitlines()[1 + len(nodes) :]
    return {
        "nodes": {node: {role: line(node, role) for role in roles} for node in nodes},
        "rest": rest,
    }


# -- the first view ------------------------------------------------------------------------------


def explorer_html() -> str:
    """Draw the controls and the first view."""
    name, x, y, given = FIRST
    graph = build(name)
    paths = cr_graph.paths(graph, x, y, given)
    graph_options = "".join(
        f'<option value="{key}"{" selected" if key == name else ""}>{escape(label)}</option>'
        for key, (label, _) in GRAPHS.items()
    )
    ends = {
        which: "".join(
            f"<option{' selected' if node == chosen else ''}>{node}</option>"
            for node in graph.nodes
        )
        for which, chosen in (("x", x), ("y", y))
    }
    rows = "".join(
        f'<li class="dag-path dag-{"open" if path.is_open else "blocked"}">'
        f"<strong>{'open' if path.is_open else 'blocked'}</strong> "
        f'<span class="dag-path-text">{escape(path.text)}</span> '
        f'<span class="dag-reason">{escape(path.reason)}</span></li>'
        for path in paths
    )
    return f"""\
<div class="dag-controls">
<label>Graph <select class="dag-graph">{graph_options}</select></label>
<span class="dag-ends"><label>Is <select class="dag-x" aria-label="x, the first node asked about">\
{ends["x"]}</select></label>
<label>independent of <select class="dag-y" aria-label="y, the second node asked about">\
{ends["y"]}</select></label></span>
<button type="button" class="dag-clear">Condition on nothing</button>
</div>
<p class="dag-note">{escape(GRAPHS[name][1])}</p>
<div class="dag-view">
<div class="dag-picture">{svg(name, x, y)}
<ul class="dag-legend" aria-label="How to read the picture">
<li class="dag-key-open">on an open path</li><li class="dag-key-blocked">on blocked paths only</li>
<li class="dag-key-none">on no path</li><li class="dag-key-given">conditioned on</li>
<li class="dag-key-end">asked about</li></ul></div>
<div class="dag-answer">
<p class="dag-verdict" aria-live="polite"></p>
<ul class="dag-paths">{rows}</ul>
<p class="dag-buttons"><button type="button" class="dag-link">Copy link to this view</button>
<button type="button" class="dag-copy">Copy for dagitty</button>
<span class="dag-done" aria-live="polite"></span></p>
<details><summary>The text for dagitty</summary>
<pre class="dag-dagitty" tabindex="0" aria-label="This view in dagitty's language"></pre></details>
</div>
</div>
<noscript><p>The picture answers clicks only where scripts run. Each answer is also one call:
<code>cr.graph.paths(cr.graph.retrieval_graph(), "q", "B", given="d")</code>.</p></noscript>"""


def svg(name: str, x: str, y: str) -> str:
    """Draw a graph; the script redraws it the same way for another one."""
    graph = build(name)
    places = _pixels(graph)
    width = max(across for across, _ in places.values()) + RADIUS + MARGIN
    height = max(down for _, down in places.values()) + RADIUS + MARGIN
    lines = "".join(_line(places[u], places[v]) for u, v in (edge[:2] for edge in graph.edges))
    nodes = "".join(
        f'<g class="dag-node{" dag-end" if node in (x, y) else ""}" data-node="{node}">'
        f'<circle cx="{places[node][0]}" cy="{places[node][1]}" r="{RADIUS}"></circle>'
        f'<text x="{places[node][0]}" y="{places[node][1]}">{node}</text></g>'
        for node in graph.nodes
    )
    return (
        f'<svg class="dag-svg" viewBox="0 0 {width} {height}" role="group" '
        f'aria-label="The graph: a button for each node conditions on it">'
        f'<g class="dag-edges">{lines}</g><g class="dag-nodes">{nodes}</g></svg>'
    )


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    ends = f'x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}"'
    return f'<line class="dag-edge" {ends}></line>'


class GraphExplorer(SphinxDirective):
    """``{graph-explorer}``: the graph that a click conditions."""

    has_content = False

    def run(self) -> list[Node]:
        """Place the explorer."""
        return [embed(self.env, "graph", explorer_html(), explorer_data())]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("graph-explorer", GraphExplorer)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
