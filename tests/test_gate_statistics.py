"""The label-free statistics against their definitions, and the area under the curve by counting."""

from collections import Counter

import numpy as np
import pytest
from reranking import TableEncoder
from scipy.stats import mannwhitneyu

import causalrag as cr
from causalrag import gate

# bread and loaf are near; gas, oven and dough are near no word of the query.
ENCODER = TableEncoder(
    {"bread": (1.0, 0.0, 0.0), "loaf": (0.8, 0.6, 0.0), "heat": (0.0, -1.0, 0.0)}
)
TEXTS = [
    "bread bread bread oven",
    "loaf loaf gas gas dough",
    "gas dough oven",
    "",
]
KEYWORDS = cr.TfidfKeywords.fit(TEXTS, top_document=2)
QUERY = "bread heat"


def ranked(texts=TEXTS, query=QUERY, scores=None, keywords=KEYWORDS, **options):
    return cr.CausalReranker(ENCODER, keywords, **options).rank(query, texts, scores=scores)


def test_the_statistics_of_a_candidate_by_hand():
    frame = gate.candidate_statistics(ranked(), KEYWORDS)
    assert list(frame.columns) == ["index", "overlap", "shared_weight", "excess_repetition"]
    assert frame["index"].tolist() == [0, 1, 2, 3]
    # heat is in no document; bread in the first, and loaf is no equal term.
    assert frame["overlap"].tolist() == [0.5, 0.0, 0.0, 0.0]
    bread, oven = 3 * KEYWORDS.idf("bread"), KEYWORDS.idf("oven")
    loaf, gas = 2 * KEYWORDS.idf("loaf"), 2 * KEYWORDS.idf("gas")
    assert frame["shared_weight"].tolist() == pytest.approx(
        [bread / (bread + oven), loaf / (loaf + gas), 0.0, 0.0]
    )
    # bread thrice among four tokens, loaf twice among five: what is written once is no excess.
    assert frame["excess_repetition"].tolist() == pytest.approx([2 / 4, 1 / 5, 0.0, 0.0])


def test_a_token_outside_the_keywords_is_absorbed_too_but_not_by_the_quick_definition():
    texts = ["loaf loaf gas gas gas oven oven oven"]  # loaf is the lightest of three, two are kept
    keywords = cr.TfidfKeywords({"loaf": 1.0, "gas": 1.0, "oven": 1.0}, 1, top_document=2)
    ranking = ranked(texts, keywords=keywords)
    assert set(ranking[0].residual) == {"gas", "oven"}
    full = gate.candidate_statistics(ranking, keywords)
    quick = gate.candidate_statistics(ranking, keywords, absorbed="keywords")
    assert full["excess_repetition"].tolist() == [1 / 8]
    assert quick["excess_repetition"].tolist() == [0.0]
    assert full["shared_weight"].tolist() == quick["shared_weight"].tolist() == [0.0]


@pytest.mark.parametrize("absorbed", ["tokens", "keywords"])
def test_exact_absorption_absorbs_equal_terms_only(absorbed):
    ranking = ranked(absorption="exact")
    frame = gate.candidate_statistics(ranking, KEYWORDS, absorbed=absorbed)
    assert frame["excess_repetition"].tolist() == pytest.approx([2 / 4, 0.0, 0.0, 0.0])
    assert frame["shared_weight"][1] == 0.0


def test_a_query_keyword_is_absorbed_even_where_its_vector_is_zero():
    encoder = TableEncoder({"bread": (0.0, 0.0, 0.0)})
    ranking = cr.CausalReranker(encoder, KEYWORDS).rank("bread", ["bread bread oven"])
    assert gate.candidate_statistics(ranking, KEYWORDS)["excess_repetition"].tolist() == [1 / 3]


