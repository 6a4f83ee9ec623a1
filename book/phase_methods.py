"""One query among stuffed documents: windows of fixed composition, and every method's order.

A `Boundary` knows a collection; `QueryWindows` holds what is known of one query's candidates under
one attack, scored once, and orders any choice of them. Files, progress and measures are in
`phase_results`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import beir_methods
import numpy as np
from beir_methods import behind, hybrid

import causalrag as cr
from causalrag.adjust import DEFAULT, GUARD, Adjustment, Surface, read_surface, with_support
from causalrag.documents import read_documents
from causalrag.gate import candidate_statistics
from causalrag.retrieve import reciprocal_rank_fusion
from causalrag.stuffing import ATTACKS, Stuffed, Stuffer

RATES = (0.0, 0.1, 0.25, 0.5, 0.75)
WINDOW = beir_methods.WINDOW
MOST = round(WINDOW * RATES[-1])  # stuffed documents per query and attack
INJECTED, STRENGTH = 10, 0.5
N_QUERIES, N_PROBES = 200, 30
# An adversary writes so many documents for so many queries at each of these strengths.
STRENGTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
N_TARGETED, N_WRITTEN = 60, 2
# He also puts the second behind the first, so that what is left of the page lies near the query.
COVERED = ("repetition", "synonyms")
AGAINST = ("similarity", "bm25", "fusion", "causal", "hybrid", "adjusted", "guarded_fusion")
# In words, for the provenance.
DEFINITIONS = {
    "window": "similarity's 20 - m best and the m first stuffed documents, m = round(20 rate)",
    "neighbours": "a query has fewer where the collection has; natural candidates stay then",
    "collection": f"{INJECTED} stuffed documents put into the collection; first stages take 20",
    "bm25": "the clean collection's statistics",
    "fusion": "reciprocal ranks (k 60) of similarity and BM25, in a window of that window's ranks",
    "gate": "probes are measured like the queries; the gate itself is applied by the reader",
    "ties": "in similarity's order",
}

Floats = np.ndarray
Order = Callable[["Scores"], Floats]


@dataclass(frozen=True)
class Scores:
    """Scores of n candidates, all (n,), and what they show of the query's words."""

    ids: tuple[str, ...]
    grade: Floats
    stuffed: Floats
    base: Floats
    bm25: Floats
    causal_exact: Floats
    causal: Floats
    residual_exact: Floats
    residual: Floats
    surface: Surface
    excess: Floats

    def take(self, places: Floats) -> Scores:
        """Choose candidates, in similarity's order."""
        return self.at(places[np.argsort(-self.base[places], kind="stable")])

    def at(self, places: Floats) -> Scores:
        """Choose candidates in the order given."""
        columns = {
            name: value[places]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray)
        }
        seen = Surface(
            self.surface.coverage[places], self.surface.excess[places], self.surface.bend
        )
        return Scores(tuple(self.ids[i] for i in places), surface=seen, **columns)

    def joined(self, other: Scores) -> Scores:
        """Put the candidates of another behind these, of the same query."""
        columns = {
            name: np.concatenate([value, getattr(other, name)])
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray)
        }
        one, two = self.surface, other.surface
        seen = Surface(
            np.concatenate([one.coverage, two.coverage]),
            np.concatenate([one.excess, two.excess]),
            one.bend,
        )
        return Scores(self.ids + other.ids, surface=seen, **columns)

    @property
    def supported(self) -> Surface:
        """Read the surface with what the rest of each candidate says for it, among these."""
        return with_support(self.surface, self.causal, self.residual)

    @property
    def fusion(self) -> Floats:
        """Fuse similarity and BM25 by their ranks among these candidates."""
        return reciprocal_rank_fusion([self.base, self.bm25])


def _adjusted(rule: Adjustment, base: Callable[[Scores], Floats]) -> Order:
    return lambda s: rule.scores(base(s), s.supported)


