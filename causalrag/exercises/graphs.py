"""Exercises on the graph of Section 3.2 and its variants; `causalrag.graph` has every answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

from causalrag import graph as cr_graph
from causalrag.exercises.base import ChoiceExercise, Exercise, Grade, SetExercise, count

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


@dataclass(frozen=True)
class PathState(GraphExercise, ChoiceExercise):
    """Say whether one path is open, and if not, at which nodes it is blocked.

    Close is "blocked", at the wrong nodes.

    Attributes
    ----------
    path
        The nodes of the path, from x to y.
    """

    path: tuple[str, ...] = ()

    @cached_property
    def judged(self) -> cr_graph.Path:
        """The path, as the library judges it."""
        return next(p for p in self.paths(frozenset(self.held)) if p.nodes == self.path)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Open, or blocked at each group of inner nodes."""
        inner = self.path[1:-1]
        groups = (group for size in range(1, len(inner) + 1) for group in combinations(inner, size))
        return ("open", *(f"blocked at {_named(group)}" for group in groups))

    @property
    def statement(self) -> str:
        """What is asked."""
        given = ", ".join(self.held) or "nothing"
        return (
            f"The graph has the arrows {self.arrows}. Given {given}: is the path "
            f"{self.judged.text} open, or at which nodes is it blocked?"
        )

    @cached_property
    def solution(self) -> str:
        """The state of the path."""
        if self.judged.is_open:
            return "open"
        nodes = re.findall(r"blocked at (\w+)", self.judged.reason)
        return f"blocked at {_named(nodes)}"

    @property
    def explanation(self) -> str:
        """The library's reason."""
        return f"{self.judged.text}: {self.judged.reason}."

    def grade(self, answer: Any) -> Grade:
        """Judge a state."""
        chosen = self.read(answer)
        inner = self.path[1:-1]
        if chosen == self.solution:
            return Grade("correct", f"The path is {chosen}.")
        asked = f"Look at {count(len(inner), 'inner node')}, one at a time."
        colliders = cr_graph.colliders(self.graph, self.path)
        rest = [node for node in inner if node not in colliders]
        kinds = f"Colliders on it: {_named(colliders) or 'none'}; forks and chains: " + (
            f"{_named(rest) or 'none'}."
        )
        if "open" not in (chosen, self.solution):
            message = "The path is blocked, but not at the nodes you name, or not at them alone."
            return Grade("close", message, asked, kinds)
        return Grade("wrong", f"The path is not {chosen}.", asked, kinds)


@dataclass(frozen=True)
class OpenPaths(GraphExercise, SetExercise):
    """Name the open paths among all paths between x and y; close is one path misjudged."""

    kind: ClassVar[str] = "paths"

    @cached_property
    def judged(self) -> list[cr_graph.Path]:
        """All paths, as the library judges them."""
        return self.paths(frozenset(self.held))

    @cached_property
    def options(self) -> tuple[str, ...]:
        """All paths."""
        return tuple(path.text for path in self.judged)

    @property
    def accepts(self) -> str:
        """A set of paths."""
        return f"a set of paths among {', '.join(map(repr, self.options))}"

    @property
    def statement(self) -> str:
        """What is asked."""
        given = ", ".join(self.held) or "nothing"
        return (
            f"The graph has the arrows {self.arrows}. Given {given}: which paths between {self.x} "
            f"and {self.y} are open?"
        )

    @property
    def solution(self) -> set[str]:
        """The open paths."""
        return {path.text for path in self.judged if path.is_open}

    @property
    def explanation(self) -> str:
        """The library's reason for each path."""
        return " ".join(f"{path.text}: {path.reason}." for path in self.judged)

    def grade(self, answer: Any) -> Grade:
        """Judge a set of paths."""
        chosen = self.read(answer)
        missed = [p for p in self.judged if p.is_open != (p.text in chosen)]
        if not missed:
            return Grade("correct", f"Right on {count(len(self.judged), 'path')}.")
        return Grade(
            "close" if len(missed) == 1 else "wrong",
            f"{len(missed)} of {count(len(self.judged), 'path')} misjudged.",
            f"You named {len(chosen)} as open; {len(self.solution)} "
            f"{'is' if len(self.solution) == 1 else 'are'}.",
            f"Look again at {missed[0].text}.",
        )


def _named(nodes: Any) -> str:
    return " and ".join(nodes)