def test_real_documents_have_the_statistics_that_equation_3_gives_them():
    corpus = cr.datasets.opening()
    encoder, keywords = cr.load_encoder("use"), cr.TfidfKeywords.fit(corpus.texts)
    for theme in corpus.themes:
        ranking = cr.CausalReranker(encoder, keywords).rank(theme.query, theme.documents, top_k=2)
        frame = gate.candidate_statistics(ranking, keywords)
        assert len(frame) == len(theme.documents)  # the cut is of the output only
        query = keywords.query(theme.query)
        for index, document in enumerate(theme.documents):
            tokens = keywords.tokens(document.full_text)
            words = keywords.document(document.full_text)
            part = cr.partition(query, words, encoder)
            every = cr.partition(query, dict.fromkeys(tokens, 1.0), encoder).shared
            counts = Counter(token for token in tokens if token in every)
            assert frame.loc[index].tolist() == pytest.approx(
                [
                    index,
                    len(set(query) & set(words)) / len(query),
                    sum(part.shared.values()) / sum(words.values()),
                    (counts.total() - len(counts)) / len(tokens),
                ]
            )


def test_stuffed_documents_repeat_themselves_more_than_the_others():
    corpus = cr.datasets.opening()
    keywords = cr.TfidfKeywords.fit(corpus.texts)
    stuffed, others = [], []
    for theme in corpus.themes:
        ranking = cr.CausalReranker("use", keywords).rank(theme.query, theme.documents)
        frame = gate.candidate_statistics(ranking, keywords)
        for document, excess in zip(theme.documents, frame["excess_repetition"], strict=True):
            (stuffed if document.role == "stuffed" else others).append(excess)
    assert min(stuffed) > max(others)


def test_the_means_are_over_the_top_of_the_first_stage_not_of_the_re_ranking():
    scores = [0.1, 0.5, 0.4, 0.2]
    for method in ("similarity", "causal", "hybrid"):
        found = gate.statistics(ranked(scores=scores, method=method), KEYWORDS, top=2)
        frame = gate.candidate_statistics(ranked(), KEYWORDS).loc[[1, 2]]
        assert found.n == 2
        assert found.top_gap == pytest.approx(0.2)
        for name in ("overlap", "shared_weight", "excess_repetition"):
            assert getattr(found, name) == pytest.approx(frame[name].mean())
        assert found.largest_excess_repetition == frame["excess_repetition"].max() > 0
    assert gate.statistics(ranked(), KEYWORDS).n == 4


@pytest.mark.parametrize(
    ("scores", "gap"),
    [([2.0, 1.0, 2.0, 0.0], 0.0), ([0.0, -1.0, -2.0, -3.0], 0.0), ([-1.0, -2.0, -3.0, -4.0], 0.0)],
)
def test_the_gap_is_zero_for_ties_and_where_no_score_is_above_zero(scores, gap):
    assert gate.statistics(ranked(scores=scores), KEYWORDS).top_gap == gap


def test_what_is_empty_counts_zero_and_never_nan():
    one = gate.statistics(ranked(["gas"], scores=[0.7]), KEYWORDS)
    assert (one.top_gap, one.n) == (0.0, 1)
    nothing = gate.candidate_statistics(ranked(["", "the of"], query="the of"), KEYWORDS)
    assert (nothing[["overlap", "shared_weight", "excess_repetition"]] == 0).all(axis=None)
    assert len(gate.candidate_statistics(ranked([]), KEYWORDS)) == 0
    with pytest.raises(ValueError, match="has no candidate"):
        gate.statistics(ranked([]), KEYWORDS)


def test_a_title_counts_as_text():
    document = {"title": "bread bread", "text": "oven oven"}
    frame = gate.candidate_statistics(ranked([document]), KEYWORDS)
    assert frame["excess_repetition"].tolist() == [1 / 4]


