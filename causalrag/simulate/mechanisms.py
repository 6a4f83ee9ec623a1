"""How binary causes combine: noisy-OR, noisy-AND, leaky AND and random tables.

The graph of Section 3.2 says that A and B both act on d, and not how. The mechanism decides the
sign of the association that conditioning on d opens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from causalrag.graph import check_graph
from causalrag.simulate import sampling
from causalrag.simulate.discrete import Discrete

if TYPE_CHECKING:
    import networkx as nx


def noisy_or_table(leak: float, strengths: Sequence[float]) -> NDArray[np.float64]:
    """Build the table of a noisy-OR: each cause that is present may bring the effect about.

    Parameters
    ----------
    leak
        Probability of the effect without any cause, in [0, 1].
    strengths
        For each parent, the probability that it alone brings the effect about, in [0, 1].

    Returns
    -------
    ndarray, shape (2,) * number of parents
        P(1 | parents) = 1 - (1 - leak) ∏ (1 - strength) over the parents that are 1.
    """
    _check_share("leak", leak)
    absent = np.array(1.0 - leak)
    for strength in strengths:
        _check_share("strength", strength)
        absent = absent[..., np.newaxis] * np.array([1.0, 1.0 - strength])
    return np.asarray(1.0 - absent)


def noisy_and_table(leak: float, inhibitions: Sequence[float]) -> NDArray[np.float64]:
    """Build the table of a noisy-AND: every cause is needed, and each may be inhibited.

    Parameters
    ----------
    leak
        Probability of the effect when a cause is absent or inhibited, in [0, 1].
    inhibitions
        For each parent, the probability that it fails to act although it is 1, in [0, 1].

    Returns
    -------
    ndarray, shape (2,) * number of parents
        P(1 | parents) = leak + (1 - leak) ∏ (1 - inhibition) if all parents are 1, else leak.
    """
    _check_share("leak", leak)
    acting = 1.0
    for inhibition in inhibitions:
        _check_share("inhibition", inhibition)
        acting *= 1.0 - inhibition
    return leaky_and_table(leak + (1.0 - leak) * acting, leak, len(inhibitions))


def leaky_and_table(high: float, low: float, n_parents: int = 2) -> NDArray[np.float64]:
    """Build the table of an AND with two values: `high` if all parents are 1, else `low`.

    Parameters
    ----------
    high, low
        Probabilities in [0, 1].
    n_parents
        Number of parents, at least 1.

    Returns
    -------
    ndarray, shape (2,) * n_parents
        P(1 | parents).
    """
    _check_share("high", high)
    _check_share("low", low)
    if n_parents < 1:
        raise ValueError(f"an AND needs at least one parent, got {n_parents}")
    table = np.full((2,) * n_parents, float(low))
    table[(1,) * n_parents] = high
    return table


def noisy_or(
    graph: nx.DiGraph, leak: float = 0.1, strength: float = 8 / 9, prior: float = 0.5
) -> Discrete:
    """Build a model in which every node with parents is a noisy-OR of them.

    Parameters
    ----------
    graph
        As for `Discrete`.
    leak, strength
        The same for every node; see `noisy_or_table`. At the defaults a node with two parents has
        probabilities 0.1, 0.9, 0.9 and 0.989.
    prior
        P(1) of the nodes without parents.

    Returns
    -------
    Discrete
        The model.
    """
    return _uniform_model(graph, prior, lambda count: noisy_or_table(leak, [strength] * count))


def noisy_and(
    graph: nx.DiGraph, leak: float = 0.1, inhibition: float = 1 / 9, prior: float = 0.5
) -> Discrete:
    """Build a model in which every node with parents is a noisy-AND of them.

    Parameters
    ----------
    graph
        As for `Discrete`.
    leak, inhibition
        The same for every node; see `noisy_and_table`. At the defaults a node with one parent has
        probabilities 0.1 and 0.9, as in `noisy_or`; with two, 0.1, 0.1, 0.1 and 0.811.
    prior
        P(1) of the nodes without parents.

    Returns
    -------
    Discrete
        The model.
    """
    return _uniform_model(graph, prior, lambda count: noisy_and_table(leak, [inhibition] * count))


def leaky_and(
    graph: nx.DiGraph, high: float = 0.9, low: float = 0.1, prior: float = 0.5
) -> Discrete:
    """Build a model in which every node with parents is a two-valued AND of them.

    Parameters
    ----------
    graph
        As for `Discrete`.
    high, low
        The same for every node; see `leaky_and_table`.
    prior
        P(1) of the nodes without parents.

    Returns
    -------
    Discrete
        The model.
    """
    return _uniform_model(graph, prior, lambda count: leaky_and_table(high, low, count))


def random_tables(graph: nx.DiGraph, seed: int) -> Discrete:
    """Draw a binary model at random.

    Parameters
    ----------
    graph
        As for `Discrete`.
    seed
        A non-negative integer.

    Returns
    -------
    Discrete
        Every probability uniform in [0.05, 0.95], priors included. Cancellations have probability
        0, so the model is faithful almost surely.
    """
    check_graph(graph)
    generator = sampling.generator(seed)
    return Discrete(
        graph,
        {
            node: generator.uniform(0.05, 0.95, (2,) * len(sampling.parents(graph, node)))
            for node in graph.nodes
        },
    )


def _uniform_model(
    graph: nx.DiGraph, prior: float, table: Callable[[int], NDArray[np.float64]]
) -> Discrete:
    check_graph(graph)
    _check_share("prior", prior)
    counts = {node: len(sampling.parents(graph, node)) for node in graph.nodes}
    return Discrete(
        graph, {node: table(count) if count else prior for node, count in counts.items()}
    )


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be a probability in [0, 1], got {value}")
