"""The page of exercises holds the library's grade for every answer, and chapters grade attempts."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from causalrag import exercises

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import exercise_page
import page_parts

ROOT = Path(__file__).resolve().parents[1]
DATA = json.loads(page_parts.as_json(exercise_page.exercise_data()))
HTML = exercise_page.exercise_html()
ALL = list(exercises.CATALOGUE.values())
ids = pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
CELL = re.compile(r'answer = (.+?)  # yours\nexercises\.grade\("([\w-]+)", answer\)')
CHAPTERS = {
    path.stem: CELL.findall(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "notebooks").glob("*.md"))
}
GRADED = sorted(name for name, cells in CHAPTERS.items() if cells)


def looked_up(one, answer):
    """Find a grade the way the page's script does."""
    told = DATA[one.id]
    if one.kind == "number":
        number = next((g for low, high, g in told["bands"] if low <= answer <= high), None)
        return told["grades"][told["otherwise"] if number is None else number]
    place = (
        one.options.index(answer)
        if one.kind == "choice"
        else sum(2**place for place, name in enumerate(one.options) if name in answer)
    )
    return told["grades"][told["answers"][place]]


def listed(grade):
    return [grade.verdict, grade.message, grade.hint, grade.more]


@ids
def test_every_answer_is_looked_up_as_the_library_grades_it(one):
    if one.kind == "number":
        answers = [place / 1000 for place in range(-500, 4000)]
    elif one.kind == "choice":
        answers = list(one.options)
    else:
        answers = one.subsets()
        assert len(DATA[one.id]["answers"]) == len(answers)
    for answer in answers:
        assert looked_up(one, answer) == listed(exercises.grade(one.id, answer))


@ids
def test_every_exercise_has_its_form_its_solution_and_its_chapter(one):
    (section,) = re.findall(rf'<section class="ex-one" id="ex-{one.id}".*?</section>', HTML, re.S)
    assert exercise_page.text(one.statement) in section
    assert exercise_page.text(one.explanation) in section
    assert exercise_page.text(exercise_page.shown(one)) in section
    assert section.count("<input ") == len(getattr(one, "options", ["a number"]))
    (chapter,) = re.findall(r'href="\.\./notebooks/(\w+)\.html"', section)
    assert (ROOT / "notebooks" / f"{chapter}.md").is_file()
    assert '<details class="ex-solution"><summary>' in section  # closed


def test_the_page_leaves_no_exercise_out():
    assert set(exercise_page.CHAPTERS) == set(DATA) == set(exercises.CATALOGUE)


def test_the_contents_have_the_page_after_beyond():
    text = (ROOT / "book" / "_toc.yml").read_text(encoding="utf-8")
    guides = text.split("caption: Beyond")[1].split("caption: Guides")[1].split("caption:")[0]
    assert "book/exercises" in guides


def test_an_arrow_stays_on_the_line_of_its_nodes():
    assert exercise_page.text("q ← A → d <") == "q\u00a0←\u00a0A\u00a0→\u00a0d &lt;"


def test_six_chapters_grade_an_answer():
    assert [name[:2] for name in GRADED] == ["03", "04", "06", "07", "09", "10"]


@pytest.mark.parametrize("name", GRADED)
def test_the_attempt_in_a_chapter_is_not_correct_and_gets_a_hint(name):
    text = (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8")
    for attempt, exercise in CHAPTERS[name]:
        grade = exercises.grade(exercise, ast.literal_eval(attempt))
        assert grade.verdict in ("close", "wrong")
        assert grade.hint
        assert exercise_page.CHAPTERS[exercise] == name
        assert f'exercises.find("{exercise}")' in text
        assert "{doc}`../book/exercises`" in text
