"""The chapters keep to their conventions, say no number of their own, and run twice alike.

The first half reads the chapters as text and names file and line. The second half executes all of
them in two subprocesses that differ in the order of the chapters, the hash seed and the local date.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
TOC = ROOT / "book" / "_toc.yml"
FRONT_MATTER = {
    "jupytext": {"text_representation": {"extension": ".md", "format_name": "myst"}},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
}
FIRST = "You will be able to"
LAST = ["Claims settled here", "Exercise", "What can go wrong", "Next"]
CLAIM_MIME = "application/vnd.causalrag.claim+json"
TIME_LIMIT = 900  # s; half of it on two idle cores, with other tests beside it

LITERAL = {"code-cell", "code", "code-block", "math", "raw", "mermaid", "literalinclude"}
FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})\s*(?:\{([\w:+-]+)\})?\s*(.*?)\s*$")
OPTION = re.compile(r"^\s*:([\w-]+):\s*(.*)$")
CLAIM_ID = re.compile(r"[PAFO]\.\w+(?:\.\w+)*")

_NUMBER = r"\(?\d+(?:\.\d+)*\)?"
NOT_PROSE = [
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"^%.*$", re.M),
    re.compile(r"\$\$.*?\$\$", re.S),
    re.compile(r"\{[\w:+.-]+\}(`+)(?:(?!\n\n).)+?\1", re.S),  # roles: glue, cite, doc, math
    re.compile(r"(`+)(?:(?!\n\n).)+?\1", re.S),
    re.compile(r"(?<![\\$])\$(?:(?!\n\n)[^$])+\$", re.S),
    re.compile(r"\]\([^)\s]*\)"),
    re.compile(r"<?https?://[^\s>)]+>?"),
    re.compile(r"arXiv:\d+\.\d+"),
    re.compile(r"Python \d\.\d+"),
    re.compile(r"\b\d+ ?% (?:confidence )?(?:intervals?|level)\b"),  # a convention, not a finding
    re.compile(
        r'(?<![\w"])"(?=\S)[^"\n]* [^"\n]*(?<=\S)"(?!\w)|“[^”\n]* [^”\n]*”'
    ),  # a source quoted word for word
    re.compile(
        r"(?:\b(?:sections?|sect\.|eqs?\.|equations?|figures?|tables?|chapters?|appendix)|§+)\s*"
        rf"{_NUMBER}(?:\s*(?:,|–|-|and|or|to)\s*{_NUMBER})*",
        re.I,
    ),
]
TYPED = re.compile(
    r"\d+(?:\.\d+)?\s*(?:%|‰|percent\b|per cent\b|percentage point)"
    r"|(?<![\w.])\d*\.\d+(?![\w])|(?<!\w)\d+(?:\.\d+)?e[-+]?\d+\b",
    re.I,
)


@dataclass
class Cell:
    """A code cell: where its first line of code stands, its options, its code."""

    line: int
    options: dict[str, Any]
    code: str

    @property
    def tags(self) -> list[str]:
        return list(self.options.get("tags", []))


@dataclass
class Chapter:
    """A chapter read as text; `prose` has the chapter's line numbers, other lines are blank."""

    name: str
    front: dict[str, Any]
    prose: list[str]
    cells: list[Cell] = field(default_factory=list)
    titles: list[tuple[int, str, str]] = field(default_factory=list)  # line, directive, title

    @property
    def headings(self) -> list[tuple[int, int, str]]:
        """(line, level, text) of every heading, in order."""
        found = [(i, re.match(r"(#{1,6}) +(.+)", text)) for i, text in enumerate(self.prose, 1)]
        return [(i, len(m[1]), m[2].strip()) for i, m in found if m]

    def section(self, title: str) -> tuple[int, int]:
        """First and last line of a level-2 section, (0, -1) when it is missing."""
        starts = [(line, text) for line, level, text in self.headings if level == 2]
        for (line, text), following in zip(starts, [*starts[1:], None], strict=True):
            if text == title:
                return line, (following[0] - 1 if following else len(self.prose))
        return 0, -1

    def section_text(self, title: str) -> str:
        first, last = self.section(title)
        return "\n".join(self.prose[first : last + 1]) if first else ""


