"""The causal graph of terminal retrieval, its variants, and what d-separation says about them.

The graph is that of Section 3.2 (Figure 2): A→q, A→d, B→d, B→y, q→y. Separation is decided by
pgmpy's engine; `paths` lists every path with the reason why it is open or blocked. Nothing here
knows parameters or data: numbers are in `simulate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx
    from pgmpy.base import DAG

NODES = ("A", "B", "q", "d", "y")
"""Nodes of the base graph, in the order every list follows."""

EDGES = (("A", "q"), ("A", "d"), ("B", "d"), ("B", "y"), ("q", "y"))
"""Edges of the base graph (Figure 2)."""

_ADDED: dict[str, tuple[tuple[str, str], ...]] = {
    "topic": (("U", "q"), ("U", "B")),
    "selection_d": (("d", "s"),),
    "selection_qd": (("q", "s"), ("d", "s")),
    "manipulation": (("M", "d"),),
}

VARIANTS = tuple(_ADDED)
"""Names that `retrieval_graph` accepts besides None."""

Query = tuple[str, str, frozenset[str]]
"""A question put to the graph: is x independent of y given the set?"""


@dataclass(frozen=True)
class Path:
    """A path between two nodes, and whether it carries dependence given the conditioning set.

    Attributes
    ----------
    nodes
        The nodes in order, both ends included.
    is_open
        True when no node on the path blocks it.
    reason
        The cause in words, one clause per node that decides.
    arrows
        The direction of each edge as read from left to right, "→" or "←"; one less than nodes.
    """

    nodes: tuple[str, ...]
    is_open: bool
    reason: str
    arrows: tuple[str, ...]

    @property
    def text(self) -> str:
        """The path in one line, such as ``q ← A → d ← B``."""
        tail = (f" {arrow} {node}" for arrow, node in zip(self.arrows, self.nodes[1:], strict=True))
        return self.nodes[0] + "".join(tail)

    def __str__(self) -> str:
        return self.text


def retrieval_graph(variant: str | None = None) -> DAG:
    """Build the graph of Section 3.2, or one of its variants.

    Parameters
    ----------
    variant
        None for the graph of Figure 2. "topic" adds an unmodelled common cause, U→q and U→B.
        "selection_d" adds d→s: candidates are chosen by a score of d alone (Remark 1).
        "selection_qd" adds q→s and d→s: candidates are chosen by s(q, d) (Eqs. 1-2).
        "manipulation" adds M→d: somebody writes the document whatever A and B are, the policy
        variable of Spirtes, Glymour and Scheines.

    Returns
    -------
    pgmpy.base.DAG
        A new graph. A and B are not declared latent, because pgmpy leaves latent nodes out of the
        answers of `is_dconnected`.

    Raises
    ------
    ValueError
        For an unknown variant.
    """
    if variant is not None and variant not in VARIANTS:
        known = ", ".join(repr(name) for name in VARIANTS)
        raise ValueError(f"unknown variant {variant!r}; known variants: None, {known}")
    from pgmpy.base import DAG

    graph = DAG()
    graph.add_nodes_from(NODES)
    graph.add_edges_from(EDGES + (_ADDED[variant] if variant is not None else ()))
    return graph


def d_separated(graph: nx.DiGraph, x: str, y: str, given: str | Iterable[str] = ()) -> bool:
    """Say whether x and y are d-separated given a set of nodes, by pgmpy's engine.

    Parameters
    ----------
    graph
        Any directed acyclic networkx graph with string nodes (a pgmpy DAG is one).
    x, y
        Two different nodes.
    given
        The conditioning set: one node, or any iterable of nodes.

    Returns
    -------
    bool
        True when every path between x and y is blocked. Latent nodes of a pgmpy DAG count like
        any other.

    Raises
    ------
    ValueError
        For an unknown node, x = y, x or y in `given`, or a graph with a cycle. pgmpy itself would
        answer False to `is_dconnected` for an unknown node.
    TypeError
        For a graph that is not directed, or a name that is not a string.
    """
    conditioned = check_query(graph, x, y, given)
    return _separated(_as_pgmpy(graph), x, y, conditioned)


def paths(graph: nx.DiGraph, x: str, y: str, given: str | Iterable[str] = ()) -> list[Path]:
    """List every path between x and y, each with the reason why it is open or blocked.

    A path is open when each collider on it is conditioned on, or has a descendant that is, and no
    other node on it is conditioned on (Section 3.2). x and y are d-separated exactly when no path
    is open.

    Parameters
    ----------
    graph, x, y, given
        As for `d_separated`.

    Returns
    -------
    list of Path
        All simple paths of the undirected skeleton, shortest first, then in the graph's node order.

    Raises
    ------
    ValueError, TypeError
        As for `d_separated`.
    """
    import networkx as nx

    conditioned = check_query(graph, x, y, given)
    order = {node: position for position, node in enumerate(graph.nodes)}
    skeleton = nx.Graph(edge[:2] for edge in graph.edges)
    skeleton.add_nodes_from(graph.nodes)
    found = (tuple(nodes) for nodes in nx.all_simple_paths(skeleton, x, y))
    ranked = sorted(found, key=lambda nodes: (len(nodes), [order[node] for node in nodes]))
    return [_judge(graph, nodes, conditioned) for nodes in ranked]


def colliders(graph: nx.DiGraph, path_nodes: Sequence[str]) -> tuple[str, ...]:
    """Name the nodes at which both edges of a path point inwards.

    A collider is a property of a node on a path: d is one on q ← A → d ← B and none on
    d ← B → y.

    Parameters
    ----------
    graph
        As for `d_separated`.
    path_nodes
        The nodes of a path in order, such as ``path.nodes``.

    Returns
    -------
    tuple of str
        The colliders in path order.

    Raises
    ------
    ValueError
        For an unknown or repeated node, or two neighbours that no edge joins.
    TypeError
        For a single string instead of a sequence of names.
    """
    check_graph(graph)
    if isinstance(path_nodes, str) or not isinstance(path_nodes, Sequence):
        raise TypeError(f"a path is a sequence of node names, got {path_nodes!r}")
    for node in path_nodes:
        _check_node(graph, node)
    if len(set(path_nodes)) < len(path_nodes):
        raise ValueError(f"a path visits a node once, got {tuple(path_nodes)!r}")
    for left, right in pairwise(path_nodes):
        if not (graph.has_edge(left, right) or graph.has_edge(right, left)):
            raise ValueError(f"no edge joins {left!r} and {right!r}; edges: {_edge_list(graph)}")
    return tuple(
        node
        for before, node, after in zip(path_nodes, path_nodes[1:], path_nodes[2:], strict=False)
        if graph.has_edge(before, node) and graph.has_edge(after, node)
    )


def queries(graph: nx.DiGraph) -> list[Query]:
    """List every question of the form "is x independent of y given the set?".

    Parameters
    ----------
    graph
        As for `d_separated`.

    Returns
    -------
    list of (x, y, frozenset)
        Every pair of nodes with every subset of the others: n(n-1)/2 · 2^(n-2), that is 80 for the
        base graph. Pairs in node order, then sets by size, then by node order.

    Raises
    ------
    ValueError, TypeError
        As for `d_separated`.
    """
    check_graph(graph)
    nodes = list(graph.nodes)
    found = []
    for x, y in combinations(nodes, 2):
        rest = [node for node in nodes if node not in (x, y)]
        for size in range(len(rest) + 1):
            found += [(x, y, frozenset(chosen)) for chosen in combinations(rest, size)]
    return found


def implied_independencies(graph: nx.DiGraph) -> list[Query]:
    """List the conditional independencies that the graph implies.

    Parameters
    ----------
    graph
        As for `d_separated`.

    Returns
    -------
    list of (x, y, frozenset)
        The members of `queries` that d-separation answers with yes, in the same order; 15 for the
        base graph.

    Raises
    ------
    ValueError, TypeError
        As for `d_separated`.
    """
    found = queries(graph)
    dag = _as_pgmpy(graph)
    return [query for query in found if _separated(dag, *query)]


def to_dagitty(
    graph: nx.DiGraph,
    x: str | None = None,
    y: str | None = None,
    given: str | Iterable[str] = (),
    places: Mapping[str, tuple[float, float]] | None = None,
) -> str:
    """Write the graph, and a question about it, in the language of DAGitty.

    Parameters
    ----------
    graph
        As for `d_separated`.
    x, y
        The nodes asked about, both or neither: ``exposure`` and ``outcome`` there.
    given
        The conditioning set: ``adjusted`` there.
    places
        Where to draw the nodes, {node: (to the right, upwards)}; a node may be missing.

    Returns
    -------
    str
        One line per node and per edge, in the graph's order, between ``dag {`` and ``}``.

    Raises
    ------
    ValueError, TypeError
        As for `d_separated`; also if only one of x and y is given, for a place that is no node's,
        and for a name that DAGitty could not read.
    """
    if (x is None) != (y is None):
        raise ValueError(f"name both x and y or neither, got x={x!r}, y={y!r}")
    check_graph(graph)
    if x is None or y is None:
        conditioned = check_set(graph, given)
    else:
        conditioned = check_query(graph, x, y, given)
    for node in places or {}:
        _check_node(graph, node)
    roles = dict.fromkeys(conditioned, "adjusted") | {x: "exposure", y: "outcome"}
    lines = []
    for node in graph.nodes:
        if not node.isidentifier():
            raise ValueError(f"DAGitty needs names of letters, digits and _, got {node!r}")
        notes = [roles[node]] if node in roles else []
        if places and node in places:
            across, up = places[node]
            notes.append(f'pos="{across:.2f},{-up:.2f}"')  # DAGitty counts downwards
        lines.append(f"{node} [{','.join(notes)}]" if notes else node)
    lines += [f"{edge[0]} -> {edge[1]}" for edge in graph.edges]
    return "\n".join(["dag {", *lines, "}"])


def check_graph(graph: Any) -> None:
    """Refuse what is not a directed acyclic graph with string nodes.

    Parameters
    ----------
    graph
        Anything.

    Raises
    ------
    ValueError
        For a cycle, which is named.
    TypeError
        For anything but a directed networkx graph, or a node that is not a string.
    """
    import networkx as nx

    if not isinstance(graph, nx.DiGraph):
        raise TypeError(f"a directed networkx graph is needed, got {type(graph).__name__}")
    strange = [node for node in graph.nodes if not isinstance(node, str)]
    if strange:
        raise TypeError(f"node names must be strings, got {strange[0]!r}")
    if not nx.is_directed_acyclic_graph(graph):
        loop = [edge[0] for edge in nx.find_cycle(graph)]
        cycle = " → ".join([*loop, loop[0]])
        raise ValueError(
            f"the graph has a cycle, {cycle}; d-separation needs an acyclic graph "
            f"(nodes: {', '.join(graph.nodes)})"
        )


def check_query(
    graph: nx.DiGraph, x: str, y: str, given: str | Iterable[str] = ()
) -> frozenset[str]:
    """Refuse a question that the graph cannot answer, and return its conditioning set.

    Parameters
    ----------
    graph, x, y, given
        As for `d_separated`.

    Returns
    -------
    frozenset of str
        The nodes of `given`.

    Raises
    ------
    ValueError, TypeError
        As for `d_separated`.
    """
    check_graph(graph)
    _check_node(graph, x)
    _check_node(graph, y)
    conditioned = check_set(graph, given)
    if x == y:
        raise ValueError(f"x and y must be two different nodes, both are {x!r}")
    for end in (x, y):
        if end in conditioned:
            raise ValueError(
                f"{end!r} is both asked about and conditioned on; take it out of given"
            )
    return conditioned


def check_set(graph: nx.DiGraph, given: str | Iterable[str]) -> frozenset[str]:
    """Read a conditioning set and refuse unknown names.

    Parameters
    ----------
    graph
        A directed graph with string nodes.
    given
        One node, or any iterable of nodes.

    Returns
    -------
    frozenset of str
        The nodes.

    Raises
    ------
    ValueError
        For an unknown node.
    TypeError
        For None, or a name that is not a string.
    """
    if isinstance(given, str):
        given = (given,)
    elif not isinstance(given, Iterable):
        raise TypeError(f"given must be a node name or an iterable of them, got {given!r}")
    conditioned = list(given)
    for node in conditioned:
        _check_node(graph, node)
    return frozenset(conditioned)


def _separated(dag: DAG, x: str, y: str, given: frozenset[str]) -> bool:
    # include_latents: pgmpy would otherwise report a latent y as separated from everything.
    return not dag.is_dconnected(x, y, observed=list(given), include_latents=True)


def _as_pgmpy(graph: nx.DiGraph) -> DAG:
    from pgmpy.base import DAG

    if isinstance(graph, DAG):
        return graph
    dag = DAG()
    dag.add_nodes_from(graph.nodes)
    dag.add_edges_from(edge[:2] for edge in graph.edges)
    return dag


def _judge(graph: nx.DiGraph, nodes: tuple[str, ...], given: frozenset[str]) -> Path:
    arrows = tuple("→" if graph.has_edge(left, right) else "←" for left, right in pairwise(nodes))
    opening: list[str] = []
    blocking: list[str] = []
    for position, node in enumerate(nodes[1:-1], start=1):
        is_open, clause = _judge_node(graph, node, arrows[position - 1 : position + 1], given)
        (opening if is_open else blocking).append(clause)
    if blocking:
        return Path(nodes, False, "; ".join(blocking), arrows)
    reason = "open: " + ("; ".join(opening) or "a direct edge, which nothing can block")
    return Path(nodes, True, reason, arrows)


def _judge_node(
    graph: nx.DiGraph, node: str, arrows: tuple[str, ...], given: frozenset[str]
) -> tuple[bool, str]:
    """Say whether the node lets its path through, and the clause that explains it."""
    if arrows == ("→", "←"):
        if node in given:
            return True, f"{node} is a collider here and is conditioned on"
        descendants = _descendants(graph, node)
        causes = [other for other in graph.nodes if other in given and other in descendants]
        if causes:
            which = " and ".join(causes)
            noun, verb = ("descendant", "is") if len(causes) == 1 else ("descendants", "are")
            return True, f"{node} is a collider here and its {noun} {which} {verb} conditioned on"
        return False, (
            f"blocked at {node}: a collider here, and neither it nor a descendant is conditioned on"
        )
    kind = "fork" if arrows == ("←", "→") else "chain"
    if node in given:
        return False, f"blocked at {node}: a {kind} here, and it is conditioned on"
    return True, f"{node} is a {kind} here and is not conditioned on"


def _descendants(graph: nx.DiGraph, node: str) -> set[str]:
    import networkx as nx

    return set(nx.descendants(graph, node))


def _check_node(graph: nx.DiGraph, node: Any) -> None:
    if not isinstance(node, str):
        raise TypeError(f"a node name must be a string, got {node!r}")
    if node not in graph:
        raise ValueError(f"unknown node {node!r}; known nodes: {', '.join(graph.nodes)}")


def _edge_list(graph: nx.DiGraph) -> str:
    return ", ".join(f"{edge[0]}→{edge[1]}" for edge in graph.edges)