def test_an_extractor_of_two_methods_is_enough():
    class Plain:
        __slots__ = ()  # cannot be referred to weakly: nothing is remembered of it

        def document(self, text):
            return KEYWORDS.document(text)

        def query(self, text):
            return KEYWORDS.query(text)

    plain = Plain()
    frame = gate.candidate_statistics(ranked(keywords=plain), plain)
    assert frame.equals(gate.candidate_statistics(ranked(), KEYWORDS))


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"ranking is a list; give what CausalReranker\.rank"):
        gate.candidate_statistics(list(ranked()), KEYWORDS)
    with pytest.raises(ValueError, match="unknown absorbed 'all'; known: tokens, keywords"):
        gate.candidate_statistics(ranked(), KEYWORDS, absorbed="all")
    with pytest.raises(TypeError, match=r"without \.document"):
        gate.candidate_statistics(ranked(), object())
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        gate.statistics(ranked(), KEYWORDS, top=0)


# auc


def test_the_area_counts_pairs_with_ties_half():
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.integers(0, 6, 9), rng.integers(0, 5, 14)
        found = gate.auc(a, b)
        pairs = np.mean([(x > y) + 0.5 * (x == y) for x in a for y in b])
        assert found.value == pytest.approx(pairs)
        assert found.value == pytest.approx(mannwhitneyu(a, b).statistic / (9 * 14))
        assert (found.n, found.n_positive, found.n_negative) == (23, 9, 14)
        assert found.low <= found.value <= found.high
        assert gate.auc(b, a).value == pytest.approx(1 - pairs)


def test_the_interval_covers_the_true_area_about_as_often_as_it_says():
    rng, covered, wide = np.random.default_rng(1), 0, 0
    for _ in range(150):
        found = gate.auc(rng.normal(0.5, 1, 30), rng.normal(0, 1, 40), n_boot=300)
        covered += found.low <= 0.6382 <= found.high  # Phi(0.5 / sqrt 2)
        wide += found.high - found.low > 0.4
    assert 0.89 <= covered / 150 <= 1
    assert wide == 0


def test_the_interval_follows_level_and_seed():
    a, b = np.arange(20.0), np.arange(20.0) - 3.5
    assert gate.auc(a, b, seed=1) == pytest.approx(gate.auc(a, b, seed=1))
    assert gate.auc(a, b, seed=1).low != gate.auc(a, b, seed=2).low
    assert gate.auc(a, b, level=0.5).low > gate.auc(a, b, level=0.99).low


def test_groups_apart_prove_only_as_much_as_their_number():
    small, large = gate.auc([3.0, 4.0], [1.0, 2.0]), gate.auc(np.arange(50) + 60.0, np.arange(50))
    assert small.value == large.value == 1.0
    assert (small.low, small.high) == (pytest.approx(0.025 ** (1 / 2)), 1.0)
    assert large.low == pytest.approx(0.025 ** (1 / 50))
    flat = gate.auc([0.0] * 8, [0.0] * 30)
    assert flat.value == 0.5
    assert flat.low < 0.5 < flat.high


# Hard case 29, for the area: one value has no spread.
def test_hard_case_29_a_group_of_one_leaves_everything_open():
    found = gate.auc([5.0], np.arange(40.0))
    assert (found.low, found.high) == (0.0, 1.0)
    assert 0 < found.value < 1


# Hard case 28: a group that never ran.
@pytest.mark.parametrize(
    ("positive", "negative", "message"),
    [
        ([], [1.0], "positive is empty; give at least one value"),
        ([1.0], [], "negative is empty"),
        ([1.0, np.nan], [1.0], "positive is nan at row 1"),
        ([1.0], [-np.inf], "negative is -inf at row 0"),
        ([[1.0]], [1.0], "positive must be 1-d"),
    ],
)
def test_hard_case_28_empty_groups_and_nan_are_refused(positive, negative, message):
    with pytest.raises(ValueError, match=message):
        gate.auc(positive, negative)
    with pytest.raises(ValueError, match="level must lie"):
        gate.auc([1.0], [2.0], level=1)
    with pytest.raises(ValueError, match="n_boot is 1; give at least 100"):
        gate.auc([1.0], [2.0], n_boot=1)
    with pytest.raises(TypeError, match="negative is None"):
        gate.auc([1.0], None)
