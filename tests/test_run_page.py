"""What the page of run times and versions says agrees with what is installed and stored."""

from __future__ import annotations

import json
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="needs the extra `book`")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import run_page  # noqa: E402

PROJECT = {
    "project": {
        "dependencies": ["numpy>=2", "Jinja2"],
        "optional-dependencies": {"a": ["no-such-package>=1"], "b": ["numpy", "pytest[x]>=8"]},
    }
}


def test_packages_are_listed_once_with_the_installed_version_and_all_that_ask_for_them():
    assert run_page.versions(PROJECT) == [
        ("Jinja2", metadata.version("jinja2"), "the library"),
        ("no-such-package", run_page.NONE, "extra a"),
        ("numpy", metadata.version("numpy"), "the library, extra b"),
        ("pytest", metadata.version("pytest"), "extra b"),
    ]


def test_the_machine_is_described_without_its_name():
    said = run_page.machine()
    assert platform.python_version() in said
    assert re.search(r"\b[1-9]\d* cores?\b", said)
    assert platform.node() not in said or not platform.node()


def write(folder: Path, name: str, **about: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"provenance": about}), encoding="utf-8")


def test_a_part_sums_up_its_files(tmp_path):
    write(
        tmp_path, "beir/a.json", made="2026-02-03", model={"name": "use"},
        versions={"python": "3.12.1"}, platform={"cpus": 2},
    )  # fmt: skip
    write(
        tmp_path, "beir/deeper/b.json", made="2026-01-31", model={"name": "use + minilm"},
        versions={"python": "3.11.7"}, platform={"cpus": 2},
    )  # fmt: skip
    write(tmp_path, "cost.json", made="2026-02-03")
    (tmp_path / "README.md").write_text("no result")
    (tmp_path / "other.json").write_text("{}")
    dash = run_page.NONE
    assert run_page.stored(tmp_path) == [
        ("beir", "2", "2026-01-31 to 2026-02-03", "minilm, use", "3.11.7, 3.12.1", "2"),
        ("cost", "1", "2026-02-03", dash, dash, dash),
    ]


def test_every_stored_result_of_the_book_is_counted():
    folder = ROOT / "book" / "results"
    files = [p for p in folder.rglob("*") if p.suffix in (".json", ".parquet")]
    rows = run_page.stored(folder)
    assert sum(int(row[1]) for row in rows) == len(files) > 0
    assert {row[0] for row in rows} == {
        path.stem for path in folder.iterdir() if path.name != "README.md"
    }
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d( to \d{4}-\d\d-\d\d)?", row[2]) for row in rows)


def test_a_table_has_as_many_cells_in_each_row_as_heads():
    built = run_page.table(("a", "b"), [("1", "2"), ("3", "4")], foot=("5", "6"))
    rows = list(built.findall(run_page.nodes.row))
    assert [len(row) for row in rows] == [2, 2, 2, 2]
    assert built.astext().split() == ["a", "b", "1", "2", "3", "4", "5", "6"]
