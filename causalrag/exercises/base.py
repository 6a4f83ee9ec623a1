"""What every exercise has in common: a statement, the answers that exist, and a grade with hints.

An exercise holds no answer of its own: each kind asks the library for the truth when it grades.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import Any, ClassVar, Literal, NoReturn

Verdict = Literal["correct", "close", "wrong"]
VERDICTS: tuple[Verdict, ...] = ("correct", "close", "wrong")


@dataclass(frozen=True)
class Grade:
    """The judgement of one answer.

    Attributes
    ----------
    verdict
        "correct"; "close", which each kind of exercise defines; or "wrong".
    message
        What is right or wrong about the answer, in one sentence.
    hint
        How far the answer is from the truth, without giving it away; empty if it is correct.
    more
        A second hint, which names something; not shown unless asked for.
    """

    verdict: Verdict
    message: str
    hint: str = ""
    more: str = ""

    def __str__(self) -> str:
        text = f"{self.verdict}: {self.message}"
        if self.hint:
            text += f"\nhint: {self.hint}"
        if self.more:
            text += "\n(one more hint: print the grade's .more)"
        return text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{self.verdict}</strong>: {escape(self.message)}</p>"]
        if self.hint:
            parts.append(f"<p>Hint: {escape(self.hint)}</p>")
        if self.more:
            parts.append(
                f"<details><summary>One more hint</summary><p>{escape(self.more)}</p></details>"
            )
        return f'<div class="exercise-grade">{"".join(parts)}</div>'


@dataclass(frozen=True)
class Exercise(ABC):
    """An exercise of the catalogue.

    Attributes
    ----------
    id
        Its name in `grade`.
    title
        In a few words.
    """

    kind: ClassVar[str]
    """"separator", "choice", "paths", "keywords" or "number": the form of an answer."""

    id: str
    title: str

    @property
    @abstractmethod
    def statement(self) -> str:
        """What is asked, in plain text."""

    @property
    @abstractmethod
    def accepts(self) -> str:
        """What an answer looks like."""

    @property
    @abstractmethod
    def solution(self) -> Any:
        """A correct answer, as `grade` takes it; of several, the first."""

    @property
    @abstractmethod
    def explanation(self) -> str:
        """Why the solution is one, in plain text."""

    @abstractmethod
    def grade(self, answer: Any) -> Grade:
        """Judge one answer; ValueError for one that makes no sense."""

    def _repr_html_(self) -> str:
        return (
            f'<div class="exercise"><p><strong>{escape(self.title)}</strong></p>'
            f"<p>{escape(self.statement)}</p></div>"
        )

    def _refuse(self, answer: object) -> NoReturn:
        raise ValueError(f"{self.id}: cannot read the answer {answer!r}; give {self.accepts}")


@dataclass(frozen=True)
class SetExercise(Exercise):
    """An exercise whose answer is a subset of known options."""

    @property
    @abstractmethod
    def options(self) -> tuple[str, ...]:
        """What an answer may hold, in the order in which it is listed."""

    def subsets(self) -> list[frozenset[str]]:
        """List every answer, smallest first, then in the order of `options`."""
        options = self.options
        return [
            frozenset(chosen)
            for size in range(len(options) + 1)
            for chosen in combinations(options, size)
        ]

    def read(self, answer: Any) -> frozenset[str]:
        """Read a name or an iterable of names, and refuse what is no option."""
        if isinstance(answer, str):
            answer = (answer,)
        if isinstance(answer, Mapping | bytes) or not isinstance(answer, Iterable):
            self._refuse(answer)
        given = list(answer)
        for name in given:
            if not isinstance(name, str) or name not in self.options:
                self._refuse(name)
        return frozenset(given)

    def listed(self, chosen: Iterable[str]) -> str:
        """Write a set in the order of `options`."""
        held = frozenset(chosen)
        return "{" + ", ".join(name for name in self.options if name in held) + "}"


@dataclass(frozen=True)
class ChoiceExercise(Exercise):
    """An exercise whose answer is one of known options."""

    kind: ClassVar[str] = "choice"

    @property
    @abstractmethod
    def options(self) -> tuple[str, ...]:
        """The answers that exist."""

    @property
    def accepts(self) -> str:
        """One of the options."""
        return "one of " + ", ".join(repr(option) for option in self.options)

    def read(self, answer: Any) -> str:
        """Refuse what is no option."""
        if not isinstance(answer, str) or answer not in self.options:
            self._refuse(answer)
        return answer


def count(number: int, noun: str) -> str:
    """Write a number with its noun, such as ``1 path`` or ``2 paths``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
