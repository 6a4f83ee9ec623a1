"""Binary models on a causal graph: the exact joint distribution, and samples.

Every probability, odds ratio and information is summed from the joint table, so it carries no
sampling error. `mechanisms` builds the usual tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.graph import check_graph, check_query
from causalrag.simulate import sampling

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

_NOTHING: Mapping[str, int] = MappingProxyType({})
_MOST_NODES = 20  # a joint table of 2^20 cells takes 8 MB


class Discrete:
    """A model of binary nodes on a directed acyclic graph, one table per node.

    Parameters
    ----------
    graph
        A directed acyclic networkx graph with string nodes, 20 at most; it is read once.
    tables
        {node: P(node = 1 | parents)}: an array of shape (2,) * number of parents, indexed by the
        parents' values in the order of `parents[node]`; a plain number for a node without parents.

    Attributes
    ----------
    nodes : tuple of str
        In the graph's order.
    parents : mapping of str to tuple of str
        The parents of each node, in the order of `nodes`.
    tables : mapping of str to ndarray
        Read-only copies.
    joint : ndarray, shape (2,) * n
        The exact joint distribution, one axis per node in the order of `nodes`; read-only.

    Raises
    ------
    ValueError
        For a cycle, too many nodes, a missing or unknown node, a wrong shape, a value outside
        [0, 1].
    TypeError
        For a graph that is not directed.
    """

    def __init__(self, graph: nx.DiGraph, tables: Mapping[str, ArrayLike]) -> None:
        check_graph(graph)
        self._graph = sampling.copy(graph)
        self.nodes: tuple[str, ...] = tuple(self._graph.nodes)
        if len(self.nodes) > _MOST_NODES:
            raise ValueError(f"at most {_MOST_NODES} binary nodes fit, got {len(self.nodes)}")
        self.parents: Mapping[str, tuple[str, ...]] = MappingProxyType(
            {node: sampling.parents(self._graph, node) for node in self.nodes}
        )
        self.tables: Mapping[str, NDArray[np.float64]] = MappingProxyType(
            _check_tables(self.parents, tables)
        )
        self.joint = self._joint()

    def _joint(self) -> NDArray[np.float64]:
        joint = np.ones((2,) * len(self.nodes))
        for axis, node in enumerate(self.nodes):
            table = np.stack([1.0 - self.tables[node], self.tables[node]], axis=-1)
            axes = [self.nodes.index(parent) for parent in self.parents[node]] + [axis]
            shape = [2 if position in axes else 1 for position in range(len(self.nodes))]
            joint = joint * table.transpose(np.argsort(axes)).reshape(shape)
        joint.setflags(write=False)
        return joint

    def probability(self, event: Mapping[str, int], given: Mapping[str, int] = _NOTHING) -> float:
        """Compute the exact probability of an event.

        Parameters
        ----------
        event, given
            Node values, 0 or 1. An empty event is certain.

        Returns
        -------
        float
            P(event | given).

        Raises
        ------
        ValueError
            For an unknown node, a value other than 0 and 1, a node in both, or a condition of
            probability 0.
        """
        self._check_values(event)
        self._check_values(given)
        for node in event:
            if node in given:
                raise ValueError(f"{node!r} is in the event and in the condition; keep one")
        base = self._mass(given)
        if base <= 0:
            raise ValueError(f"the condition {dict(given)} has probability 0")
        return float(min(self._mass({**given, **event}) / base, 1.0))

    def odds_ratio(self, x: str, y: str, given: Mapping[str, int] = _NOTHING) -> float:
        """Compute the exact odds ratio of two nodes given the values of others.

        Parameters
        ----------
        x, y
            Two different nodes.
        given
            Values of other nodes. Nodes left out are summed over.

        Returns
        -------
        float
            P(1,1) P(0,0) / (P(1,0) P(0,1)): 1 for independence, above 1 for a positive and below 1
            for a negative association; 0 or inf when one cell is empty.

        Raises
        ------
        ValueError
            As for `probability` and `graph.d_separated`; also when both products are 0.
        """
        check_query(self._graph, x, y, given)
        cell = {(i, j): self.probability({x: i, y: j}, given) for i in (0, 1) for j in (0, 1)}
        along, across = cell[1, 1] * cell[0, 0], cell[1, 0] * cell[0, 1]
        if across > 0:
            return along / across
        if along > 0:
            return float("inf")
        raise ValueError(f"{x!r} or {y!r} does not vary given {dict(given)}: no odds ratio")

    def mutual_information(
        self, x: str | Iterable[str], y: str | Iterable[str], given: str | Iterable[str] = ()
    ) -> float:
        """Compute the exact (conditional) mutual information, in nats.

        Parameters
        ----------
        x, y
            A node each, or several taken together.
        given
            The nodes conditioned on; the result is the mean over their values.

        Returns
        -------
        float
            I(x; y | given) ≥ 0; 0 exactly when they are independent.

        Raises
        ------
        ValueError
            As for `graph.d_separated`.
        """
        cells = self._cells(x, y, given)
        x_given = cells.sum(axis=1, keepdims=True)
        y_given = cells.sum(axis=0, keepdims=True)
        base = cells.sum(axis=(0, 1), keepdims=True)
        filled = cells > 0
        alone = np.where(filled, x_given * y_given, 1.0)
        ratio = np.where(filled, cells * base, 1.0) / alone
        return max(float(np.sum(cells * np.log(ratio))), 0.0)

    def independent(
        self,
        x: str | Iterable[str],
        y: str | Iterable[str],
        given: str | Iterable[str] = (),
        tol: float = 1e-12,
    ) -> bool:
        """Say whether x and y are independent given the other nodes, at each of their values.

        Parameters
        ----------
        x, y
            A node each, or several taken together.
        given
            The nodes conditioned on.
        tol
            The largest |P(x, y | z) - P(x | z) P(y | z)| that still counts as none. The
            probabilities are compared, not the information, which is quadratic in the difference
            and would hide a weak dependence.

        Returns
        -------
        bool
            True when no cell differs by more than `tol`. Values of `given` that have probability 0
            say nothing and are left out.

        Raises
        ------
        ValueError
            As for `graph.d_separated`.
        """
        cells = self._cells(x, y, given)
        base = cells.sum(axis=(0, 1))
        table = cells[:, :, base > 0] / base[base > 0]
        alone = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
        return bool(np.max(np.abs(table - alone)) <= tol)

    def with_table(self, node: str, table: ArrayLike) -> Discrete:
        """Return a model that differs from this one in one table.

        Parameters
        ----------
        node
            The node whose table is replaced.
        table
            As in the constructor.

        Returns
        -------
        Discrete
            A new model; this one is unchanged.
        """
        return Discrete(self._graph, {**self.tables, node: table})

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Draw n rows, one column per node in the order of `nodes`.

        Parameters
        ----------
        n
            Number of rows, at least 1.
        seed
            A non-negative integer. The same seed gives the same uniform draws whatever the tables.

        Returns
        -------
        pandas.DataFrame
            Shape (n, number of nodes), int64, values 0 and 1.
        """
        import pandas as pd

        draws = sampling.generator(seed).random((len(self.nodes), sampling.count(n)))
        uniform = dict(zip(self.nodes, draws, strict=True))
        values: dict[str, NDArray[np.int64]] = {}
        for node in sampling.topological(self._graph):
            chance = self.tables[node][tuple(values[parent] for parent in self.parents[node])]
            values[node] = (uniform[node] < chance).astype(np.int64)
        return pd.DataFrame({node: values[node] for node in self.nodes})

    def _mass(self, values: Mapping[str, int]) -> float:
        index = tuple(int(values[node]) if node in values else slice(None) for node in self.nodes)
        return float(self.joint[index].sum())

    def _check_values(self, values: Mapping[str, int]) -> None:
        if not isinstance(values, Mapping):
            raise TypeError(f"node values must be a mapping such as {{'d': 1}}, got {values!r}")
        for node, value in values.items():
            if node not in self.parents:
                raise ValueError(f"unknown node {node!r}; known nodes: {', '.join(self.nodes)}")
            if value not in (0, 1):
                raise ValueError(f"{node!r} is 0 or 1, got {value!r}")

    def _cells(
        self, x: str | Iterable[str], y: str | Iterable[str], given: str | Iterable[str]
    ) -> NDArray[np.float64]:
        """Return the joint of three groups of nodes as an array (2^|x|, 2^|y|, 2^|given|)."""
        left, right, held = _names(x), _names(y), _names(given)
        if not left or not right:
            raise ValueError(f"x and y must name at least one node each, got {x!r} and {y!r}")
        for one, other in product(left, right):
            chosen = check_query(self._graph, one, other, held)
        groups = [left, right, tuple(node for node in self.nodes if node in chosen)]
        axes = [self.nodes.index(node) for group in groups for node in group]
        rest = tuple(axis for axis in range(len(self.nodes)) if axis not in axes)
        kept = sorted(axes)
        ordered = self.joint.sum(axis=rest).transpose([kept.index(axis) for axis in axes])
        return np.asarray(ordered.reshape([2 ** len(group) for group in groups]))


def _check_tables(
    parents: Mapping[str, tuple[str, ...]], tables: Mapping[str, ArrayLike]
) -> dict[str, NDArray[np.float64]]:
    for node in tables:
        if node not in parents:
            raise ValueError(f"unknown node {node!r}; known nodes: {', '.join(parents)}")
    checked = {}
    for node, names in parents.items():
        if node not in tables:
            raise ValueError(f"no table for node {node!r}")
        table = np.array(tables[node], dtype=np.float64)
        if table.shape != (2,) * len(names):
            raise ValueError(
                f"the table of {node!r} has shape {table.shape}, expected {(2,) * len(names)}: "
                f"one axis per parent ({', '.join(names) or 'none'})"
            )
        if not np.all((table >= 0) & (table <= 1)):
            raise ValueError(f"the table of {node!r} holds a value outside [0, 1]: {table}")
        table.setflags(write=False)
        checked[node] = table
    return checked


def _names(value: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    return tuple(dict.fromkeys(value))
