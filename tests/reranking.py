"""What the tests of the rule share: encoders, an extractor, draws and a plain implementation."""

import hashlib
import math

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import causalrag as cr
from causalrag.rerank import METHODS

# Those that score B, not A.
CAUSAL_METHODS = [method for method in METHODS if method not in ("similarity", "adjusted")]
MODES = ["semantic", "exact"]


class HashEncoder:
    """A random unit vector for each (role, text), the same in every run."""

    def __init__(self, size=6, by_role=True, seed=0):
        self.size = size
        self.by_role = by_role
        self.seed = seed
        self.fingerprint = f"hash-{size}-{by_role}-{seed}"

    def encode(self, texts, role="document"):
        return np.array([self.vector(text, role) for text in texts], dtype=np.float32).reshape(
            len(texts), self.size
        )

    def vector(self, text, role):
        key = f"{role if self.by_role else ''}|{text}|{self.seed}".encode()
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
    # A centroid within rounding of zero has no direction.
    length = math.sqrt(math.fsum(x * x for x in middle))
    return plain_cosine(query_vector, middle) if length > 2e-7 else 0.0


def plain_minmax(values):
    # Constant up to rounding: two weights for one and the same word give one and the same cosine.
    low, high = min(values), max(values)
    return [0.0 if high - low < 1e-12 else (value - low) / (high - low) for value in values]


def plain_hybrid(similarity, causal, weight):
    pairs = zip(plain_minmax(similarity), plain_minmax(causal), strict=True)
    return [weight * first + (1 - weight) * second for first, second in pairs]


def plain_rank(query, texts, encoder, tau, absorption, method, weight=0.5):
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
            mixed = plain_hybrid([base[i] for i in filled], [causal[i] for i in filled], weight)
            for i, value in zip(filled, mixed, strict=True):
                score[i] = value
    order = sorted(range(len(texts)), key=lambda i: (i not in filled, -score[i], i))
    return [(i, score[i]) for i in order]


TERMS = [f"t{i}" for i in range(12)]
WEIGHTS = st.floats(0.1, 5.0).map(lambda value: round(value, 3))
KEYWORDS = st.dictionaries(st.sampled_from(TERMS), WEIGHTS, min_size=1, max_size=6)
TEXTS = KEYWORDS.map(lambda words: " ".join(f"{t}:{w}" for t, w in words.items()))
CANDIDATES = st.lists(TEXTS, min_size=1, max_size=8)
# In one or two dimensions, centroids often cancel.
ENCODERS = st.builds(HashEncoder, size=st.sampled_from([1, 2, 6, 40]), seed=st.integers(0, 9))
TAUS = st.sampled_from([-0.5, 0.0, 0.3, 0.6, 0.9])
# No deadline: the first example pays for imports.
steady = settings(deadline=None, max_examples=50)
