"""The page of exercises in a browser grades as the library does, by mouse and by keyboard."""

from __future__ import annotations

import pytest

from causalrag import exercises

pytestmark = pytest.mark.browser

PAGE = "book/exercises.html"
PHONE = {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"}
ALL = list(exercises.CATALOGUE.values())
SHOWN = """section => ({
  verdict: section.querySelector(".ex-verdict").dataset.verdict ?? null,
  words: section.querySelector(".ex-verdict").textContent,
  mark: section.querySelector(".ex-mark").textContent,
  more: section.querySelector(".ex-more p")?.textContent ?? null,
  held: [...section.querySelectorAll(".ex-chosen")].map(node => node.dataset.node)})"""


def answers(one):
    """One answer of every verdict that the exercise has."""
    if one.kind == "number":
        some = [one.solution, round(one.solution + 0.03, 2), one.solution + 1, -1]
    elif one.kind == "choice":
        some = one.options
    else:
        some = one.subsets()
    found = {}
    for answer in some:
        found.setdefault(one.grade(answer).verdict, answer)
    return found


def section_of(page, one):
    return page.locator(f"#ex-{one.id}")


def shown(page, one):
    return section_of(page, one).evaluate(SHOWN)


def fill(page, one, answer, press=False):
    """Give an answer; with `press`, from the keyboard alone."""
    inputs = section_of(page, one).locator(".ex-form input")
    if one.kind == "number":
        if press:
            inputs.focus()
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.type(str(answer))
        else:
            inputs.fill(str(answer))
    elif one.kind == "choice" and press:
        inputs.first.focus()
        page.keyboard.press("Space")
        for _ in range(one.options.index(answer)):
            page.keyboard.press("ArrowDown")
    else:
        wanted = {answer} if one.kind == "choice" else answer
        for box, option in zip(inputs.all(), one.options, strict=True):
            if box.is_checked() != (option in wanted) and (
                one.kind != "choice" or option in wanted
            ):
                if press:
                    box.focus()
                    page.keyboard.press("Space")
                else:
                    box.click()


def submit(page, one, press=False):
    button = section_of(page, one).locator(".ex-check")
    if press:
        button.focus()
        page.keyboard.press("Enter")
    else:
        button.click()


def check(page, one, answer):
    grade = exercises.grade(one.id, answer)
    seen = shown(page, one)
    assert seen["verdict"] == grade.verdict
    assert seen["words"].startswith(f"{grade.verdict.capitalize()}. {grade.message}")
    assert seen["words"].endswith(f"Hint: {grade.hint}" if grade.hint else grade.message)
    assert seen["more"] == (grade.more or None)
    if one.kind == "separator":
        assert set(seen["held"]) == set(answer)


@pytest.mark.parametrize(
    ("scheme", "press", "options"),
    [("http", False, {}), ("file", True, PHONE)],
    ids=["mouse", "keyboard, phone, dark, file"],
)
def test_every_exercise_gives_every_verdict_that_it_has(visit, scheme, press, options):
    visitor = visit(PAGE, scheme, **options)
    page, verdicts = visitor.page, []
    for one in ALL:
        found = answers(one)
        assert {"correct", "wrong"} <= set(found)
        for verdict in ("wrong", "close", "correct"):
            if verdict in found:
                fill(page, one, found[verdict], press)
                submit(page, one, press)
                check(page, one, found[verdict])
                verdicts.append((one.kind, verdict))
        assert shown(page, one)["mark"] == "(solved)"
    assert ("separator", "close") in verdicts
    assert page.locator(".ex-progress").text_content() == f"{len(ALL)} of {len(ALL)} solved."
    assert visitor.errors == []


def test_every_set_that_a_form_can_hold_is_graded_as_the_graph_judges_it(visit):
    page = visit(PAGE, "file").page
    for one in ALL:
        if one.kind == "separator":
            for chosen in one.subsets():
                fill(page, one, chosen)
                submit(page, one)
                check(page, one, chosen)


def test_another_answer_clears_the_verdict_and_the_second_hint(visit):
    page = visit(PAGE).page
    one = exercises.find("close-q-B")
    fill(page, one, {"y"})
    submit(page, one)
    more = section_of(page, one).locator(".ex-more")
    assert not more.locator("p").is_visible()
    more.locator("summary").press("Enter")
    assert more.locator("p").is_visible()
    fill(page, one, {"A"})
    seen = shown(page, one)
    assert (seen["verdict"], seen["words"], seen["more"]) == (None, "", None)
    assert more.count() == 0
    assert seen["held"] == ["A"]


@pytest.mark.parametrize("name", ["score", "sign-or"])
def test_without_an_answer_the_page_says_what_to_give(visit, name):
    page = visit(PAGE).page
    one = exercises.find(name)
    submit(page, one)
    seen = shown(page, one)
    assert seen["verdict"] is None
    assert one.accepts in seen["words"]


def test_the_verdict_is_announced_and_the_solution_stays_closed(visit):
    page = visit(PAGE).page
    for one in ALL:
        section = section_of(page, one)
        assert section.locator(".ex-verdict").get_attribute("aria-live") == "polite"
        solution = section.locator(".ex-solution")
        assert solution.get_attribute("open") is None
        solution.locator("summary").press("Enter")
        assert solution.locator("p").last.is_visible()


def test_progress_is_kept_until_it_is_started_over(visit):
    page = visit(PAGE).page
    first, second = exercises.find("screen-q-d"), exercises.find("score")
    third = exercises.find("sign-and")
    fill(page, third, "negative")
    submit(page, third)
    fill(page, first, {"A"})
    submit(page, first)
    fill(page, second, 0.45)
    submit(page, second)
    page.reload()
    page.wait_for_selector(".part-exercises.part-ready")
    assert page.locator(".ex-progress").text_content() == f"1 of {len(ALL)} solved."
    assert shown(page, first)["mark"] == "(solved)"
    assert shown(page, first)["held"] == ["A"]
    assert section_of(page, second).locator("input").input_value() == "0.45"
    chosen = section_of(page, third).locator("input:checked")
    assert [chosen.get_attribute("data-option")] == ["negative"]
    # A later wrong answer does not take back what was solved.
    fill(page, first, {"y"})
    submit(page, first)
    assert shown(page, first)["mark"] == "(solved)"
    page.locator(".ex-over").press("Enter")
    assert page.locator(".ex-progress").text_content() == f"0 of {len(ALL)} solved."
    page.reload()
    page.wait_for_selector(".part-exercises.part-ready")
    assert shown(page, first)["mark"] == ""
    assert page.locator(".ex-form input:checked").count() == 0
    assert section_of(page, second).locator("input").input_value() == ""


@pytest.mark.parametrize("kept", ["no JSON", "[]", "3", '{"score": {"answer": {}}}', '{"x": null}'])
def test_what_another_program_stored_does_no_harm(visit, kept):
    visitor = visit(PAGE)
    visitor.page.evaluate("kept => localStorage.setItem('causalrag-exercises', kept)", kept)
    visitor.page.reload()
    visitor.page.wait_for_selector(".part-exercises.part-ready")
    assert visitor.page.locator(".ex-progress").text_content().startswith("0 of ")
    # A reload may stop a request that is under way; no script may fail.
    assert [error for error in visitor.errors if not error.startswith("not loaded")] == []


def test_without_storage_the_page_still_grades(visit):
    visitor = visit(PAGE)
    page = visitor.page
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('shut'); }})"
    )
    page.reload()
    page.wait_for_selector(".part-exercises.part-ready")
    one = exercises.find("screen-q-d")
    fill(page, one, {"A", "B"})
    submit(page, one)
    check(page, one, {"A", "B"})
    fill(page, one, {"A"})
    submit(page, one)
    assert page.locator(".ex-progress").text_content() == f"1 of {len(ALL)} solved."


def test_nothing_runs_off_a_phone(visit):
    page = visit(PAGE, **PHONE).page
    for one in ALL:
        fill(page, one, answers(one)["wrong"])
        submit(page, one)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
    wide = page.locator(".part-exercises *").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().right > 400).length"
    )
    assert wide == 0


def test_dark_mode_has_the_colours_of_the_theme(visit):
    colours = [
        visit(PAGE, color_scheme=mode)
        .page.locator(".ex-check")
        .first.evaluate("button => getComputedStyle(button).backgroundColor")
        for mode in ("light", "dark")
    ]
    assert colours[0] != colours[1]


def test_without_scripts_the_texts_and_closed_solutions_remain(visit):
    page = visit(PAGE, "file", java_script_enabled=False).page
    assert not page.locator(".ex-check").first.is_visible()
    assert not page.locator(".ex-top").is_visible()
    for one in ALL:
        section = section_of(page, one)
        assert section.locator(".ex-ask").is_visible()
        solution = section.locator(".ex-solution")
        assert not solution.locator("p").first.is_visible()
        solution.locator("summary").click()
        assert solution.locator("p").first.is_visible()
