"""The sign of an association among the documents kept, exact, from `causalrag.simulate`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from causalrag import graph as cr_graph
from causalrag.exercises.base import ChoiceExercise, Grade

if TYPE_CHECKING:
    from causalrag.simulate import Discrete

MECHANISMS = ("noisy OR", "leaky AND", "set by hand")
_INTO_D = [edge for edge in cr_graph.EDGES if edge[1] == "d"]


@dataclass(frozen=True)
class Sign(ChoiceExercise):
    """Say which sign the association of two nodes takes; there is no close answer.

    Attributes
    ----------
    pair
        The nodes asked about.
    mechanism
        How d comes about, one of `MECHANISMS`; "set by hand" cuts the arrows into d.
    kept
        The value of d among the documents looked at.
    clue
        What to think about.
    """

    pair: tuple[str, str] = ("A", "B")
    mechanism: str = MECHANISMS[0]
    kept: int = 1
    clue: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The three signs."""
        return ("positive", "negative", "none")

    @cached_property
    def model(self) -> Discrete:
        """The model asked about."""
        from causalrag import simulate

        graph = cr_graph.retrieval_graph()
        if self.mechanism == "set by hand":
            graph.remove_edges_from(_INTO_D)
        made = simulate.noisy_or(graph)
        if self.mechanism == "leaky AND":
            made = made.with_table("d", simulate.leaky_and_table(high=0.9, low=0.1))
        return made

    @property
    def _how(self) -> str:
        if self.mechanism == "set by hand":
            return "Somebody sets d by hand, whatever A and B are (no arrow runs into d any more)"
        table = self.model.tables["d"]
        chances = (table[0, 0], table[1, 0], table[0, 1], table[1, 1])
        none, a, b, both = (f"{chance:.2f}" for chance in chances)
        return (
            f"d comes about by a {self.mechanism}: P(d = 1) is {none} with neither A nor B, {a} "
            f"with A alone, {b} with B alone and {both} with both"
        )

    @property
    def statement(self) -> str:
        """What is asked."""
        x, y = self.pair
        copies = ""
        if "q" in self.pair:
            low, high = self.model.tables["q"]
            copies = f" q copies A: P(q = 1) is {low:.2f} without A and {high:.2f} with A."
        return (
            f"A and B are yes-or-no facts, independent of each other.{copies} {self._how}. Which "
            f"sign has the association of {x} and {y} among the pairs with d = {self.kept}?"
        )

    @cached_property
    def odds_ratio(self) -> float:
        """Exact."""
        return self.model.odds_ratio(*self.pair, {"d": self.kept})

    @cached_property
    def solution(self) -> str:
        """The sign of the logarithm of the odds ratio."""
        strength = math.log(self.odds_ratio)
        if abs(strength) < 1e-9:
            return "none"
        return "positive" if strength > 0 else "negative"

    @property
    def explanation(self) -> str:
        """The odds ratio."""
        x, y = self.pair
        return (
            f"The odds ratio of {x} and {y} given d = {self.kept} is {self.odds_ratio:.2f}, exact: "
            f"{self.solution}."
        )

    def grade(self, answer: Any) -> Grade:
        """Judge a sign."""
        chosen = self.read(answer)
        if chosen == self.solution:
            return Grade("correct", self.explanation)
        x, y = self.pair
        chance = self.model.probability({y: 1}, {x: 0, "d": self.kept})
        return Grade(
            "wrong",
            f"The association of {x} and {y} is not {chosen}."
            if chosen != "none"
            else f"{x} and {y} are associated.",
            self.clue,
            f"Among them, {y} has the probability {chance:.2f} where {x} is absent. Work out the "
            f"same where {x} is present.",
        )
