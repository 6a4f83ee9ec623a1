"""Results stay hidden behind predictions until asked for; nobody is locked out of them."""

from __future__ import annotations

import pytest
from built_site import CHAPTERS

pytestmark = pytest.mark.browser

PAGE = "notebooks/04_d_separation.html"
PHONE = {"viewport": {"width": 400, "height": 800}, "color_scheme": "dark"}


@pytest.mark.parametrize("page_name", CHAPTERS)
def test_every_chapter_hides_something_behind_each_prediction(visit, page_name):
    page = visit(page_name).page
    boxes = page.locator("main .admonition", has=page.locator("p:text-is('Predict')"))
    curtains = page.locator(".predict-curtain")
    assert boxes.count() == curtains.count() > 0
    for curtain in curtains.all():
        assert not curtain.is_visible()
        assert curtain.evaluate("one => one.textContent.trim() !== ''")


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_the_keyboard_reveals_and_hides(visit, scheme):
    visitor = visit(PAGE, scheme, **PHONE)
    page = visitor.page
    button = page.locator(".predict-reveal").first
    curtain = page.locator(".predict-curtain").first
    button.focus()
    page.keyboard.press("Enter")
    assert curtain.is_visible()
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert not curtain.is_visible()
    assert button.get_attribute("aria-expanded") == "false"
    assert visitor.errors == []


def test_a_prediction_and_what_was_revealed_survive_a_reload(visit):
    page = visit(PAGE).page
    page.locator(".predict-note").first.fill("negative")
    page.locator(".predict-reveal").first.click()
    page.reload()
    assert page.locator(".predict-note").first.input_value() == "negative"
    assert page.locator(".predict-curtain").first.is_visible()
    assert not page.locator(".predict-curtain").nth(1).is_visible()


def test_who_always_wants_results_has_them_in_every_chapter(visit):
    page = visit(PAGE).page
    page.locator("#predict-always").check()
    assert all(curtain.is_visible() for curtain in page.locator(".predict-curtain").all())
    page.goto(page.url.replace("04_d_separation", "03_dag"))
    assert all(curtain.is_visible() for curtain in page.locator(".predict-curtain").all())
    page.locator("#predict-always").uncheck()
    assert not page.locator(".predict-curtain").first.is_visible()


def test_a_link_into_a_hidden_result_opens_it(visit):
    page = visit(PAGE).page
    inside = page.locator(".predict-curtain [id]").first.get_attribute("id")
    page.goto(f"{page.url}#{inside}")
    page.locator(f'[id="{inside}"]').wait_for()


def test_a_printed_page_shows_results_and_no_forms(visit):
    page = visit(PAGE).page
    page.emulate_media(media="print")
    assert all(curtain.is_visible() for curtain in page.locator(".predict-curtain").all())
    assert not page.locator(".predict-answer").first.is_visible()


def test_without_scripts_nothing_is_hidden(visit):
    page = visit(PAGE, "file", java_script_enabled=False).page
    assert page.locator(".predict-curtain, .predict-reveal").count() == 0
    assert page.locator("main .cell_output").first.is_visible()
