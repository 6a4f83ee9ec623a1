"""The files around the library agree with each other: requirements, locks, commands, workflows."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13")
HERE = {"sys_platform": "linux", "platform_machine": "x86_64"}  # where every extra has wheels
DOCUMENTED = [
    "bench",
    "book",
    "clean",
    "env",
    "help",
    "lab",
    "lint",
    "lock",
    "results",
    "site",
    "test",
    "test-book",
    "test-models",
    "verify",
]


def wanted(*extras: str) -> list[Requirement]:
    """Requirements of the project and of some extras."""
    lines = [*PYPROJECT["project"]["dependencies"]]
    for extra in extras:
        lines += EXTRAS.get(extra, [])
    return [Requirement(line) for line in lines]


def pins(name: str) -> dict[str, Requirement]:
    """The pins of a lock file by package."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    found = [Requirement(line) for line in lines if line]
    assert len({canonicalize_name(pin.name) for pin in found}) == len(found)
    return {canonicalize_name(pin.name): pin for pin in found}


def version_of(pin: Requirement) -> str:
    (only,) = pin.specifier
    assert only.operator == "=="
    return only.version


LOCKS = {"book.lock": ("book", "beir", "dev"), "models.lock": ("models", "e5", "dev")}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_requirement_within_its_bounds(lock):
    pinned = pins(lock)
    for requirement in wanted(*LOCKS[lock]):
        pin = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version_of(pin)), f"{pin} is outside {requirement}"
        assert pin.marker is None or pin.marker.evaluate(HERE), f"{pin} leaves out {HERE}"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_everything_exactly(lock):
    assert all(version_of(pin) for pin in pins(lock).values())


def test_both_locks_pin_the_same_version_of_what_they_share():
    book, models = pins("book.lock"), pins("models.lock")
    differing = {
        name: (version_of(book[name]), version_of(models[name]))
        for name in book.keys() & models.keys()
        if version_of(book[name]) != version_of(models[name])
    }
    assert differing == {}


def test_no_lock_brings_torch_to_the_book_or_cuda_to_anyone():
    assert "torch" not in pins("book.lock")
    assert [n for n in pins("models.lock") if n.startswith(("nvidia-", "cuda-", "triton"))] == []


def test_the_lock_holds_the_generation_of_jupyter_book_that_builds_offline():
    assert version_of(pins("book.lock")["jupyter-book"]).split(".")[0] == "1"


# -- environment.yml ------------------------------------------------------------------------------


def full_set() -> dict[str, Requirement]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    listed = [Requirement(line) for line in pip if not line.startswith("-")]
    assert "--editable ." in pip
    return {canonicalize_name(requirement.name): requirement for requirement in listed}


@pytest.mark.parametrize("requirement", wanted(*EXTRAS), ids=str)
def test_environment_yml_holds_every_requirement_with_its_bounds(requirement):
    listed = full_set()[canonicalize_name(requirement.name)].specifier
    exact = [part.version for part in listed if part.operator == "=="]
    if exact:
        assert requirement.specifier.contains(exact[0])
    else:
        assert set(requirement.specifier) <= set(listed)


def test_transformers_stays_below_the_version_that_breaks_flagembedding():
    bounds = [r.specifier for r in wanted("models") if canonicalize_name(r.name) == "transformers"]
    bounds.append(full_set()["transformers"].specifier)
    assert len(bounds) == 2
    for bound in bounds:
        assert not bound.contains("5.24.0")
        assert bound.contains("5.23.0")
    assert bounds[0].contains(version_of(pins("models.lock")["transformers"]))


def test_environment_yml_takes_the_pythons_of_the_project():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (python,) = (e for e in environment["dependencies"] if str(e).startswith("python"))
    lowest = PYPROJECT["project"]["requires-python"]
    assert str(python).startswith(f"python{lowest}")


# -- commands -------------------------------------------------------------------------------------


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_make_alone_lists_the_targets():
    listed = make()
    assert listed.returncode == 0
    assert sorted(re.findall(r"^  make ([a-z-]+)", listed.stdout, re.MULTILINE)) == DOCUMENTED


@pytest.mark.parametrize("target", DOCUMENTED)
def test_a_listed_target_can_be_made(target):
    assert make("--dry-run", target).returncode == 0


