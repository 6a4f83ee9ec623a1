"""Every answer is graded as the library judges it, and every solution solves its exercise."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest

from causalrag import exercises, graph
from causalrag.exercises import graphs, scores, signs, words

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


def of_kind(kind):
    chosen = [one for one in ALL if isinstance(one, kind)]
    assert chosen
    return pytest.mark.parametrize("one", chosen, ids=lambda one: one.id)


# -- paths ----------------------------------------------------------------------------------------


def blocking(one, nodes):
    """The inner nodes that block a path, by the rules of the book and nothing else."""
    import networkx as nx

    held = set(one.held)
    found = []
    for u, v, w in zip(nodes, nodes[1:], nodes[2:], strict=False):
        into = one.graph.has_edge(u, v) and one.graph.has_edge(w, v)
        seen = bool(({v} | nx.descendants(one.graph, v)) & held) if into else v in held
        if seen != into:
            found.append(v)
    return found


@of_kind(graphs.PathState)
def test_a_path_is_blocked_where_the_rules_say(one):
    nodes = blocking(one, one.path)
    truth = f"blocked at {' and '.join(nodes)}" if nodes else "open"
    assert one.solution == truth
    for option in one.options:
        grade = one.grade(option)
        expected = (
            "correct" if option == truth else "wrong" if "open" in (option, truth) else "close"
        )
        assert grade.verdict == expected
        assert (grade.hint == "") == (expected == "correct")


def test_the_state_of_a_path_is_asked_both_ways_round():
    states = {one.solution == "open" for one in ALL if isinstance(one, graphs.PathState)}
    assert states == {True, False}


@of_kind(graphs.OpenPaths)
def test_a_list_of_paths_is_close_when_one_is_misjudged(one):
    truth = {p.text for p in one.judged if not blocking(one, p.nodes)}
    assert one.solution == truth
    assert len(one.options) > len(truth) > 0
    for chosen in one.subsets():
        missed = len(chosen ^ truth)
        grade = one.grade(chosen)
        assert grade.verdict == ("correct" if not missed else "close" if missed == 1 else "wrong")
        if missed:
            assert str(missed) in grade.message
            assert any(path in grade.more for path in chosen ^ truth)


# -- words ----------------------------------------------------------------------------------------


@of_kind(words.SharedKeywords)
def test_every_division_of_the_keywords_is_graded_by_how_many_are_misplaced(one):
    from causalrag.text import tokenize

    truth = set(tokenize(one.document)) & set(tokenize(one.query))
    assert one.solution == truth
    assert 0 < len(truth) < len(one.options)
    assert set(one.options) == set(tokenize(one.document))
    for chosen in one.subsets():
        missed = chosen ^ truth
        grade = one.grade(chosen)
        expected = "correct" if not missed else "close" if len(missed) == 1 else "wrong"
        assert grade.verdict == expected
        if missed:
            assert grade.message.startswith(f"{len(missed)} keyword")
            assert any(term in grade.more for term in missed)


def test_a_text_that_is_not_english_has_a_gloss_for_every_word():
    foreign = [one for one in ALL if isinstance(one, words.SharedKeywords) and one.gloss]
    assert foreign
    for one in foreign:
        assert all(one.english(term) for term in (one.query, one.document, *one.options))


# -- numbers --------------------------------------------------------------------------------------


def by_hand(one):
    weights = np.array([weight for _, weight, _ in one.terms])
    vectors = np.array([vector for *_, vector in one.terms])
    total = weights @ vectors
    middle = total / weights.sum()
    if one.query is None:
        return middle[0], total[0], vectors.mean(axis=0)[0]
    query, plain = np.array(one.query), vectors.mean(axis=0)
    length = np.linalg.norm
    return (
        middle @ query / length(middle) / length(query),
        middle @ query,
        plain @ query / length(plain) / length(query),
    )


@of_kind(scores.ByHand)
def test_numbers_are_judged_by_how_many_places_are_right(one):
    truth, undivided, alike = by_hand(one)
    assert one.solution == pytest.approx(truth, abs=scores.FINE)
    for step, verdict in [(0, "correct"), (0.0049, "correct"), (0.006, "close"), (0.049, "close")]:
        for sign in (-1, 1):
            assert one.grade(truth + sign * step).verdict == verdict
    assert one.grade(truth + 0.06).verdict == one.grade(truth - 0.3).verdict == "wrong"
    assert one.grade(undivided).verdict == "close"
    assert "one step is missing" in one.grade(undivided).message
    assert one.grade(alike).verdict == "wrong"
    assert "weights equal" in one.grade(alike).message
    assert one.grade(round(undivided, 2)) == one.grade(np.float64(undivided))


@of_kind(scores.ByHand)
def test_no_named_slip_is_taken_for_another(one):
    values = sorted(by_hand(one))
    assert min(b - a for a, b in pairwise(values)) > 0.06


@of_kind(scores.ByHand)
@pytest.mark.parametrize("answer", [True, math.nan, math.inf, "0.5", None, {0.5}])
def test_what_is_no_finite_number_is_refused(one, answer):
    with pytest.raises(ValueError, match="give a finite number"):
        one.grade(answer)


@of_kind(scores.ByHand)
def test_the_vectors_have_length_one(one):
    assert [math.hypot(*vector) for *_, vector in one.terms] == pytest.approx([1, 1, 1])


# -- signs ----------------------------------------------------------------------------------------


@of_kind(signs.Sign)
def test_the_sign_is_that_of_the_joint_distribution(one):
    table = {
        "noisy OR": lambda a, b: 1 - 0.9 * (1 / 9) ** (a + b),
        "leaky AND": lambda a, b: 0.9 if a and b else 0.1,
        "set by hand": lambda a, b: 0.5,
    }[one.mechanism]
    copied = {0: 0.1, 1: 0.9}
    cells = dict.fromkeys(product((0, 1), repeat=2), 0.0)
    for a, b, q in product((0, 1), repeat=3):
        p_d = table(a, b) if one.kept else 1 - table(a, b)
        place = {"A": a, "B": b, "q": q}
        x, y = one.pair
        cells[place[x], place[y]] += p_d * (copied[a] if q else 1 - copied[a])
    log = math.log(cells[1, 1] * cells[0, 0] / (cells[1, 0] * cells[0, 1]))
    truth = "none" if abs(log) < 1e-9 else "positive" if log > 0 else "negative"
    for option in one.options:
        grade = one.grade(option)
        assert grade.verdict == ("correct" if option == truth else "wrong")
        assert bool(grade.hint) == bool(grade.more) == (option != truth)


def test_both_pairs_of_the_sign_explorer_are_asked_about():
    assert {one.pair for one in ALL if isinstance(one, signs.Sign)} == {("A", "B"), ("q", "B")}


def test_every_sign_is_the_answer_somewhere():
    assert {one.solution for one in ALL if isinstance(one, signs.Sign)} == {
        "positive",
        "negative",
        "none",
    }


def test_every_set_of_answers_is_small_enough_to_be_listed():
    assert max(len(one.subsets()) for one in ALL if hasattr(one, "subsets")) <= 2**9
