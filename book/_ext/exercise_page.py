"""The page of exercises: every answer that exists, graded by the library at build time.

`exercise_data` grades each subset of nodes, paths or keywords and each choice, and lists the
intervals of a number; the page's script only looks the reader's answer up. `exercise_html` writes
the forms; without scripts the text, the options and the solutions remain.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from page_parts import embed
from sphinx.util.docutils import SphinxDirective

from causalrag import exercises
from causalrag.exercises.base import ChoiceExercise, Exercise, Grade, SetExercise
from causalrag.exercises.graphs import GraphExercise, OpenPaths, PathState
from causalrag.exercises.scores import ByHand
from causalrag.exercises.words import SharedKeywords
from causalrag.plots import place_nodes

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent.parent

CHAPTERS = {
    "screen-q-d": "03_dag",
    "state-q-B": "04_d_separation",
    "separate-d-y": "04_d_separation",
    "close-q-B": "04_d_separation",
    "state-score": "04_d_separation",
    "open-selected": "07_sign_of_the_path",
    "selected-q-B": "07_sign_of_the_path",
    "topic-q-B": "06_four_different_acts",
    "sign-set": "06_four_different_acts",
    "sign-or": "07_sign_of_the_path",
    "sign-and": "07_sign_of_the_path",
    "sign-not-returned": "07_sign_of_the_path",
    "words-brake": "09_shared_and_residual",
    "words-starter": "09_shared_and_residual",
    "words-kitten": "09_shared_and_residual",
    "centroid": "10_centroid_and_score",
    "score": "10_centroid_and_score",
}
"""{exercise: the chapter that teaches it}; the library does not know the book."""

LEGENDS = {
    "separator": "Condition on",
    "choice": "Choose one",
    "paths": "Open paths",
    "keywords": "In A (the rest is in B)",
    "number": "Your number",
}
UNIT, RADIUS, MARGIN = 92, 20, 16  # of the drawing, in its own units


def exercise_data() -> dict[str, Any]:
    """Grade every answer.

    Returns
    -------
    dict
        Per exercise its ``kind``, its ``grades`` ([verdict, message, hint, second hint], each
        once) and, by their numbers: for a set ``answers``, at the sum of 2^position over the
        options chosen; for a choice ``answers``, at its position; for a number ``bands`` (low,
        high, grade), tried in order, and ``otherwise``.
    """
    return {name: _graded(one) for name, one in exercises.CATALOGUE.items()}


def mask(one: SetExercise, chosen: Any) -> int:
    """Write a set of options as one number."""
    return sum(1 << place for place, name in enumerate(one.options) if name in chosen)


def _graded(one: Exercise) -> dict[str, Any]:
    grades: dict[Grade, int] = {}

    def number(grade: Grade) -> int:
        return grades.setdefault(grade, len(grades))

    data: dict[str, Any] = {"kind": one.kind, "accepts": one.accepts}
    if isinstance(one, SetExercise):
        found = {mask(one, chosen): number(one.grade(chosen)) for chosen in one.subsets()}
        data["answers"] = [found[place] for place in range(len(found))]
    elif isinstance(one, ChoiceExercise):
        data["answers"] = [number(one.grade(option)) for option in one.options]
    elif isinstance(one, ByHand):
        data["bands"] = [[band.low, band.high, number(band.grade)] for band in one.bands]
        data["otherwise"] = number(one.otherwise)
    else:
        raise TypeError(f"no form for exercises of the type {type(one).__name__}")
    data["grades"] = [[g.verdict, g.message, g.hint, g.more] for g in grades]
    return data


# -- the page ------------------------------------------------------------------------------------


def exercise_html() -> str:
    """Write the progress line and one form per exercise."""
    forms = "\n".join(
        _one(place, one) for place, one in enumerate(exercises.CATALOGUE.values(), start=1)
    )
    return f"""\
<div class="ex-top"><p class="ex-progress" role="status"></p>
<button type="button" class="ex-over">Start over</button></div>
{forms}
<noscript><p>Answers are checked only where scripts run, or in Python with
<code>exercises.grade</code>.</p></noscript>"""


def _one(place: int, one: Exercise) -> str:
    picture = svg(one) if isinstance(one, GraphExercise) else ""
    anchor = f"ex-{one.id}"
    call = f'exercises.grade("{one.id}", …)'
    return f"""\
