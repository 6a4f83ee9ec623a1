"""The click-to-condition graph holds every answer of the library, and draws the first view."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import causalrag as cr

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import graph_explorer
import page_parts

DATA = json.loads(page_parts.as_json(graph_explorer.explorer_data()))


def test_the_explorer_offers_the_paper_s_graph_and_every_variant():
    assert list(DATA["graphs"]) == [graph_explorer.BASE, *cr.graph.VARIANTS]
    for name, data in DATA["graphs"].items():
        assert [tuple(edge) for edge in data["edges"]] == [
            edge[:2] for edge in graph_explorer.build(name).edges
        ]
        assert set(data["nodes"]) <= set(DATA["meanings"])


@pytest.mark.parametrize("name", DATA["graphs"])
def test_every_question_has_the_library_s_answer(name):
    graph, data = graph_explorer.build(name), DATA["graphs"][name]
    asked = cr.graph.queries(graph)
    assert sum(len(pair["answers"]) for pair in data["pairs"].values()) == 2 * len(asked)
    for one, other, given in asked:
        for x, y in ((one, other), (other, one)):
            pair = data["pairs"][f"{x}|{y}"]
            separated, *numbers = pair["answers"][str(graph_explorer.mask(graph, given))]
            paths = cr.graph.paths(graph, x, y, given)
            assert separated == cr.graph.d_separated(graph, x, y, given)
            assert [path["text"] for path in pair["paths"]] == [path.text for path in paths]
            assert [DATA["reasons"][number] for number in numbers] == [
                [path.is_open, path.reason] for path in paths
            ]
            assert separated == (not any(path.is_open for path in paths))


@pytest.mark.parametrize("name", DATA["graphs"])
def test_a_path_names_the_edges_it_runs_along(name):
    data = DATA["graphs"][name]
    for pair in data["pairs"].values():
        for path in pair["paths"]:
            nodes = path["text"].replace("→", " ").replace("←", " ").split()
            steps = {frozenset(step) for step in pairwise(nodes)}
            assert {frozenset(data["edges"][edge]) for edge in path["edges"]} == steps


def test_the_base_graph_has_eighty_questions():
    answers = DATA["graphs"]["base"]["pairs"]
    assert sum(len(pair["answers"]) for pair in answers.values()) == 2 * 80
    yes = sum(answer[0] for pair in answers.values() for answer in pair["answers"].values())
    assert yes == 2 * len(cr.graph.implied_independencies(cr.graph.retrieval_graph()))


@pytest.mark.parametrize("name", DATA["graphs"])
def test_the_lines_for_dagitty_put_together_are_the_library_s_text(name):
    graph, data = graph_explorer.build(name), DATA["graphs"][name]
    places = cr.plots.place_nodes(graph)
    for x, y, given in cr.graph.queries(graph):
        roles = dict.fromkeys(given, "given") | {x: "x", y: "y"}
        lines = [data["dagitty"]["nodes"][node][roles.get(node, "none")] for node in data["nodes"]]
        text = "\n".join(["dag {", *lines, *data["dagitty"]["rest"]])
        assert text == cr.graph.to_dagitty(graph, x, y, given, places)


def test_nodes_stand_apart_and_inside_the_drawing():
    for data in DATA["graphs"].values():
        places = [tuple(data["places"][node]) for node in data["nodes"]]
        assert min(min(place) for place in places) >= graph_explorer.RADIUS
        for position, (x, y) in enumerate(places):
            for across, down in places[:position]:
                apart = ((x - across) ** 2 + (y - down) ** 2) ** 0.5
                assert apart > 3 * graph_explorer.RADIUS


class Tags(HTMLParser):
    """Fails on tags that do not nest."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_first_view_stands_in_the_page_for_readers_without_scripts():
    html = graph_explorer.explorer_html()
    reader = Tags()
    reader.feed(html)
    assert reader.open == []
    _, x, y, given = graph_explorer.FIRST
    for path in cr.graph.paths(cr.graph.retrieval_graph(), x, y, given):
        assert path.text in html
        assert path.reason in html


def test_data_cannot_end_the_script_that_holds_them():
    assert "</" not in page_parts.as_json({"text": "</script><b>", "more": ["<!--"]})
    assert json.loads(page_parts.as_json("</script>")) == "</script>"
    with pytest.raises(ValueError, match="not JSON compliant"):
        page_parts.as_json(float("nan"))
