"""The sign of the association between a query and B, in data: definitions, fixed before any run.

The unit is a pair of a query q and a candidate d. Eq. 3 splits d's keywords by q into A(d; q) and
B(d; q); Eq. 5 is the alignment cos(E(q), centroid of B(d; q)). Two measures, each of a group of
documents, by query:

alignment
    The mean alignment of the group's documents. A shift: in the simulations the mean cosine of q
    and B.
by_shared_weight, by_overlap
    Spearman's rank correlation, over the group's documents, of how well a document matches the
    query with its alignment. Match is the share of A in the weight of the document's keywords, or
    the share of the query's keywords that the document has too. In the simulations the correlation
    among the documents that are kept.

Each is measured in four pairings. An "other" is another query; the mean is over up to `OTHERS`.

own
    Query q, partition by q.
repartitioned
    Another query, partition (and match) by that query. What the rule does to any query is in both,
    so this null takes out that B is computed from q; for documents that were drawn without regard
    to the query it does so exactly, since q and the other are exchangeable there.
frozen
    Another query, partition (and match) still by q.
crossed
    Query q, partition (and match) by another query: what q would find had it not taken its own
    words out.

The excess over a null is own minus that null, paired over queries. The others are the `OTHERS` next
queries in one seeded order, taken as a ring, so that each query is an other as often as it is
itself measured: a query that lies close to everything cancels. `shared_weight` gives the mean share
of A itself.

Documents with an empty B have no alignment and are left out. A correlation needs `FEWEST` documents
and some variation in both; where it has none, it is left out, and nothing is put in its place.

Groups: the documents "retrieved" for q (its window), and as many "random" ones, drawn `DRAWS` times
out of the whole collection without regard to q. The difference of the two is what selection does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from causalrag.vectors import COSINE_ROUNDING, unit

OTHERS, DRAWS, FEWEST, SEED = 20, 5, 5, 33
MEASURES = ("alignment", "by_shared_weight", "by_overlap", "shared_weight", "RR@10")
PAIRINGS = ("own", "repartitioned", "frozen", "crossed")
BLOCK = 1024  # terms multiplied at once

Array = np.ndarray


class Value(NamedTuple):
    """A measure of one query: in which pairing, and over how many others it is a mean."""

    measure: str
    pairing: str
    value: float
    others: int


class Alignments:
    """Eqs. 3-5 for any pair of queries, one that asks and one that splits the keywords.

    Parameters
    ----------
    documents : sequence of mappings
        K_d of N documents, each term with a positive weight.
    queries : sequence of mappings
        K_q of n queries.
    vectors : (n, h) array
        E(q), unit rows.
    encoder : object with ``encode(texts, role)``
        Encodes terms.
    tau : float
        Absorption threshold.
    """

    def __init__(
        self,
        documents: Sequence[Mapping[str, float]],
        queries: Sequence[Mapping[str, float]],
        vectors: Array,
        encoder: Any,
        tau: float,
    ) -> None:
        terms = sorted(set().union(*documents))
        row = {term: at for at, term in enumerate(terms)}
        size = max(1, *map(len, documents))
        self.rows = np.zeros((len(documents), size), dtype=np.int64)
        self.weights = np.zeros((len(documents), size))
        for line, words in enumerate(documents):
            self.rows[line, : len(words)] = [row[term] for term in words]
            self.weights[line, : len(words)] = list(words.values())
        table = np.asarray(encoder.encode(terms, "term"), dtype=np.float64)
        self.equal = np.zeros((len(terms), len(queries)), dtype=np.bool_)
        for at, words in enumerate(queries):
            self.equal[[row[term] for term in words if term in row], at] = True
        self.asked = np.array([max(1, len(words)) for words in queries])
        self.along, self.absorbed = _multiplied(table, queries, unit(vectors), encoder, tau)
        self.absorbed |= self.equal
        self.products = np.stack([_products(table[r], w) for r, w in self._lines()])

    def _lines(self) -> Iterator[tuple[Array, Array]]:
        return zip(self.rows, self.weights, strict=True)

    def measure(self, places: Array, query: int, others: Array) -> list[Value]:
        """Measure a group of documents for one query in every pairing.

        Parameters
        ----------
        places : (g,) int array
            The documents.
        query : int
            Which query.
        others : (k,) int array
            The queries that it is compared with.

        Returns
        -------
        list of Value
            Without those that are not defined.
        """
        split, asking = np.array([query, *others]), np.array([query, *others])
        first, rest = np.zeros(len(others), dtype=int), np.arange(1, len(others) + 1)
        by = {
            "own": (np.array([0]), np.array([0])),
            "repartitioned": (rest, rest),
            "frozen": (rest, first),
            "crossed": (first, rest),
        }
        cosines = self._alignment(places, asking, split, by)
        shared, overlap = self._matches(places, split)
        found = []
        for pairing, (_, splits) in by.items():
            values = {
                "alignment": _means(cosines[pairing]),
                "by_shared_weight": correlations(shared[:, splits], cosines[pairing]),
                "by_overlap": correlations(overlap[:, splits], cosines[pairing]),
            }
            if pairing in ("own", "repartitioned"):
                values["shared_weight"] = shared[:, splits].mean(axis=0)
            for measure, each in values.items():
                told = each[~np.isnan(each)]
                if len(told):
                    found.append(Value(measure, pairing, float(told.mean()), len(told)))
        return found

    def causal(self, places: Array, query: int) -> Array:
        """Give Eq. 5 for some documents, NaN where B is empty, shape (g,)."""
        one, only = np.array([query]), {"own": (np.array([0]), np.array([0]))}
        return self._alignment(places, one, one, only)["own"][:, 0]

    def _alignment(
        self, places: Array, asking: Array, split: Array, by: Mapping[str, tuple[Array, Array]]
    ) -> dict[str, Array]:
        """Give the cosines, (g, k) by pairing, of queries `asking` with B by queries `split`."""
        rows, weights = self.rows[places], self.weights[places]
        kept = (~self.absorbed[rows[:, :, None], split]) & (weights > 0)[:, :, None]  # (g, m, p)
        keep = kept.astype(np.float64)
        squared = np.einsum("gmp,gmp->gp", np.matmul(self.products[places], keep), keep)
        along = self.along[rows[:, :, None], asking] * weights[:, :, None]
        result = {}
        for pairing, (a, p) in by.items():
            reach = np.einsum("gmk,gmk->gk", keep[:, :, p], along[:, :, a])
            length = np.sqrt(np.maximum(squared[:, p], 0.0))
            sound = length > 1e-9  # a centroid that cancels out scores 0, as in the library
            cosine = np.where(sound, reach / np.where(sound, length, 1.0), 0.0)
            result[pairing] = np.where(kept[:, :, p].any(axis=1), np.clip(cosine, -1, 1), np.nan)
        return result

    def _matches(self, places: Array, split: Array) -> tuple[Array, Array]:
        """Give the weight share of A and the overlap, each (g, p)."""
        rows, weights = self.rows[places], self.weights[places]
        held = (weights > 0)[:, :, None]
        inside = np.einsum("gmp,gm->gp", self.absorbed[rows[:, :, None], split] & held, weights)
        total = weights.sum(axis=1)
        shared = inside / np.where(total > 0, total, 1.0)[:, None]
        hits = (self.equal[rows[:, :, None], split] & held).sum(axis=1)
        # To digits that do not depend on the order of summation: equal shares must tie.
        return np.round(shared, 12), hits / self.asked[split]


def _multiplied(
    table: Array, queries: Sequence[Mapping[str, float]], vectors: Array, encoder: Any, tau: float
) -> tuple[Array, Array]:
    """Multiply terms by the queries, for Eq. 5, and by their keywords, for Eq. 3: (V, n) each."""
    along = np.empty((len(table), len(queries)))
    absorbed = np.zeros(along.shape, dtype=np.bool_)
    full = [at for at, words in enumerate(queries) if words]
    starts = np.cumsum([0, *(len(queries[at]) for at in full)])[:-1]
    words = [term for at in full for term in queries[at]]
    keys = np.asarray(encoder.encode(words, "term"), dtype=np.float32).T if words else None
    for start in range(0, len(table), BLOCK):
        block = table[start : start + BLOCK]
        along[start : start + BLOCK] = block @ vectors.T
        if keys is not None:
            nearest = np.maximum.reduceat(block.astype(np.float32) @ keys, starts, axis=1)
            absorbed[start : start + BLOCK, full] = nearest >= tau - COSINE_ROUNDING
    return along, absorbed


def _products(vectors: Array, weights: Array) -> Array:
    weighted = vectors * weights[:, None]
    return np.asarray(weighted @ weighted.T)


def _means(values: Array) -> Array:
    """Average columns over what is defined; NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def correlations(match: Array, alignment: Array) -> Array:
    """Give Spearman's correlation of each column of two (g, k) arrays, NaN where undefined."""
    known = ~np.isnan(alignment)
    if not known.all():
        columns = [
            correlations(match[rows, at : at + 1], alignment[rows, at : at + 1])[0]
            if rows.sum() >= FEWEST
            else np.nan
            for at, rows in enumerate(known.T)
        ]
        return np.array(columns)
    if len(match) < FEWEST:
        return np.full(match.shape[1], np.nan)
    x, y = (rankdata(values, axis=0) for values in (match, alignment))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    spread = np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
    varies = spread > 0
    return np.where(varies, (x * y).sum(axis=0) / np.where(varies, spread, 1.0), np.nan)


