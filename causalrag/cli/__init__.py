"""The command ``causalrag``: rank and explain text files, check claims, gate a corpus.

Exit codes: 0 ok, 1 a claim failed or was not run, 2 usage or unusable input, 130 interrupted.
Results go to standard output; warnings, errors and (on a terminal) progress to standard error. Each
command has a module, `rank` two; what they share is in `options`, `files` and `output`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from causalrag import __version__
from causalrag.cli import gate, rank, verify
from causalrag.cli.options import METHODS, Parser
from causalrag.cli.output import say

__all__ = ["METHODS", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; None takes the process's own.

    Returns
    -------
    int
        The exit code, see the module's first lines.
    """
    for stream in (sys.stdout, sys.stderr):
        # A file name or a text that the terminal cannot show must not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = _parser().parse_args(argv)
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        say(f"error: {error}")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="causalrag", description="Causal re-ranking of text files.")
    parser.add_argument("--version", action="version", version=f"causalrag {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    rank.add(commands)
    gate.add(commands)
    verify.add(commands)
    return parser
