"""What both kinds of model need: repeatable draws, and the graph read in one fixed order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import networkx as nx


def generator(seed: int) -> np.random.Generator:
    """Return a generator of its own, apart from numpy's global state.

    Parameters
    ----------
    seed
        A non-negative integer. None is refused: it would draw from the system and could not be
        repeated.

    Returns
    -------
    numpy.random.Generator
        Seeded.

    Raises
    ------
    TypeError, ValueError
        For anything but an integer; for a negative one.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed must be a non-negative integer, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed}")
    return np.random.default_rng(int(seed))


def count(n: int) -> int:
    """Check a number of rows.

    Parameters
    ----------
    n
        At least 1.

    Returns
    -------
    int
        The same number.

    Raises
    ------
    TypeError, ValueError
        For anything but an integer; for less than 1.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise TypeError(f"n must be a number of rows, got {n!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return int(n)


def copy(graph: nx.DiGraph) -> nx.DiGraph:
    """Copy the nodes and edges, so that later changes to the caller's graph do not reach a model.

    Parameters
    ----------
    graph
        A directed graph.

    Returns
    -------
    networkx.DiGraph
        A plain graph in the same node order.
    """
    import networkx as nx

    copied = nx.DiGraph()
    copied.add_nodes_from(graph.nodes)
    copied.add_edges_from(edge[:2] for edge in graph.edges)
    return copied


def parents(graph: nx.DiGraph, node: str) -> tuple[str, ...]:
    """Return the parents of a node in the graph's node order, not the order of the edges.

    Parameters
    ----------
    graph
        A directed graph.
    node
        One of its nodes.

    Returns
    -------
    tuple of str
        May be empty.
    """
    return tuple(other for other in graph.nodes if graph.has_edge(other, node))


def topological(graph: nx.DiGraph) -> list[str]:
    """Return the nodes such that every parent comes before its children.

    Parameters
    ----------
    graph
        An acyclic directed graph.

    Returns
    -------
    list of str
        All nodes.
    """
    import networkx as nx

    return list(nx.topological_sort(graph))
