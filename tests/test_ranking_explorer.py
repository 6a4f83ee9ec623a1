"""The ranking explorer's data is what the library ranks, splits and cuts."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import causalrag as cr
from causalrag import datasets, text
from causalrag.encoders import encode_terms

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import page_parts
import ranking_explorer

ROOT = Path(__file__).parents[1]
DIGITS = ranking_explorer.DIGITS
TAUS = list(ranking_explorer.TAUS)
CASES = [
    (name, place)
    for name in ranking_explorer.CORPORA
    for place in range(len(getattr(datasets, name)().themes))
]


@pytest.fixture(scope="module")
def data():
    return json.loads(page_parts.as_json(ranking_explorer.explorer_data()))


@pytest.fixture(scope="module")
def corpora():
    """Each corpus with an extractor made here, and the encoder."""
    found = {}
    for name in ranking_explorer.CORPORA:
        corpus = getattr(datasets, name)()
        keywords = cr.TfidfKeywords.fit(corpus.texts, top_document=15, top_query=10)
        found[name] = (corpus, keywords)
    return found, cr.load_encoder("use")


def rank(corpora, name, place, method, tau):
    found, encoder = corpora
    corpus, keywords = found[name]
    how = {
        "exact": {"absorption": "exact"},
        "auto": {"tau": "auto"},
    }.get(tau) or {"tau": float(tau)}
    theme = corpus.themes[place]
    reranker = cr.CausalReranker(encoder=encoder, keywords=keywords, method=method, **how)
    return theme, reranker.rank(theme.query, theme.documents)


def near(told, value):
    """Three digits, written without the point."""
    return isinstance(told, int) and told == pytest.approx(1000 * value, abs=0.501)


def test_every_theme_and_document_is_there(data):
    for name in ranking_explorer.CORPORA:
        corpus = getattr(datasets, name)()
        assert list(data["themes"][name]) == [theme.theme for theme in corpus.themes]
        for theme in corpus.themes:
            shown = data["themes"][name][theme.theme]
            assert shown["query"] == theme.query
            assert [(d["id"], d["role"], d["text"]) for d in shown["documents"]] == [
                (d.id, d.role, d.full_text) for d in theme.documents
            ]
            for told, document in zip(shown["documents"], theme.documents, strict=True):
                assert told["text"][: told["title"]] == document.title
                assert told["gloss"] or theme.lang == "en"


def orders(shown, method):
    found = shown["order"][method]
    return (
        dict.fromkeys(TAUS, found)
        if isinstance(found, str)
        else dict(zip(TAUS, found, strict=True))
    )


@pytest.mark.parametrize(("name", "place"), CASES)
def test_every_order_is_that_of_rank_without_scores_handed_on(data, corpora, name, place):
    """All methods at two thresholds, one of which changes from theme to theme."""
    for tau in ("0.6", TAUS[place % len(TAUS)]):
        for method in ranking_explorer.METHODS:
            theme, ranking = rank(corpora, name, place, method, tau)
            shown = data["themes"][name][theme.theme]
            told = [DIGITS.index(digit) for digit in orders(shown, method)[tau]]
            assert told == [one.index for one in ranking]
            if method in shown["score"]:
                scores = shown["score"][method][TAUS.index(tau)]
                assert all(near(scores[one.index], one.score) for one in ranking)


@pytest.mark.parametrize(("name", "place"), CASES)
def test_every_split_is_the_librarys(data, corpora, name, place):
    for number, tau in enumerate(TAUS):
        theme, ranking = rank(corpora, name, place, "causal", tau)
        shown = data["themes"][name][theme.theme]
        terms = shown["terms"]
        for one in ranking:
            told = shown["documents"][one.index]
            split = told["splits"][told["at"][number]]
            words = [terms[term] for term in told["words"]]
            sets = {
                bit: {w for w, b in zip(words, split["shared"], strict=True) if b == bit}
                for bit in "01"
            }
            assert sets == {"1": set(one.shared), "0": set(one.residual)}
            assert near(told["base"], one.base)
            assert near(split["causal"], one.causal)
            for term, part in zip(words, split["parts"], strict=True):
                assert near(part, one.contributions[term]) if term in one.residual else part is None
            for term, reason in one.reasons.items():
                by, cosine = told["reasons"][str(words.index(term))]
                assert terms[by] == reason.query_term
                assert near(cosine, reason.cosine)


def test_the_nearest_terms_are_nearest_to_the_centroid(data, corpora):
    """One document of each theme, with Eq. 4 written out here."""
    encoder = corpora[1]
    for name, place in CASES:
        theme, ranking = rank(corpora, name, place, "causal", "0.6")
        shown = data["themes"][name][theme.theme]
        one = ranking[place % len(ranking)]
        told = shown["documents"][one.index]
        listed = told["splits"][told["at"][TAUS.index("0.6")]]["near"]
        inside = one.residual
        middle = inside.weights @ encode_terms(encoder, inside.terms).astype(float)
        every = encode_terms(encoder, shown["terms"]).astype(float) @ middle
        cosines = every / np.linalg.norm(middle)
        assert len(listed) == ranking_explorer.NEAREST
        assert all(near(cosine, cosines[term]) for term, cosine in listed)
        rest = np.delete(cosines, [term for term, _ in listed])
        assert rest.max() <= min(cosines[term] for term, _ in listed) + 1e-9


def test_the_themes_terms_are_the_keywords_of_query_and_documents(data, corpora):
    for name, place in CASES:
        corpus, keywords = corpora[0][name]
        theme = corpus.themes[place]
        shown = data["themes"][name][theme.theme]
        query = set(keywords.query(theme.query))
        assert {shown["terms"][term] for term in shown["asked"]} == query
        documents = [keywords.document(d.full_text) for d in theme.documents]
        assert set(shown["terms"]) == query.union(*documents)
        assert len(set(shown["terms"])) == len(shown["terms"])


@pytest.mark.parametrize("name", ranking_explorer.CORPORA)
def test_every_occurrence_of_a_keyword_is_marked_where_it_stands(data, name):
    for shown in data["themes"][name].values():
        for document in shown["documents"]:
            words = [shown["terms"][term] for term in document["words"]]
            place, found = 0, []
            for skip, length, number in zip(*[iter(document["marks"])] * 3, strict=True):
                piece = document["text"][place + skip : place + skip + length]
                place += skip + length
                found.append(words[number])
                # What is marked reads as the word: alone, it gives the same token, or in a
                # sentence jieba and OpenCC would have read its characters otherwise.
                assert text.normalise(piece) == words[number] or words[number] in text.tokenize(
                    piece
                )
            assert found == [t for t in text.tokenize(document["text"]) if t in words]


@pytest.mark.parametrize(
    ("original", "pieces"),
    [
        ("ＡＢＣ １２３ x-ray", ["ＡＢＣ", "x-ray"]),
        ("This is the boiler's valve, because we re-fit it.", ["boiler", "valve", "fit"]),
        ("不太合适，没有 证据。", ["不太合适", "没有", "证据"]),
        ("合不合适", ["合适"]),
        ("GB/T35273 与 ISO/IEC 27001 的区别", ["GB/T35273", "ISO/IEC 27001", "区别"]),
        ("數據\u200b出境…安全", ["數據", "出境", "安全"]),
        ("C++ and ½ c#", ["C++", "c#"]),
    ],
)
def test_spans_point_into_the_text_as_it_was_written(original, pieces):
    spans = ranking_explorer.token_spans(original)
    assert [original[span.start : span.end] for span in spans] == pieces
    assert [span.token for span in spans] == text.tokenize(original)


def test_spans_do_not_overlap_in_any_packaged_text():
    for name in ("opening", "diagnostic", "second", "development", "hard", "third"):
        for original in getattr(datasets, name)().texts:
            spans = ranking_explorer.token_spans(original)
            assert all(span.start < span.end for span in spans)
            assert all(one.end <= other.start for one, other in pairwise(spans))


def test_the_page_stays_light(data):
    html = ranking_explorer.explorer_html(data)
    assert len((html + page_parts.as_json(data)).encode()) < 470_000


def test_the_table_without_scripts_shows_ranks_and_sets(data, corpora):
    table = ranking_explorer.static_table(data)
    theme, ranking = rank(corpora, "diagnostic", 0, "causal", "0.6")
    before = {one.index: one.rank for one in rank(corpora, "diagnostic", 0, "similarity", "0.6")[1]}
    rows = re.findall(r"<tr><th scope='row'>(.*?)</tr>", table)
    assert len(rows) == len(theme.documents)
    for one, row in zip(ranking, rows, strict=True):
        assert row.startswith(f"{one.doc_id}, {one.document.role}</th>")
        assert f"<td>{before[one.index]}</td><td>{one.rank}</td>" in row
        cells = re.findall(r"<td lang='zh'>(.*?)</td>", row)
        assert [set(filter(None, cell.split(", "))) for cell in cells] == [
            set(one.shared),
            set(one.residual),
        ]


# -- what the page says about its links ----------------------------------------------------------


def places(data, corpus, theme, method, tau):
    shown = data["themes"][corpus][theme]
    order = orders(shown, method)[tau]
    return {shown["documents"][DIGITS.index(digit)]["id"]: n for n, digit in enumerate(order, 1)}


def nothing_left(data, corpus, theme, document, tau):
    shown = data["themes"][corpus][theme]["documents"]
    told = next(one for one in shown if one["id"] == document)
    return "0" not in told["splits"][told["at"][TAUS.index(tau)]]["shared"]


def test_what_the_links_announce_is_so(data):
    def at(corpus, theme, document, method, tau):
        return places(data, corpus, theme, method, tau)[document]

    def role(corpus, theme, document):
        documents = data["themes"][corpus][theme]["documents"]
        return next(one["role"] for one in documents if one["id"] == document)

    press = ("diagnostic", "T1", "T1-d2")
    assert at(*press, "causal", "0.6") > at(*press, "similarity", "0.6")
    ants = ("second", "S4", "S4-d7")
    assert at(*ants, "causal", "0.6") == 1 < at(*ants, "similarity", "0.6")

    heave = ("second", "S11", "S11-d7")
    assert role(*heave) == "target"
    assert nothing_left(data, *heave, "0.4")
    for method in ("causal", "causal_fallback"):
        order = places(data, "second", "S11", method, "0.4")
        empty = {one for one in order if nothing_left(data, "second", "S11", one, "0.4")}
        assert sorted(order, key=order.get)[-len(empty) :] == [
            one for one in sorted(order, key=order.get) if one in empty
        ]
        assert len(empty) > 1

    acid = ("second", "S8", "S8-d2")
    assert role(*acid) == "target"
    assert at(*acid, "causal", "0.4") > at(*acid, "causal", "0.6")

    ranker = ("diagnostic", "T6", "T6-d3")
    assert role(*ranker) == "target"
    assert at(*ranker, "hybrid", "0.6") > at(*ranker, "similarity", "0.6")
    assert at(*ranker, "adjusted", "0.6") < at(*ranker, "hybrid", "0.6")


def test_every_link_of_the_page_names_a_view(data):
    page = (ROOT / "book" / "explore_ranking.md").read_text(encoding="utf-8")
    links = re.findall(r'href="#([^"]+)"', page)
    assert len(links) >= 5
    for link in links:
        view = dict(part.split("=") for part in link.split("&amp;"))
        shown = data["themes"][view["corpus"]][view["theme"]]
        assert view["doc"] in {one["id"] for one in shown["documents"]}
        assert view["tau"] in data["taus"]
        assert view["method"] in data["methods"]
