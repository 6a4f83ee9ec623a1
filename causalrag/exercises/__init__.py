"""Exercises for the book's readers: a small catalogue, and a grade with a hint for every answer.

`grade` says *correct*, *close* or *wrong*. What each word means is defined by the kind of exercise
(`graphs`, `words`, `scores`, `signs`); the truth is computed with the library and typed nowhere.
Import it with ``from causalrag import exercises``.
"""

from __future__ import annotations

from typing import Any

from causalrag.exercises.base import VERDICTS, Exercise, Grade
from causalrag.exercises.catalogue import CATALOGUE

__all__ = ["CATALOGUE", "VERDICTS", "Exercise", "Grade", "find", "grade", "solution"]


def find(exercise: str | Exercise) -> Exercise:
    """Give an exercise by its id.

    Parameters
    ----------
    exercise
        An id of the catalogue, or an exercise, which is returned as it is.

    Returns
    -------
    Exercise

    Raises
    ------
    ValueError
        For an unknown id; the message lists the known ones.
    """
    if isinstance(exercise, Exercise):
        return exercise
    if not isinstance(exercise, str) or exercise not in CATALOGUE:
        raise ValueError(f"unknown exercise {exercise!r}; known: {', '.join(CATALOGUE)}")
    return CATALOGUE[exercise]


def grade(exercise: str | Exercise, answer: Any) -> Grade:
    """Judge an answer.

    Parameters
    ----------
    exercise
        As in `find`.
    answer
        In the form that the exercise's `accepts` describes: a set of names, one name, or a number.

    Returns
    -------
    Grade
        ``.verdict``, ``.message``, ``.hint`` and ``.more``, a second hint.

    Raises
    ------
    ValueError
        For an unknown exercise, or an answer of another form or with an unknown name; the message
        holds it, and what is accepted.
    """
    return find(exercise).grade(answer)


def solution(exercise: str | Exercise) -> Any:
    """Give a correct answer, computed with the library.

    Parameters
    ----------
    exercise
        As in `find`.

    Returns
    -------
    set of str, str or float
        An answer that `grade` calls correct; of several, the first.

    Raises
    ------
    ValueError
        As `find`.
    """
    return find(exercise).solution
