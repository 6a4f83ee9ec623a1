"""The re-ranking rule against the equations, a plain re-implementation and the hard cases 10-26."""

import copy
import hashlib
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalrag as cr
from causalrag.rerank import METHODS

CAUSAL_METHODS = [method for method in METHODS if method != "similarity"]
MODES = ["semantic", "exact"]


class HashEncoder:
    """A random unit vector for each (role, text), the same in every run."""

    def __init__(self, size=6, by_role=True):
        self.size = size
        self.by_role = by_role
        self.fingerprint = f"hash-{size}-{by_role}"

    def encode(self, texts, role="document"):
        return np.array([self.vector(text, role) for text in texts], dtype=np.float32).reshape(
            len(texts), self.size
        )

    def vector(self, text, role):
        key = f"{role if self.by_role else ''}|{text}".encode()
        seed = int.from_bytes(hashlib.sha256(key).digest()[:8], "little")
        vector = np.random.default_rng(seed).normal(size=self.size)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class TableEncoder:
    """The vectors of a table; what is not in it gets the default."""

    def __init__(self, table, default=(0.0, 0.0, 1.0)):
        self.table = table
        self.default = default
        self.fingerprint = f"table-{sorted(table.items())}-{default}"

    def encode(self, texts, role="document"):
        return np.array([self.table.get(text, self.default) for text in texts], dtype=np.float32)


class Written:
    """Keywords written into the text: ``"gas:0.5 yeast"`` has gas at 0.5 and yeast at 1."""

    def document(self, text):
        words = {}
        for part in text.split():
            term, _, weight = part.partition(":")
            words[term] = float(weight or 1)
        return words

    query = document


ENCODER = HashEncoder()


def reranker(method="causal", encoder=ENCODER, **options):
    return cr.CausalReranker(encoder=encoder, keywords=Written(), method=method, **options)


def ids(ranking):
    return [ranked.doc_id for ranked in ranking]


# An independent implementation in plain Python, one document at a time.


def plain_cosine(a, b):
    a, b = [float(x) for x in a], [float(x) for x in b]
    norm = math.sqrt(math.fsum(x * x for x in a) * math.fsum(x * x for x in b))
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / norm if norm else 0.0


def plain_partition(query_words, words, encoder, tau, absorption):
    shared, residual = {}, {}
    for term, weight in words.items():
        nearest = max(
            (plain_cosine(encoder.vector(term, "term"), encoder.vector(u, "term")))
            for u in query_words
        )
        absorbed = term in query_words or (absorption == "semantic" and nearest >= tau)
        (shared if absorbed else residual)[term] = weight
    return shared, residual


def plain_causal(query_vector, residual, encoder):
    if not residual:
        return 0.0
    total = math.fsum(residual.values())
    middle = [
        math.fsum(w * float(encoder.vector(t, "term")[i]) for t, w in residual.items()) / total
        for i in range(len(query_vector))
    ]
    return plain_cosine(query_vector, middle)


def plain_minmax(values):
    # Constant up to rounding: two weights for one and the same word give one and the same cosine.
    low, high = min(values), max(values)
    return [0.0 if high - low < 1e-12 else (value - low) / (high - low) for value in values]


def plain_rank(query, texts, encoder, tau, absorption, method):
    """Return (index, score) in ranked order."""
    query_vector, query_words = encoder.vector(query, "query"), Written().query(query)
    base = [plain_cosine(query_vector, encoder.vector(text, "document")) for text in texts]
    residual = [
        plain_partition(query_words, Written().document(text), encoder, tau, absorption)[1]
        for text in texts
    ]
    causal = [plain_causal(query_vector, words, encoder) for words in residual]
    filled = [i for i in range(len(texts)) if residual[i]]
    if method == "similarity":
        score, filled = base, list(range(len(texts)))
    elif method == "causal":
        score = causal
    elif method == "causal_fallback":
        score = [causal[i] if residual[i] else base[i] for i in range(len(texts))]
    else:
        score = [0.0] * len(texts)
        if filled:
            scaled = zip(
                plain_minmax([base[i] for i in filled]),
                plain_minmax([causal[i] for i in filled]),
                strict=True,
            )
            for i, (first, second) in zip(filled, scaled, strict=True):
                score[i] = 0.5 * first + 0.5 * second
    order = sorted(range(len(texts)), key=lambda i: (i not in filled, -score[i], i))
    return [(i, score[i]) for i in order]


