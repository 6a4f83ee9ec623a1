"""Make the results that chapters show but do not compute, and store them with their provenance.

``make results`` runs the parts listed in `PARTS` in ``.venv-models``: ranks on the packaged theme
corpora, the casebook and the laws, and the benchmarks; then it times the re-ranking step
(``--cost``, in ``.venv``). Each result is one file below ``book/results``, written whole or not at
all. A result that is there already, made from the same texts, model, settings and versions, is kept
unless ``--force`` is given. A run that is stopped goes on where it was when it is started again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ablation_results
import beir_results
import case_results
import choice_results
import numpy as np
import pandas as pd
import phase_results
import sign_results
import step_cost
from provenance import ROOT, SETTINGS, is_current, provenance, safe, say, shown

import causalrag as cr
from causalrag import results
from causalrag.cross_encoder import CrossEncoderAdapter, load_cross_encoder
from causalrag.documents import read_documents

CORPORA = ("diagnostic", "second")
LANGUAGES = {"minilm": ("en",)}  # what a model reads, where that is not every language
METHODS = {
    "similarity": {"method": "similarity"},
    "causal_exact": {"method": "causal", "absorption": "exact"},
    "causal": {"method": "causal"},
    "hybrid": {"method": "hybrid"},
}
RANKED = results.TABLES["themes"]["ranks"]

IDLE_LOAD = 0.5  # the load average below which a machine of any size counts as idle

Rows = list[tuple[Any, ...]]


# --- ranks on the theme corpora -----------------------------------------------------------------


def encoder_rows(corpus: Any, themes: Sequence[Any], encoder: Any, told: str) -> Rows:
    """Rank each theme's documents by every method; keywords are weighed by the whole corpus."""
    texts = [text for theme in corpus.themes for text in read_documents(theme.documents).texts]
    keywords = cr.TfidfKeywords.fit(
        texts, top_document=SETTINGS["top_document"], top_query=SETTINGS["top_query"]
    )
    rows: Rows = []
    for number, theme in enumerate(themes, start=1):
        base = None
        for name, method in METHODS.items():
            reranker = cr.CausalReranker(
                encoder, keywords, tau=SETTINGS["tau"], weight=SETTINGS["weight"], **method
            )
            ranking = reranker.rank(theme.query, theme.documents, scores=base)
            if base is None:  # the same cosines for every method, encoded once
                base = np.array([p.base for p in sorted(ranking, key=lambda p: p.index)])
            rows += _rows(theme, name, ranking)
        say(f"{told}: theme {theme.theme}, {number} of {len(themes)}")
    return rows


def cross_encoder_rows(
    corpus: Any, themes: Sequence[Any], model: CrossEncoderAdapter, told: str
) -> Rows:
    """Rank each theme's documents by a cross-encoder's raw scores."""
    reranker = cr.CausalReranker("use", method="similarity")
    rows: Rows = []
    for number, theme in enumerate(themes, start=1):
        scores = model.scores(theme.query, theme.documents)
        rows += _rows(theme, "cross_encoder", reranker.rank(theme.query, theme.documents, scores))
        say(f"{told}: theme {theme.theme}, {number} of {len(themes)}")
    return rows


def _rows(theme: Any, method: str, ranking: Any) -> Rows:
    return [
        (theme.theme, place.document.id, place.document.role, method, place.rank, place.score)
        for place in ranking
    ]


@dataclass(frozen=True)
class Model:
    """A model to rank with: what it is, how to name it in a command, and what ranks with it."""

    name: str
    kind: str
    fingerprint: str
    variable: str
    rank: Callable[[Any, Sequence[Any], str], Rows]

    @classmethod
    def encoder(cls, source: Any, encoder: Any = None) -> Model:
        """Take an encoder, or load it by name or folder."""
        encoder = cr.load_encoder(source if encoder is None else encoder)
        return cls(
            encoder.name,
            "encoder",
            encoder.fingerprint,
            f"ENCODERS={shown(source, encoder.name)}",
            lambda corpus, themes, told: encoder_rows(corpus, themes, encoder, told),
        )

    @classmethod
    def cross_encoder(cls, source: Any, model: Any = None) -> Model:
        """Take a cross-encoder, or load it by name or folder."""
        model = load_cross_encoder(source if model is None else model)
        return cls(
            model.name,
            "cross_encoder",
            model.fingerprint,
            f"RERANKER={shown(source, model.name)}",
            lambda corpus, themes, told: cross_encoder_rows(corpus, themes, model, told),
        )


