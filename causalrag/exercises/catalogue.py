"""The exercises, in the order of the book. Nothing is computed until one is asked."""

from __future__ import annotations

from causalrag.exercises.base import Exercise
from causalrag.exercises.graphs import Separator

_ALL: tuple[Exercise, ...] = (
    Separator("screen-q-d", "Screen the query off from the document", "q", "d"),
    Separator("separate-d-y", "Separate the document from the answer", "d", "y"),
    Separator("close-q-B", "Close what retrieval opened", "q", "B", held=("d",)),
    Separator("topic-q-B", "A topic behind query and document", "q", "B", "topic", ("d",)),
    Separator("selected-q-B", "Candidates chosen by s(q, d)", "q", "B", "selection_qd", ("s",)),
)

CATALOGUE: dict[str, Exercise] = {exercise.id: exercise for exercise in _ALL}
"""{id: exercise}."""
