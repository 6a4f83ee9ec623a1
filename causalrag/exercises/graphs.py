"""Exercises on the graph of Section 3.2 and its variants; `causalrag.graph` has every answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from causalrag import graph as cr_graph
from causalrag.exercises.base import Exercise, Grade, SetExercise, count

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class GraphExercise(Exercise):
    """A question about two nodes of a graph.

    Attributes
    ----------
    x, y
        The nodes asked about.
    variant
        As in `graph.retrieval_graph`.
    held
        Nodes that are conditioned on from the start.
    """

    x: str = "q"
    y: str = "B"
    variant: str | None = None
    held: tuple[str, ...] = ()

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The graph asked about."""
        return cr_graph.retrieval_graph(self.variant)

    @cached_property
    def arrows(self) -> str:
        """The graph in one line."""
        return ", ".join(f"{edge[0]} → {edge[1]}" for edge in self.graph.edges)

    def paths(self, given: frozenset[str]) -> list[cr_graph.Path]:
        """Judge every path between x and y."""
        return cr_graph.paths(self.graph, self.x, self.y, given)


@dataclass(frozen=True)
class Separator(GraphExercise, SetExercise):
    """Name a set of nodes that d-separates x and y.

    Correct is a set from which no nodes can be dropped: no proper subset, together with `held`,
    separates. Close is any other set that separates.
    """

    kind: ClassVar[str] = "separator"

    @cached_property
    def options(self) -> tuple[str, ...]:
        """All nodes but those asked about or held."""
        taken = {self.x, self.y, *self.held}
        return tuple(node for node in self.graph.nodes if node not in taken)

    @property
    def statement(self) -> str:
        """What is asked."""
        asked = (
            f"Name a set of nodes that d-separates {self.x} and {self.y}, and from which none can "
            "be dropped"
        )
        if self.held:
            asked = (
                f"{_named(self.held)} is conditioned on already. Which nodes must be conditioned "
                f"on as well, so that {self.x} and {self.y} are d-separated? Name no more than "
                "are needed"
            )
        return f"The graph has the arrows {self.arrows}. {asked}."

    @property
    def accepts(self) -> str:
        """A set of nodes."""
        return f"a set of nodes among {', '.join(self.options)}"

    def separates(self, chosen: frozenset[str]) -> bool:
        """Ask the library."""
        return cr_graph.d_separated(self.graph, self.x, self.y, chosen | set(self.held))

    @cached_property
    def separators(self) -> list[frozenset[str]]:
        """Every set that separates, smallest first."""
        return [chosen for chosen in self.subsets() if self.separates(chosen)]

    @cached_property
    def minimal(self) -> list[frozenset[str]]:
        """The sets that hold no smaller one."""
        found = self.separators
        return [chosen for chosen in found if not any(other < chosen for other in found)]

    @property
    def solution(self) -> set[str]:
        """The first minimal set."""
        return set(self.minimal[0])

    @property
    def explanation(self) -> str:
        """Every minimal set, and why the first one works."""
        sets = " and ".join(self.listed(chosen) for chosen in self.minimal)
        whole = self.minimal[0] | set(self.held)
        reasons = " ".join(f"{path.text}: {path.reason}." for path in self.paths(whole))
        given = ", ".join(node for node in self.graph.nodes if node in whole)
        known = f", beside {_named(self.held)}" if self.held else ""
        return f"Minimal{known}: {sets}. Given {given}: {reasons}"

    def grade(self, answer: Any) -> Grade:
        """Judge a set of nodes."""
        chosen = self.read(answer)
        pair = f"{self.x} and {self.y}"
        if chosen in self.minimal:
            return Grade(
                "correct", f"{self.listed(chosen)} separates {pair}, with no node to spare."
            )
        if chosen in self.separators:
            smaller = next(found for found in self.minimal if found < chosen)
            spare = len(chosen) - len(smaller)
            first = next(node for node in self.options if node in chosen - smaller)
            return Grade(
                "close",
                f"{self.listed(chosen)} separates {pair}, but not all of it is needed.",
                f"A set with {count(spare, 'node')} fewer, inside yours, separates them too.",
                f"It works without {first}.",
            )
        paths = self.paths(chosen | set(self.held))
        opened = [path for path in paths if path.is_open]
        verb = "is" if len(opened) == 1 else "are"
        return Grade(
            "wrong",
            f"{self.listed(chosen)} does not separate {pair}.",
            f"{len(opened)} of {count(len(paths), 'path')} {verb} still open.",
            f"This one is: {opened[0].text} ({opened[0].reason}).",
        )


def _named(nodes: Any) -> str:
    return " and ".join(nodes)
