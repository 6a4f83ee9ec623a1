"""Unit vectors and cosines, at any length and at any place in a matrix."""

import numpy as np
import pytest

from causalrag.vectors import cosine_digits, dot, unit, usual_cosines

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-9, 1.0, 1e160, 1e300])
def test_rows_of_any_length_become_unit_rows_and_zero_stays_zero(scale):
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]]) * scale
    assert unit(rows) == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0, -1]]))


def test_equal_rows_have_equal_cosines_wherever_they_lie():
    row, direction = unit(RNG.normal(size=(2, 511)))
    rows = unit(RNG.normal(size=(333, 511)))
    places = [0, 1, 2, 7, 100, 331, 332]
    rows[places] = row
    assert len(set(dot(rows, direction)[places])) == 1


def test_digits_are_those_that_do_not_depend_on_the_order_of_summation():
    result = cosine_digits(np.array([0.1 + 0.2, 0.3, -1e-17, 1 + 1e-13, -2.0]))
    assert result.tolist() == [0.3, 0.3, 0.0, 1.0, -1.0]
    assert not np.signbit(result[2])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_separate_vectors_have_the_cosines_of_one_matrix(kind):
    rows, direction = RNG.normal(size=(300, 7)).astype(kind), unit(RNG.normal(size=7))
    expected = dot(unit(rows), direction)
    assert usual_cosines(list(rows), direction) == pytest.approx(expected, abs=2e-12)
    assert usual_cosines(list(rows), np.zeros(7)).tolist() == [0.0] * 300


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros(3),
        np.full(3, 1e200),
        np.full(3, 1e-200),
        np.array([1.0, np.nan, 0.0]),
        np.array([1.0, np.inf, 0.0]),
        np.ones(2),
        np.ones(4),
        np.ones((3, 1)),
        np.array(1.0),
        np.ones(3, dtype=np.int64),
        np.ones(3, dtype=complex),
        np.array(["1", "2", "3"]),
        [1.0, 0.0, 0.0],
        None,
    ],
    ids=str,
)
@pytest.mark.filterwarnings("error")
def test_an_unusual_vector_is_left_to_a_closer_look(odd):
    usual = np.ones(3)
    assert usual_cosines([usual, odd, usual], usual) is None
    # Lengths that add up to what is expected are not enough.
    assert usual_cosines([usual, np.ones(2), np.ones(4)], usual) is None