TERMS = [f"t{i}" for i in range(12)]
WEIGHTS = st.floats(0.1, 5.0).map(lambda value: round(value, 3))
KEYWORDS = st.dictionaries(st.sampled_from(TERMS), WEIGHTS, min_size=1, max_size=6)
TEXTS = KEYWORDS.map(lambda words: " ".join(f"{t}:{w}" for t, w in words.items()))
CANDIDATES = st.lists(TEXTS, min_size=1, max_size=8)
TAUS = st.sampled_from([-0.5, 0.0, 0.3, 0.6, 0.9])
# No deadline: the first example pays for imports.
steady = settings(deadline=None, max_examples=50)


# Eqs. 3-5


@pytest.mark.parametrize("absorption", MODES)
@steady
@given(query=KEYWORDS, document=KEYWORDS, tau=TAUS)
def test_partition_and_score_equal_the_plain_implementation(absorption, query, document, tau):
    part = cr.partition(query, document, ENCODER, tau=tau, absorption=absorption)
    shared, residual = plain_partition(query, document, ENCODER, tau, absorption)
    assert dict(part.shared) == shared
    assert dict(part.residual) == residual
    vector = ENCODER.vector("the query", "query")
    expected = plain_causal(vector, residual, ENCODER)
    assert cr.causal_score(vector, part.residual, ENCODER) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("absorption", MODES)
@pytest.mark.parametrize("method", METHODS)
@steady
@given(query=TEXTS, texts=CANDIDATES, tau=TAUS)
def test_rank_equals_the_plain_implementation(absorption, method, query, texts, tau):
    ranking = reranker(method, tau=tau, absorption=absorption).rank(query, texts)
    expected = plain_rank(query, texts, ENCODER, tau, absorption, method)
    assert [r.score for r in ranking] == pytest.approx([s for _, s in expected], abs=1e-6)
    by_index = dict(expected)
    assert sorted(r.index for r in ranking) == sorted(by_index)
    for ranked in ranking:
        assert ranked.score == pytest.approx(by_index[ranked.index], abs=1e-6)


@steady
@given(query=KEYWORDS, document=KEYWORDS, tau=TAUS)
def test_a_and_b_partition_the_document_keywords_and_exact_a_is_within_semantic_a(
    query, document, tau
):
    semantic = cr.partition(query, document, ENCODER, tau=tau)
    exact = cr.partition(query, document, ENCODER, tau=tau, absorption="exact")
    for part in (semantic, exact):
        assert {**part.shared, **part.residual} == document
        assert not set(part.shared) & set(part.residual)
        assert set(part.reasons) == set(part.shared)
    assert set(exact.shared) <= set(semantic.shared)
    assert set(exact.shared) == set(document) & set(query)


@steady
@given(query=KEYWORDS, document=KEYWORDS)
def test_a_grows_as_tau_falls(query, document):
    parts = [cr.partition(query, document, ENCODER, tau=tau) for tau in (1, 0.9, 0.6, 0.2, -1)]
    for stricter, looser in itertools.pairwise(parts):
        assert set(stricter.shared) <= set(looser.shared)
    assert not parts[-1].residual


@steady
@given(query=KEYWORDS, document=KEYWORDS, scale=st.floats(1e-6, 1e6))
def test_scaling_all_weights_changes_neither_sets_nor_score(query, document, scale):
    scaled = {term: weight * scale for term, weight in document.items()}
    part, again = (cr.partition(query, words, ENCODER) for words in (document, scaled))
    assert list(part.residual) == list(again.residual)
    vector = ENCODER.vector("q", "query")
    assert cr.causal_score(vector, again.residual, ENCODER) == pytest.approx(
        cr.causal_score(vector, part.residual, ENCODER), abs=1e-12
    )


