"""The command line on real files with the default encoder: output, streams and exit codes."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import causalrag as cr
from causalrag import cli, terminal
from causalrag.claims import Recorder, load_claims, write_records
from causalrag.cli.files import texts
from causalrag.cli.rank import table
from causalrag.rerank import METHODS

COMMAND = [sys.executable, "-m", "causalrag.cli"]

FILES = {
    "answer.txt": "Yeast eats sugar and gives off carbon dioxide. Gluten traps the gas and the "
    "dough swells until the oven sets it.",
    "stuffed.md": "Why does bread rise? Bread rise, bread rises, why bread rises: bread.",
    "notes/river.txt": "The river rose after a week of rain in the hills; the bridge was closed.",
    "notes/面包发酵的原理与面筋网络的形成过程说明.txt": "酵母把糖分解成二氧化碳，面筋包住气体，"
    "面团就膨胀起来，烘烤后定型。",
    "notes/天气.md": "连续一周的大雨之后，河水上涨，桥梁关闭。",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8-sig" if name == "stuffed.md" else "utf-8")
    (root / "blank.txt").write_text(" \n")
    (root / ".hidden.txt").write_text("bread")
    (root / ".git").mkdir()
    (root / ".git" / "inside.txt").write_text("bread")
    (root / "paper.pdf").write_text("bread")
    (root / "image.txt").write_bytes(b"\x89PNG\0\0")
    (root / "gbk.txt").write_bytes("面包".encode("gbk"))
    (root / "gone.txt").symlink_to(root / "nowhere")
    return root


def run(*arguments, columns=None, **options):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": str(columns or 80)}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        timeout=120,
        check=False,
        **options,
    )


def cells(line):
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def test_rank_json_lists_every_readable_file_and_names_the_skipped_ones(folder):
    done = run("rank", "why does bread rise", folder, "--json")
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    assert [list(row) for row in rows] == [["rank", "id", "path", "score", "base", "causal"]] * 6
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {row["path"] for row in rows} == {str(folder / name) for name in [*FILES, "blank.txt"]}
    assert len({row["id"] for row in rows}) == 6
    assert rows[-1]["path"] == str(folder / "blank.txt")
    warnings = sorted(line for line in done.stderr.splitlines() if line)
    assert warnings == [
        f"causalrag: warning: skipped {folder}/gbk.txt: not UTF-8 text; convert it to UTF-8 first",
        f"causalrag: warning: skipped {folder}/gone.txt: not a regular file",
        f"causalrag: warning: skipped {folder}/image.txt: not a text file",
    ]
    # Similarity is fooled by the stuffed file, which has no residual words left to score.
    assert max(rows, key=lambda row: row["base"])["path"].endswith("stuffed.md")
    assert "answer.txt" in rows[0]["path"] + rows[1]["path"]


def test_rank_of_a_chinese_query_is_the_library_s_and_fits_a_narrow_terminal(folder):
    query = "面包为什么会膨胀"
    done = run("rank", query, folder / "notes", folder / "answer.txt", columns=50)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["rank", "score", "base", "causal", "path"]
    assert max(map(cells, lines)) <= 50
    texts = [text for name, text in FILES.items() if name != "stuffed.md"]
    reranker = cr.CausalReranker("use", cr.TfidfKeywords.fit(texts))
    ranking = reranker.rank(query, texts)
    assert [line.split()[1] for line in lines[1:5]] == [f"{r.score:.4f}" for r in ranking]
    assert "过程说明.txt" in lines[1]


def test_explain_says_which_words_were_absorbed(folder):
    done = run("explain", "why does bread rise", folder, "--top-k", "2", "--method", "causal")
    assert done.returncode == 0
    assert "query keywords:" in done.stdout
    assert "method causal, tau 0.6, absorption semantic; 2 of 6 candidates shown" in done.stdout
    assert "dough (by bread, 0." in done.stdout
    assert "residual (B" in done.stdout
    assert done.stdout.count("\n#") == 2


def interrupted(folder):
    """Run on a terminal, interrupt while it encodes, and return the exit code and the output."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "rank", "bread", str(folder)],
        stdout=subprocess.PIPE,
        stderr=other,
        # A test run in the background ignores the signal, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(other)
    output = b""
    with contextlib.suppress(OSError):  # the terminal closes with the process
        while piece := os.read(main, 1000):
            if b"encoding" in output + piece and b"encoding" not in output:
                process.send_signal(signal.SIGINT)
            output += piece
    assert process.stdout.read() == b""
    process.stdout.close()
    os.close(main)
    return process.wait(timeout=60), output.decode()


