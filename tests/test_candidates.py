"""All candidates at once: the same numbers as one by one, whatever the caches hold."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from reranking import HashEncoder, TableEncoder, Written, reranker

import causalrag as cr
from causalrag.encoders import TERM_CACHE, encode_terms
from causalrag.prepared import PAIRED_TERMS, KnownTexts

QUERY = "w1:2 w2 w3"


class Related(HashEncoder):
    """Random vectors of which some lie near each other, in 64 dimensions."""

    def __init__(self, seed=0):
        super().__init__(64, seed=seed)
        self.fingerprint = f"related-{seed}"

    def vector(self, text, role):
        topic = super().vector(f"topic {sum(map(ord, text)) % 7}", "term").astype(float)
        vector = topic + super().vector(text, role)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


def drawn(count, most, seed=0, vocabulary=300):
    """Texts with up to `most` keywords each."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(
            f"w{term}:{rng.uniform(0.1, 3):.3f}"
            for term in rng.choice(vocabulary, rng.integers(1, most + 1), replace=False)
        )
        for _ in range(count)
    ]


def check(ranking, encoder, tau=0.6, absorption="semantic"):
    vector, asked = encoder.vector(ranking.query, "query"), Written().query(ranking.query)
    for ranked in ranking:
        words = Written().document(ranked.text)
        part = cr.partition(asked, words, encoder, tau, absorption)
        assert (ranked.shared, ranked.residual) == (part.shared, part.residual)
        assert ranked.reasons.keys() == part.reasons.keys()
        one = cr.causal_score(vector, part.residual, encoder)
        assert ranked.causal == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize("absorption", ["semantic", "exact"])
@pytest.mark.parametrize("tau", [-1, 0.3, 0.6])
def test_texts_with_few_and_with_many_keywords_are_scored_alike(tau, absorption):
    encoder = Related()
    texts = [*drawn(20, 15), *drawn(10, 2 * PAIRED_TERMS, seed=1), *drawn(5, 250, seed=2)]
    assert max(len(text.split()) for text in texts) > 2 * PAIRED_TERMS
    rr = reranker("causal", encoder, tau=tau, absorption=absorption)
    check(rr.rank(QUERY, texts), encoder, tau, absorption)


def test_centroids_that_nearly_cancel_are_added_up_exactly():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(40, 64))
    table = {}
    for place, vector in enumerate(vectors):
        table[f"p{place}"] = tuple(vector)
        table[f"m{place}"] = tuple(-vector + 10.0 ** -(place % 8) * rng.normal(size=64))
    encoder = TableEncoder(table, default=tuple(rng.normal(size=64)))
    texts = [f"p{i}:0.3 m{i}:0.3" for i in range(40)]
    lengths = [np.linalg.norm(cr.centroid(Written().document(text), encoder)) for text in texts]
    assert min(lengths) < 1e-6
    ranking = cr.CausalReranker(encoder, Written(), method="causal").rank("q", texts)
    query = cr.load_encoder(encoder).encode(["q"])[0]
    for ranked in ranking:
        one = cr.causal_score(query, ranked.residual, encoder)
        assert ranked.causal == pytest.approx(one, abs=1e-9)


def test_a_cosine_within_float32_of_tau_is_decided_in_float64():
    size, tau = 512, 0.6
    rng = np.random.default_rng(4)
    query, *others = np.linalg.qr(rng.normal(size=(size, 40)))[0].T
    # The threshold is 2e-7 below tau; float32 products are about 3e-8 off.
    cosines = tau + np.concatenate([[-1e-5, -1e-6, 1e-6, 1e-5], rng.uniform(-3e-7, -1e-7, 796)])
    table = {"q": tuple(query)}
    for place, cosine in enumerate(cosines):
        other = others[place % len(others)]
        table[f"t{place}"] = tuple(cosine * query + np.sqrt(1 - cosine**2) * other)
    encoder = TableEncoder(table, default=tuple(others[0]))
    texts = [" ".join(f"t{8 * i + j}" for j in range(8)) for i in range(100)]
    ranking = cr.CausalReranker(encoder, Written(), tau=tau, method="causal").rank("q", texts)
    shared = set()
    for ranked in ranking:
        part = cr.partition({"q": 1.0}, Written().document(ranked.text), encoder, tau)
        assert (ranked.shared, ranked.residual) == (part.shared, part.residual)
        shared |= set(ranked.shared)
    assert {"t2", "t3"} <= shared
    assert not shared & {"t0", "t1"}
    assert 200 < len(shared) < 600


def test_weights_near_the_end_of_float64_s_range_lose_no_digits():
    encoder = TableEncoder({"q": (1, 0, 0), "a": (0.6, 0.8, 0), "b": (0, 0, 0)})
    documents = ["a:1e-160 b:1e-320", "a:1e-300", "a:1e300 b:1e300", "a:1e300 q:1e-300"]
    ranking = cr.CausalReranker(encoder, Written(), tau=0.9, method="causal").rank("q", documents)
    assert {round(ranked.causal, 6) for ranked in ranking} == {0.6}