@steady
@given(residual=KEYWORDS, scale=st.floats(1e-3, 1e3))
def test_causal_score_is_a_cosine_and_ignores_the_query_vector_s_length(residual, scale):
    vector = ENCODER.vector("q", "query").astype(float)
    score = cr.causal_score(vector, residual, ENCODER)
    assert -1 <= score <= 1
    assert cr.causal_score(vector * scale, residual, ENCODER) == pytest.approx(score, abs=1e-9)


def test_centroid_is_the_weighted_mean_by_hand():
    encoder = TableEncoder({"a": (1, 0, 0), "b": (0, 1, 0)})
    assert cr.centroid({"a": 3.0, "b": 1.0}, encoder) == pytest.approx([0.75, 0.25, 0.0])
    assert cr.centroid({}, encoder) is None
    assert cr.causal_score([2, 0, 0], {"a": 3.0, "b": 1.0}, encoder) == pytest.approx(
        0.75 / math.hypot(0.75, 0.25)
    )


@pytest.mark.parametrize("tau", [0.6, 0.7, 0.8, 1.0])
def test_a_term_at_exactly_tau_is_absorbed_and_one_just_below_is_not(tau):
    at, below = (tau, math.sqrt(1 - tau**2), 0), (tau - 1e-4, math.sqrt(1 - (tau - 1e-4) ** 2), 0)
    encoder = TableEncoder({"u": (1, 0, 0), "at": at, "below": below})
    part = cr.partition({"u": 1.0}, {"at": 1.0, "below": 1.0}, encoder, tau=tau)
    assert list(part.shared) == ["at"]
    assert list(part.residual) == ["below"]


def test_reasons_name_the_nearest_query_term_and_the_cosine():
    encoder = TableEncoder({"dog": (1, 0, 0), "cat": (0, 1, 0), "hound": (0.8, 0.6, 0)})
    words = {"hound": 1.0, "cat": 2.0, "sky": 3.0}
    part = cr.partition({"cat": 1.0, "dog": 1.0}, words, encoder, tau=0.6)
    assert part.reasons["hound"] == ("dog", pytest.approx(0.8))
    assert part.reasons["hound"].query_term == "dog"
    assert part.reasons["cat"] == ("cat", 1.0)
    assert dict(part.residual) == {"sky": 3.0}


def test_without_query_keywords_nothing_is_absorbed():
    part = cr.partition({}, {"a": 1.0}, ENCODER, tau=-1)
    assert dict(part.residual) == {"a": 1.0}


def test_exact_absorption_needs_no_encoder():
    part = cr.partition({"a": 1.0}, {"a": 1.0, "b": 1.0}, None, absorption="exact")
    assert (list(part.shared), list(part.residual)) == (["a"], ["b"])


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


@steady
@given(
    st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(-1, 1)), min_size=1, max_size=9),
    st.floats(0, 1),
)
def test_hybrid_lies_between_0_and_1(pairs, weight):
    result = cr.hybrid(*zip(*pairs, strict=True), weight=weight)
    assert ((result >= 0) & (result <= 1)).all()


# Ranking


@pytest.mark.parametrize("method", METHODS)
@steady
@given(data=st.data(), query=TEXTS)
def test_permuting_the_candidates_permutes_the_ranking(method, data, query):
    texts = data.draw(st.lists(TEXTS, min_size=1, max_size=7, unique=True))
    documents = [{"id": text, "text": text} for text in texts]
    shuffled = data.draw(st.permutations(documents))
    first, second = (reranker(method).rank(query, docs) for docs in (documents, shuffled))
    scores = {r.doc_id: r.score for r in first}
    assert {r.doc_id: r.score for r in second} == scores
    if len(set(scores.values())) == len(scores):
        assert ids(first) == ids(second)