def _options(block: list[str]) -> tuple[dict[str, Any], int]:
    """Options of a directive and the number of lines they take."""
    if block and block[0].strip() == "---":
        end = next(i for i, text in enumerate(block[1:], 1) if text.strip() == "---")
        return yaml.safe_load("\n".join(block[1:end])) or {}, end + 1
    used = 0
    options: dict[str, Any] = {}
    while used < len(block) and (match := OPTION.match(block[used])):
        options[match[1]] = yaml.safe_load(match[2])
        used += 1
    return options, used


def _front_matter(lines: list[str]) -> tuple[dict[str, Any], int]:
    if not lines or lines[0].strip() != "---":
        return {}, 0
    end = next(i for i, text in enumerate(lines[1:], 1) if text.strip() == "---")
    return yaml.safe_load("\n".join(lines[1:end])) or {}, end + 1


def _closes(text: str, fence: str) -> bool:
    stripped = text.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


def parse(text: str, name: str = "chapter") -> Chapter:
    """Split a MyST notebook into prose and code cells, keeping line numbers."""
    lines = text.splitlines()
    front, i = _front_matter(lines)
    chapter = Chapter(name, front, [""] * len(lines))
    open_fences: list[str] = []
    while i < len(lines):
        match = FENCE.match(lines[i])
        if match is None:
            chapter.prose[i] = lines[i]
            i += 1
            continue
        fence, directive, rest = match[1], match[2], match[3]
        if open_fences and not directive and not rest and _closes(lines[i], open_fences[-1]):
            open_fences.pop()
            i += 1
        elif directive in LITERAL or (directive is None and fence[0] != ":"):
            end = next(
                (j for j in range(i + 1, len(lines)) if _closes(lines[j], fence)), len(lines)
            )
            if directive == "code-cell":
                options, used = _options(lines[i + 1 : end])
                code = "\n".join(lines[i + 1 + used : end])
                chapter.cells.append(Cell(i + 2 + used, options, code))
            i = end + 1
        else:
            chapter.titles.append((i + 1, directive or "", rest))
            chapter.prose[i] = rest
            options, used = _options(lines[i + 1 :]) if directive else ({}, 0)
            for j in range(i + 1, i + 1 + used):
                option = OPTION.match(lines[j])
                if option and option[1] in {"alt", "caption"}:
                    chapter.prose[j] = option[2]
            open_fences.append(fence)
            i += 1 + used
    return chapter


def typed_numbers(chapter: Chapter) -> list[str]:
    """Decimals and percentages typed where a value from the run belongs, as "file:line: text"."""
    found = list(enumerate(_masked("\n".join(chapter.prose)).split("\n"), 1))
    for cell in chapter.cells:
        found += [(cell.line, _masked(text)) for text in _caption_and_alt(cell)]
    return [
        f"notebooks/{chapter.name}.md:{line}: {match[0]!r}"
        for line, prose in found
        for match in TYPED.finditer(unicodedata.normalize("NFKC", prose))
    ]


def _masked(text: str) -> str:
    """Blank out what is not prose; every line keeps its place."""
    for pattern in NOT_PROSE:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def _caption_and_alt(cell: Cell) -> tuple[str, str]:
    mystnb = cell.options.get("mystnb") or {}
    figure, image = mystnb.get("figure") or {}, mystnb.get("image") or {}
    return str(figure.get("caption") or ""), str(image.get("alt") or "")


def _tree(cell: Cell) -> ast.Module:
    return ast.parse(
        "\n".join("" if x.lstrip().startswith("%") else x for x in cell.code.split("\n"))
    )


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


CLOCK = re.compile(
    r"(?:^|\.)(?:now|today|utcnow|perf_counter|monotonic|process_time|time_ns|urandom|uuid[14])$"
    r"|^time\.(?:time|ctime|strftime|localtime|gmtime)$"
)
SEEDED = {"default_rng", "Generator", "SeedSequence", "PCG64", "RandomState", "Random"}


def unrepeatable(cell: Cell) -> Iterator[tuple[int, str]]:
    """Calls whose value changes from run to run: the clock, or a generator without a seed."""
    for magic in re.finditer(r"^\s*%{1,2}(?:time|timeit|prun)\b", cell.code, re.M):
        yield cell.line + cell.code.count("\n", 0, magic.start()), magic[0].strip()
    for node in ast.walk(_tree(cell)):
        if not isinstance(node, ast.Call):
            continue
        name, last = _dotted(node.func), _dotted(node.func).rsplit(".", 1)[-1]
        if not name and isinstance(node.func, ast.Attribute):
            last = node.func.attr
        named = {keyword.arg for keyword in node.keywords}
        is_global = re.match(r"(?:np|numpy)\.random\.\w+$|random\.\w+$", name)
        unseeded = (
            (last in SEEDED and not node.args and not named)
            or (is_global and last not in SEEDED)
            or (last == "sample" and len(node.args) < 2 and not named & {"seed", "random_state"})
        )
        if CLOCK.search(name) or unseeded:
            yield cell.line + node.lineno - 1, f"{name or last}(...)"