def test_an_interrupt_ends_with_130_and_one_line_and_progress_shows_on_a_terminal(tmp_path):
    for number in range(200):
        (tmp_path / f"{number}.txt").write_text(f"{number} " + "bread rises slowly " * 200)
    code, output = interrupted(tmp_path)
    assert code == 130
    assert "encoding 32/200" in output
    assert output.replace("\r\x1b[K", "\n").split("\n")[-2].strip() == "causalrag: interrupted"
    assert "Traceback" not in output


def test_a_reader_that_stops_early_is_no_error(folder):
    process = subprocess.Popen(
        [*COMMAND, "rank", "bread", str(folder / "answer.txt")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


# In this process: what needs no new interpreter.


def call(capsys, *arguments):
    """Return exit code, standard output and standard error."""
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_version_and_help(capsys):
    assert call(capsys, "--version") == (0, f"causalrag {cr.__version__}\n", "")
    code, out, _ = call(capsys, "rank", "--help")
    assert code == 0
    for method in METHODS:
        assert f"  {method} " in out
    assert set(cli.METHODS) == set(METHODS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["sort"], "invalid choice: 'sort'"),
        (["rank", "q"], "required: PATH"),
        (["rank", "  ", "."], "query is blank"),
        (["rank", "q", "absent-folder"], "no such file or folder: absent-folder"),
        (["rank", "q", ".", "--top-k", "0"], "'0' is not a whole number of at least 1"),
        (["rank", "q", ".", "--candidates", "-1"], "at least 1"),
        (["rank", "q", ".", "--method", "bm25"], "invalid choice: 'bm25'"),
        (["rank", "q", ".", "--tau", "60"], "tau is 60.0"),
        (["rank", "q", ".", "--tau", "nan"], "tau is nan"),
        (["rank", "q", ".", "--encoder", "used"], "unknown encoder 'used'"),
        (["verify", "--records", "absent-folder"], "no such folder of records"),
        (["verify", "P.obs1.opend"], "close matches: P.obs1.opened"),
    ],
)
def test_unusable_input_is_one_line_on_standard_error_and_exit_2(
    capsys, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert err.startswith("causalrag: error: ")


def test_a_folder_without_readable_text_is_unusable(capsys, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\0")
    code, _, err = call(capsys, "rank", "q", tmp_path)
    assert code == 2
    assert "a.txt: not a text file" in err
    assert "no readable .txt or .md file in" in err


def test_files_are_read_once_sorted_and_an_explicit_file_may_have_any_suffix(tmp_path):
    for name in ("b.txt", "a.md", "sub/c.TXT", "d.rst"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a.md").write_text("a.md", encoding="utf-8-sig")
    paths = [tmp_path / "d.rst", tmp_path, tmp_path / "sub", tmp_path / "a.md"]
    assert [text for _, text in texts(paths)] == ["d.rst", "a.md", "b.txt", "sub/c.TXT"]


def test_candidates_bound_what_is_re_ranked(capsys, folder):
    arguments = ["rank", "why does bread rise", folder, "--json"]
    rows = json.loads(call(capsys, *arguments, "--candidates", "2")[1])
    assert len(rows) == 2
    first_stage = json.loads(call(capsys, *arguments, "--method", "similarity")[1])
    assert {row["path"] for row in rows} == {row["path"] for row in first_stage[:2]}
    assert [row["score"] for row in first_stage] == [row["base"] for row in first_stage]
    assert json.loads(call(capsys, *arguments, "--candidates", "2", "--top-k", "1")[1]) == rows[:1]


@pytest.mark.parametrize("columns", [20, 30, 45, 80, 200])
def test_the_table_fits_any_width(folder, columns):
    documents = [{"id": f"文件夹/很长的中文文件名{i}" * 3, "text": "gas yeast"} for i in range(3)]
    ranking = cr.CausalReranker("use", method="causal").rank("bread", documents)
    lines = table(ranking, "3 of 3 files re-ranked", columns).splitlines()
    assert max(map(cells, lines)) <= columns
    assert all(str(rank) in line for rank, line in enumerate(lines[1:4], start=1))


def test_text_for_a_terminal_is_measured_cut_and_cleaned():
    assert terminal.width("ab面包") == 6
    assert terminal.width("e\u0301") == 1
    assert terminal.shorten("资料/面包.txt", 8) == "…包.txt"
    assert terminal.shorten("资料.txt", 8) == "资料.txt"
    assert terminal.fold("one two three", 7) == ["one two", "three"]
    assert terminal.fold("面包面包面", 4) == ["面包", "面包", "面"]
    assert (
        terminal.clean("a\x1b[31m\u202e面\u3000包")
        == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}面\u3000包"
    )


def test_json_stays_json_in_a_terminal_that_has_only_ascii(tmp_path):
    (tmp_path / "面包🍞.txt").write_text("bread", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*COMMAND, "rank", "bread", str(tmp_path), "--json"],
        capture_output=True,
        env=environment,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout.decode("ascii"))[0]["path"] == str(tmp_path / "面包🍞.txt")


# verify


def record(folder: Path, **verdicts):
    recorder = Recorder("04_d_separation")
    write_records([recorder.record(id, holds=holds) for id, holds in verdicts.items()], folder)
    return folder


STRUCTURAL = [claim.id for claim in load_claims().values() if claim.kind == "structural"][:3]


def test_verify_passes_when_exact_claims_hold(capsys, tmp_path):
    first, second, absent = STRUCTURAL
    records = record(tmp_path, **{first: True, second: True})
    code, out, err = call(capsys, "verify", "--records", records)
    assert (code, err) == (0, "")
    assert "holds" in out
    assert "not run" in out
    assert first not in out
    assert call(capsys, "verify", first, second, "--records", records)[0] == 0
    code, out, _ = call(capsys, "verify", first, absent, "--records", records)
    assert code == 1
    assert f"{absent}: not run" in out


def test_verify_fails_when_an_exact_claim_fails_and_names_it(capsys, tmp_path):
    first, second, _ = STRUCTURAL
    records = record(tmp_path, **{first: True, second: False})
    code, out, _ = call(capsys, "verify", "--records", records)
    assert code == 1
    assert f"{second} (structural, same): fails" in out
    assert "04_d_separation#" in out
    assert first not in out
    assert call(capsys, "verify", first, "--records", records)[0] == 0
    code, out, _ = call(capsys, "verify", "--records", records, "--json")
    assert code == 1
    result = json.loads(out)
    assert result["failed"] == [second]
    assert result["verdicts"]["holds"] == 1
    assert {row["id"] for row in result["rows"]} == set(load_claims())


def test_verify_of_nothing_run_is_not_a_failure_unless_a_claim_is_named(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAUSALRAG_RECORDS", raising=False)
    code, out, _ = call(capsys, "verify")
    assert code == 0
    assert out.split() == ["not", "run", str(len(load_claims()))]
    code, out, _ = call(capsys, "verify", STRUCTURAL[0], "--json")
    assert code == 1
    assert json.loads(out)["not_run"] == [STRUCTURAL[0]]
    assert json.loads(out)["rows"][0]["measured"] is None


def test_verify_refuses_a_corrupt_record(capsys, tmp_path):
    record(tmp_path, **{STRUCTURAL[0]: True})
    next(tmp_path.rglob("*.json")).write_text("{")
    code, _, err = call(capsys, "verify", "--records", tmp_path)
    assert code == 2
    assert err.count("\n") == 1


def test_verify_without_records_says_where_they_come_from(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAUSALRAG_RECORDS", raising=False)
    code, out, err = call(capsys, "verify")
    assert code == 0
    assert out.startswith("not run")
    assert "no records here: build the book" in err