@pytest.mark.parametrize("method", METHODS)
@steady
@given(query=TEXTS, texts=CANDIDATES, tau=TAUS)
def test_no_nan_leaves_a_ranking_and_its_parts_agree(method, query, texts, tau):
    for ranked in reranker(method, tau=tau).rank(query, texts):
        assert math.isfinite(ranked.score)
        assert math.isfinite(ranked.base)
        assert -1 <= ranked.causal <= 1
        assert math.fsum(ranked.contributions.values()) == pytest.approx(ranked.causal, abs=1e-9)
        assert set(ranked.contributions) == set(ranked.residual)
        assert {**ranked.shared, **ranked.residual} == Written().document(ranked.text)
        assert ranked.explain()


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
        ({"method": "adjusted"}, ValueError, "known: similarity, causal, causal_fallback, hybrid"),
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


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_keyword_weights_that_are_not_positive_numbers_are_refused(weight):
    with pytest.raises(ValueError, match=r"weight of .*b"):
        cr.partition({"a": 1.0}, {"b": weight}, ENCODER)
    with pytest.raises(ValueError, match=r"weight of .*b"):
        cr.centroid({"b": weight}, ENCODER)


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


# Empty B


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


# Hard cases, by their number


def test_hard_case_10_a_zero_vector_scores_0_and_is_flagged():
    encoder = TableEncoder({"q": (1, 0, 0), "void": (0, 0, 0), "thing": (1, 0, 0)})
    rr = cr.CausalReranker(encoder, Written(), method="hybrid")
    ranking = rr.rank("q", ["void", "thing"])
    void = next(r for r in ranking if r.text == "void")
    assert (void.base, void.causal) == (0.0, 0.0)
    assert any("zero vector" in flag for flag in void.flags)
    assert any("zero centroid" in flag for flag in void.flags)
    assert cr.partition({"thing": 1.0}, {"void": 1.0}, encoder, tau=0.1).residual == {"void": 1.0}
    assert cr.partition({"void": 1.0}, {"void": 2.0}, encoder, tau=0.1).shared == {"void": 2.0}
    zero_query = cr.CausalReranker(encoder, Written(), method="causal").rank("void", ["thing"])
    assert zero_query[0].causal == 0.0
    assert any("zero query vector" in flag for flag in zero_query.flags)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("broken", ["query", "document", "term"])
def test_hard_case_10_nan_or_inf_from_an_encoder_is_refused_by_text(bad, broken):
    class Broken(HashEncoder):
        fingerprint = None

        def __init__(self):
            self.size, self.by_role = 6, True

        def encode(self, texts, role="document"):
            rows = super().encode(texts, role)
            rows[0, 1] = bad if role == broken else rows[0, 1]
            return rows

    with pytest.raises(ValueError, match=r"not finite .*(yeast|gas)"):
        reranker("hybrid", encoder=Broken()).rank("yeast", ["gas"])


def test_hard_case_10_other_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"documents\[0\].* has 3 dimensions, expected 6"):
        reranker("similarity").rank("q", [{"text": "a", "vector": [1.0, 0, 0]}])
    with pytest.raises(ValueError, match="dimensions"):
        cr.causal_score([1.0, 0.0], {"a": 1.0}, ENCODER)


def test_hard_case_11_empty_b_zero_weights_and_cancelling_vectors_are_defined():
    encoder = TableEncoder({"q": (1, 0, 0), "plus": (0, 1, 0), "minus": (0, -1, 0)})
    assert cr.causal_score([1, 0, 0], {}, encoder) == 0.0
    assert cr.causal_score([1, 0, 0], {"plus": 0.0, "minus": 0.0}, encoder) == 0.0
    assert cr.centroid({"plus": 0.0}, encoder) is None
    assert cr.causal_score([1, 0, 0], {"plus": 0.3, "minus": 0.3}, encoder) == 0.0
    # 0.1 + 0.2 - 0.3 leaves a rounding error, whose direction means nothing.
    table = {"a": (1, 0, 0), "b": (1, 0, 0), "c": (-1, 0, 0)}
    nearly = cr.causal_score([1, 0, 0], {"a": 0.1, "b": 0.2, "c": 0.3}, TableEncoder(table))
    assert nearly == 0.0
    assert cr.causal_score([0, 0, 0], {"plus": 1.0}, encoder) == 0.0
    ranking = cr.CausalReranker(encoder, Written(), method="causal").rank("q", ["plus minus", "q"])
    assert ids(ranking) == ["0", "1"]
    assert ranking[0].contributions == {"plus": 0.0, "minus": 0.0}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("blank", ["", "  \n\t", {"text": " ", "title": None}])
