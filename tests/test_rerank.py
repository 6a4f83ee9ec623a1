"""The re-ranker's contract: the hybrid, documents, scores, errors, explanations, an empty B."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
from reranking import CAUSAL_METHODS, ENCODER, HashEncoder, TableEncoder, Written, ids, reranker

import causalrag as cr
from causalrag.rerank import METHODS


def test_hybrid_by_hand():
    result = cr.hybrid([0.2, 0.4, 0.6], [5, 1, 3])
    assert result == pytest.approx([0.5, 0.25, 0.75])
    assert cr.hybrid([1, 2], [4, 0], weight=0.75) == pytest.approx([0.25, 0.75])
    assert cr.hybrid([7, 7, 7], [0, 1, 2]) == pytest.approx([0, 0.25, 0.5])
    assert cr.hybrid([3], [4]).tolist() == [0.0]
    assert cr.hybrid([], []).shape == (0,)


def test_hybrid_of_scores_that_differ_by_rounding_or_overflow_stays_defined():
    assert cr.hybrid([0.1 + 0.2, 0.3], [1, 1]).tolist() == [0, 0]
    assert cr.hybrid([-1.7e308, 1.7e308], [0, 0]).tolist() == [0, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1]), "2 similarity scores but 1 causal"),
        (([1, math.nan], [1, 2]), r"similarity\[1\] is nan"),
        (([1, 2], [math.inf, 2]), r"causal\[0\] is inf"),
        (([1, 2], [1, 2], 1.5), "weight is 1.5"),
        (([[1, 2]], [1, 2]), r"\(1, 2\)"),
    ],
)
def test_hybrid_refuses_what_it_cannot_scale(arguments, message):
    with pytest.raises(ValueError, match=message):
        cr.hybrid(*arguments)


def test_ranked_has_the_fields_of_the_contract():
    document = {"id": "b", "title": "Rye", "text": "gas", "extra": 1}
    ranking = reranker("hybrid").rank("yeast", ["gas:2 yeast", document])
    assert len(ranking) == 2
    assert sorted(ids(ranking)) == ["0", "b"]
    ranked = next(r for r in ranking if r.doc_id == "b")
    assert ranked.document is document
    assert ranked.text == "Rye gas"
    assert ranked.index == 1
    assert [r.rank for r in ranking] == [1, 2]
    assert isinstance(ranked.shared, cr.Keywords)
    assert isinstance(ranked.residual, cr.Keywords)
    assert ranking[-1] == ranking[1]
    assert ranking[:1] == [ranking[0]]
    assert list(reversed(ranking)) == [ranking[1], ranking[0]]
    with pytest.raises(IndexError):
        ranking[2]


def test_the_text_is_title_and_text_for_encoding_and_for_keywords():
    whole, parts = "rye bread:2", {"id": "0", "title": "rye", "text": "bread:2"}
    alone, split = (reranker("hybrid").rank("yeast", [doc])[0] for doc in (whole, parts))
    assert (alone.base, alone.causal) == (split.base, split.causal)
    assert alone.residual == split.residual


@pytest.mark.parametrize(
    "document",
    [
        "gas yeast",
        {"text": "gas yeast"},
        {"text": "gas yeast", "title": None, "id": None, "vector": None},
        {"text": "gas yeast", "title": ""},
        SimpleNamespace(text="gas yeast"),
        SimpleNamespace(page_content="gas yeast", metadata={"source": "x"}, id=None),
    ],
)
def test_every_form_of_document_reads_the_same(document):
    ranked = reranker().rank("yeast", [document])[0]
    assert ranked.text == "gas yeast"
    assert ranked.doc_id == "0"
    assert ranked.document is document
    assert list(ranked.residual) == ["gas"]


def test_a_precomputed_vector_is_used_and_the_text_is_not_encoded():
    class TermsAndQueries(HashEncoder):
        def encode(self, texts, role="document"):
            assert role != "document", "a document with a vector was encoded"
            return super().encode(texts, role)

    encoder = TermsAndQueries()
    vector = 5 * encoder.vector("yeast", "query")
    ranking = reranker("similarity", encoder=encoder).rank(
        "yeast", [{"text": "gas", "vector": -vector}, {"text": "rye", "vector": vector.tolist()}]
    )
    assert [r.base for r in ranking] == pytest.approx([1, -1])
    assert ids(ranking) == ["1", "0"]


@pytest.mark.filterwarnings("error")
def test_precomputed_vectors_of_every_form_have_the_same_cosine():
    vector = ENCODER.vector("rye", "document")
    plain = reranker("similarity").rank("yeast", ["rye"])[0].base
    forms = [
        vector,
        vector.astype(float),
        vector.tolist(),
        tuple(vector.tolist()),
        vector.astype(float) * 1e-200,
        vector.astype(float) * 1e200,
        np.repeat(vector, 2)[::2],
    ]
    documents = [{"text": "rye", "vector": form} for form in forms]
    for given_documents in (documents, [documents[0], documents[1]], [*documents, "rye"]):
        for ranked in reranker("similarity").rank("yeast", given_documents):
            assert ranked.base == pytest.approx(plain, abs=1e-7)
    zero = reranker("similarity").rank("yeast", [documents[0], {"text": "a", "vector": [0.0] * 6}])
    by_index = {ranked.index: ranked for ranked in zero}
    assert by_index[1].base == 0.0
    assert any("zero vector" in flag for flag in by_index[1].flags)
    assert not by_index[0].flags


def test_given_scores_are_the_base_and_no_document_is_encoded():
    class NoDocuments(HashEncoder):
        def encode(self, texts, role="document"):
            assert role != "document"
            return super().encode(texts, role)

    ranking = reranker("similarity", encoder=NoDocuments()).rank("q", ["a", "b"], scores=[1, 30])
    assert [(r.doc_id, r.base, r.score) for r in ranking] == [("1", 30, 30), ("0", 1, 1)]


def test_top_k_cuts_the_output_and_not_the_candidates():
    texts = ["a:1", "b:1", "c:1 d:2", "e:1"]
    full, cut = (reranker("hybrid").rank("q", texts, top_k=k) for k in (None, 2))
    assert [(r.doc_id, r.score) for r in cut] == [(r.doc_id, r.score) for r in full][:2]


@pytest.mark.parametrize("method", METHODS)
def test_ranking_mutates_nothing(method):
    documents = [
        {"id": 3, "text": "gas:2 yeast", "title": None, "tags": ["x"], "vector": np.ones(6)},
        {"id": "b", "text": "rye"},
    ]
    scores = np.array([0.1, 0.2])
    before, scores_before = copy.deepcopy(documents), scores.copy()
    ranking = reranker(method).rank("yeast", documents, scores=scores)
    ranking.to_frame(), ranking.explain()
    assert str(documents) == str(before)
    assert (scores == scores_before).all()
    scores[:] = 9
    assert {r.base for r in ranking} == {0.1, 0.2}


def test_an_empty_list_gives_an_empty_ranking():
    for method in METHODS:
        ranking = reranker(method).rank("q", [])
        assert len(ranking) == 0
        assert list(ranking) == []
        assert "doc_id" in ranking.to_frame().columns
        assert isinstance(ranking.explain(), str)
    assert len(cr.CausalReranker(ENCODER).rank("q", iter([]), scores=[])) == 0


@pytest.mark.parametrize("query", ["", "   ", "\n\t\u3000"])
def test_a_blank_query_is_refused(query):
    for documents in ([], ["a"]):
        with pytest.raises(ValueError, match="blank"):
            reranker().rank(query, documents)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None, ["a"]), TypeError, "query must be a str, not NoneType"),
        (("q", None), TypeError, "documents must be a list"),
        (("q", "a"), TypeError, "documents must be a list of documents, not one str"),
        (("q", {"text": "a"}), TypeError, "put a single document in a list"),
        (("q", ["a", None]), TypeError, r"documents\[1\] is a NoneType"),
        (("q", [{"body": "a"}]), ValueError, r"no 'text'; its keys are \['body'\]"),
        (("q", [{"text": None}]), TypeError, r"the text of documents\[0\] is a NoneType"),
        (("q", [{"text": "a", "title": 3}]), TypeError, "title of documents"),
        (("q", [{"text": "a", "id": []}]), TypeError, "not hashable"),
        (("q", [{"text": "a", "vector": [1.0, math.nan] * 3}]), ValueError, "NaN"),
        (("q", [{"text": "a", "vector": [[1.0]]}]), ValueError, r"shape \(1, 1\)"),
        (("q", [{"text": "a", "vector": "x"}]), ValueError, "not numeric"),
        (("q", ["a"], ["x"]), TypeError, "scores must be a sequence of numbers"),
        (("q", ["a"], [[1.0]]), ValueError, r"shape \(n,\)"),
        (("q", ["a"], [1.0, 2.0]), ValueError, "2 scores for 1 documents"),
        (("q", ["a"], None, 1.5), TypeError, "top_k must be an int"),
        (("q", ["a"], None, True), TypeError, "top_k must be an int"),
    ],
)
def test_unusable_arguments_are_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        reranker("similarity").rank(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "bm25"}, ValueError, "known: similarity, causal, causal_fallback, hybrid, adj"),
        ({"adjustment": 4.0}, TypeError, "adjustment must be an Adjustment, not float"),
        ({"absorption": "fuzzy"}, ValueError, "known: semantic, exact"),
        ({"tau": 60}, ValueError, r"tau is 60; it is a cosine in \[-1, 1\]"),
        ({"tau": math.nan}, ValueError, "tau is nan"),
        ({"tau": "0.6"}, TypeError, "tau must be a number"),
        ({"weight": -0.1}, ValueError, "weight is -0.1"),
        ({"keywords": "tfidf"}, TypeError, "without .document"),
    ],
)
def test_unusable_settings_are_refused_when_the_reranker_is_made(options, error, message):
    with pytest.raises(error, match=message):
        cr.CausalReranker(**{"encoder": ENCODER, "keywords": Written()} | options)


def test_the_frame_and_the_explanation_name_scores_words_and_reasons():
    table = {"dog": (1, 0, 0), "hound": (0.8, 0.6, 0), "dog hound sky": (0, 1, 0)}
    rr = cr.CausalReranker(TableEncoder(table), Written(), method="causal")
    ranking = rr.rank("dog", ["dog hound sky", "dog"])
    frame = ranking.to_frame()
    assert list(frame["rank"]) == [1, 2]
    assert list(frame["doc_id"]) == ["0", "1"]
    assert {"index", "score", "base", "causal", "shared", "residual"} <= set(frame.columns)
    text = ranking.explain()
    for piece in ("hound (by dog, 0.80)", "dog (equal)", "sky +0.000", "empty B", "tau 0.6"):
        assert piece in text


def test_an_explanation_shows_no_control_characters_of_the_documents():
    text = reranker().rank("q", [{"id": "\x1b[2J", "text": "a\u202eb c\x07d"}]).explain()
    assert not set(text) & set("\x1b\u202e\x07")


def test_contributions_are_strongest_first_and_show_which_word_carries_the_score():
    encoder = TableEncoder({"q": (1, 0, 0), "near": (0.5, 0.75**0.5, 0), "far": (0, 0, 1)})
    ranked = cr.CausalReranker(encoder, Written(), method="causal").rank("q", ["far near:2"])[0]
    assert list(ranked.contributions) == ["near", "far"]
    assert ranked.contributions["far"] == pytest.approx(0, abs=1e-9)
    assert ranked.contributions["near"] == pytest.approx(ranked.causal)


def test_similarity_touches_no_keyword_until_they_are_asked_for():
    class Loud(Written):
        def document(self, text):
            raise RuntimeError("keywords were extracted")

    ranking = cr.CausalReranker(ENCODER, Loud(), method="similarity").rank("q", ["a", "b"])
    assert len(ranking) == 2
    with pytest.raises(RuntimeError, match="extracted"):
        _ = ranking[0].residual


def test_a_document_s_keywords_and_each_term_are_computed_once():
    class Counting(HashEncoder):
        def __init__(self):
            super().__init__()
            self.fingerprint = "counting"
            self.terms = []

        def encode(self, texts, role="document"):
            if role == "term":
                self.terms += texts
            return super().encode(texts, role)

    class Remembering(Written):
        def __init__(self):
            self.texts = []

        def document(self, text):
            self.texts.append(text)
            return super().document(text)

    encoder, extractor = Counting(), Remembering()
    rr = cr.CausalReranker(encoder, extractor, method="hybrid")
    first = rr.rank("once:1 twice:1", ["once thrice", "twice thrice", "thrice once"])
    first.to_frame(), first.explain()
    rr.rank("once:1", ["thrice four", "once thrice"])
    assert extractor.texts == ["once thrice", "twice thrice", "thrice once", "thrice four"]
    assert sorted(encoder.terms) == ["four", "once", "thrice", "twice"]


def test_keywords_none_fits_on_the_candidates():
    texts = ["yeast makes gas and gas makes bread rise", "the river rose after rain", "yeast yeast"]
    own = cr.CausalReranker(ENCODER, method="hybrid").rank("why does bread rise", texts)
    kw = cr.TfidfKeywords.fit(texts)
    fitted = cr.CausalReranker(ENCODER, kw, method="hybrid").rank("why does bread rise", texts)
    assert [(r.index, r.score, r.residual) for r in own] == [
        (r.index, r.score, r.residual) for r in fitted
    ]


@pytest.mark.parametrize("method", CAUSAL_METHODS)
def test_an_empty_b_follows_every_b_even_one_with_a_negative_cosine(method):
    encoder = TableEncoder(
        {"q": (1, 0, 0), "bad": (-1, 0, 0), "worse": (-0.9, 0.1, 0), "q:2": (1, 0, 0)}
    )
    rr = cr.CausalReranker(encoder, Written(), method=method)
    ranking = rr.rank("q", ["q", "bad", "q:2", "worse"], scores=[9, 1, 8, 2])
    assert {r.doc_id for r in ranking[:2]} == {"1", "3"}
    assert ids(ranking)[2:] == ["0", "2"]
    for ranked in ranking[2:]:
        assert ranked.causal == 0.0
        assert not ranked.residual
        assert any("empty B" in flag for flag in ranked.flags)
    assert not ranking[0].flags


def test_fallback_orders_documents_with_an_empty_b_by_similarity_among_themselves():
    rr = reranker("causal_fallback", absorption="exact")
    ranking = rr.rank("q", ["q", "a", "q:2", "q:3"], scores=[0.1, -5, 0.3, 0.2])
    assert ids(ranking) == ["1", "2", "3", "0"]
    assert [r.score for r in ranking[1:]] == [0.3, 0.2, 0.1]
    plain = reranker("causal", absorption="exact")
    assert ids(plain.rank("q", ["q", "a", "q:2"], scores=[1, 2, 3])) == ["1", "0", "2"]


def test_an_empty_b_takes_no_part_in_the_min_max():
    texts, scores = ["a", "b", "c"], [0.2, 0.5, 0.3]
    rr = reranker("hybrid", absorption="exact")
    alone = {r.text: r.score for r in rr.rank("q", texts, scores=scores)}
    beside = rr.rank("q", ["q", *texts], scores=[99, *scores])
    assert {r.text: r.score for r in beside[:3]} == alone
    assert beside[3].score == 0.0