# What each method orders the candidates by.
METHODS: dict[str, Order] = {
    "similarity": lambda s: s.base,
    "bm25": lambda s: s.bm25,
    "fusion": lambda s: s.fusion,
    "causal_exact": lambda s: behind(s.causal_exact, s.residual_exact),
    "causal": lambda s: behind(s.causal, s.residual),
    "hybrid": lambda s: hybrid(s.base, s.causal, s.residual),
    "adjusted": _adjusted(DEFAULT, lambda s: s.base),
    "guarded": _adjusted(GUARD, lambda s: s.base),
    "guarded_bm25": _adjusted(GUARD, lambda s: s.bm25),
    "adjusted_fusion": _adjusted(DEFAULT, lambda s: s.fusion),
    "guarded_fusion": _adjusted(GUARD, lambda s: s.fusion),
    "ceiling": lambda s: s.grade - 0.5 * s.stuffed,
}


class Ordered(NamedTuple):
    """The first ten of one method's order."""

    ids: list[str]
    stuffed: int


def order(method: str, scores: Scores) -> Ordered:
    """Order candidates, given in similarity's order, by a method."""
    first = np.argsort(-METHODS[method](scores), kind="stable")[:10]
    return Ordered([scores.ids[i] for i in first], int(scores.stuffed[first].sum()))


class Boundary:
    """A collection, its stuffed documents, and the scores of both."""

    def __init__(
        self, collection: beir_methods.Collection, encoder: Any, near: Any, seed: int = 0
    ) -> None:
        self.collection, self.seed = collection, seed
        self.stuffer = Stuffer(collection.keywords, collection.documents, near)
        settings = collection.settings
        self.rerankers = {
            absorption: cr.CausalReranker(
                encoder,
                collection.keywords,
                tau=settings["tau"],
                absorption=absorption,
                method="causal",
            )
            for absorption in ("exact", "semantic")
        }

    def stuffed(self, query_id: str, natural: Sequence[str]) -> dict[str, tuple[Stuffed, ...]]:
        """Make the stuffed documents of a query, by attack; none relevant, none in its window."""
        data = self.collection.data
        excluded = {*natural, *data.qrels[query_id], query_id}
        return {
            attack: self.stuffer.stuff(
                data.queries[query_id],
                attack,
                MOST,
                strength=STRENGTH,
                seed=self.seed,
                exclude=excluded,
            )
            for attack in ATTACKS
        }

    def written(self, query_id: str, natural: Sequence[str]) -> dict[tuple[str, float], Any]:
        """Make an adversary's documents for a query, by attack and strength."""
        data = self.collection.data
        excluded = {*natural, *data.qrels[query_id], query_id}
        made = {
            (attack, strength): self.stuffer.stuff(
                data.queries[query_id],
                attack,
                N_WRITTEN,
                strength=strength,
                seed=self.seed + 1,
                exclude=excluded,
            )
            for attack in ATTACKS
            if attack != "neighbours"
            for strength in STRENGTHS
        }
        loud, near = COVERED
        for strength in STRENGTHS:
            pairs = zip(made[loud, strength], made[near, strength], strict=True)
            made[f"{loud} + {near}", strength] = tuple(
                replace(a, id=f"{a.id} + {b.id}", text=f"{a.text} {b.full_text}") for a, b in pairs
            )
        return made

    def scores(
        self, query_id: str, natural: Sequence[str], stuffed: Sequence[Stuffed] = ()
    ) -> Scores:
        """Score a query's natural candidates, then its stuffed ones."""
        data, grades = self.collection.data, self.collection.data.qrels[query_id]
        query = data.queries[query_id]
        documents = [*data.candidates(query_id, natural), *stuffed]
        exact, semantic = (
            self.rerankers[absorption].rank(query, documents)
            for absorption in ("exact", "semantic")
        )
        texts = list(read_documents(documents).texts)
        ids = (*natural, *(document.id for document in stuffed))
        outcomes = [ranking.outcome for ranking in (exact, semantic)]
        told = candidate_statistics(semantic, self.collection.keywords)
        return Scores(
            ids=ids,
            grade=np.array([grades.get(name, 0) for name in ids], dtype=float),
            stuffed=np.arange(len(ids)) >= len(natural),
            base=np.array(outcomes[1].base),
            bm25=self.collection.bm25.scores_of(query, texts),
            causal_exact=outcomes[0].evidence.causal,
            causal=outcomes[1].evidence.causal,
            residual_exact=outcomes[0].evidence.has_residual,
            residual=outcomes[1].evidence.has_residual,
            surface=read_surface(query, texts, self.collection.keywords),
            excess=told["excess_repetition"].to_numpy(),
        )