def test_hard_case_12_an_empty_document_is_never_above_content(method, blank):
    class Opposed(HashEncoder):
        """Content is opposite to the query, blank text would be equal to it."""

        fingerprint = "opposed"

        def encode(self, texts, role="document"):
            sign = [-1.0 if text.strip() and role != "query" else 1.0 for text in texts]
            return np.outer(sign, np.ones(6))

    rr = cr.CausalReranker(Opposed(), Written(), tau=1.0, method=method)
    for options in ({}, {"scores": [100, 1, 2]}):
        ranking = rr.rank("q", [blank, "a", "q"], **options)
        assert ranking[-1].index == 0
        assert any("empty document" in flag for flag in ranking[-1].flags)


@pytest.mark.parametrize("times", [2, 10, 100])
def test_hard_case_13_repeating_a_terms_with_the_keyword_set_fixed_changes_nothing(times):
    class Sets(Written):
        """The set of words, whatever their number."""

        def document(self, text):
            return dict.fromkeys(text.split(), 1.0)

        query = document

    for method in ("causal", "hybrid"):
        rr = cr.CausalReranker(ENCODER, Sets(), method=method)
        scores = [0.5, 0.4, 0.1]
        plain = rr.rank("yeast gas", ["yeast gas bread oven", "rye", "oat"], scores=scores)
        stuffed = rr.rank(
            "yeast gas", ["yeast gas " * times + "bread oven", "rye", "oat"], scores=scores
        )
        assert [(r.index, r.causal, r.score) for r in plain] == [
            (r.index, r.causal, r.score) for r in stuffed
        ]
    part = cr.partition({"yeast": 1.0}, {"yeast": 1.0 * times, "bread": 1.0}, ENCODER)
    assert cr.causal_score(ENCODER.vector("q", "query"), part.residual, ENCODER) == (
        cr.causal_score(ENCODER.vector("q", "query"), {"bread": 1.0}, ENCODER)
    )


def test_hard_case_13_through_a_bounded_extractor_repetition_can_raise_the_score():
    encoder = TableEncoder({"yeast": (1, 0, 0), "gas": (0.5, 0.75**0.5, 0), "stone": (-1, 0, 0)})
    kw = cr.TfidfKeywords.fit(["yeast gas stone"], top_document=2)
    rr = cr.CausalReranker(encoder, kw, method="causal")
    plain, stuffed = (
        rr.rank("yeast", [t])[0] for t in ("gas gas stone", "gas gas stone yeast yeast")
    )
    # The repeated query word enters the two heaviest and pushes out the word that counted against.
    assert (set(plain.residual), set(stuffed.residual)) == ({"gas", "stone"}, {"gas"})
    assert stuffed.causal > plain.causal + 0.4


BREAD = [
    "Yeast eats sugar and gives off carbon dioxide, which gluten traps, so the dough swells.",
    "Knead the dough until it stretches without tearing, then let it rest in a warm place.",
    "A hot oven sets the crumb and browns the crust within half an hour.",
    "Sourdough starters hold wild yeast and bacteria that need feeding with flour each day.",
]


@pytest.mark.parametrize("method", METHODS)
def test_hard_case_14_an_off_topic_document_is_not_first_for_its_length(method):
    long = "The council discussed bus lanes and the repair of the harbour wall. " * 60
    ranking = cr.CausalReranker("use", method=method).rank(
        "why does bread rise", [long, "Harbour.", *BREAD]
    )
    assert {r.index for r in ranking[-2:]} == {0, 1}


@pytest.mark.parametrize("method", ["similarity", "hybrid"])
@pytest.mark.parametrize("query", ["why does bread rise", "面包为什么会膨胀"])
def test_hard_case_15_noise_is_last(method, query):
    ranking = cr.CausalReranker("use", method=method).rank(query, ["127563fge81zgy", *BREAD])
    assert ranking[-1].index == 0
    assert not ranking.flags