NAMING_TARGETS = [
    "README.md", "CONTRIBUTING.md", "book/index.md", "book/teach.md", "book/review.md",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMING_TARGETS)
def test_a_text_names_only_targets_that_exist(name):
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"there is no {name}")
    named = re.findall(
        r"(?:`|^\s*\$? ?)make ([a-z][a-z-]*)", path.read_text(encoding="utf-8"), re.M
    )
    assert set(named) <= set(DOCUMENTED)


@pytest.mark.parametrize(
    "line", re.findall(r"^make .+$", (ROOT / "book/review.md").read_text(), re.M)
)
def test_a_command_of_the_reviewers_page_can_be_made(line):
    """Words such as ENCODERS must be variables of the Makefile: make takes any name silently."""
    words = shlex.split(line)[1:]
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, equals, _ = word.partition("=")
        assert not equals or f"$({name})" in text, f"the Makefile knows no {name}"
    assert make("--dry-run", *words).returncode == 0


def test_the_output_on_the_reviewers_page_is_what_the_command_prints(tmp_path):
    page = (ROOT / "book" / "review.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    claim = "P.obs1.marginal"
    assert f"make verify CLAIM={claim}\n" in page
    ran = subprocess.run(
        [sys.executable, "book/run_chapters.py", claim, "--build", tmp_path],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=170,
    )  # fmt: skip
    judged = subprocess.run(
        [sys.executable, "-m", "causalrag.cli", "verify", "--records", tmp_path / "records", claim],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    printed = re.sub(r"in [0-9.]+ s\n", "in … s\n", ran.stdout) + judged.stdout
    assert printed == shown


def test_an_old_python_is_refused_by_name(tmp_path):
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.10.4" && exit 0\nexit 1\n')
    old.chmod(0o755)
    made = make("--always-make", "env", f"PYTHON={old}")
    assert made.returncode != 0
    assert "Python 3.11 or later is needed; found: Python 3.10.4" in made.stderr


def test_ci_runs_every_check_and_is_valid_bash():
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert "set -euo pipefail" in text
    steps = re.findall(r"^step make (\S+)$", text, re.MULTILINE)
    assert steps == ["env", "lint", "test", "test-models", "book", "test-book"]


# -- workflows ------------------------------------------------------------------------------------

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_says_otherwise(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job or name == "deploy"
        assert job.get("permissions", {}) in ({}, {"pages": "write", "id-token": "write"})


def test_the_suite_runs_on_every_python_the_project_names():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PYPROJECT["project"]["classifiers"]))
    assert workflow["jobs"]["suite"]["strategy"]["matrix"]["python"] == classified == list(PYTHONS)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_cached_outputs_are_keyed_on_the_lock_the_library_and_the_chapters(path):
    text = path.read_text(encoding="utf-8")
    keys = re.findall(r"key: (book-.*)", text)
    assert keys
    for key in keys:
        assert all(part in key for part in ("book.lock", "causalrag/**", "notebooks/**"))


# -- the book's list of pages ---------------------------------------------------------------------


def toc() -> list[str]:
    contents = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))
    files = [c["file"] for part in contents["parts"] for c in part["chapters"]]
    return [contents["root"], *files]


def test_every_page_of_the_contents_exists():
    assert [name for name in toc() if not (ROOT / f"{name}.md").is_file()] == []


def test_every_chapter_is_in_the_contents():
    chapters = {f"notebooks/{p.stem}" for p in (ROOT / "notebooks").glob("*.md")}
    assert chapters - set(toc()) == set()


def test_the_book_is_configured_to_be_strict_and_offline():
    config = yaml.safe_load((ROOT / "book" / "_config.yml").read_text(encoding="utf-8"))
    sphinx = config["sphinx"]["config"]
    assert config["execute"]["allow_errors"] is False
    assert config["only_build_toc_files"] is True
    assert "sphinx_thebe" not in sphinx["extensions"]
    assert (ROOT / "book" / "_vendor" / sphinx["mathjax_path"]).is_file()
    assert "://" not in sphinx["mathjax_path"]
    for name in (sphinx["html_logo"], config["html"]["favicon"]):
        assert (ROOT / name).is_file()
