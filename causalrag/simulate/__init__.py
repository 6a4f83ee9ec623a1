"""The causal graph with numbers on it: models, selection, and what factorisation implies.

What the graph of Section 3.2 leaves open is computed here: the size and the sign of the association
that conditioning on d, or selecting by a score, opens between q and B. The models factorise over
any acyclic graph, so the Markov condition holds by construction; faithfulness does not. The classes
live in `gaussian`, `discrete` and `mechanisms`; this module gathers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.graph import check_graph
from causalrag.simulate.discrete import Discrete
from causalrag.simulate.gaussian import LinearGaussian, random_linear_gaussian
from causalrag.simulate.mechanisms import (
    leaky_and,
    leaky_and_table,
    noisy_and,
    noisy_and_table,
    noisy_or,
    noisy_or_table,
    random_tables,
)

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "Discrete",
    "LinearGaussian",
    "leaky_and",
    "leaky_and_table",
    "local_markov",
    "noisy_and",
    "noisy_and_table",
    "noisy_or",
    "noisy_or_table",
    "random_linear_gaussian",
    "random_tables",
    "select_top",
]


def select_top(score: ArrayLike, share: float) -> NDArray[np.bool_]:
    """Mark the rows with the highest scores, as a first stage keeps its candidates (Eq. 2).

    Parameters
    ----------
    score
        Shape (n,): d itself, a noisy descendant of d, or a function of q and d.
    share
        The share to keep, in (0, 1).

    Returns
    -------
    ndarray of bool, shape (n,)
        True for share · n rows, rounded half up, at least one. Among equal scores the earlier row
        is kept.

    Raises
    ------
    ValueError
        For a share outside (0, 1), an empty or two-dimensional score, or a NaN.
    """
    values = np.asarray(score, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"score must be a non-empty 1-d array, got shape {values.shape}")
    if np.isnan(values).any():
        raise ValueError(f"score is NaN at row {int(np.isnan(values).argmax())}; drop such rows")
    if not 0 < share < 1:
        raise ValueError(f"share must lie strictly between 0 and 1, got {share}")
    # 15 digits: 0.29 · 50 is 14.499999999999998 in binary and must count as 14.5.
    count = max(int(np.floor(float(f"{share * values.size:.15g}") + 0.5)), 1)
    mask = np.zeros(values.size, dtype=np.bool_)
    mask[np.argsort(-values, kind="stable")[:count]] = True
    return mask


def local_markov(graph: nx.DiGraph) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """List the statements of the local Markov condition (Section 3.3, assumption 3).

    Parameters
    ----------
    graph
        A directed acyclic networkx graph with string nodes.

    Returns
    -------
    list of (node, others, parents)
        One per node, in node order: the node is independent of `others`, its non-descendants that
        are not its parents, given `parents`. `others` may be empty.

    Raises
    ------
    ValueError, TypeError
        For a cyclic graph; for one that is not directed.
    """
    import networkx as nx

    check_graph(graph)
    found = []
    for node in graph.nodes:
        parents = frozenset(graph.predecessors(node))
        others = frozenset(graph.nodes) - nx.descendants(graph, node) - parents - {node}
        found.append((node, others, parents))
    return found
