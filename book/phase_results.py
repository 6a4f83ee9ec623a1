"""The boundary's part of `make results`: every method among stuffed documents, on the benchmarks.

For each data set: stuffed documents for its queries and probes, their vectors from the cache, the
windows of every attack and share, ten of them put into the whole collection, and the measures, one
Parquet file. Work is kept after every few queries. The methods are in `phase_methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import beir_methods
import numpy as np
import pandas as pd
import phase_methods as methods
import provenance as origin
from beir_results import Collections, Maker, Places, Task
from provenance import SETTINGS, Progress, say

import causalrag as cr
from causalrag import results
from causalrag.embeddings import EmbeddingCache
from causalrag.gate import split
from causalrag.retrieve import DenseRetriever
from causalrag.stuffing import ATTACKS

DATASETS = ("scifact", "nfcorpus", "arguana")
ENCODERS = ("use",)
ADVERSARY = ("scifact",)  # where an adversary is studied
CHUNK = 10
IN_COLLECTION = -1.0  # the rate of what was put into the whole collection
# Parts of the library that only this part of the results depends on.
ALSO = (
    "datasets/archives.py",
    "datasets/beir.py",
    "evaluate",
    "gate/split.py",
    "gate/statistics.py",
    "stuffing",
)

Hits = Mapping[str, list[str]]


def make_phase(
    datasets: Sequence[str],
    encoders: Sequence[tuple[str, Any]],
    places: Places,
    force: bool,
    encode_only: bool = False,
) -> None:
    """Measure every method among stuffed documents, and store what is not there.

    Parameters
    ----------
    datasets
        Names out of `DATASETS`; others are left out.
    encoders
        Each the source that names it in a command, and the loaded model.
    places
        Folders.
    force
        Make anew what is there.
    encode_only
        Fill the cache of vectors and stop: that takes most of the time, and no method changes it.
    """
    collections = Collections()
    for source, encoder in encoders:
        for name in datasets:
            if name in DATASETS:
                maker = PhaseMaker(name, source, encoder, collections, places)
                maker.make_phase(force, encode_only)
                if name in ADVERSARY:
                    maker.make_adversary(force, encode_only)


def chosen(data: Any, n_tests: int, n_probes: int) -> tuple[list[str], list[str]]:
    """Draw test queries and probes, disjoint, from those with a relevant document."""
    usable = [q for q in data.queries if any(grade > 0 for grade in data.qrels[q].values())]
    probes, tests = split(usable, n_probes, n_tests, seed=0)
    return tests, probes


class PhaseMaker(Maker):
    """Makes the boundary of one data set and encoder."""

    def make_phase(self, force: bool, encode_only: bool) -> None:
        """Store the measures, unless they are there."""
        tests, probes = chosen(self.data, methods.N_QUERIES, methods.N_PROBES)
        task = self._phase_task(tests, probes)
        if not force and task.is_done() and not encode_only:
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        cache = EmbeddingCache(self.places.embeddings, self.encoder)
        collection = self.collections.collection(self.name)
        self._encode(task.told, cache, collection)
        retriever = DenseRetriever(cache).fit(collection.documents, batch=4096)
        boundary = methods.Boundary(collection, cache, cache)
        query_ids = [*tests, *probes]
        hits = {
            query_id: {
                "similarity": [collection.ids[i] for i in dense.indices],
                "bm25": [collection.ids[i] for i in collection.lexical(query_id)["bm25"].indices],
            }
            for query_id, dense in collection.dense(retriever, query_ids).items()
        }
        self._encode_stuffed(task.told, cache, boundary, hits)
        if encode_only:
            return
        self._store(task, partial(self._chunk, boundary, hits), CHUNK, (), query_ids)

    def make_adversary(self, force: bool, encode_only: bool) -> None:
        """Store how an adversary's documents rank at each strength, unless it is there."""
        tests, probes = chosen(self.data, methods.N_QUERIES, methods.N_PROBES)
        task = self._phase_task(tests, probes, "adversary")
        if not force and task.is_done() and not encode_only:
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        cache = EmbeddingCache(self.places.embeddings, self.encoder)
        collection = self.collections.collection(self.name)
        self._encode(task.told, cache, collection)
        retriever = DenseRetriever(cache).fit(collection.documents, batch=4096)
        boundary = methods.Boundary(collection, cache, cache)
        targeted = tests[: methods.N_TARGETED]
        natural = {
            query_id: [collection.ids[i] for i in dense.indices[: methods.WINDOW]]
            for query_id, dense in collection.dense(retriever, targeted).items()
        }
        texts = {
            document.full_text: None
            for query_id, ids in natural.items()
            for documents in boundary.written(query_id, ids).values()
            for document in documents
        }
        cache.encode(list(texts), "document", Progress(task.told, "documents encoded"))
        if encode_only:
            return

        def measure(query_ids: list[str], progress: Callable[[int], None]) -> dict[str, Any]:
            rows = []
            for done, query_id in enumerate(query_ids, start=1):
                clean = boundary.scores(query_id, natural[query_id])
                written = boundary.written(query_id, natural[query_id])
                for (attack, strength), documents in written.items():
                    ours = boundary.scores(query_id, [], documents)
                    for number in range(len(documents)):
                        rows += [
                            (attack, strength, query_id, number, *row)
                            for row in methods.one_more(clean, ours, number)
                        ]
                progress(done)
            columns = list(results.TABLES["adversary"]["documents"])
            return {"adversary": pd.DataFrame(rows, columns=columns)}

        self._store(task, measure, CHUNK, (), targeted)

    def _phase_task(self, tests: Sequence[str], probes: Sequence[str], kind: str = "phase") -> Task:
        stem = f"{self.name}-{origin.safe(self.encoder.name)}.parquet"
        command = f"make results PARTS=phase DATASETS={self.name} ENCODERS="
        about = origin.provenance(
            command + origin.shown(self.source, self.encoder.name),
            self._corpus(),
            {
                "name": self.encoder.name,
                "kind": "encoder",
                "fingerprint": self.encoder.fingerprint,
            },
            {
                **SETTINGS,
                "methods": list(methods.METHODS),
                "attacks": list(ATTACKS),
                "rates": list(methods.RATES),
                "strength": methods.STRENGTH,
                "adversary": {
                    "strengths": list(methods.STRENGTHS),
                    "queries": methods.N_TARGETED,
                    "documents": methods.N_WRITTEN,
                },
                "tests": len(tests),
                "probes": list(probes),
                "definitions": methods.DEFINITIONS,
            },
            origin.versions(ALSO, [Path(methods.__file__), Path(beir_methods.__file__)]),
        )
        path = self.places.output / kind / stem
        return Task({kind: path}, about, f"{self.name}, {self.encoder.name}, {kind}")

    def _encode_stuffed(
        self,
        told: str,
        cache: EmbeddingCache,
        boundary: methods.Boundary,
        hits: Mapping[str, Hits],
    ) -> None:
        """Encode what is generated, in large batches."""
        texts: dict[str, None] = {}
        progress = Progress(told, "queries stuffed")
        for done, (query_id, found) in enumerate(hits.items(), start=1):
            natural = found["similarity"][: methods.WINDOW]
            for documents in boundary.stuffed(query_id, natural).values():
                texts |= dict.fromkeys(document.full_text for document in documents)
            progress(done, len(hits))
        cache.encode(list(texts), "document", Progress(told, "stuffed documents encoded"))

    def _chunk(
        self,
        boundary: methods.Boundary,
        hits: Mapping[str, Hits],
        query_ids: list[str],
        progress: Callable[[int], None],
    ) -> dict[str, pd.DataFrame]:
        """Order every window of some queries and measure."""
        ordered: dict[tuple[str, float, str], dict[str, methods.Ordered]] = {}
        excess: dict[tuple[str, float, str], float] = {}
        for done, query_id in enumerate(query_ids, start=1):
            found = hits[query_id]
            natural = list(dict.fromkeys([*found["similarity"], *found["bm25"]]))
            clean = boundary.scores(query_id, natural)
            stuffed = boundary.stuffed(query_id, natural[: methods.WINDOW])
            for attack, documents in stuffed.items():
                ours = boundary.scores(query_id, [], documents)
                scores = clean.joined(ours)
                for rate in methods.RATES:
                    window = methods.window(scores, len(natural), rate)
                    excess[attack, rate, query_id] = float(window.excess.max())
                    for method in methods.METHODS:
                        one = ordered.setdefault((attack, rate, method), {})
                        one[query_id] = methods.order(method, window)
                if attack == "neighbours":  # they are in the collection already
                    continue
                few = clean.joined(ours.at(np.arange(min(methods.INJECTED, len(documents)))))
                for method, order in methods.injected(few, found).items():
                    ordered.setdefault((attack, IN_COLLECTION, method), {})[query_id] = order
            progress(done)
        return {"phase": self._rows(ordered, excess)}

    def _rows(
        self,
        ordered: Mapping[tuple[str, float, str], Mapping[str, methods.Ordered]],
        excess: Mapping[tuple[str, float, str], float],
    ) -> pd.DataFrame:
        frames = []
        for (attack, rate, method), by_query in ordered.items():
            run = cr.evaluate.run_from_rankings({q: order.ids for q, order in by_query.items()})
            qrels = {query_id: self.data.qrels[query_id] for query_id in by_query}
            frame = cr.evaluate.evaluate(run, qrels, ("nDCG@10",)).reset_index()
            frames.append(
                frame.assign(
                    dataset=self.name,
                    encoder=self.encoder.name,
                    attack=attack,
                    rate=rate,
                    method=method,
                    stuffed_in_10=[by_query[q].stuffed for q in frame["query_id"]],
                    largest_excess=[excess.get((attack, rate, q), 0.0) for q in frame["query_id"]],
                )
            )
        return pd.concat(frames, ignore_index=True)[list(results.TABLES["phase"]["queries"])]