def make_themes(model: Model, name: str, output: Path, force: bool) -> None:
    """Rank one corpus with one model and store the ranks, unless they are there."""
    corpus = getattr(cr.datasets, name)()
    reads = LANGUAGES.get(model.name)
    themes = [theme for theme in corpus.themes if reads is None or theme.lang in reads]
    told = f"{name}, {model.name}"
    if not themes:
        say(f"{told}: no theme in a language that it reads ({', '.join(reads or ())})")
        return
    methods = list(METHODS) if model.kind == "encoder" else ["cross_encoder"]
    settings = {
        "methods": methods,
        "languages": list(reads or dict.fromkeys(theme.lang for theme in themes)),
        "candidates": "the theme's documents, in file order",
        "ties": "in file order",
    }
    if model.kind == "encoder":
        settings |= {**SETTINGS, "idf": "all documents of the corpus"}
    about = provenance(
        " ".join(
            ["make results", *([] if name in CORPORA else [f"CORPUS={name}"]), model.variable]
        ),
        {"name": name, "sha256": results.corpus_checksums(name)},
        {"name": model.name, "kind": model.kind, "fingerprint": model.fingerprint},
        settings,
    )
    path = output / "themes" / f"{name}-{model.kind}-{safe(model.name)}.json"
    if not force and is_current(path, about):
        say(f"{told}: {path.name} is there already; FORCE=1 makes it anew")
        return
    rows = model.rank(corpus, themes, told)
    results.save(path, "themes", about, {"ranks": pd.DataFrame(rows, columns=list(RANKED))})
    say(f"{told}: stored {len(rows)} rows in {path.name}")


# --- the cost of the step ------------------------------------------------------------------------


def make_cost(output: Path, force: bool, documents: int | None, queries: int | None) -> None:
    """Time the step on SciFact and store the times, unless they are there."""
    texts, asked, checksums = step_cost.scifact()
    total, texts, asked = len(texts), texts[:documents], asked[:queries]
    encoder = cr.load_encoder("use")
    about = provenance(
        ".venv/bin/python book/make_results.py --cost --force",
        {"name": "scifact", "sha256": checksums},
        {"name": encoder.name, "kind": "encoder", "fingerprint": encoder.fingerprint},
        {
            **SETTINGS,
            **METHODS["hybrid"],
            "absorption": "semantic",
            "k": list(step_cost.SIZES),
            "documents": f"the first {len(texts)} of {total}",
            "queries": len(asked),
            "batch": step_cost.BATCH,
            "llm_calls": 0,
            "level": 0.95,
        },
    )
    path = output / "cost.json"
    if not force and is_current(path, about):
        say(f"cost: {path.name} is there already; FORCE=1 makes it anew")
        return
    load = [_load()]
    encoder.encode(["the model loads itself at the first text"])
    run = step_cost.CostRun(texts, encoder, SETTINGS, say)
    run.query_rows("none", "a first query, so that every module is loaded before one is timed")
    rows: Rows = []
    for number, (query_id, query) in enumerate(asked, start=1):
        rows += run.query_rows(query_id, query)
        if number % 50 == 0:
            say(f"timed {number} of {len(asked)} queries")
    load.append(_load())
    # This run alone brings the load to about 1, so that only the one before can tell.
    idle = load[0] is not None and load[0] < IDLE_LOAD
    about["platform"] |= {"load_before": load[0], "load_after": load[1], "idle": idle}
    table = pd.DataFrame(rows, columns=list(results.TABLES["cost"]["queries"]))
    whole = pd.DataFrame([run.corpus_row()], columns=list(results.TABLES["cost"]["corpus"]))
    summary = step_cost.summarise(table, float(whole["embed_s"].iloc[0]))
    results.save(path, "cost", about, {"corpus": whole, "queries": table, "summary": summary})
    say(f"cost: stored {len(rows)} rows in {path.name}{'' if idle else '; the machine was busy'}")


def _load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


# --- the parts -----------------------------------------------------------------------------------


class Models:
    """The encoders and the cross-encoder that a run was asked for, each loaded once, when used."""

    def __init__(self, encoders: Sequence[str] | None, reranker: str | None) -> None:
        self.asked, self.source = encoders, reranker
        self._loaded: dict[str, Any] = {}

    def encoders(self, usual: Sequence[str]) -> list[tuple[str, Any]]:
        """Give each encoder with its source; those of a part where none was asked for."""
        sources = usual if self.asked is None else self.asked
        return [(source, self._load(source, cr.load_encoder)) for source in sources]

    def reranker(self) -> tuple[str, Any] | None:
        """Give the cross-encoder with its source, if one was asked for."""
        if not self.source:
            return None
        return self.source, self._load(self.source, load_cross_encoder)

    def _load(self, source: str, load: Callable[[str], Any]) -> Any:
        key = f"{load.__name__} {source}"
        if key not in self._loaded:
            self._loaded[key] = load(source)
        return self._loaded[key]


