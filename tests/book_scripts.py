"""The book's scripts as modules, which find each other as when they are run."""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

BOOK = Path(__file__).resolve().parent.parent / "book"


@contextmanager
def book_scripts(*names):
    """Import scripts afresh: what one test file has patched is not seen by the next."""
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BOOK)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    _forget()


def _forget():
    for path in BOOK.glob("*.py"):
        sys.modules.pop(path.stem, None)
