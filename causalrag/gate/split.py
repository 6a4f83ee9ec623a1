"""Split labelled queries into probes, which decide, and queries that measure the decision."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np

from causalrag.evaluate.estimates import check_whole

__all__ = ["split"]

Id = TypeVar("Id", bound=Hashable)


def split(
    query_ids: Iterable[Id], n_probes: int, n_tests: int | None = None, seed: int = 0
) -> tuple[list[Id], list[Id]]:
    """Draw probes and test queries that have no query in common.

    Parameters
    ----------
    query_ids : iterable of hashable
        Distinct ids.
    n_probes : int
        How many probes.
    n_tests : int, optional
        How many of the others are test queries; by default all.
    seed : int
        Of the draw. The order of the ids counts.

    Returns
    -------
    tuple of two lists
        Probes and test queries, each in the order of the ids.

    Raises
    ------
    ValueError
        If an id occurs twice, a number is negative, or there are fewer ids than asked for.
    TypeError
        If a number is no whole number.
    """
    ids = list(query_ids)
    if len(set(ids)) < len(ids):
        raise ValueError("an id occurs twice: a query could be probe and test at once")
    wanted = {"n_probes": n_probes, "n_tests": 0 if n_tests is None else n_tests}
    for name, value in {**wanted, "seed": seed}.items():
        check_whole(name, value)
    if sum(wanted.values()) > len(ids):
        raise ValueError(
            f"{n_probes} probes and {wanted['n_tests']} test queries need "
            f"{sum(wanted.values())} queries, got {len(ids)}"
        )
    order = np.random.default_rng(seed).permutation(len(ids))
    end = len(ids) if n_tests is None else n_probes + n_tests
    probes, tests = np.sort(order[:n_probes]), np.sort(order[n_probes:end])
    return [ids[i] for i in probes], [ids[i] for i in tests]
