"""Probes decide and test queries measure: no query does both."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalrag.gate import split


@given(st.sets(st.integers(), max_size=40), st.data())
def test_probes_and_test_queries_are_disjoint_and_of_the_sizes_asked(ids, data):
    ids = sorted(ids)
    n_probes = data.draw(st.integers(0, len(ids)))
    n_tests = data.draw(st.none() | st.integers(0, len(ids) - n_probes))
    probes, tests = split(ids, n_probes, n_tests, seed=data.draw(st.integers(0, 9)))
    assert not set(probes) & set(tests)
    assert set(probes) | set(tests) <= set(ids)
    assert len(probes) == n_probes
    assert len(tests) == (len(ids) - n_probes if n_tests is None else n_tests)
    assert probes == sorted(probes)
    assert tests == sorted(tests)


def test_the_draw_is_seeded_and_each_query_is_as_likely_a_probe():
    ids = [f"q{n}" for n in range(10)]
    assert split(ids, 3, seed=1) == split(ids, 3, seed=1)
    drawn = [split(ids, 3, seed=seed)[0] for seed in range(400)]
    counts = np.array([sum(name in probes for probes in drawn) for name in ids])
    assert abs(counts / 400 - 0.3).max() < 0.1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((["a", "a"], 1), ValueError, "occurs twice"),
        ((["a", "b"], 3), ValueError, "3 probes and 0 test queries need 3 queries, got 2"),
        ((["a", "b"], 1, 2), ValueError, "need 3 queries, got 2"),
        ((["a"], -1), ValueError, "n_probes is -1"),
        ((["a"], 1, -1), ValueError, "n_tests is -1"),
        ((["a"], 0.5), TypeError, "n_probes must be a whole number, got 0.5"),
    ],
)
def test_impossible_splits_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        split(*arguments)