<section class="ex-one" id="{anchor}" data-exercise="{one.id}" aria-labelledby="{anchor}-title">
<h2 id="{anchor}-title">{place}. {escape(one.title)} <span class="ex-mark"></span></h2>
<p class="ex-ask">{text(one.statement)}</p>
<div class="ex-body">{picture}
<form class="ex-form" autocomplete="off"><fieldset><legend>{LEGENDS[one.kind]}</legend>
<div class="ex-options">{_inputs(one)}</div></fieldset>
<button type="submit" class="ex-check">Check</button></form></div>
<div class="ex-verdict" role="status" aria-live="polite"></div>
<details class="ex-solution"><summary>Show the solution</summary>
<p><strong>{text(shown(one))}</strong></p><p>{text(one.explanation)}</p></details>
<p class="ex-chapter">Taught in {_link(one)}. In Python: <code>{escape(call)}</code></p>
</section>"""


def text(plain: str) -> str:
    """Escape a text, and keep an arrow on the line of its nodes."""
    for arrow in "→←":
        plain = plain.replace(f" {arrow} ", f"\u00a0{arrow}\u00a0")
    return escape(plain)


def shown(one: Exercise) -> str:
    """Write the solution."""
    answer = one.solution
    if isinstance(one, SharedKeywords):
        return "A: " + ", ".join(one.shown(term) for term in one.options if term in answer)
    if isinstance(one, OpenPaths):
        return "Open: " + "; ".join(text for text in one.options if text in answer)
    if isinstance(one, SetExercise):
        return one.listed(answer)
    return f"{answer:.2f}" if isinstance(answer, float) else str(answer)


def _inputs(one: Exercise) -> str:
    name = f"ex-{one.id}"
    if isinstance(one, ByHand):
        return (
            f'<input type="number" step="any" inputmode="decimal" name="{name}" '
            f'aria-label="Your number, to two decimal places">'
        )
    if not isinstance(one, SetExercise | ChoiceExercise):
        raise TypeError(f"no form for exercises of the type {type(one).__name__}")
    kind = "checkbox" if isinstance(one, SetExercise) else "radio"
    label = one.shown if isinstance(one, SharedKeywords) else str
    return "".join(
        f'<label class="ex-option"><input type="{kind}" name="{name}" value="{place}" '
        f'data-option="{escape(option)}"><span>{escape(label(option))}</span></label>'
        for place, option in enumerate(one.options)
    )


def _link(one: Exercise) -> str:
    chapter = CHAPTERS[one.id]
    lines = (ROOT / "notebooks" / f"{chapter}.md").read_text(encoding="utf-8").splitlines()
    title = next(line[2:] for line in lines if line.startswith("# "))
    return f'<a href="../notebooks/{chapter}.html">{escape(title)}</a>'


def svg(one: GraphExercise) -> str:
    """Draw the graph; the text beside it says the same, so it is hidden from screen readers."""
    graph = one.graph
    spots = place_nodes(graph)
    left = min(across for across, _ in spots.values())
    top = max(up for _, up in spots.values())
    edge = RADIUS + MARGIN
    places = {
        node: (round((across - left) * UNIT) + edge, round((top - up) * UNIT) + edge)
        for node, (across, up) in spots.items()
    }
    width = max(across for across, _ in places.values()) + edge
    height = max(down for _, down in places.values()) + edge
    asked = {"ends": {one.x, one.y}, "along": set()}
    if isinstance(one, PathState):
        asked["along"] = {frozenset(step) for step in zip(one.path, one.path[1:], strict=False)}
    lines = "".join(
        _arrow(places[u], places[v], frozenset((u, v)) in asked["along"])
        for u, v in (edge[:2] for edge in graph.edges)
    )
    circles = "".join(
        f'<g class="ex-node{" ex-end" if node in asked["ends"] else ""}'
        f'{" ex-held" if node in one.held else ""}" data-node="{node}">'
        f'<rect x="{x - RADIUS}" y="{y - RADIUS}" width="{2 * RADIUS}" height="{2 * RADIUS}"/>'
        f'<circle cx="{x}" cy="{y}" r="{RADIUS}"/><text x="{x}" y="{y}">{node}</text></g>'
        for node, (x, y) in places.items()
    )
    return (
        f'<svg class="ex-graph" viewBox="0 0 {width} {height}" aria-hidden="true">'
        f"{lines}{circles}</svg>"
    )


def _arrow(start: tuple[int, int], end: tuple[int, int], marked: bool) -> str:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    ux, uy = dx / length, dy / length
    gap, head = RADIUS + 4, 11
    tip = (end[0] - ux * gap, end[1] - uy * gap)
    base = (tip[0] - ux * head, tip[1] - uy * head)
    corners = [tip, (base[0] - uy * 6, base[1] + ux * 6), (base[0] + uy * 6, base[1] - ux * 6)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return (
        f'<g class="ex-arrow{" ex-along" if marked else ""}">'
        f'<line x1="{start[0] + ux * gap:.1f}" y1="{start[1] + uy * gap:.1f}" '
        f'x2="{base[0]:.1f}" y2="{base[1]:.1f}"/><polygon points="{points}"/></g>'
    )


class Exercises(SphinxDirective):
    """``{exercises}``: every exercise of the catalogue, with its form."""

    has_content = False

    def run(self) -> list[Node]:
        """Place the exercises."""
        return [embed(self.env, "exercises", exercise_html(), exercise_data())]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("exercises", Exercises)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
