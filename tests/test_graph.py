"""The graph of Section 3.2: structure, d-separation by three engines, reasons, bad questions."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import networkx as nx
import pytest

from causalrag import graph as cg

EVERY_VARIANT = (None, *cg.VARIANTS)

# Written out by hand from the figure, pair by pair.
FIFTEEN = {
    ("A", "B", ""),
    ("A", "B", "q"),
    ("A", "B", "qy"),
    ("A", "y", "q"),
    ("A", "y", "Bq"),
    ("A", "y", "Bdq"),
    ("B", "q", ""),
    ("B", "q", "A"),
    ("B", "q", "Ad"),
    ("q", "d", "A"),
    ("q", "d", "AB"),
    ("q", "d", "ABy"),
    ("d", "y", "AB"),
    ("d", "y", "Bq"),
    ("d", "y", "ABq"),
}


def every_path_is_blocked(graph, x, y, given):
    """Decide separation from the definition alone, sharing no code with the library."""
    parents = {node: set(graph.predecessors(node)) for node in graph}
    children = {node: set(graph.successors(node)) for node in graph}

    def at_or_below(node):
        return {node}.union(*(at_or_below(child) for child in children[node]))

    def lets_through(before, node, after):
        if before in parents[node] and after in parents[node]:
            return bool(at_or_below(node) & given)
        return node not in given

    def an_open_path_continues(trail):
        if trail[-1] == y:
            return True
        neighbours = (parents[trail[-1]] | children[trail[-1]]) - set(trail)
        return any(
            an_open_path_continues((*trail, node))
            for node in neighbours
            if len(trail) == 1 or lets_through(trail[-2], trail[-1], node)
        )

    return not an_open_path_continues((x,))


# --- structure -------------------------------------------------------------------------------


def test_base_graph_has_the_edges_of_figure_2_and_no_cycle():
    graph = cg.retrieval_graph()
    assert list(graph.nodes) == ["A", "B", "q", "d", "y"]
    assert set(graph.edges) == {("A", "q"), ("A", "d"), ("B", "d"), ("B", "y"), ("q", "y")}
    assert nx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize(
    ("variant", "added"),
    [
        ("topic", {("U", "q"), ("U", "B")}),
        ("selection_d", {("d", "s")}),
        ("selection_qd", {("q", "s"), ("d", "s")}),
        ("manipulation", {("M", "d")}),
    ],
)
def test_each_variant_adds_only_its_own_edges(variant, added):
    base = set(cg.retrieval_graph().edges)
    assert set(cg.retrieval_graph(variant).edges) - base == added
    assert base <= set(cg.retrieval_graph(variant).edges)


def test_the_list_of_variants_is_complete():
    assert cg.VARIANTS == ("topic", "selection_d", "selection_qd", "manipulation")


def test_graph_is_a_fresh_pgmpy_dag_each_time():
    from pgmpy.base import DAG

    first = cg.retrieval_graph()
    first.remove_edge("A", "q")
    assert isinstance(first, DAG)
    assert ("A", "q") in cg.retrieval_graph().edges


@pytest.mark.parametrize("variant", ["topics", "", 3, ["topic"]])
def test_unknown_variant_is_refused_with_the_list_of_known_ones(variant):
    with pytest.raises(ValueError, match=r"unknown variant .*'topic'.*'manipulation'"):
        cg.retrieval_graph(variant)


def test_importing_the_module_loads_neither_pgmpy_nor_networkx():
    code = (
        "import sys, causalrag.graph; print([m for m in ('pgmpy', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- three engines ---------------------------------------------------------------------------


@pytest.mark.parametrize("variant", EVERY_VARIANT)
def test_pgmpy_networkx_and_path_enumeration_agree_on_every_query(variant):
    graph = cg.retrieval_graph(variant)
    for x, y, given in cg.queries(graph):
        by_pgmpy = cg.d_separated(graph, x, y, given)
        by_networkx = nx.is_d_separator(graph, {x}, {y}, set(given))
        by_definition = every_path_is_blocked(graph, x, y, given)
        by_paths = not any(path.is_open for path in cg.paths(graph, x, y, given))
        assert by_pgmpy == by_networkx == by_definition == by_paths, (x, y, given)


def test_three_engines_agree_on_random_graphs():
    for seed in range(12):
        graph = nx.DiGraph()
        graph.add_nodes_from("abcdef")
        loose = nx.gnp_random_graph(6, 0.45, seed=seed)
        graph.add_edges_from(("abcdef"[u], "abcdef"[v]) for u, v in loose.edges)
        for x, y, given in cg.queries(graph)[::3]:
            answer = cg.d_separated(graph, x, y, given)
            assert answer == every_path_is_blocked(graph, x, y, given), (seed, x, y, given)
            assert answer == nx.is_d_separator(graph, {x}, {y}, set(given)), (seed, x, y, given)


def test_base_graph_has_80_queries_all_different():
    found = cg.queries(cg.retrieval_graph())
    assert len(found) == len(set(found)) == 80
    assert all(x not in given and y not in given and x != y for x, y, given in found)


def test_a_graph_of_six_nodes_has_240_queries():
    assert len(cg.queries(cg.retrieval_graph("topic"))) == 240


def test_queries_come_by_node_order_then_size_then_node_order():
    first = [(x, y, "".join(sorted(given))) for x, y, given in cg.queries(cg.retrieval_graph())[:9]]
    sets = ["", "q", "d", "y", "dq", "qy", "dy", "dqy"]
    assert first == [("A", "B", given) for given in sets] + [("A", "q", "")]


def test_base_graph_implies_exactly_the_fifteen_known_independencies():
    implied = cg.implied_independencies(cg.retrieval_graph())
    assert len(implied) == 15
    assert {(x, y, "".join(sorted(given))) for x, y, given in implied} == FIFTEEN


def test_implied_independencies_keep_the_order_of_queries():
    graph = cg.retrieval_graph("selection_qd")
    implied = cg.implied_independencies(graph)
    assert implied == [query for query in cg.queries(graph) if query in implied]


def test_a_plain_networkx_graph_gives_the_same_answers():
    dag = cg.retrieval_graph()
    plain = nx.DiGraph()
    plain.add_nodes_from(dag.nodes)
    plain.add_edges_from(dag.edges)
    assert cg.implied_independencies(plain) == cg.implied_independencies(dag)
    assert cg.paths(plain, "q", "B", "d") == cg.paths(dag, "q", "B", "d")


def test_parallel_edges_and_isolated_nodes_are_accepted():
    graph = nx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    graph.add_node("alone")
    assert not cg.d_separated(graph, "a", "c")
    assert cg.d_separated(graph, "a", "c", "b")
    assert cg.d_separated(graph, "a", "alone", ("b", "c"))
    assert [path.text for path in cg.paths(graph, "a", "c")] == ["a → b → c"]
    assert cg.paths(graph, "a", "alone") == []


def test_declaring_nodes_latent_does_not_separate_them():
    from pgmpy.base import DAG

    graph = DAG(cg.EDGES, latents={"A", "B"})
    assert not cg.d_separated(graph, "q", "B", "d")
    assert len(cg.implied_independencies(graph)) == 15


# --- what the paper says ----------------------------------------------------------------------


def test_observation_1_and_its_limit():
    graph = cg.retrieval_graph()
    assert cg.d_separated(graph, "q", "B")
    assert not cg.d_separated(graph, "q", "B", "d")
    assert cg.d_separated(graph, "q", "B", ("d", "A"))


def test_a_topic_breaks_the_marginal_independence_of_observation_1():
    graph = cg.retrieval_graph("topic")
    assert not cg.d_separated(graph, "q", "B")
    assert cg.d_separated(graph, "q", "B", "U")


def test_selection_by_d_opens_what_d_opens_and_A_closes_it():
    graph = cg.retrieval_graph("selection_d")
    assert [path.text for path in cg.paths(graph, "q", "B", "s") if path.is_open] == [
        "q ← A → d ← B"
    ]
    assert cg.d_separated(graph, "q", "B", ("s", "A"))


def test_selection_by_q_and_d_opens_a_path_that_A_does_not_block():
    graph = cg.retrieval_graph("selection_qd")
    still_open = [path.text for path in cg.paths(graph, "q", "B", ("s", "A")) if path.is_open]
    assert still_open == ["q → s ← d ← B"]
    assert not cg.d_separated(graph, "q", "B", ("s", "A"))


def test_manipulation_becomes_dependent_on_B_and_on_A_once_d_is_held():
    graph = cg.retrieval_graph("manipulation")
    assert cg.d_separated(graph, "M", "B")
    assert not cg.d_separated(graph, "M", "B", "d")
    assert not cg.d_separated(graph, "M", "q", "d")


def test_d_and_y_are_the_only_colliders_over_all_paths():
    graph = cg.retrieval_graph()
    met = {
        node
        for x, y, given in cg.queries(graph)
        if not given
        for path in cg.paths(graph, x, y)
        for node in cg.colliders(graph, path.nodes)
    }
    assert met == {"d", "y"}


# --- paths -------------------------------------------------------------------------------------


def test_there_are_two_paths_between_q_and_B_shortest_first():
    found = cg.paths(cg.retrieval_graph(), "q", "B")
    assert [str(path) for path in found] == ["q → y ← B", "q ← A → d ← B"]
    assert [path.nodes for path in found] == [("q", "y", "B"), ("q", "A", "d", "B")]
    assert found[1].arrows == ("←", "→", "←")


def test_paths_of_equal_length_follow_node_order():
    graph = nx.DiGraph([("x", "b"), ("x", "a"), ("b", "y"), ("a", "y")])
    assert [path.nodes[1] for path in cg.paths(graph, "x", "y")] == ["b", "a"]


@pytest.mark.parametrize(
    ("x", "y", "given", "nodes", "is_open", "reason"),
    [
        (
            "q",
            "B",
            (),
            "qAdB",
            False,
            "blocked at d: a collider here, and neither it nor a descendant is conditioned on",
        ),
        (
            "q",
            "B",
            "d",
            "qAdB",
            True,
            "open: A is a fork here and is not conditioned on; "
            "d is a collider here and is conditioned on",
        ),
        ("q", "B", "Ad", "qAdB", False, "blocked at A: a fork here, and it is conditioned on"),
        (
            "q",
            "B",
            "A",
            "qAdB",
            False,
            "blocked at A: a fork here, and it is conditioned on; "
            "blocked at d: a collider here, and neither it nor a descendant is conditioned on",
        ),
        ("A", "y", "q", "Aqy", False, "blocked at q: a chain here, and it is conditioned on"),
        ("A", "y", "", "Aqy", True, "open: q is a chain here and is not conditioned on"),
        ("A", "q", "", "Aq", True, "open: a direct edge, which nothing can block"),
    ],
)
def test_each_path_tells_why_it_is_open_or_blocked(x, y, given, nodes, is_open, reason):
    found = cg.paths(cg.retrieval_graph(), x, y, tuple(given))
    path = next(path for path in found if path.nodes == tuple(nodes))
    assert (path.is_open, path.reason) == (is_open, reason)


def test_a_collider_opened_from_below_names_the_descendant():
    graph = cg.retrieval_graph("selection_d")
    path = cg.paths(graph, "q", "B", "s")[1]
    assert path.is_open
    assert path.reason.endswith("d is a collider here and its descendant s is conditioned on")


def test_a_collider_opened_from_below_names_every_descendant():
    graph = nx.DiGraph([("a", "c"), ("b", "c"), ("c", "s"), ("s", "t")])
    (path,) = cg.paths(graph, "a", "b", {"t", "s"})
    assert (
        path.reason == "open: c is a collider here and its descendants s and t are conditioned on"
    )


def test_the_arrows_of_a_path_match_the_graph():
    graph = cg.retrieval_graph("topic")
    for path in cg.paths(graph, "d", "U"):
        for (left, right), arrow in zip(pairwise(path.nodes), path.arrows, strict=True):
            assert graph.has_edge(left, right) == (arrow == "→")


def test_a_path_reads_the_same_from_both_ends():
    graph = cg.retrieval_graph("selection_qd")
    there = {path.nodes: path.is_open for path in cg.paths(graph, "q", "B", "s")}
    back = {path.nodes[::-1]: path.is_open for path in cg.paths(graph, "B", "q", "s")}
    assert there == back


def test_paths_are_frozen_values():
    path = cg.paths(cg.retrieval_graph(), "q", "B")[0]
    with pytest.raises(AttributeError):
        path.is_open = True
    assert hash(path) == hash(cg.paths(cg.retrieval_graph(), "q", "B")[0])


# --- colliders ---------------------------------------------------------------------------------


def test_a_node_is_a_collider_on_one_path_and_not_on_another():
    graph = cg.retrieval_graph("selection_qd")
    assert cg.colliders(graph, ("q", "A", "d", "B")) == ("d",)
    assert cg.colliders(graph, ("q", "s", "d", "B")) == ("s",)
    assert cg.colliders(graph, ["d", "B", "y"]) == ()
    assert cg.colliders(graph, ("q", "y")) == ()


def test_all_colliders_of_a_path_come_in_order():
    graph = cg.retrieval_graph()
    assert cg.colliders(graph, ("A", "d", "B", "y", "q")) == ("d", "y")


@pytest.mark.parametrize(
    ("nodes", "error", "words"),
    [
        (("q", "B"), ValueError, "no edge joins 'q' and 'B'"),
        (("q", "z"), ValueError, "unknown node 'z'"),
        (("q", "A", "q"), ValueError, "visits a node once"),
        ("qAdB", TypeError, "sequence of node names"),
        (None, TypeError, "sequence of node names"),
        (("q", None), TypeError, "must be a string"),
    ],
)
def test_what_is_no_path_is_refused(nodes, error, words):
    with pytest.raises(error, match=words):
        cg.colliders(cg.retrieval_graph(), nodes)


# --- bad questions -----------------------------------------------------------------------------

ASKING = (cg.d_separated, cg.paths)


# Hard case 30: an unknown node, x = y, x in the conditioning set, a cyclic graph.
@pytest.mark.parametrize("ask", ASKING)
@pytest.mark.parametrize(
    ("x", "y", "given", "words"),
    [
        ("Z", "B", (), "unknown node 'Z'; known nodes: A, B, q, d, y"),
        ("q", "Z", (), "unknown node 'Z'; known nodes"),
        ("q", "B", "Z", "unknown node 'Z'; known nodes"),
        ("q", "B", ("d", "Z"), "unknown node 'Z'; known nodes"),
        ("q", "B", "Ad", "unknown node 'Ad'; known nodes"),
        ("", "B", (), "unknown node ''"),
        ("q", "q", (), "two different nodes"),
        ("q", "B", "q", "'q' is both asked about and conditioned on"),
        ("q", "B", ("d", "B"), "'B' is both asked about and conditioned on"),
        ("a", "B", (), "unknown node 'a'"),
    ],
)
def test_a_question_the_graph_cannot_answer_is_refused(ask, x, y, given, words):
    with pytest.raises(ValueError, match=words):
        ask(cg.retrieval_graph(), x, y, given)


@pytest.mark.parametrize("ask", ASKING)
@pytest.mark.parametrize(
    ("x", "y", "given"),
    [
        (None, "B", ()),
        ("q", None, ()),
        ("q", "B", None),
        ("q", "B", (None,)),
        ("q", "B", 3),
        ("q", 3, ()),
        (["q"], "B", ()),
        ("q", "B", [["d"]]),
        ("q", "B", b"d"),
    ],
)
def test_names_that_are_no_strings_are_refused(ask, x, y, given):
    with pytest.raises(TypeError):
        ask(cg.retrieval_graph(), x, y, given)


def cyclic_graphs():
    mutated = cg.retrieval_graph()
    mutated.add_edge("y", "A")
    return {
        "plain": nx.DiGraph([("q", "d"), ("d", "B"), ("B", "q")]),
        "loop": nx.DiGraph([("q", "B"), ("q", "q")]),
        "mutated dag": mutated,
    }


@pytest.mark.parametrize("name", ["plain", "loop", "mutated dag"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: cg.d_separated(graph, "q", "B"),
        lambda graph: cg.paths(graph, "q", "B"),
        lambda graph: cg.colliders(graph, ("q", "B")),
        cg.queries,
        cg.implied_independencies,
    ],
)
def test_a_cyclic_graph_is_refused_and_the_cycle_named(name, ask):
    with pytest.raises(ValueError, match=r"cycle, .* → .*nodes: "):
        ask(cyclic_graphs()[name])


@pytest.mark.parametrize("graph", [None, {"A": ["q"]}, nx.Graph([("q", "B")]), [("q", "B")]])
def test_what_is_no_directed_graph_is_refused(graph):
    with pytest.raises(TypeError, match="directed networkx graph"):
        cg.d_separated(graph, "q", "B")


def test_a_graph_whose_nodes_are_not_strings_is_refused():
    with pytest.raises(TypeError, match="must be strings, got 1"):
        cg.queries(nx.DiGraph([(1, 2)]))


@pytest.mark.parametrize("given", ["d", ("d",), ["d", "d"], {"d"}, frozenset("d"), iter(["d"])])
def test_the_conditioning_set_may_be_one_name_or_any_iterable(given):
    assert not cg.d_separated(cg.retrieval_graph(), "q", "B", given)


def test_asking_does_not_change_the_graph():
    graph = cg.retrieval_graph("topic")
    before = (list(graph.nodes), list(graph.edges))
    cg.implied_independencies(graph)
    cg.paths(graph, "q", "B", "d")
    assert (list(graph.nodes), list(graph.edges)) == before


# -- for DAGitty ---------------------------------------------------------------------------------


def test_a_graph_in_dagitty_s_language_names_every_node_role_and_arrow():
    text = cg.to_dagitty(cg.retrieval_graph(), "q", "B", given="d", places={"d": (1.5, 1.25)})
    assert text.splitlines() == [
        "dag {",
        "A",
        "B [outcome]",
        "q [exposure]",
        'd [adjusted,pos="1.50,-1.25"]',
        "y",
        *("A -> q", "A -> d", "B -> d", "B -> y", "q -> y"),
        "}",
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pgmpy's parser and pyparsing
@pytest.mark.parametrize("variant", [None, *cg.VARIANTS])
def test_pgmpy_reads_back_the_edges_that_were_written_for_dagitty(variant):
    from pgmpy.base import DAG

    graph = cg.retrieval_graph(variant)
    read = DAG.from_dagitty(cg.to_dagitty(graph))
    assert set(read.edges) == set(graph.edges)


def test_a_question_that_dagitty_cannot_be_asked_is_refused():
    graph = cg.retrieval_graph()
    with pytest.raises(ValueError, match="both x and y or neither"):
        cg.to_dagitty(graph, "q")
    with pytest.raises(ValueError, match="both asked about and conditioned on"):
        cg.to_dagitty(graph, "q", "B", "q")
    with pytest.raises(ValueError, match="unknown node 'z'"):
        cg.to_dagitty(graph, places={"z": (0, 0)})
    with pytest.raises(ValueError, match="letters, digits and _"):
        cg.to_dagitty(nx.DiGraph([("a b", "c")]))
