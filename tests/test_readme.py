"""What README.md shows is what the library does: its Python block, its commands, its targets."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The contents of the README's fenced blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.M | re.S)


def run(command: list[str], **options) -> str:
    """Run a command offline in a clean environment and return what it printed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAUSALRAG_")}
    env |= {"PYTHONUTF8": "1", "PYTHONWARNINGS": "error::DeprecationWarning:causalrag"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def cli(arguments: list[str], folder: Path) -> str:
    return run([sys.executable, "-m", "causalrag.cli", *arguments], cwd=folder)


def test_the_python_block_prints_the_text_block_below_it(tmp_path):
    pairs = re.findall(r"^```python\n(.*?)^```\n+^```text\n(.*?)^```$", README, flags=re.M | re.S)
    assert len(pairs) == len(blocks("python")) >= 1
    for code, shown in pairs:
        assert run([sys.executable, "-c", code], cwd=tmp_path) == shown


def cli_commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(x, comments=True) for x in lines if x.startswith("causalrag ")]


def test_readme_shows_the_command_line():
    assert "rank" in {command[1] for command in cli_commands()}


@pytest.mark.parametrize("command", cli_commands(), ids=" ".join)
def test_each_command_ranks_the_files_it_names(command, tmp_path):
    question, *paths = itertools.takewhile(lambda part: not part.startswith("-"), command[2:])
    assert all((ROOT / path).exists() for path in paths)
    for i, path in enumerate(paths):  # a small stand-in for the folder, so that the test is fast
        folder = tmp_path / path
        folder.mkdir(parents=True)
        (folder / f"{i}-tap.txt").write_text("Close the tap and dry the joint.\n", "utf-8")
        (folder / f"{i}-bread.txt").write_text(f"{question} Bread rises overnight.\n", "utf-8")
    printed = cli(command[1:], tmp_path)
    if "--json" in command:
        rows = json.loads(printed)
        assert [row["rank"] for row in rows] == list(range(1, 2 * len(paths) + 1))
        assert {"rank", "id", "path", "score", "base", "causal"} <= set(rows[0])
    else:
        assert all(name in printed for name in ("0-tap.txt", "0-bread.txt"))


def test_the_gate_command_in_the_text_decides_on_the_files_it_names(tmp_path):
    (command,) = re.findall(r"`(causalrag gate [^`]+)`", README)
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FOLDER" / "tap.txt").write_text("Close the tap and dry the joint.\n", "utf-8")
    (tmp_path / "FOLDER" / "bread.txt").write_text("Yeast makes gas; bread rises.\n", "utf-8")
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "1", "text": "why does bread rise"}\n', "utf-8"
    )
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tbread.txt\t1\n", "utf-8")
    printed = cli(shlex.split(command)[1:], tmp_path)
    assert "abstain" in printed  # one probe proves nothing


def test_every_make_target_named_exists():
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)\b", README))
    rules = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    assert {"book", "test"} <= named
    assert named <= set(rules)


def test_every_file_linked_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r'src="([^"]+)"', README)
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (ROOT / link).exists()] == []
    assert any(link.endswith(".png") for link in local)


def test_readme_stays_short():
    assert len(README.splitlines()) < 120


def test_the_picture_is_what_its_comment_draws(tmp_path):
    """README and the landing page show a stored picture: it must be the one the library draws."""
    import matplotlib.image as mpl_image
    import numpy as np

    code = re.search(r"<!-- The picture is made by:\n(.*?)-->", README, re.DOTALL)[1]
    drawn = tmp_path / "graph.png"
    code = textwrap.dedent(code).replace("book/_static/graph.png", drawn.as_posix())
    run = f"import matplotlib; matplotlib.use('Agg'); import causalrag as cr\n{code}"
    subprocess.run([sys.executable, "-c", run], check=True, timeout=120)
    old, new = (mpl_image.imread(path) for path in (ROOT / "book/_static/graph.png", drawn))
    assert old.shape == new.shape
    assert np.abs(old - new).mean() < 0.01  # fonts are drawn a little differently elsewhere