def themes_part(options: argparse.Namespace, models: Models) -> None:
    """Rank the theme corpora; the book computes the ranks of ``use`` itself."""
    ranking = [
        Model.encoder(source, encoder) for source, encoder in models.encoders(usual=("minilm",))
    ]
    if (asked := models.reranker()) is not None:
        ranking.append(Model.cross_encoder(*asked))
    for model in ranking:
        for name in options.corpus:
            make_themes(model, name, options.output, options.force)


def beir_part(options: argparse.Namespace, models: Models) -> None:
    """Measure the methods on the benchmarks."""
    beir_results.make_beir(
        options.datasets,
        models.encoders(usual=beir_results.ENCODERS),
        models.reranker(),
        beir_results.Places(options.output, options.build / "embeddings", options.build / "beir"),
        options.force,
    )


def cases_part(options: argparse.Namespace, models: Models) -> None:
    """Rank the casebook and the laws."""
    case_results.make_cases(
        models.encoders(usual=("use",)),
        beir_results.Places(options.output, options.build / "embeddings", options.build / "beir"),
        options.force,
        LANGUAGES,
    )


def choice_part(options: argparse.Namespace, models: Models) -> None:
    """Measure the forms of the adjusted rule on data that nothing is tested on."""
    choice_results.make_choice(
        models.encoders(usual=beir_results.ENCODERS),
        beir_results.Places(options.output, options.build / "embeddings", options.build / "choice"),
        options.force,
    )


def phase_part(options: argparse.Namespace, models: Models) -> None:
    """Measure the methods among stuffed documents."""
    phase_results.make_phase(
        options.datasets,
        models.encoders(usual=phase_results.ENCODERS),
        beir_results.Places(options.output, options.build / "embeddings", options.build / "phase"),
        options.force,
        options.encode_only,
    )


def sign_part(options: argparse.Namespace, models: Models) -> None:
    """Measure how queries and B are associated."""
    sign_results.make_sign(
        options.datasets,
        models.encoders(usual=beir_results.ENCODERS),
        beir_results.Places(options.output, options.build / "embeddings", options.build / "sign"),
        options.force,
        LANGUAGES,
    )


def ablations_part(options: argparse.Namespace, models: Models) -> None:
    """Vary one setting of the rule at a time."""
    build = options.build
    ablation_results.make_ablations(
        options.datasets,
        models.encoders(usual=ablation_results.ENCODERS),
        beir_results.Places(options.output, build / "embeddings", build / "ablations"),
        options.force,
        LANGUAGES,
    )


# What `make results` makes, in this order; each part is called with the options and the models.
PARTS: dict[str, Callable[[argparse.Namespace, Models], None]] = {
    "themes": themes_part,
    "cases": cases_part,
    "beir": beir_part,
    "choice": choice_part,
    "phase": phase_part,
    "sign": sign_part,
    "ablations": ablations_part,
}


# --- the command --------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Make what the command line names; 0 when everything is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--parts", nargs="+", default=list(PARTS), choices=list(PARTS), help="default: all")
    add("--encoders", nargs="*", help="names or folders, for all parts; default: each part's own")
    add("--reranker", help="bge-reranker-v2-m3 or a cross-encoder's folder; default: none")
    add("--corpus", nargs="+", default=CORPORA, choices=results.CORPORA, help="theme corpora")
    add("--datasets", nargs="+", default=results.BENCHMARKS, choices=results.BENCHMARKS)
    add("--cost", action="store_true", help="time the step instead of making the parts")
    add("--documents", type=int, help="how many are embedded for --cost; default: all")
    add("--queries", type=int, help="how many are timed for --cost; default: all")
    add("--output", type=Path, default=ROOT / "book" / "results")
    add("--build", type=Path, default=ROOT / "book" / "_build", help="vectors, unfinished work")
    add("--force", action="store_true", help="make anew what is there already")
    add("--encode-only", action="store_true", help="of the part phase: fill the cache and stop")
    options = parser.parse_args(arguments)
    try:
        if options.cost:
            make_cost(options.output, options.force, options.documents, options.queries)
            return 0
        models = Models(options.encoders, options.reranker)
        for part in options.parts:
            PARTS[part](options, models)
    except (ImportError, OSError, ValueError) as error:
        parser.exit(1, f"{error}\n")
    except KeyboardInterrupt:
        parser.exit(130, "stopped; the same command goes on from here\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
