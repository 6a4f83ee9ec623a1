"""How long `CausalReranker.rank` takes beside the bare products of its equations.

The bare products are those of Eqs. 1 and 3-5 for the same candidates, on float32 arrays that lie
ready: document vectors by the query; distinct term vectors by the query's keywords; the weights of
B, a sparse matrix, by the term vectors; the centroids by the query, with their lengths. Everything
else that `rank` does (reading 1,000 documents, the query's keywords, the look-ups, the checks, the
float64 digits, the order) counts against it. The last column takes B's weights as a dense matrix.

Documents come with vectors, texts and terms have been seen before, queries are new but their terms
have not. The encoder looks its vectors up, so no model's time is in any figure. `rank` and the bare
products take turns; a row gives medians, and the ratio is the median ratio of a turn. The budget is
3 times the bare products at 1,000 candidates.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

import causalrag as cr
from causalrag.encoders import TERM_CACHE, encode_terms

DIMENSION = 512
CANDIDATES = 1000
WORDS_PER_TEXT = 150
VOCABULARY = 6_000
TOPICS = 60
QUERIES = 12
TURNS = 5
OTHER_TERMS = 40_000

Products = Callable[[], tuple[np.ndarray, np.ndarray]]


class Lookup:
    """A fixed vector per text: a topic's direction and its own, so that some terms lie near."""

    fingerprint = f"benchmark-{DIMENSION}"

    def __init__(self) -> None:
        self.topics = np.random.default_rng(0).normal(size=(TOPICS, DIMENSION))
        self.known: dict[str, np.ndarray] = {}

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        if text not in self.known:
            rng = np.random.default_rng(list(text.encode()))
            own = rng.normal(size=DIMENSION)
            vector = self.topics[rng.integers(TOPICS)] + rng.uniform(0.4, 1.6) * own
            self.known[text] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return self.known[text]


def words(count: int) -> list[str]:
    """Return distinct made-up words of two to four syllables."""
    rng = np.random.default_rng(1)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
    made: dict[str, None] = {}
    while len(made) < count:
        made["".join(rng.choice(syllables, rng.integers(2, 5)))] = None
    return list(made)


class Setting:
    """Documents whose words are as uneven as in natural text (Zipf), and a warm re-ranker."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(2)
        self.encoder = cr.load_encoder(Lookup())
        self.vocabulary = np.array(words(VOCABULARY))
        share = 1 / (np.arange(VOCABULARY) + 3.0)
        self.share = share / share.sum()
        texts = [self.text(WORDS_PER_TEXT) for _ in range(CANDIDATES)]
        vectors = self.encoder.encode(texts)
        self.documents = [
            {"id": f"d{i}", "title": text[:30], "text": text, "vector": vector}
            for i, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        self.keywords = cr.TfidfKeywords.fit(texts)
        self.reranker = cr.CausalReranker(self.encoder, self.keywords)

    def text(self, length: int) -> str:
        return " ".join(self.rng.choice(self.vocabulary, length, p=self.share))

    def query(self) -> str:
        """Return a new query of ten distinct words whose vectors lie in the term cache."""
        query = " ".join(self.rng.choice(self.vocabulary, 10, p=self.share, replace=False))
        encode_terms(self.encoder, self.keywords.query(query))
        return query

    def bare(self, query: str, count: int) -> tuple[Products, Products, int]:
        """Lay out all arrays for a query; return both ways to multiply and the number of terms."""
        documents = self.documents[:count]
        found = [self.keywords.document(f"{d['title']} {d['text']}") for d in documents]
        asked = self.keywords.query(query)
        terms = list(dict.fromkeys(term for kept in found for term in kept))
        column = {term: place for place, term in enumerate(terms)}
        residual = [cr.partition(asked, kept, self.encoder).residual for kept in found]
        ends = np.cumsum([0, *map(len, residual)])
        data = np.concatenate([kept.weights for kept in residual]).astype(np.float32)
        columns = [column[term] for kept in residual for term in kept]
        weights = csr_array((data, columns, ends), shape=(count, len(terms)))
        dense = weights.toarray()
        document_vectors = np.array([d["vector"] for d in documents])
        term_vectors = encode_terms(self.encoder, terms)
        query_terms = encode_terms(self.encoder, asked)
        direction = self.encoder.encode([query], "query")[0]

        def multiply(weights: csr_array | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            base = document_vectors @ direction  # Eq. 1
            term_vectors @ query_terms.T  # Eq. 3
            sums = weights @ term_vectors  # Eq. 4
            return base, sums @ direction / np.linalg.norm(sums, axis=1)  # Eq. 5

        return (lambda: multiply(weights)), (lambda: multiply(dense)), len(terms)


def milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


def check(ranking: cr.Ranking, products: Products) -> None:
    """Make sure that both sides computed the same scores."""
    base, causal = products()
    for ranked in ranking:
        off = max(abs(ranked.base - base[ranked.index]), abs(ranked.causal - causal[ranked.index]))
        if off > 1e-5:
            raise SystemExit(f"rank and the bare products differ by {off:.1g} on {ranked.doc_id}")


def measure(setting: Setting, label: str, count: int) -> None:
    documents = setting.documents[:count]
    rank, sparse, dense, terms = [], [], [], 0
    for number in range(QUERIES):
        query = setting.query()
        by_sparse, by_dense, terms = setting.bare(query, count)
        check(setting.reranker.rank(query, documents), by_sparse)
        for _ in range(TURNS):
            rank.append(milliseconds(lambda query=query: setting.reranker.rank(query, documents)))
            sparse.append(milliseconds(by_sparse))
        if number % 4 == 0:  # slow
            by_dense()
            dense.append(milliseconds(by_dense))
    ratio = statistics.median(a / b for a, b in zip(rank, sparse, strict=True))
    mine, bare, slow = map(statistics.median, (rank, sparse, dense))
    print(f"{label:36}{terms:7}{mine:9.2f}{bare:9.2f}{ratio:9.2f}{slow:9.2f}{mine / slow:9.2f}")


def main() -> None:
    setting = Setting()
    TERM_CACHE.clear()
    cold = milliseconds(lambda: setting.reranker.rank(setting.query(), setting.documents))
    print(f"{'':36}{'':7}{'rank':>9}{'bare products, ms':>18}{'with dense B, ms':>18}")
    print(f"{'candidates':36}{'terms':>7}{'ms':>9}{'':9}{'ratio':>9}{'':9}{'ratio':>9}")
    for count in (20, 100, 1000):
        measure(setting, f"{count:,}", count)
    encode_terms(setting.encoder, [f"other{i}" for i in range(OTHER_TERMS)])
    measure(setting, f"1,000, {OTHER_TERMS:,} other terms cached", 1000)
    print(f"first call, nothing known, 1,000 candidates: {cold:.0f} ms, no model's time in it")


if __name__ == "__main__":
    main()
