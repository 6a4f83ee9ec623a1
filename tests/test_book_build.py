"""`make book` on a book of two chapters: what is executed again, and what turns the build red.

The chapters are tiny; Makefile, configuration, extension and library are the project's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytest.importorskip("jupyter_book", reason="needs the extra `book`")
sys.path.append(str(ROOT / "book" / "_ext"))

FRONT = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

"""


def chapter(title: str, *cells: str, text: str = "") -> str:
    code = "\n\n".join(f"```{{code-cell}} ipython3\n{cell}\n```" for cell in cells)
    return f"{FRONT}# {title}\n\n{text}\n\n{code}\n"


def settled(*claims: str) -> str:
    return "\n## Claims settled here\n\n" + "\n".join(f"- `{claim}`" for claim in claims) + "\n"


def record(name: str, claim: str, **evidence: object) -> str:
    return (
        f"from causalrag.claims import Recorder\nRecorder({name!r}).record({claim!r}, **{evidence})"
    )


SOUND = {
    "book/_toc.yml": "{format: jb-book, root: book/index, chapters: "
    "[{file: notebooks/01_one}, {file: notebooks/02_two}, {file: book/ledger}]}",
    "book/index.md": "# A book\n\n{ledger-count}`holds` of {ledger-count}`claims` claims hold.\n",
    "book/ledger.md": "# Ledger\n\n```{claims-ledger}\n```\n",
    "book/references.bib": "",
    "notebooks/01_one.md": chapter(
        "One",
        "from causalrag.made_up import ANSWER\nprint('answer', ANSWER)",
        record("01_one", "P.obs1.opened", holds=True),
    )
    + settled("P.obs1.opened"),
    "notebooks/02_two.md": chapter("Two", "print(6 * 7)"),
    "causalrag/made_up.py": "ANSWER = 41\n",
    ".pytest_cache/README.md": "# A page of no book\n",  # lies there once the tests have run
}


