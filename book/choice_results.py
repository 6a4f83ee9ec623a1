"""The choosing part of `make results`: forms of the adjusted rule, on data that no chapter tests.

Two collections: SciFact with its training queries, and the Chinese laws, each asked for by its own
title, which is as rich in the query's words as an answer can be. Each form orders the windows of
every attack and share; and, without any stuffing, the windows of three base scores and both
encoders on all training queries. SciFact's queries are long; cut to one or two keywords they show
what a guard does to short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import beir_methods
import numpy as np
import pandas as pd
import phase_methods as methods
import provenance as origin
from beir_results import Collections, Maker, Places, Task
from phase_results import ALSO
from provenance import SETTINGS, Progress, say

import causalrag as cr
from causalrag import results
from causalrag.adjust import GUARD, Surface, read_surface, with_support
from causalrag.datasets.beir import BeirData
from causalrag.embeddings import EmbeddingCache
from causalrag.retrieve import DenseRetriever
from causalrag.scores import minmax
from causalrag.stuffing import ATTACKS

N_TRAIN, N_LAWS, LAW_LENGTH = 120, 50, 600
CHUNK = 10
STAGES = ("similarity", "bm25", "fusion")
# Queries cut to their heaviest keywords, and the shares of stuffed documents they meet.
SHORT, N_SHORT, SHORT_RATES = (1, 2), 80, (0.0, 0.25, 0.5)

Form = Callable[[np.ndarray, Surface], np.ndarray]


# --- the forms ----------------------------------------------------------------------------------


def _stretched(base: np.ndarray, over: np.ndarray) -> np.ndarray:
    ordinary = over == 0
    if ordinary.any():
        base = np.clip(base, base[ordinary].min(), base[ordinary].max())
    return minmax(base)


# By what the penalty shrinks: nothing, the document's support, or what of it exceeds one half.
RELIEF: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": np.zeros_like,
    "support": lambda support: support,
    "support above half": lambda support: np.maximum(0.0, 2 * support - 1),
}


def _form(
    reward: str,
    weight: float,
    penalty: float,
    bend: str | float = "collection",
    relief: str = "none",
) -> Form:
    def score(base: np.ndarray, surface: Surface) -> np.ndarray:
        limit = {"collection": surface.bend}.get(str(bend), bend)
        over = np.maximum(0.0, surface.excess / float(limit) - 1.0)
        s = _stretched(base, over)
        assert surface.support is not None
        doubt = over * (1.0 - RELIEF[relief](surface.support))
        presence = {
            "none": np.zeros(len(s)),
            "added": weight * surface.coverage,
            "times base": s * weight * surface.coverage,
            "up to base": np.minimum(s, weight * surface.coverage),
        }[reward]
        if np.isinf(penalty):  # behind all others
            return np.asarray(s + presence - 10.0 * (over > 0))
        return np.asarray(s + presence - penalty * doubt)

    return score


def _residualised(base: np.ndarray, surface: Surface) -> np.ndarray:
    """Take out of the base what repetition explains linearly among the candidates."""
    x = surface.excess - surface.excess.mean()
    spread = float(x @ x)
    slope = float(x @ base) / spread if spread > 1e-12 else 0.0
    return np.asarray(base - max(slope, 0.0) * x)


# Name → (form, its own constants). The constants count in the choice.
FORMS: dict[str, tuple[Form, int]] = {
    "base": (lambda base, surface: base, 0),
    "residualised on repetition": (_residualised, 0),
    "penalty 4 alone": (_form("none", 0, 4), 2),
    **{f"added {w:g}, penalty 4": (_form("added", w, 4), 3) for w in (0.5, 1.0, 1.5)},
    **{f"times base {w:g}, penalty 4": (_form("times base", w, 4), 3) for w in (1.0, 2.0)},
    **{
        f"up to base {w:g}, penalty 4": (_form("up to base", w, 4), 3) for w in (0.5, 1.0, 1.5, 2.0)
    },
    **{f"up to base 1, penalty {p:g}": (_form("up to base", 1, p), 3) for p in (1.0, 2.0, 8.0)},
    **{
        f"up to base 1, penalty {p:g} less {relief}": (
            _form("up to base", 1, p, relief=relief),
            3,
        )
        for relief in ("support", "support above half")
        for p in (2.0, 4.0, 8.0)
    },
    "up to base 1, behind": (_form("up to base", 1, np.inf), 2),
    "up to base 1, penalty 4, bend 0.25": (_form("up to base", 1, 4, 0.25), 3),
    "added 0.3, penalty 4, bend 0.25": (_form("added", 0.3, 4, 0.25), 3),
}
CHOSEN = "up to base 1, penalty 4 less support"


# --- the part -----------------------------------------------------------------------------------


def make_choice(encoders: Sequence[tuple[str, Any]], places: Places, force: bool) -> None:
    """Measure the forms on both collections, and store what is not there.

    Parameters
    ----------
    encoders
        Each the source that names it in a command, and the loaded model. The first one is used
        among stuffed documents, all of them without.
    places, force
        As in `phase_results.make_phase`.
    """
    collections = Trained()
    for name in ("scifact", "laws"):
        ChoiceMaker(name, *encoders[0], collections, places).make_choice(force)
    for size in SHORT:
        ChoiceMaker("scifact", *encoders[0], collections, places).make_short(size, force)
    for source, encoder in encoders:
        ChoiceMaker("scifact", source, encoder, collections, places).make_natural(force)


class Trained(Collections):
    """The collections to choose on."""

    def read(self, name: str) -> Any:
        """Read a data set."""
        if name not in self.data:
            choose = {"scifact": partial(cr.datasets.beir, "scifact", split="train"), "laws": laws}
            self.data[name] = choose[name]()
        return self.data[name]


def laws() -> BeirData:
    """Give the laws, their beginnings, as a data set in which each title asks for its own law."""
    corpus = {
        law.id: {"id": law.id, "title": law.title, "text": law.text[:LAW_LENGTH]}
        for law in cr.datasets.laws()
    }
    queries = {name: document["title"] for name, document in corpus.items()}
    return BeirData("laws", "titles", corpus, queries, {name: {name: 1} for name in corpus})


class ChoiceMaker(Maker):
    """Measures the forms on one collection."""

    def make_choice(self, force: bool) -> None:
        """Store the forms' measures among stuffed documents, unless they are there."""
        task = self._choice_task("stuffed")
        if not force and task.is_done():
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        collection = self.collections.collection(self.name)
        cache, dense = self._first_stage(task, collection, list(self.data.queries))
        usable = [q for q in self.data.queries if self._usable(q, dense[q])]
        if self.name == "laws":
            order = np.random.default_rng(5).permutation(len(usable))
            usable = [usable[i] for i in order]
        query_ids = usable[: N_LAWS if self.name == "laws" else N_TRAIN]
        boundary = methods.Boundary(collection, cache, cache)
        texts = {
            document.full_text: None
            for query_id in query_ids
            for documents in boundary.stuffed(query_id, dense[query_id]).values()
            for document in documents
        }
        cache.encode(list(texts), "document", Progress(task.told, "documents encoded"))

        def measure(chunk: list[str], progress: Callable[[int], None]) -> dict[str, Any]:
            rows = []
            for done, query_id in enumerate(chunk, start=1):
                natural = dense[query_id]
                clean = boundary.scores(query_id, natural)
                for attack, documents in boundary.stuffed(query_id, natural).items():
                    scores = clean.joined(boundary.scores(query_id, [], documents))
                    for rate in methods.RATES:
                        window = methods.window(scores, len(natural), rate)
                        rows += self._rows(query_id, attack, rate, window)
                progress(done)
            columns = list(results.TABLES["choice"]["forms"])
            return {"choice": pd.DataFrame(rows, columns=columns)}

        self._store(task, measure, CHUNK, (), query_ids)

    def make_short(self, size: int, force: bool) -> None:
        """Store the guard's measures on queries cut to a few keywords, unless they are there.

        Its bend is that of as many keywords as the query has, and the library's.
        """
        task = self._choice_task(f"short{size}")
        if not force and task.is_done():
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        keywords = self.collections.collection(self.name).keywords
        terms = {q: keywords.query(text).terms[:size] for q, text in self.data.queries.items()}
        cut = {q: " ".join(some) for q, some in terms.items() if some}
        collection = self.collections.collection(self.name).of(replace(self.data, queries=cut))
        cache, dense = self._first_stage(task, collection, list(cut))
        query_ids = [q for q in cut if self._usable(q, dense[q])][:N_SHORT]
        boundary = methods.Boundary(collection, cache, cache)
        own = keywords.repetition[size - 1]

        def measure(chunk: list[str], progress: Callable[[int], None]) -> dict[str, Any]:
            rows = []
            for done, query_id in enumerate(chunk, start=1):
                natural, judged = dense[query_id], self._judged(query_id)
                clean = boundary.scores(query_id, natural)
                for attack, documents in boundary.stuffed(query_id, natural).items():
                    scores = clean.joined(boundary.scores(query_id, [], documents))
                    for rate in SHORT_RATES:
                        window = methods.window(scores, len(natural), rate)
                        rows += [
                            (form, attack, rate, query_id, _ndcg(score, window.grade, judged))
                            for form, score in _guarded(window, own)
                        ]
                progress(done)
            columns = list(results.TABLES["choice"]["forms"])
            return {"choice": pd.DataFrame(rows, columns=columns)}

        self._store(task, measure, CHUNK, (), query_ids)

    def make_natural(self, force: bool) -> None:
        """Store the forms' measures on each base's own windows, nothing stuffed."""
        task = self._choice_task("natural")
        if not force and task.is_done():
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        query_ids = list(self.data.queries)
        cache = EmbeddingCache(self.places.embeddings, self.encoder)
        collection = self.collections.collection(self.name)
        self._encode(task.told, cache, collection)
        retriever = DenseRetriever(cache).fit(collection.documents, batch=4096)
        dense = collection.dense(retriever, query_ids)
        reranker = cr.CausalReranker(
            cache, collection.keywords, tau=SETTINGS["tau"], method="causal"
        )

        def measure(chunk: list[str], progress: Callable[[int], None]) -> dict[str, Any]:
            rows = []
            for done, query_id in enumerate(chunk, start=1):
                hits = collection.lexical(query_id)
                hits["similarity"] = dense[query_id]
                hits["fusion"] = collection.fused(query_id, dense[query_id], hits["bm25"])
                for stage in STAGES:
                    found = collection.candidates(hits[stage])
                    documents = self.data.candidates(query_id, found.ids)
                    texts = [f"{d['title']} {d['text']}".strip() for d in documents]
                    query = self.data.queries[query_id]
                    evidence = reranker.rank(query, documents, found.scores).outcome.evidence
                    surface = with_support(
                        read_surface(query, texts, collection.keywords),
                        evidence.causal,
                        evidence.has_residual,
                    )
                    grades = self._grades(query_id, found.ids)
                    for form, (score, _) in FORMS.items():
                        value = _ndcg(
                            score(np.asarray(found.scores, dtype=float), surface),
                            grades,
                            self._judged(query_id),
                        )
                        rows.append((form, stage, 0.0, query_id, value))
                progress(done)
            columns = list(results.TABLES["choice"]["forms"])
            return {"choice": pd.DataFrame(rows, columns=columns)}

        self._store(task, measure, 100, (), query_ids)

    def _first_stage(
        self, task: Task, collection: beir_methods.Collection, query_ids: Sequence[str]
    ) -> tuple[EmbeddingCache, dict[str, list[str]]]:
        """Encode a collection and give similarity's window of each query."""
        cache = EmbeddingCache(self.places.embeddings, self.encoder)
        self._encode(task.told, cache, collection)
        retriever = DenseRetriever(cache).fit(collection.documents, batch=4096)
        windows = {
            q: [collection.ids[i] for i in hits.indices[: methods.WINDOW]]
            for q, hits in collection.dense(retriever, query_ids).items()
        }
        return cache, windows

    def _usable(self, query_id: str, window: Sequence[str]) -> bool:
        """Say whether the window holds a relevant document, and a title says enough to ask."""
        long_enough = (
            self.name != "laws"
            or len(
                self.collections.collection(self.name).keywords.query(self.data.queries[query_id])
            )
            >= 3
        )
        return long_enough and bool(self._grades(query_id, window).any())

    def _grades(self, query_id: str, ids: Sequence[str]) -> np.ndarray:
        return np.array([self.data.qrels[query_id].get(name, 0) for name in ids], dtype=float)

    def _judged(self, query_id: str) -> np.ndarray:
        return np.array(list(self.data.qrels[query_id].values()), dtype=float)

    def _rows(
        self, query_id: str, attack: str, rate: float, window: methods.Scores
    ) -> list[tuple[Any, ...]]:
        judged = self._judged(query_id)
        rows = [
            (
                form,
                attack,
                rate,
                query_id,
                _ndcg(score(window.base, window.supported), window.grade, judged),
            )
            for form, (score, _) in FORMS.items()
        ]
        best = _ndcg(methods.METHODS["ceiling"](window), window.grade, judged)
        return [*rows, ("ceiling", attack, rate, query_id, best)]

    def _choice_task(self, kind: str) -> Task:
        stem = f"{self.name}-{kind}-{origin.safe(self.encoder.name)}.parquet"
        about = origin.provenance(
            "make results PARTS=choice",
            {"name": self.name, "split": self.data.split, "sha256": self.checksums},
            {
                "name": self.encoder.name,
                "kind": "encoder",
                "fingerprint": self.encoder.fingerprint,
            },
            {
                **SETTINGS,
                "forms": {name: constants for name, (_, constants) in FORMS.items()},
                "chosen": CHOSEN,
                "attacks": list(ATTACKS),
                "rates": list(methods.RATES),
                "short": {"queries": N_SHORT, "rates": list(SHORT_RATES)},
                "definitions": methods.DEFINITIONS,
            },
            origin.versions(
                ALSO, [Path(__file__), Path(methods.__file__), Path(beir_methods.__file__)]
            ),
        )
        path = self.places.output / "choice" / stem
        return Task({"choice": path}, about, f"choice on {self.name}, {kind}, {self.encoder.name}")


def _guarded(window: methods.Scores, own: float) -> Iterator[tuple[str, np.ndarray]]:
    """Score a window by two bases: bare, guarded with a given bend, guarded by the library."""
    seen = replace(window.surface, bend=own)
    seen = with_support(seen, window.causal, window.residual)
    for name, base in (("similarity", window.base), ("fusion", window.fusion)):
        yield name, base
        yield f"{name}, guarded, bend of its size", GUARD.scores(base, seen)
        yield f"{name}, guarded", GUARD.scores(base, window.supported)


def _ndcg(score: np.ndarray, grades: np.ndarray, judged: np.ndarray) -> float:
    """Measure nDCG@10 of an order by a score, ties in the candidates' order."""
    first = np.argsort(-score, kind="stable")[:10]
    discount = 1.0 / np.log2(np.arange(2, 12))
    ideal = np.sort(judged)[::-1][:10]
    whole = float(ideal @ discount[: len(ideal)])
    return float(grades[first] @ discount[: len(first)] / whole) if whole else 0.0
