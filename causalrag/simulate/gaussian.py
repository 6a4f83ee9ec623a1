"""Linear Gaussian models on a causal graph: exact correlations, and samples.

Correlations and partial correlations come from the covariance that the coefficients imply, so they
carry no sampling error. In this family the sign of an opened path follows from the coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from causalrag.graph import check_graph, check_query
from causalrag.simulate import sampling

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd


class LinearGaussian:
    """A linear model with independent Gaussian noise on a directed acyclic graph.

    Each node is the sum of its parents times their coefficients, plus its own noise of mean 0.

    Parameters
    ----------
    graph
        A directed acyclic networkx graph with string nodes; it is read once.
    coefficients
        One value for all edges, or {(u, v): value}; an edge left out has 1.
    noise
        One standard deviation (≥ 0) for all nodes, or {node: value}; a node left out has 1.

    Attributes
    ----------
    nodes : tuple of str
        In the graph's order.
    coefficients : mapping
        The coefficient of every edge.
    noise : mapping
        The noise standard deviation of every node.
    covariance : ndarray, shape (n, n)
        Exact, in the order of `nodes`: (I - C)⁻¹ D (I - C)⁻ᵀ with C[v, u] the coefficient of u→v
        and D the diagonal of noise variances.

    Raises
    ------
    ValueError
        For a cycle, an unknown edge or node, a value that is not finite, a negative noise.
    TypeError
        For a graph that is not directed.
    """

    def __init__(
        self,
        graph: nx.DiGraph,
        coefficients: float | Mapping[tuple[str, str], float] = 1.0,
        noise: float | Mapping[str, float] = 1.0,
    ) -> None:
        check_graph(graph)
        self._graph = sampling.copy(graph)
        self.nodes: tuple[str, ...] = tuple(self._graph.nodes)
        self.coefficients = _spread("edge", coefficients, _edges(self._graph))
        self.noise = _spread("node", noise, list(self.nodes))
        for node, deviation in self.noise.items():
            if deviation < 0:
                raise ValueError(f"noise of {node!r} must be at least 0, got {deviation}")
        self.covariance = self._covariance()

    def _covariance(self) -> NDArray[np.float64]:
        place = {node: index for index, node in enumerate(self.nodes)}
        matrix = np.eye(len(self.nodes))
        for (u, v), value in self.coefficients.items():
            matrix[place[v], place[u]] -= value
        total = np.linalg.inv(matrix) * np.array([self.noise[node] for node in self.nodes])
        covariance: NDArray[np.float64] = total @ total.T
        covariance.setflags(write=False)
        return covariance

    def correlation(self, x: str, y: str, given: str | Iterable[str] = ()) -> float:
        """Compute the exact (partial) correlation of two nodes.

        Parameters
        ----------
        x, y
            Two different nodes.
        given
            The nodes held fixed: one name, or any iterable.

        Returns
        -------
        float
            In [-1, 1]. It is the same at whatever values the nodes in `given` are held.

        Raises
        ------
        ValueError
            As for `graph.d_separated`; also if x or y is fully determined by `given`.
        """
        chosen = check_query(self._graph, x, y, given)
        ends = [self.nodes.index(x), self.nodes.index(y)]
        held = [index for index, node in enumerate(self.nodes) if node in chosen]
        before = self.covariance[np.ix_(ends, ends)]
        across = self.covariance[np.ix_(ends, held)]
        within = self.covariance[np.ix_(held, held)]
        left = before
        if held:
            # A pseudo-inverse, because nodes without noise may be functions of one another.
            left = before - across @ np.linalg.pinv(within, rcond=1e-12, hermitian=True) @ across.T
        for position, node in enumerate((x, y)):
            if left[position, position] <= 1e-12 * max(before[position, position], 1e-300):
                raise ValueError(
                    f"{node!r} does not vary given {sorted(chosen)}, so it has no correlation; "
                    "give it noise"
                )
        return float(np.clip(left[0, 1] / np.sqrt(left[0, 0] * left[1, 1]), -1.0, 1.0))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Draw n rows, one column per node in the order of `nodes`.

        Parameters
        ----------
        n
            Number of rows, at least 1.
        seed
            A non-negative integer. The same seed gives the same noise whatever the coefficients,
            and a node added at the end of the graph leaves the noise of the others as it was.

        Returns
        -------
        pandas.DataFrame
            Shape (n, number of nodes), float64.
        """
        import pandas as pd

        draws = sampling.generator(seed).standard_normal((len(self.nodes), sampling.count(n)))
        noise = dict(zip(self.nodes, draws, strict=True))
        values: dict[str, NDArray[np.float64]] = {}
        for node in sampling.topological(self._graph):
            values[node] = self.noise[node] * noise[node]
            for parent in sampling.parents(self._graph, node):
                values[node] = values[node] + self.coefficients[parent, node] * values[parent]
        return pd.DataFrame({node: values[node] for node in self.nodes})


def random_linear_gaussian(graph: nx.DiGraph, seed: int) -> LinearGaussian:
    """Draw a linear Gaussian model at random.

    Parameters
    ----------
    graph
        As for `LinearGaussian`.
    seed
        A non-negative integer.

    Returns
    -------
    LinearGaussian
        Coefficients uniform in [-1.5, -0.5] ∪ [0.5, 1.5], noise deviations uniform in [0.5, 1.5].
        Cancellations have probability 0, so the model is faithful almost surely.
    """
    check_graph(graph)
    generator = sampling.generator(seed)
    edges = _edges(graph)
    sizes = generator.uniform(0.5, 1.5, len(edges)) * generator.choice([-1.0, 1.0], len(edges))
    noise = generator.uniform(0.5, 1.5, len(graph))
    return LinearGaussian(
        graph,
        {edge: float(size) for edge, size in zip(edges, sizes, strict=True)},
        {node: float(deviation) for node, deviation in zip(graph.nodes, noise, strict=True)},
    )


def _spread(what: str, value: Any, keys: list[Any]) -> Mapping[Any, float]:
    """Give every key its value: the same for all, or its own with 1 for those left out."""
    named = value if isinstance(value, Mapping) else dict.fromkeys(keys, value)
    for key, number in named.items():
        if key not in keys:
            raise ValueError(f"unknown {what} {key!r}; known: {', '.join(map(str, keys))}")
        if isinstance(number, bool) or not isinstance(number, (int, float, np.number)):
            raise TypeError(f"the value of {what} {key!r} must be a number, got {number!r}")
        if not np.isfinite(number):
            raise ValueError(f"the value of {what} {key!r} must be finite, got {number}")
    return MappingProxyType({key: float(named.get(key, 1.0)) for key in keys})


def _edges(graph: nx.DiGraph) -> list[tuple[str, str]]:
    """Return the edges in node order, so that a seed does not depend on how they were added."""
    return [(u, v) for u in graph.nodes for v in graph.nodes if graph.has_edge(u, v)]