def rings(n: int, seed: int = SEED) -> Array:
    """Give each of n queries its others, (n, k): the k next ones in a seeded order, as a ring."""
    order = np.random.default_rng(seed).permutation(n)
    k = min(OTHERS, n - 1)
    result = np.empty((n, k), dtype=np.int64)
    for step in range(1, k + 1):
        result[order, step - 1] = np.roll(order, -step)
    return result


def draws(seed: int, allowed: Array, size: int) -> list[Array]:
    """Draw `DRAWS` groups of documents, without repetition within one."""
    rng = np.random.default_rng((SEED, seed))
    return [rng.choice(allowed, min(size, len(allowed)), replace=False) for _ in range(DRAWS)]


def averaged(groups: Sequence[Sequence[Value]]) -> list[Value]:
    """Average the values of several groups, each over the groups that have it."""
    found: dict[tuple[str, str], list[Value]] = {}
    for group in groups:
        for value in group:
            found.setdefault((value.measure, value.pairing), []).append(value)
    return [
        Value(*key, float(np.mean([v.value for v in values])), max(v.others for v in values))
        for key, values in found.items()
    ]


def reciprocal_ranks(causal: Array, relevant: Array) -> dict[str, float]:
    """Give RR@10 of a window in its own order and by the causal score; an empty B goes behind."""
    order = np.argsort(-np.where(np.isnan(causal), -2.0, np.round(causal, 12)), kind="stable")
    result = {}
    for name, flags in (("similarity", relevant), ("causal", relevant[order])):
        hits = np.flatnonzero(flags[:10])
        result[name] = 1.0 / (1 + int(hits[0])) if len(hits) else 0.0
    return result
