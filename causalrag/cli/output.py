"""What the commands write: results to standard output, messages and progress to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from causalrag.terminal import clean

__all__ = ["as_json", "progress", "say", "skip", "write"]


def as_json(value: Any) -> str:
    """Return JSON that the terminal's encoding can show."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=encoding != "utf8")


def write(text: str) -> None:
    """Write a result, unless its reader has gone."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough. The interpreter flushes again at exit: give it somewhere to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(message: str) -> None:
    """Write a warning or an error, in one line."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    sys.stderr.write(f"causalrag: {' '.join(clean(message).split())}\n")


def skip(path: object, reason: str) -> None:
    """Say that a file was left out."""
    say(f"warning: skipped {path}: {reason}")


def progress(work: str) -> Callable[[int, int], None]:
    """Return what shows ``work done/total`` on a terminal, and clears it at the end."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{work} {done}/{total}")
            if done == total:
                sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    return show