def window(scores: Scores, natural: int, rate: float) -> Scores:
    """Take the window of a stuffed share: the last of similarity's 20 best give way.

    `scores` holds `natural` candidates, similarity's best first, and behind them the stuffed ones.
    """
    m = min(round(WINDOW * rate), int(scores.stuffed.sum()))
    return scores.take(np.r_[np.arange(WINDOW - m), natural + np.arange(m)])


def injected(scores: Scores, natural: Mapping[str, Sequence[str]]) -> dict[str, Ordered]:
    """Retrieve among the collection and the stuffed documents, and order each window.

    Parameters
    ----------
    scores : Scores
        Of all natural candidates named in `natural`, and of the stuffed documents.
    natural : mapping of str to sequence of str
        The first stages' natural candidates, "similarity" and "bm25", best first, as many as the
        fusion reads.
    """
    place = {name: at for at, name in enumerate(scores.ids)}
    ours = np.flatnonzero(scores.stuffed)
    found = {}
    for stage, base in (("similarity", scores.base), ("bm25", scores.bm25)):
        retrieved = np.array([place[name] for name in natural[stage]], dtype=int)
        both = np.r_[retrieved, ours[base[ours] > 0]]
        found[stage] = both[np.argsort(-base[both], kind="stable")]
    fused = np.zeros(len(scores.ids))
    for places in found.values():
        fused[places] += 1 / (60 + 1 + np.arange(len(places)))
    found["fusion"] = np.argsort(-fused, kind="stable")
    found["fusion"] = found["fusion"][fused[found["fusion"]] > 0]
    windows = {stage: places[:WINDOW] for stage, places in found.items()}
    result = {}
    for method in METHODS:
        stage = next((s for s in ("fusion", "bm25") if method.endswith(s)), "similarity")
        chosen = windows[stage]
        if method in windows:
            ids = [scores.ids[i] for i in chosen[:10]]
            result[method] = Ordered(ids, int(scores.stuffed[chosen[:10]].sum()))
            continue
        base = {"similarity": scores.base, "bm25": scores.bm25, "fusion": fused}[stage]
        if stage == "similarity":
            result[method] = order(method, scores.take(chosen))
            continue
        rule = GUARD if method.startswith("guarded") else DEFAULT
        seen = scores.at(chosen).supported
        first = chosen[np.argsort(-rule.scores(base[chosen], seen), kind="stable")[:10]]
        ids = [scores.ids[i] for i in first]
        result[method] = Ordered(ids, int(scores.stuffed[first].sum()))
    return result


def one_more(clean: Scores, ours: Scores, number: int) -> list[tuple[Any, ...]]:
    """Put one document among the natural candidates and rank it by each method of `AGAINST`.

    Returns
    -------
    list of tuple
        Method, rank (1 is first), its base score, the first natural candidate's, its excess
        repetition in units of the bend, its coverage.
    """
    window = clean.joined(ours.at(np.array([number])))
    mine = len(window.ids) - 1
    seen = window.surface
    over = float(seen.excess[mine] / seen.bend)
    told = float(window.base[mine]), float(clean.base.max()), over, float(seen.coverage[mine])
    rows = []
    for method in AGAINST:
        score = METHODS[method](window)
        rank = 1 + int((score[:mine] >= score[mine]).sum())  # behind what it ties with
        rows.append((method, rank, *told))
    return rows
