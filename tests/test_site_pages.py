"""What every page carries: a description, escaped tags, and an address that is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from docutils import nodes

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import site_pages


def doctree(*paragraphs):
    section = nodes.section()
    for text in paragraphs:
        section += nodes.paragraph(text, text)
    document = nodes.document(None, None)
    document += section
    return document


def test_the_first_real_paragraph_is_the_description():
    text = "A retrieved document is a collider, and that opens a path."
    assert site_pages.description(doctree("Short.", text, "Another paragraph " * 5)) == text


def test_a_page_without_text_has_the_books_description():
    assert site_pages.description(None) == site_pages.description(doctree()) == site_pages.DEFAULT
    assert len(site_pages.DEFAULT) <= site_pages.LONGEST


def test_a_long_paragraph_ends_with_a_sentence_or_a_whole_word():
    sentence = "The first sentence is of a length that stands for itself in a list of results. "
    assert site_pages.description(doctree(sentence + "word " * 60)) == sentence.strip()
    cut = site_pages.description(doctree("word " * 60))
    assert cut.endswith("word …")
    assert len(cut) <= site_pages.LONGEST


def test_tags_are_escaped_and_name_a_picture_only_at_a_known_address():
    tags = site_pages.meta_tags('a "title"', "<b>", "")
    assert "&quot;title&quot;" in tags
    assert "&lt;b&gt;" in tags
    assert "og:image" not in tags
    assert "https://host/book/_static/preview.png" in site_pages.meta_tags(
        "t", "d", "https://host/book/"
    )


@pytest.mark.parametrize("given", ["https://host/book", "https://host/book/", "", "  "])
def test_the_address_ends_in_one_slash(monkeypatch, given):
    monkeypatch.setenv(site_pages.SITE_URL, given)
    assert site_pages.site_url() == ("https://host/book/" if given.strip() else "")


def test_an_address_without_a_scheme_is_refused(monkeypatch):
    monkeypatch.setenv(site_pages.SITE_URL, "host/book")
    with pytest.raises(ValueError, match=r"host/book.*full address"):
        site_pages.site_url()