class Book:
    """A small checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("book/_ext", "book/_static", "book/_vendor", "causalrag", "requirements"):
            shutil.copytree(
                ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("Makefile", "pyproject.toml", "book/_config.yml", "book/run_chapters.py"):
            shutil.copy(ROOT / name, root / name)
        self.write(SOUND)
        (root / ".ready").touch()  # the environment is the one that runs this test

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def make(self, *arguments: str) -> tuple[int, str]:
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        environment = outer | {"PYTHONPATH": str(self.root), "NO_COLOR": "1", "COLUMNS": "500"}
        done = subprocess.run(
            ["make", f"PY={sys.executable}", "READY=.ready", *arguments],
            cwd=self.root, env=environment, capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip
        log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        return done.returncode, log

    def page(self, name: str) -> str:
        return (self.root / "book/_build/html" / name).read_text(encoding="utf-8")

    @property
    def records(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "book/_build/records").glob("*.json"))


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Book:
    """The small book, built once. A blank in the path: users have them."""
    made = Book(tmp_path_factory.mktemp("a checkout"))
    made.code, made.log = made.make("book")
    return made


def executions(log: str) -> list[str]:
    return re.findall(r"(\w+)\.md: Executing notebook", log)


def test_a_sound_book_is_built_and_says_where_to_open_it(book):
    assert book.code == 0, book.log
    assert executions(book.log) == ["01_one", "02_two"]
    assert f"Open {book.root}/book/_build/html/index.html" in book.log
    assert "answer 41" in book.page("notebooks/01_one.html")


def test_records_reach_the_folder_the_counts_and_the_ledger(book):
    from causalrag.claims import load_claims

    assert book.records == ["claim-p-obs1-opened"]
    counts = re.findall(r'ledger-count">(\d+)', book.page("book/index.html"))
    assert counts == ["1", str(len(load_claims()))]
    assert 'href="../notebooks/01_one.html#claim-p-obs1-opened"' in book.page("book/ledger.html")
    assert 'id="claim-p-obs1-opened"' in book.page("notebooks/01_one.html")


def test_an_unchanged_book_executes_nothing_and_loses_nothing(book):
    code, log = book.make("book")
    assert code == 0, log
    assert executions(log) == []
    assert book.records == ["claim-p-obs1-opened"]
    notebook = json.loads(book.page("_sources/notebooks/01_one.ipynb"))
    outputs = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert outputs[0][0]["text"] in ("answer 41\n", ["answer 41\n"])


# Hard case 33: the library edited, the book rebuilt.
def test_an_edited_library_leaves_no_stale_output(book):
    book.write({"causalrag/made_up.py": "ANSWER = 42\n"})
    code, log = book.make("book")
    assert code == 0, log
    assert executions(log) == ["01_one", "02_two"]
    assert "answer 42" in book.page("notebooks/01_one.html")
    assert len(list((book.root / "book/_build/.jupyter_cache").iterdir())) == 1


def test_verify_runs_the_owning_chapter_alone_and_keeps_the_other_records(book):
    code, log = book.make("verify", "CLAIM=P.obs1.opened")
    assert code == 0, log
    assert "ran 01_one" in log
    assert "02_two" not in log
    code, log = book.make("verify", "CLAIM=P.obs1.open")
    assert code != 0
    assert "'P.obs1.open' is no claim; near: P.obs1.opened" in log


FAULTS = {
    "notebooks/01_one.md": chapter("One", "print('before')\nraise RuntimeError('boom')"),
    "notebooks/02_two.md": chapter(
        "Two",
        record("02_two", "P.obs1.opened", holds=False),
        text="[nowhere](no_such_page.md), {ledger-count}`no such verdict`",
    )
    + settled("P.obs1.opened", "P.obs1.marginal"),
}
MESSAGES = {
    "a failing cell": r"01_one\.md: WARNING: Executing notebook failed: CellExecutionError",
    "its traceback": r"RuntimeError: boom",
    "its report": r"Report of a failed cell: book/_build/html/reports/notebooks/01_one\.err\.log",
    "a broken link": r"02_two\.md:\d+: WARNING: .*no_such_page\.md",
    "a claim that fails": r"WARNING: claim P\.obs1\.opened \(structural\) fails",
    "a claim without a record": r"WARNING: claim P\.obs1\.marginal: .* hold no record",
    "a count of nothing": r"WARNING: ledger-count: 'no such verdict' is none of the verdicts",
}


@pytest.fixture(scope="module")
def faulty(book) -> tuple[int, str]:
    book.write(FAULTS)
    built = book.make("book")
    verified = book.make("verify", "CLAIM=P.obs1.opened")
    return *built, *verified


def test_a_faulty_book_is_not_built(faulty):
    assert faulty[0] != 0
    assert "The book was not built" in faulty[1]
    assert not re.search("^Open ", faulty[1], re.MULTILINE)


@pytest.mark.parametrize("fault", MESSAGES)
def test_the_build_names_each_fault(faulty, fault):
    assert re.search(MESSAGES[fault], faulty[1]), faulty[1]


def test_verify_is_red_when_an_exact_claim_fails(faulty):
    assert faulty[2] != 0
    assert "P.obs1.opened" in faulty[3]


# -- the key of the execution cache ---------------------------------------------------------------


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("CAUSALRAG_DATA", raising=False)
    for name in ("causalrag/graph.py", "causalrag/data/claims.yaml", "requirements/book.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    return tmp_path


def key(root: Path) -> str:
    from book_chapters import inputs_key

    return inputs_key(root, root / "causalrag")


@pytest.mark.parametrize(
    "name",
    [
        "causalrag/graph.py",
        "causalrag/data/claims.yaml",
        "causalrag/new.py",
        "requirements/book.lock",
        "book/results/beir/scifact.parquet",
    ],
)
def test_the_key_changes_with_each_input(tree, name):
    before = key(tree)
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("two")
    assert key(tree) != before


def test_the_key_changes_when_data_arrive(tree, tmp_path_factory, monkeypatch):
    before = key(tree)
    data = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("CAUSALRAG_DATA", str(data))
    assert key(tree) == before
    (data / "scifact.zip").write_text("data")
    with_data = key(tree)
    assert with_data != before
    (data / "scifact.zip").write_text("atad")  # the same name and size
    assert key(tree) not in (before, with_data)


def test_the_key_changes_when_ir_datasets_has_fetched_an_archive(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    before = key(tree)
    (tmp_path / "home/beir/scifact").mkdir(parents=True)
    (tmp_path / "home/beir/scifact/source.zip.tmp").write_text("half")
    assert key(tree) == before
    (tmp_path / "home/beir/scifact/source.zip").write_text("whole")
    assert key(tree) != before


def test_the_key_ignores_bytecode_and_the_place_of_the_checkout(tree, tmp_path_factory):
    before = key(tree)
    (tree / "causalrag/__pycache__").mkdir()
    (tree / "causalrag/__pycache__/graph.pyc").write_text("bytecode")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(tree, elsewhere)
    assert key(tree) == key(elsewhere) == before
