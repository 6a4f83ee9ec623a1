"""The centroid and the score of a residual set by hand (Eqs. 4 and 5), with vectors in the plane.

An answer is judged by intervals around values that the library computes: `bands` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from causalrag.exercises.base import Exercise, Grade

FINE, COARSE = 0.005, 0.05
"""Half a unit of the second decimal place, and half a unit of the first."""

_ROUNDING = 1e-6  # the library keeps term vectors as float32

Point = tuple[float, float]


class Band(NamedTuple):
    """An interval of answers, ends included, and their grade."""

    low: float
    high: float
    grade: Grade


@dataclass(frozen=True)
class ByHand(Exercise):
    """Compute a number of the rule by hand, to two decimal places.

    Correct is an answer within 0.005 of the library's value. Close is one within 0.05 (right to
    one place), or within 0.005 of the value that the last division is missing from: the weighted
    sum for a centroid, the scalar product for a cosine.

    Attributes
    ----------
    terms
        (term, weight, vector) of each residual keyword; vectors of length 1.
    query
        The query's vector; None asks for the first coordinate of the centroid, else for s_c.
    """

    kind: ClassVar[str] = "number"

    terms: tuple[tuple[str, float, Point], ...] = ()
    query: Point | None = None

    @property
    def accepts(self) -> str:
        """A number."""
        return "a finite number"

    @property
    def statement(self) -> str:
        """What is asked."""
        rows = "; ".join(
            f"{term}: weight {w:g}, vector ({v[0]:g}, {v[1]:g})" for term, w, v in self.terms
        )
        asked = "What is the first coordinate of the centroid v_B (Eq. 4)?"
        if self.query is not None:
            where = f"({self.query[0]:g}, {self.query[1]:g})"
            asked = f"The query's vector is {where}. What is the causal score s_c (Eq. 5)?"
        return f"The residual keywords of a document are {rows}. {asked} Give two decimal places."

    @cached_property
    def _values(self) -> dict[str, float]:
        """The truth, the value before the last division, and the value without weights."""
        from causalrag.residual import causal_score, centroid

        sheet = _Sheet({term: vector for term, _, vector in self.terms})
        weighted = {term: weight for term, weight, _ in self.terms}
        alike = dict.fromkeys(weighted, 1.0)
        middle, plain = centroid(weighted, sheet), centroid(alike, sheet)
        if middle is None or plain is None:
            raise ValueError(f"{self.id} has no residual keyword")
        if self.query is None:
            total = sum(weighted.values())
            return {
                "truth": float(middle[0]),
                "undivided": float(middle[0] * total),
                "alike": float(plain[0]),
            }
        return {
            "truth": causal_score(self.query, weighted, sheet),
            "undivided": math.fsum(m * q for m, q in zip(middle, self.query, strict=True)),
            "alike": causal_score(self.query, alike, sheet),
        }

    @property
    def solution(self) -> float:
        """The value to two decimal places."""
        return round(self._values["truth"], 2)

    @property
    def explanation(self) -> str:
        """The steps."""
        parts = " + ".join(f"{w:g} · ({v[0]:g}, {v[1]:g})" for _, w, v in self.terms)
        total = sum(weight for _, weight, _ in self.terms)
        text = f"v_B = ({parts}) / {total:g}; "
        if self.query is None:
            return text + f"its first coordinate is {self._values['truth']:.2f}."
        return text + (
            f"its scalar product with the query is {self._values['undivided']:.2f}; divided by the "
            f"lengths of both, s_c = {self._values['truth']:.2f}."
        )

    @cached_property
    def bands(self) -> list[Band]:
        """Intervals in the order in which they are tried; an answer in none is `otherwise`."""
        value = self._values
        missing, what = (
            ("divide by the sum of the weights", "the weighted sum")
            if self.query is None
            else ("divide by the lengths of both vectors", "the scalar product")
        )
        undivided = Grade(
            "close",
            f"That is {what}: one step is missing.",
            "One division is left to do.",
            f"Now {missing}.",
        )
        rough = Grade(
            "close",
            "Right to one decimal place, and not to two.",
            "The error is smaller than one unit of the first decimal place.",
            "Carry three decimal places until the end.",
        )
        alike = Grade(
            "wrong",
            "That is the value with all weights equal.",
            f"{len({weight for _, weight, _ in self.terms})} different weights occur.",
            "A keyword with twice the weight pulls twice as hard.",
        )
        return [
            _around(
                value["truth"], FINE, Grade("correct", f"The library gives {value['truth']:.4f}.")
            ),
            _around(value["undivided"], FINE, undivided),
            _around(value["alike"], FINE, alike),
            _around(value["truth"], COARSE, rough),
        ]

    @property
    def otherwise(self) -> Grade:
        """The grade of an answer in no interval."""
        steps = (
            "Two steps: the weighted sum of the vectors, then a division."
            if self.query is None
            else "Three steps: the centroid, its scalar product with the query, then a division."
        )
        first = " + ".join(f"{w:g} · {v[0]:g}" for _, w, v in self.terms)
        return Grade("wrong", "Not right to one decimal place.", steps, f"Begin with {first}.")

    def read(self, answer: Any) -> float:
        """Refuse what is no finite number."""
        if isinstance(answer, bool) or not isinstance(answer, Real) or not math.isfinite(answer):
            self._refuse(answer)
        return float(answer)

    def grade(self, answer: Any) -> Grade:
        """Judge a number."""
        value = self.read(answer)
        for low, high, grade in self.bands:
            if low <= value <= high:
                return grade
        return self.otherwise


class _Sheet:
    """An encoder that knows the vectors of a few terms."""

    def __init__(self, vectors: dict[str, Point]) -> None:
        self.vectors = vectors

    def encode(self, texts: Sequence[str]) -> list[Point]:
        return [self.vectors[text] for text in texts]


def _around(value: float, reach: float, grade: Grade) -> Band:
    return Band(value - reach - _ROUNDING, value + reach + _ROUNDING, grade)
