"""What the commands' arguments have in common: the parser, the methods and the rule's settings."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from typing import Any, NoReturn

from causalrag.cli.output import say
from causalrag.terminal import fold

__all__ = ["METHODS", "Parser", "add_rule", "command", "count", "listed"]

METHODS = {
    "similarity": "the first stage: cosine of query and document",
    "causal": "cosine of the query and the document's residual words (B), what is left once the "
    "words it shares with the query (A) are taken out",
    "causal_fallback": "causal; documents without residual words follow, by similarity",
    "hybrid": "half similarity, half causal, each scaled to [0, 1] over the candidates",
    "adjusted": "similarity, raised for the query's words that are there, lowered where they are "
    "repeated more than texts do by nature",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and exit with 2."""
        # One line, without the usage block that argparse puts before it.
        say(f"error: {message} (try '{self.prog} --help')")
        raise SystemExit(2)


def command(
    commands: Any, name: str, summary: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    """Add a command whose help is laid out here, not by argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description="\n".join(fold(description, _columns())),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def listed(title: str, entries: dict[str, str]) -> str:
    """Lay out names with their explanations, for a help text."""
    width = max(map(len, entries))
    lines = [f"{title}:"]
    for name, text in entries.items():
        folded = fold(text, _columns() - width - 4)
        lines.append(f"  {name:<{width}}  {folded[0]}")
        lines += [" " * (width + 4) + line for line in folded[1:]]
    return "\n".join(lines)


def _columns() -> int:
    return max(40, shutil.get_terminal_size().columns - 2)


def add_rule(parser: argparse.ArgumentParser, methods: Sequence[str]) -> None:
    """Add the settings of the rule; the hybrid is the default method."""
    parser.add_argument(
        "--method", choices=tuple(methods), default="hybrid", help="see below; default: hybrid"
    )
    parser.add_argument(
        "--encoder", default="use", help="name of an encoder or a model folder; default: use"
    )
    parser.add_argument(
        "--tau",
        type=threshold,
        default=0.6,
        help="cosine from which a word is absorbed by a query word, or auto: the encoder's own; "
        "default: 0.6",
    )
    parser.add_argument(
        "--absorption",
        choices=("semantic", "exact"),
        default="semantic",
        help="absorb words near a query word, or equal words only; default: semantic",
    )


def threshold(text: str) -> float | str:
    """Read a number, or "auto"."""
    return text if text == "auto" else float(text)


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
