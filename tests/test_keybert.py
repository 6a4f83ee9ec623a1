"""KeyBERT on our encoder and our tokens; all but the first tests need the package itself."""

import inspect
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

import causalrag as cr
from causalrag.keywords import KeyBertKeywords, Keywords

PLANE = {
    "audit": (3.0, 4.0),
    "data": (1.0, 0.0),
    "rule": (0.0, 2.0),
    "contrary": (-1.0, 0.0),
    "orchard": (0.0, 0.0),
    "评估": (4.0, 3.0),
}
TEXT = "The audit: data, DATA and a rule, contrary, orchard; 评估"


class Plane:
    """Words at chosen places of a plane; a text lies where its role says. Remembers its calls."""

    dimension = 2

    def __init__(self):
        self.seen = []

    def encode(self, texts, role):
        self.seen += [(role, text) for text in texts]
        place = {"document": (1.0, 0.0), "query": (0.0, 1.0)}
        return np.array([PLANE[text] if role == "term" else place[role] for text in texts])


# --- without the package ----------------------------------------------------------------------


def test_a_missing_package_gives_the_install_line_when_constructed(monkeypatch):
    monkeypatch.setitem(sys.modules, "keybert", None)
    with pytest.raises(ImportError) as caught:
        KeyBertKeywords(Plane())
    assert 'pip install "causalrag[keybert]"' in str(caught.value)


def test_a_broken_package_gives_the_install_line_and_the_cause(monkeypatch, tmp_path):
    (tmp_path / "keybert.py").write_text("raise RuntimeError('built for another torch')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "keybert", raising=False)
    with pytest.raises(ImportError, match="built for another torch") as caught:
        KeyBertKeywords(Plane())
    assert 'pip install "causalrag[keybert]"' in str(caught.value)


def test_unusable_arguments_are_named_before_the_package_is_looked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "keybert", None)
    for cut in ("top_document", "top_query"):
        with pytest.raises(ValueError, match=f"{cut} must be at least 1, got 0"):
            KeyBertKeywords(Plane(), **{cut: 0})
    with pytest.raises(TypeError, match="encode"):
        KeyBertKeywords(None)
    defaults = inspect.signature(KeyBertKeywords).parameters
    assert (defaults["top_document"].default, defaults["top_query"].default) == (15, 10)


# --- with the package -------------------------------------------------------------------------


def with_keybert(test):
    needed = pytest.mark.skipif(find_spec("keybert") is None, reason="not installed: keybert")
    return pytest.mark.models(needed(test))


@with_keybert
def test_the_weight_is_the_cosine_of_word_and_text():
    kw = KeyBertKeywords(Plane())
    found = kw.document(TEXT)
    assert isinstance(found, Keywords)
    # The text lies at (1, 0): rule is at a right angle, contrary turns away, orchard has no place.
    assert found == pytest.approx({"data": 1.0, "评估": 0.8, "audit": 0.6})
    assert list(found) == ["data", "评估", "audit"]


@with_keybert
def test_words_are_encoded_as_terms_and_the_text_by_its_role():
    model = Plane()
    kw = KeyBertKeywords(model)
    assert kw.query(TEXT) == pytest.approx({"rule": 1.0, "audit": 0.8, "评估": 0.6})
    assert ("query", TEXT) in model.seen
    assert {text for role, text in model.seen if role == "term"} == set(PLANE)
    model.seen.clear()
    kw.document(TEXT)
    assert model.seen == [("document", TEXT)]  # each term once per process


@with_keybert
def test_the_cut_keeps_the_heaviest_and_ties_go_by_the_term():
    class Same:
        def encode(self, texts):
            return np.ones((len(texts), 3))

    kw = KeyBertKeywords(Same(), top_document=3, top_query=2)
    assert kw.document("pear fig apple quince").terms == ("apple", "fig", "pear")
    assert kw.query("pear fig apple quince").terms == ("apple", "fig")


@with_keybert
@pytest.mark.parametrize("text", ["", " \n", "，。！？", "的了是", "😀", "the of", "2020"])
def test_a_text_without_content_has_no_keywords_and_is_not_encoded(text):
    # hard cases 7 and 8
    model = Plane()
    kw = KeyBertKeywords(model)
    assert kw.document(text) == kw.query(text) == {}
    assert model.seen == []


@with_keybert
def test_none_is_refused():
    kw = KeyBertKeywords(Plane())
    for method in (kw.document, kw.query, kw.tokens, kw.idf):
        with pytest.raises(TypeError):
            method(None)
    assert kw.tokens("Data, data") == ["data", "data"]
    assert kw.idf("data") == 1.0


@with_keybert
@pytest.mark.parametrize(
    "text", ["我爱上海的水", "不太合适", "AI ai ＧＢ/T35273 COVID-19", "水", "audit"]
)
def test_a_real_encoder_gives_our_spelling_and_its_own_cosines(text, capfd):
    # hard cases 1, 2, 3, 4, 6 and 17
    encoder = cr.load_encoder("use")
    kw = KeyBertKeywords(encoder)
    for found, role in ((kw.document(text), "document"), (kw.query(text), "query")):
        terms = sorted(set(kw.tokens(text)))
        cosines = encoder.encode(terms, "term") @ encoder.encode([text], role)[0]
        expected = {t: c for t, c in zip(terms, cosines, strict=True) if c > 5e-5}
        assert found == pytest.approx(expected, abs=1e-4)
        assert found
    assert capfd.readouterr() == ("", "")


@with_keybert
def test_the_import_leaves_the_warning_filters_alone():
    before = list(warnings.filters)
    for name in [n for n in sys.modules if n.split(".")[0] == "keybert"]:
        del sys.modules[name]
    KeyBertKeywords(Plane())
    assert [f for f in warnings.filters if f not in before] == []


@with_keybert
def test_a_reranker_takes_it():
    kw = KeyBertKeywords("use")
    documents = ["Data leave the country after an audit.", "Tomatoes need water and sun."]
    ranking = cr.CausalReranker("use", keywords=kw).rank("audit of data", documents)
    assert set(ranking[0].shared) | set(ranking[1].shared) >= {"audit", "data"}