def test_hard_case_15_a_flat_spread_is_flagged():
    for scores, flat in (([0.90, 0.901, 0.902], True), ([0.9, 0.8, 0.7], False)):
        flags = reranker("similarity").rank("q", ["a", "b", "c"], scores=scores).flags
        assert bool(flags) is flat


def test_hard_case_16_word_order_is_a_limit_of_cosine_rules():
    ranking = cr.CausalReranker("use", method="hybrid").rank(
        "dog bites man", ["man bites dog", "dog bites man", "the weather is fine"]
    )
    reversed_roles = next(r for r in ranking if r.index == 0)
    assert reversed_roles.base > 0.9
    same = next(r for r in ranking if r.index == 1)
    assert reversed_roles.shared == same.shared


@pytest.mark.parametrize("method", METHODS)
def test_hard_case_17_one_document_one_keyword_and_bounds_of_k(method):
    rr = reranker(method)
    assert ids(rr.rank("yeast", ["gas"])) == ["0"]
    assert len(rr.rank("yeast", ["gas", "rye"], top_k=99)) == 2
    assert len(rr.rank("yeast", ["gas", "rye"], top_k=np.int64(1))) == 1
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"top_k is {k}"):
            rr.rank("yeast", ["gas"], top_k=k)


def test_hard_case_18_metadata_and_ids_are_kept_and_both_scores_are_named():
    documents = [
        {"id": 7, "text": "gas", "source": {"page": 3}},
        SimpleNamespace(text="rye", id="x"),
    ]
    ranking = reranker("hybrid").rank("yeast", documents, scores=[2.0, 1.0])
    by_id = {r.doc_id: r for r in ranking}
    assert by_id[7].document is documents[0]
    assert by_id["x"].document is documents[1]
    assert (by_id[7].base, by_id["x"].base) == (2.0, 1.0)
    assert {"base", "score"} <= set(ranking.to_frame().columns)


@pytest.mark.parametrize("method", METHODS)
def test_hard_case_19_duplicates_tie_in_input_order_and_duplicate_ids_are_refused(method):
    texts = ["gas:2 rye", "oat", "gas:2 rye", "oat", "gas:2 rye"]
    ranking = reranker(method).rank("yeast", texts)
    for text in set(texts):
        same = [r for r in ranking if r.text == text]
        assert len({r.score for r in same}) == 1
        assert [r.index for r in same] == sorted(r.index for r in same)
    for documents in (
        [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}],
        ["x", {"id": "0", "text": "y"}],
    ):
        with pytest.raises(ValueError, match=r"duplicate document id .*documents\[0\]"):
            reranker(method).rank("q", documents)


def test_hard_case_24_a_constant_scorer_keeps_the_input_order_and_is_flagged():
    texts = ["a", "b", "c"]
    ranking = reranker("similarity").rank("q", texts, scores=[3, 3, 3])
    assert ids(ranking) == ["0", "1", "2"]
    assert any("flat base" in flag for flag in ranking.flags)
    constant = TableEncoder({}, default=(0.0, 1.0, 0.0))
    rr = cr.CausalReranker(constant, Written(), absorption="exact", method="hybrid")
    ranking = rr.rank("q", texts)
    assert ids(ranking) == ["0", "1", "2"]
    assert [r.score for r in ranking] == [0, 0, 0]
    assert {flag.split(":")[0] for flag in ranking.flags} == {
        "flat base scores",
        "flat causal scores",
    }
    assert not reranker("similarity").rank("q", texts, scores=[1, 2, 3]).flags
    assert not reranker("similarity").rank("q", ["a"], scores=[1]).flags


def test_hard_case_26_float32_scores_are_cast_and_nan_scores_refused():
    ranking = reranker("hybrid").rank("q", ["a", "b"], scores=np.array([1, 2], dtype=np.float32))
    for ranked in ranking:
        assert type(ranked.score) is float
        assert type(ranked.base) is float
        assert type(ranked.causal) is float
    for bad in (math.nan, math.inf, None):
        with pytest.raises(ValueError, match=r"scores\[1\]"):
            reranker("hybrid").rank("q", ["a", "b"], scores=[1.0, bad])
