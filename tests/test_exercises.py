"""Every answer is graded as the library judges it, and every solution solves its exercise."""

from __future__ import annotations

import pytest

from causalrag import exercises, graph
from causalrag.exercises import graphs

ALL = list(exercises.CATALOGUE.values())
ids = pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
SEPARATORS = [one for one in ALL if isinstance(one, graphs.Separator)]
separators = pytest.mark.parametrize("one", SEPARATORS, ids=lambda one: one.id)


@ids
def test_the_solution_solves_it(one):
    assert exercises.grade(one.id, exercises.solution(one.id)).verdict == "correct"
    assert exercises.grade(one, one.solution).hint == ""
    assert one.statement
    assert one.explanation


@ids
@pytest.mark.parametrize("answer", [None, 3 + 4j, b"A", {"A": 1}, ["no such thing"], [["A"]], [1]])
def test_an_answer_that_makes_no_sense_is_refused_by_name(one, answer):
    shown = answer[0] if isinstance(answer, list) and one.kind != "number" else answer
    with pytest.raises(ValueError, match="cannot read the answer") as refused:
        exercises.grade(one.id, answer)
    message = str(refused.value)
    assert one.id in message
    assert one.accepts in message
    assert repr(shown) in message


@pytest.mark.parametrize("name", ["no-such-exercise", None, 3])
def test_an_unknown_exercise_is_refused_and_the_known_ones_are_listed(name):
    with pytest.raises(ValueError, match="known: ") as refused:
        exercises.grade(name, {"A"})
    assert repr(name) in str(refused.value)
    assert all(one.id in str(refused.value) for one in ALL)


@separators
def test_every_subset_is_graded_as_the_graph_judges_it(one):
    subsets = one.subsets()
    assert len(subsets) == 2 ** len(one.options)

    def separates(chosen):
        return graph.d_separated(one.graph, one.x, one.y, chosen | set(one.held))

    verdicts = set()
    for chosen in subsets:
        grade = exercises.grade(one.id, sorted(chosen))
        smaller = any(other < chosen and separates(other) for other in subsets)
        expected = "wrong" if not separates(chosen) else "close" if smaller else "correct"
        assert grade.verdict == expected
        verdicts.add(grade.verdict)
        opened = [
            path
            for path in graph.paths(one.graph, one.x, one.y, chosen | set(one.held))
            if path.is_open
        ]
        if grade.verdict == "wrong":
            assert grade.hint.startswith(f"{len(opened)} of ")
            assert not any(path.text in grade.hint for path in opened)
            assert any(path.text in grade.more for path in opened)
        else:
            assert opened == []
    assert {"correct", "wrong"} <= verdicts
    assert ("close" in verdicts) == (len(one.separators) > len(one.minimal))


def test_some_answers_separate_and_are_not_minimal():
    assert sum(len(one.separators) > len(one.minimal) for one in SEPARATORS) >= 2


@separators
def test_the_node_that_a_close_answer_can_do_without_is_none_of_a_smaller_separator(one):
    for chosen in one.subsets():
        grade = one.grade(chosen)
        if grade.verdict == "close":
            node = grade.more.removeprefix("It works without ").removesuffix(".")
            assert node in chosen
            assert any(other < chosen and node not in other for other in one.separators)


@separators
def test_a_node_asked_about_or_held_is_no_part_of_an_answer(one):
    for node in (one.x, one.y, *one.held):
        with pytest.raises(ValueError, match=f"cannot read the answer '{node}'"):
            one.grade({node})


def test_a_grade_shows_its_hint_and_keeps_the_second_one_back():
    grade = exercises.grade("close-q-B", ())
    assert grade.verdict == "wrong"
    assert grade.hint in str(grade)
    assert grade.hint in grade._repr_html_()
    assert grade.more not in str(grade)
    assert "<details><summary>One more hint</summary>" in grade._repr_html_()
    assert "<b>" not in exercises.Grade("wrong", "<b>")._repr_html_()