def makes_figure(cell: Cell) -> bool:
    """Whether the code draws something that the page will show."""
    calls = {_dotted(n.func) for n in ast.walk(_tree(cell)) if isinstance(n, ast.Call)}
    drawing = re.compile(r"plt\.(?:subplots|figure)$|plots\.(?:draw_\w+|scatter_\w+|\w+_plot)$")
    return any(drawing.search(call) for call in calls) and "glue" not in calls


def recorded_in_code(chapter: Chapter) -> dict[str, int]:
    """Claim ids that stand as the first argument of a `.record(...)` call, and their lines."""
    return {
        str(node.args[0].value): cell.line + node.lineno - 1
        for cell in chapter.cells
        for node in ast.walk(_tree(cell))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "record"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def strings_in_code(chapter: Chapter) -> set[str]:
    return {
        node.value
        for cell in chapter.cells
        for node in ast.walk(_tree(cell))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def mentioned(text: str) -> list[str]:
    """Claim ids in backticks."""
    ticked = re.findall(r"(?<![`}])`([^`\n]+)`(?!`)", text)
    return [t for t in ticked if CLAIM_ID.fullmatch(t)]


# The chapters of the table of contents.


def _toc_files(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "file" in node:
            yield str(node["file"])
        for value in node.values():
            yield from _toc_files(value)
    elif isinstance(node, list):
        for value in node:
            yield from _toc_files(value)


def chapter_names() -> list[str]:
    files = _toc_files(yaml.safe_load(TOC.read_text(encoding="utf-8")))
    return [Path(f).stem for f in files if "notebooks/" in f]


@cache
def chapter(name: str) -> Chapter:
    return parse((ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8"), name)


@cache
def claim_ids() -> frozenset[str]:
    text = (ROOT / "causalrag" / "data" / "claims.yaml").read_text(encoding="utf-8")
    parts = yaml.safe_load(text).values()
    return frozenset(claim["id"] for part in parts for claim in part)


every_chapter = pytest.mark.parametrize("name", chapter_names())


def test_the_table_of_contents_names_files_that_exist_and_leaves_no_chapter_out():
    files = list(_toc_files(yaml.safe_load(TOC.read_text(encoding="utf-8"))))
    missing = [
        f
        for f in files
        if not (
            (ROOT / f).exists()
            or (ROOT / f).with_suffix(".md").exists()
            or (ROOT / f"{f}.md").exists()
        )
    ]
    assert missing == []
    assert sorted(p.stem for p in (ROOT / "notebooks").glob("*.md")) == sorted(chapter_names())


@every_chapter
def test_front_matter_makes_the_file_a_myst_notebook(name):
    front = dict(chapter(name).front)
    assert set(front.pop("claims", [])) <= claim_ids()  # claims a chapter settles without literals
    assert front == FRONT_MATTER


@every_chapter
def test_code_cells_are_those_that_jupytext_sees(name):
    jupytext = pytest.importorskip("jupytext")
    book = jupytext.read(ROOT / "notebooks" / f"{name}.md")
    seen = [c["source"].strip() for c in book.cells if c["cell_type"] == "code"]
    assert [c.code.strip() for c in chapter(name).cells] == seen


@every_chapter
def test_sections_stand_in_the_agreed_order(name):
    page = chapter(name)
    levels = [level for _, level, _ in page.headings]
    second = [text for _, level, text in page.headings if level == 2]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert second[0] == FIRST
    assert second[-len(LAST) :] == LAST
    assert len(second) > len(LAST) + 1, "no section of its own"
    title_line, first_line = page.headings[0][0], page.section(FIRST)[0]
    assert "".join(page.prose[title_line : first_line - 1]).strip(), "no opening paragraph"
    bullets = [x for x in page.section_text(FIRST).split("\n") if re.match(r"[-*] ", x)]
    assert 3 <= len(bullets) <= 4
    assert re.search(r"\]\(|\{doc\}`|\{ref\}`", page.section_text("Next")), "no link in Next"


@every_chapter
def test_the_reader_predicts_before_something_is_revealed(name):
    page = chapter(name)
    asked = [
        line
        for line, kind, title in page.titles
        if kind == "admonition" and title.startswith("Predict")
    ]
    reveals = [cell.line for cell in page.cells]
    reveals += [
        line
        for line, kind, title in page.titles
        if kind == "dropdown" and title.startswith("Reveal")
    ]
    assert asked
    assert all(any(line > question for line in reveals) for question in asked)


# Hard case 31: prose that says one thing beside a cell that prints another.
@every_chapter
def test_no_number_is_typed_into_prose(name):
    assert typed_numbers(chapter(name)) == []


@every_chapter
def test_claim_ids_in_prose_exist_and_match_what_is_recorded(name):
    page = chapter(name)
    told = mentioned("\n".join(page.prose))
    assert [c for c in told if c not in claim_ids()] == []
    assert {c: n for c, n in recorded_in_code(page).items() if c not in told} == {}
    settled = mentioned(page.section_text("Claims settled here"))
    assert [c for c in settled if c not in strings_in_code(page)] == []


@every_chapter
def test_every_figure_has_a_caption_and_alt_text(name):
    bare = [c.line for c in chapter(name).cells if makes_figure(c) and not all(_caption_and_alt(c))]
    assert bare == []


@every_chapter
def test_no_cell_reads_the_clock_or_draws_without_a_seed(name):
    assert [hit for cell in chapter(name).cells for hit in unrepeatable(cell)] == []


@every_chapter
def test_every_chapter_has_an_exercise_with_a_checked_hidden_solution(name):
    page = chapter(name)
    first, last = page.section("Exercise")
    titles = [t for line, kind, t in page.titles if first <= line <= last and kind == "dropdown"]
    inside = [c for c in page.cells if first <= c.line <= last]
    hidden = [c for c in inside if set(c.tags) & {"hide-cell", "hide-input"}]
    assert any(re.search(r"\bassert\b", c.code) for c in hidden)
    assert any("Solution" in title for title in titles) or "olution" in page.section_text(
        "Exercise"
    )


@pytest.mark.parametrize(
    "sums", sorted((ROOT / "causalrag" / "data").glob("*/SHA256SUMS")), ids=lambda p: p.parent.name
)
def test_a_frozen_corpus_has_not_changed(sums):
    frozen = dict(line.split()[::-1] for line in sums.read_text("utf-8").splitlines())
    assert {
        name: sha256((sums.parent / name).read_bytes()).hexdigest() for name in frozen
    } == frozen


# The checks themselves can fail.

PLANTED = """\
---
x: 1
---
# Title
In {glue:text}`r` of Section 3.2 and `0.5` and $r = 0.5$ and Eqs. 3.1 and 3.4
the value is 0.42 here.

````{admonition} About 12.5 per cent of it
:class: tip
```{code-cell} ipython3
---
mystnb:
  figure: {caption: "It is 7%"}
---
x = 0.1
```
It "fell" by 3 % and "no more" on a 95% interval, where the source says "at least 5 percent".
````
```python
y = 0.7
```
A cosine of .6, or １．５, see [here](page-2.0.html).
"""


def test_a_typed_number_is_found_with_file_and_line():
    assert typed_numbers(parse(PLANTED, "planted")) == [
        "notebooks/planted.md:6: '0.42'",
        "notebooks/planted.md:8: '12.5 per cent'",
        "notebooks/planted.md:17: '3 %'",
        "notebooks/planted.md:22: '.6'",
        "notebooks/planted.md:22: '1.5'",
        "notebooks/planted.md:15: '7%'",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "np.random.default_rng()",
        "rng = np.random.default_rng(seed=1); np.random.normal(size=3)",
        "import random; random.random()",
        "frame.sample(10)",
        "model().sample(10)",
        "datetime.date.today()",
        "pd.Timestamp.now()",
        "time.time()",
        "%timeit f()",
    ],
)
def test_a_clock_or_an_unseeded_generator_is_found(code):
    assert list(unrepeatable(Cell(1, {}, code)))


@pytest.mark.parametrize(
    "code",
    [
        "np.random.default_rng(7).normal()",
        "np.random.default_rng(seed=7)",
        "model.sample(10, 3)",
        "frame.sample(10, random_state=0)",
    ],
)
def test_a_seeded_generator_is_let_pass(code):
    assert list(unrepeatable(Cell(1, {}, code))) == []


# Execution, in a subprocess: `python tests/test_notebooks.py OUT CHAPTER...`


def _restore_state() -> None:
    """Undo what a chapter may have changed for the whole process."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    import pandas as pd

    plt.close("all")
    mpl.rcdefaults()
    pd.reset_option("all")


def _execute(shell: Any, name: str) -> dict[str, Any]:
    import matplotlib.pyplot as plt
    from IPython.utils.capture import capture_output

    shell.reset(new_session=True)
    _restore_state()
    records: list[Any] = []
    glued: dict[str, Any] = {}
    figures: list[int] = []
    for number, cell in enumerate(chapter(name).cells):
        # The trap goes outside: else run_cell puts its own display hook over the capturing one.
        with shell.display_trap, capture_output() as captured:
            result = shell.run_cell(cell.code)
        if not result.success:
            error = result.error_in_exec or result.error_before_exec
            raise SystemExit(f"notebooks/{name}.md:{cell.line}: {error!r}\n{captured.stdout}")
        for output in captured.outputs:
            bundle, metadata = output.data or {}, output.metadata or {}
            if CLAIM_MIME in bundle:
                found = bundle[CLAIM_MIME]
                found = json.loads(found) if isinstance(found, str) else found
                records += found if isinstance(found, list) else [found]
            if "scrapbook" in metadata:
                text = [v for mime, v in bundle.items() if mime.endswith("text/plain")]
                glued[metadata["scrapbook"]["name"]] = text
        if plt.get_fignums():
            figures.append(number)
            plt.close("all")
    return {"records": records, "glued": glued, "figures": figures}


def _main(out: str, names: list[str]) -> None:
    import warnings

    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    warnings.simplefilter("ignore")
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    Path(out).write_text(json.dumps({name: _execute(shell, name) for name in names}), "utf-8")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory) -> list[dict[str, Any]]:
    """All chapters forwards, and backwards with another hash seed on another local date."""
    folder = tmp_path_factory.mktemp("runs")
    names = chapter_names()
    started = []
    # The two zones are 26 hours apart: at any moment their dates differ.
    for i, (order, seed, zone) in enumerate(
        [(names, "0", "Etc/GMT+12"), (names[::-1], "4321", "Etc/GMT-14")]
    ):
        env = dict(
            os.environ,
            PYTHONHASHSEED=seed,
            TZ=zone,
            MPLBACKEND="Agg",
            IPYTHONDIR=str(folder / f"ipython{i}"),
        )
        out = folder / f"{i}.json"
        command = [sys.executable, __file__, str(out), *order]
        started.append(
            (
                out,
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env=env,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                ),
            )
        )
    try:
        for _, process in started:
            log, _ = process.communicate(timeout=TIME_LIMIT)
            assert process.returncode == 0, log[-3000:]
    finally:
        for _, process in started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    return [json.loads(out.read_text("utf-8")) for out, _ in started]


# Hard case 32: a chapter run twice, out of order, or on another day.
@every_chapter
def test_a_chapter_gives_the_same_numbers_in_another_order_on_another_day(two_runs, name):
    forwards, backwards = two_runs[0][name], two_runs[1][name]
    assert forwards["records"] == backwards["records"]
    assert forwards["glued"] == backwards["glued"]


@every_chapter
def test_the_claims_listed_as_settled_are_those_recorded(two_runs, name):
    recorded = {record["id"] for record in two_runs[0][name]["records"]}
    assert recorded == set(mentioned(chapter(name).section_text("Claims settled here")))


@every_chapter
def test_every_cell_that_leaves_a_figure_has_a_caption_and_alt_text(two_runs, name):
    drawn = [chapter(name).cells[number] for number in two_runs[0][name]["figures"]]
    assert [cell.line for cell in drawn if not all(_caption_and_alt(cell))] == []


def test_every_glued_name_in_prose_is_made_by_its_chapter(two_runs):
    asked = {
        (name, used)
        for name in chapter_names()
        for used in re.findall(r"\{glue:\w+\}`([^`:]+)", "\n".join(chapter(name).prose))
    }
    made = {(name, key) for name, result in two_runs[0].items() for key in result["glued"]}
    assert asked - made == set()


def test_every_claim_about_the_graph_and_every_arithmetic_one_is_judged(two_runs):
    from causalrag.claims import load_claims

    owed = {
        claim.id
        for claim in load_claims().values()
        if claim.part == "graph" or claim.kind == "arithmetic"
    }
    recorded = {record["id"] for result in two_runs[0].values() for record in result["records"]}
    assert owed - recorded == set()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