@pytest.mark.parametrize("method", ["causal", "hybrid", "similarity"])
def test_equal_documents_tie_exactly_wherever_they_stand(method):
    distinct = drawn(60, 15)
    order = np.random.default_rng(5).permutation(600) % 60
    ranking = reranker(method, Related()).rank(QUERY, [distinct[i] for i in order])
    scores = {}
    for ranked in ranking:
        scores.setdefault(ranked.text, set()).add((ranked.score, ranked.causal, ranked.base))
    assert len(scores) == 60
    assert {len(each) for each in scores.values()} == {1}


def test_equal_vectors_under_other_words_tie_exactly():
    vectors = np.random.default_rng(6).normal(size=(5, 512))
    table = {f"w{i}": tuple(vectors[i % 5]) for i in range(300)}
    encoder = TableEncoder(table, default=tuple(vectors[0] + vectors[1]))
    texts = [f"w{i} w{(i + 1) % 300}" for i in range(300)]
    ranking = cr.CausalReranker(encoder, Written(), tau=1.0, method="causal").rank("q", texts)
    assert len({ranked.causal for ranked in ranking}) == 5


def test_terms_of_other_texts_in_the_table_change_nothing():
    texts, rr = drawn(50, 15), reranker("causal", Related(seed=1))
    alone = [(r.index, r.score) for r in rr.rank(QUERY, texts)]
    encode_terms(rr.encoder, [f"other{i}" for i in range(3000)])
    assert [(r.index, r.score) for r in rr.rank(QUERY, texts)] == alone
    assert [(r.index, r.score) for r in reranker("causal", Related(1)).rank(QUERY, texts)] == alone


def test_what_was_remembered_of_texts_is_renewed_when_the_cache_is_cleared():
    class Learning(Related):
        """Without a fingerprint of its own, so that its vectors may change."""

        def __init__(self):
            super().__init__()
            self.fingerprint = None

    encoder, texts = Learning(), drawn(20, 15)
    rr = reranker("causal", encoder)
    check(rr.rank(QUERY, texts), encoder)
    encoder.seed = 8
    TERM_CACHE.clear()
    check(rr.rank(QUERY, texts), encoder)


def test_a_table_that_forgets_gives_right_scores(monkeypatch):
    encoder, rr = Related(seed=2), reranker("causal", Related(seed=2))
    groups = [drawn(12, 15, seed=seed) for seed in range(4)]
    used = {term for text in groups[0] for term in Written().document(text)}
    TERM_CACHE.clear()
    monkeypatch.setattr(TERM_CACHE, "max_bytes", 4 * 64 * (len(used) + 20))
    for turn in range(3):
        for texts in groups:
            check(rr.rank(f"{QUERY} w{turn}", texts), encoder)
            assert TERM_CACHE.nbytes <= TERM_CACHE.max_bytes
    # Too little for the terms of one query.
    monkeypatch.setattr(TERM_CACHE, "max_bytes", 4 * 64 * 5)
    for texts in groups:
        check(rr.rank(QUERY, texts), encoder)
        assert TERM_CACHE.nbytes <= TERM_CACHE.max_bytes


def test_threads_that_share_a_reranker_and_a_small_cache_get_their_own_scores(monkeypatch):
    rr = reranker("causal", Related(seed=3))
    groups = [drawn(12, 15, seed=seed, vocabulary=60 + 40 * seed) for seed in range(4)]
    expected = [[(r.index, r.score) for r in rr.rank(QUERY, texts)] for texts in groups]
    monkeypatch.setattr(TERM_CACHE, "max_bytes", 4 * 64 * 80)

    def work(number):
        return [
            [(r.index, r.score) for r in rr.rank(QUERY, groups[number])] == expected[number]
            for _ in range(15)
        ]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(each) for each in pool.map(work, [0, 1, 2, 3]))


def test_only_new_texts_and_terms_cost_an_extraction_and_an_encoding():
    class Counting(Related):
        def __init__(self):
            super().__init__()
            self.fingerprint, self.terms = "related-counting", []

        def encode(self, texts, role="document"):
            self.terms += texts if role == "term" else []
            return super().encode(texts, role)

    encoder = Counting()
    rr = reranker("causal", encoder)
    rr.rank("w1", ["w2 w3", "w4"])
    rr.rank("w1", ["w4", {"title": "w5", "text": "w2 w3"}, "w2 w3"])
    rr.rank("w1", ["w2 w3", {"title": "w5", "text": "w2 w3"}])
    assert sorted(encoder.terms) == ["w1", "w2", "w3", "w4", "w5"]


def test_a_ranking_that_is_kept_holds_no_vector_and_no_products():
    texts = drawn(30, 15)
    ranking = reranker("hybrid", Related()).rank(QUERY, texts)
    held = ranking[0]._outcome.evidence._scored
    size = sum(flags.nbytes + places.nbytes for places, flags in held.absorbed)
    size += held.has_residual.nbytes + held.length.nbytes + held.causal.nbytes
    assert size < 100 * len(texts)


def test_a_ranking_stays_right_after_its_caches_are_gone():
    encoder, texts = Related(), drawn(10, 15)
    rr = reranker("causal", encoder)
    ranking = rr.rank(QUERY, texts)
    object.__setattr__(rr, "_known", KnownTexts())
    TERM_CACHE.clear()
    check(ranking, encoder)
    again = copy.copy(rr).rank(QUERY, texts)
    assert [r.score for r in again] == [r.score for r in ranking]
