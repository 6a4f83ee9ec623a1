"""The command ``gate``: what it reads, what it refuses, what it decides, and how it says so."""

import contextlib
import gzip
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import causalrag as cr
from causalrag import cli, gate
from causalrag.cli.gate import measured
from causalrag.cli.gate_report import as_object, as_text
from causalrag.cli.probes import read_probes
from causalrag.evaluate import evaluate, run_from_rankings

CORPUS = cr.datasets.opening()
THEMES = {theme.theme: theme for theme in CORPUS.themes}
QUERIES = {name: theme.query for name, theme in THEMES.items()}
QRELS = {
    name: {document.id: 1 for document in theme.documents if document.role == "target"}
    for name, theme in THEMES.items()
}
DOCUMENTS = [document for theme in CORPUS.themes for document in theme.documents]


def write(path, lines, newline="\n"):
    path.write_bytes("".join(line + newline for line in lines).encode())
    return path


@pytest.fixture
def files(tmp_path):
    """Return the opening corpus as BEIR files: corpus, queries, qrels."""
    corpus = [
        json.dumps({"_id": d.id, "title": d.title, "text": d.text}, ensure_ascii=False)
        for d in DOCUMENTS
    ]
    queries = [json.dumps({"_id": name, "text": text}) for name, text in QUERIES.items()]
    qrels = ["query-id\tcorpus-id\tscore"]
    qrels += [f"{name}\t{document}\t1" for name, row in QRELS.items() for document in row]
    return (
        write(tmp_path / "corpus.jsonl", corpus),
        write(tmp_path / "queries.jsonl", queries),
        write(tmp_path / "qrels.tsv", qrels),
    )


def call(capsys, corpus, queries, qrels, *options):
    """Return exit code, standard output and standard error."""
    paths = corpus if isinstance(corpus, list) else [corpus]
    arguments = ["gate", *paths, "--queries", queries, "--qrels", qrels, *options]
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def cells(line):
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


# What it computes


@pytest.mark.parametrize("method", ["hybrid", "causal"])
def test_the_gains_are_those_of_the_library(capsys, files, method):
    code, out, err = call(capsys, *files, "--json", "--method", method, "--window", 6)
    assert (code, err) == (0, "")
    found = json.loads(out)
    encoder = cr.load_encoder("use")
    documents = [{"id": d.id, "title": d.title, "text": d.text} for d in DOCUMENTS]
    keywords = cr.TfidfKeywords.fit([f"{d.title} {d.text}" for d in DOCUMENTS])
    reranker = cr.CausalReranker(encoder, keywords, method=method)
    first = cr.CausalReranker(encoder, keywords, method="similarity")
    before, after, statistics = {}, {}, {}
    for name, query in QUERIES.items():
        before[name] = first.rank(query, documents)
        window = [ranked.document for ranked in before[name][:6]]
        ranking = reranker.rank(query, window)
        after[name] = [r.doc_id for r in ranking] + [r.doc_id for r in before[name][6:]]
        statistics[name] = gate.statistics(ranking, keywords)
    runs = [run_from_rankings(order) for order in (before, after)]
    old, new = (evaluate(run, QRELS, "nDCG@10")["nDCG@10"] for run in runs)
    assert [row["query_id"] for row in found["probes"]] == list(QUERIES)
    assert [row["baseline"] for row in found["probes"]] == pytest.approx(old.tolist())
    assert [row["reranked"] for row in found["probes"]] == pytest.approx(new.tolist())
    for row in found["probes"]:
        assert row["gain"] == row["reranked"] - row["baseline"]
        assert row["overlap"] == pytest.approx(statistics[row["query_id"]].overlap)
        assert row["excess_repetition"] == statistics[row["query_id"]].excess_repetition
        largest = statistics[row["query_id"]].largest_excess_repetition
        assert row["largest_excess_repetition"] == largest >= row["excess_repetition"]
    decision = gate.decide((new - old).to_numpy())
    assert (found["decision"], found["reason"]) == (decision.decision, decision.reason)
    assert found["gain"]["value"] == pytest.approx(decision.value)
    assert found["n"] == found["input"]["probes"] == len(QUERIES)
    assert found["settings"]["method"] == method


def test_three_probes_abstain_and_the_command_says_how_many_more(capsys, files):
    code, out, err = call(capsys, *files)
    assert (code, err) == (0, "")
    assert out.startswith("decision: abstain (the baseline stays)\n3 probes cannot decide")
    joined = " ".join(out.split())
    assert "Label at least 3 more probes" in joined
    assert "They need no labels and replace none" in joined
    assert "mean nDCG@10 of 3 probes, 21 documents" in joined
    assert max(map(cells, out.splitlines())) <= 80


# Hard case 29: one probe, all ties, no probe.


def test_hard_case_29_one_probe_abstains_and_has_no_reliability(capsys, files):
    corpus, queries, qrels = files
    write(qrels, qrels.read_text().splitlines()[:2])
    code, out, err = call(capsys, corpus, queries, qrels, "--json")
    found = json.loads(out)
    assert code == 0
    assert "2 queries without a judgment left out" in err
    assert (found["decision"], found["enabled"], found["n"]) == ("abstain", False, 1)
    assert (found["gain"]["low"], found["gain"]["high"]) == (None, None)
    assert found["reliability"]["value"] is None
    assert "one probe has no spread" in found["reason"]
    text = call(capsys, corpus, queries, qrels)[1]
    assert "reliability: not given" in text
    assert "Label at least 5 more probes" in " ".join(text.split())


def test_hard_case_29_all_ties_abstain(capsys, files):
    # One document is re-ranked, and so nothing changes.
    found = json.loads(call(capsys, *files, "--json", "--window", 1)[1])
    assert (found["decision"], found["enabled"]) == ("abstain", False)
    assert "all 3 probes tie" in found["reason"]
    assert (found["better"], found["worse"], found["equal"]) == (0, 0, 3)
    assert found["probes_needed"] is None


def test_hard_case_29_no_probe_is_unusable(capsys, files):
    corpus, queries, qrels = files
    write(qrels, ["query-id\tcorpus-id\tscore"])
    code, out, err = call(capsys, corpus, queries, qrels)
    assert (code, out) == (2, "")
    assert err == f"causalrag: error: {qrels} holds no judgment\n"


def test_what_lies_below_the_window_keeps_the_first_stage_s_order(files):
    probes = read_probes([files[0]], *files[1:])
    reranker = cr.CausalReranker("use", method="causal")
    # Every document among the first ten stays there, for only the first two change places.
    assert (measured(probes, reranker, 2, "R@10")["gain"] == 0).all()
    assert (measured(probes, reranker, 20, "R@3")["gain"] != 0).any()
    full = measured(probes, reranker, 2, "AP")  # no cutoff: the whole order counts
    assert (full["baseline"] > 0).all()


# What it reads


def test_a_folder_of_text_files_is_a_corpus_and_qrels_may_name_files_shortly(capsys, tmp_path):
    docs = tmp_path / "docs"
    for document in DOCUMENTS:
        path = docs / ("a" if document.role == "target" else "b") / f"{document.id}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.full_text)
    (docs / "b" / "gbk.txt").write_bytes("面包".encode("gbk"))
    queries = write(tmp_path / "q.tsv", [f"{name}\t{text}" for name, text in QUERIES.items()])
    targets = [(name, document) for name, row in QRELS.items() for document in row]
    spellings = ["{docs}/a/{id}.txt", "a/{id}.txt", "{id}.txt"]
    results = []
    for spelling in [*spellings, None]:
        lines = [
            f"{name}\t{(spelling or spellings[i % 3]).format(docs=docs, id=document)}\t1"
            for i, (name, document) in enumerate(targets)
        ]
        qrels = write(tmp_path / "qrels", lines)
        code, out, err = call(capsys, docs, queries, qrels, "--json")
        assert code == 0
        assert err.splitlines() == [
            f"causalrag: warning: skipped {docs}/b/gbk.txt: not UTF-8 text; convert it to UTF-8 "
            "first"
        ]
        results.append(json.loads(out))
    assert all(result == results[0] for result in results)
    assert results[0]["input"]["judgments_of_unknown_documents"] == 0


def test_a_file_name_that_several_files_have_names_none(tmp_path):
    for name in ("x/same.txt", "y/same.txt", "y/other.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    queries = write(tmp_path / "q", ["q1\tbread"])
    qrels = write(tmp_path / "r", ["q1\tsame.txt\t1", "q1\tother.txt\t1"])
    probes = read_probes([tmp_path], queries, qrels)
    assert probes.qrels == {"q1": {"same.txt": 1, str(tmp_path / "y/other.txt"): 1}}
    assert probes.counts["judgments_of_unknown_documents"] == 1
    assert "'same.txt' for query 'q1': it names several files" in probes.warnings[0]
    write(qrels, ["q1\tother.txt\t1", f"q1\t{tmp_path}/y/other.txt\t2"])
    with pytest.raises(ValueError, match="twice, differently, under two of its names"):
        read_probes([tmp_path], queries, qrels)


JUDGED = {("q1", "d 1"): 2, ("q2", "d2"): 1, ("q2", "d3"): 0, ("q1", "d2"): -1}
BEIR = [f"{q}\t{d}\t{g}" for (q, d), g in JUDGED.items()]
TREC = [f"{q}\t0\t{d}\t{g}" for (q, d), g in JUDGED.items()]
SPACED = [f"{q} Q0 {d.replace(' ', '')} {g}" for (q, d), g in JUDGED.items()]


@pytest.mark.parametrize(
    ("lines", "newline"),
    [
        (["query-id\tcorpus-id\tscore", *BEIR], "\n"),
        (BEIR, "\n"),
        (["", *BEIR, "", BEIR[0]], "\r\n"),  # a judgment repeated as it is
        (TREC, "\n"),
        (SPACED, "\n"),
        (["\ufeffquery_id doc_id grade", *(line.replace(" Q0", "") for line in SPACED)], "\n"),
    ],
)
def test_qrels_are_read_in_each_form(tmp_path, lines, newline):
    spaced = any(" Q0 " in line or "doc_id" in line for line in lines)
    first = "d1" if spaced else "d 1"
    documents = [first, "d2", "d3"]
    corpus = write(
        tmp_path / "c.jsonl", [json.dumps({"_id": d, "text": d, "title": None}) for d in documents]
    )
    queries = write(tmp_path / "q", ["\ufeff_id\ttext", "q1\twhat is\tthis", "q2\t数据"], "\r\n")
    probes = read_probes([corpus], queries, write(tmp_path / "r", lines, newline))
    assert probes.qrels == {"q1": {first: 2, "d2": -1}, "q2": {"d2": 1, "d3": 0}}
    assert probes.queries == {"q1": "what is\tthis", "q2": "数据"}
    assert [document["title"] for document in probes.documents] == ["", "", ""]
    assert probes.warnings == []


def test_compressed_files_are_read_and_one_that_stops_half_way_is_refused(capsys, files):
    packed = []
    for path in files:
        packed.append(path.with_name(path.name + ".gz"))
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
    assert read_probes([packed[0]], *packed[1:]) == read_probes([files[0]], *files[1:])
    packed[0].write_bytes(packed[0].read_bytes()[:-30])
    code, out, err = call(capsys, *packed)
    assert (code, out) == (2, "")
    assert f"{packed[0]} is damaged or cut short after line" in err


# What it refuses, and what it reports


def test_each_broken_line_is_named_and_nothing_is_measured(capsys, files):
    corpus, queries, qrels = files
    good = corpus.read_text().splitlines()
    write(corpus, [*good[:2], '{"_id": "x", "text": 5.5}', good[0], *good[2:], good[2][:40]])
    queries.write_bytes(queries.read_bytes() + b"q9\t \nq10\nq11\t\xff\nq12\t\xe2\x80\x8b\n")
    write(qrels, [*qrels.read_text().splitlines(), "a b", "a\tb\t0.5", "a\tb\tc\td\t1"])
    code, out, err = call(capsys, corpus, queries, qrels)
    assert (code, out) == (2, "")
    lines = err.splitlines()
    named = [(corpus, 3), (corpus, 4), (corpus, len(good) + 3)]
    named += [(queries, len(QUERIES) + i) for i in (1, 2, 3, 4)]
    named += [(qrels, len(QUERIES) + 1 + i) for i in (1, 2, 3)]
    assert len(lines) == len(named) + 1
    for line, (path, number) in zip(lines, named, strict=False):
        assert line.startswith(f"causalrag: error: {path}, line {number}: ")
    assert "'O1-d1' occurs twice; keep one" in lines[1]
    assert "broken or cut JSON" in lines[2]
    assert lines[-1] == (
        "causalrag: error: 10 lines are broken; mend the input: nothing was measured"
    )


@pytest.mark.parametrize("grade", ["2147483648", str(2**63), "9" * 5000, "-9223372036854775809"])
def test_a_grade_that_no_measure_can_count_with_is_a_broken_line(capsys, files, grade):
    corpus, queries, qrels = files
    write(qrels, [*qrels.read_text().splitlines(), f"O1\tO1-d2\t{grade}"])
    code, out, err = call(capsys, corpus, queries, qrels)
    assert (code, out) == (2, "")
    assert f"{qrels}, line {len(QUERIES) + 2}: the grade {grade[:24]} is out of range" in err


RUN = [f"{q} Q0 {d} {i} 0.{i} mine" for i, (q, d) in enumerate((("O1", "O1-d1"), ("O2", "x")), 1)]
LOOKS = {
    "judgments": ["q1\tO1-d1\t1", "q2\tdocs/a b.txt\t0"],
    "headed judgments": ["query-id\tcorpus-id\tscore", "q1\tO1-d1\t1"],
    "trec judgments": ["q1 0 O1-d1 1", "q2 0 O1-d2 0"],
    "a run": RUN,
    "a tabbed run": [line.replace(" ", "\t") for line in RUN],
    "queries": ["_id\ttext", "q1\twhat is this", "q2\t数据"],
    "queries or documents": ['{"_id": "q1", "text": "why"}'],
}


@pytest.mark.parametrize(
    ("option", "look"),
    [
        ("--queries", "judgments"),
        ("--queries", "headed judgments"),
        ("--queries", "trec judgments"),
        ("--queries", "a run"),
        ("--queries", "a tabbed run"),
        ("--qrels", "a run"),
        ("--qrels", "a tabbed run"),
        ("--qrels", "queries"),
        ("--qrels", "queries or documents"),
    ],
)
def test_a_file_in_the_place_of_another_is_told_by_its_lines(capsys, files, tmp_path, option, look):
    corpus, queries, qrels = files
    wrong = write(tmp_path / "wrong", LOOKS[look])
    given = (wrong, qrels) if option == "--queries" else (queries, wrong)
    code, out, err = call(capsys, corpus, *given)
    assert (code, out) == (2, "")
    kind = re.sub("headed |trec |tabbed ", "", look)
    assert err.startswith(f"causalrag: error: {wrong} looks like {kind} (")
    wanted = "queries (id and text)" if option == "--queries" else "judgments (query, document"
    assert f"give a file of {wanted}" in err
    assert err.endswith(f" with {option}\n")
    assert err.count("\n") == 1


def test_a_query_that_ends_in_a_tab_and_a_number_is_a_query(tmp_path):
    queries = write(tmp_path / "q", ["q1\tbread eaten in\t2020", "q2\tdough"])
    corpus = write(tmp_path / "c.jsonl", [json.dumps({"_id": "d", "text": "bread"})])
    probes = read_probes([corpus], queries, write(tmp_path / "r", ["q1\td\t1"]))
    assert probes.queries == {"q1": "bread eaten in\t2020"}


def test_one_file_in_two_places_and_a_folder_for_a_file_are_named(capsys, files, tmp_path):
    corpus, queries, qrels = files
    for given, places in [
        ((corpus, corpus, qrels), "the corpus and as --queries"),
        ((qrels, queries, tmp_path / "x" / ".." / qrels.name), "the corpus and as --qrels"),
    ]:
        (tmp_path / "x").mkdir(exist_ok=True)
        code, out, err = call(capsys, *given)
        assert (code, out) == (2, "")
        assert f"is given as {places}; give a file of its own" in err
    code, _, err = call(capsys, corpus, tmp_path, qrels)
    assert (code, err) == (
        2,
        f"causalrag: error: {tmp_path} is a folder; give a file with --queries\n",
    )


def test_a_corpus_and_queries_in_each_other_s_place_are_told_by_the_judgments(
    capsys, files, tmp_path
):
    corpus, queries, qrels = files
    code, out, err = call(capsys, queries, corpus, qrels)
    assert (code, out) == (2, "")
    assert f"{corpus} holds what the judgments call documents, and the corpus what they" in err
    copy = write(tmp_path / "copy.jsonl", corpus.read_text().splitlines())
    err = call(capsys, corpus, copy, qrels)[2]
    assert f"{copy} looks like the corpus, for its ids are judged as documents" in err
    copy = write(tmp_path / "copy.jsonl", queries.read_text().splitlines())
    err = call(capsys, copy, queries, qrels)[2]
    assert "the corpus looks like the queries, for its ids are those judged for" in err


def test_a_pipe_is_read_once(files):
    corpus, queries, qrels = files
    read, end = os.pipe()
    os.write(end, queries.read_bytes())
    os.close(end)
    try:
        assert read_probes([corpus], Path(f"/dev/fd/{read}"), qrels).queries == QUERIES
    finally:
        os.close(read)


def test_a_judgment_with_two_grades_is_broken_and_many_broken_lines_are_counted(capsys, files):
    corpus, queries, qrels = files
    lines = qrels.read_text().splitlines()
    write(qrels, [*lines, lines[1][:-1] + "2", *["broken"] * 30])
    code, _, err = call(capsys, corpus, queries, qrels)
    assert code == 2
    assert "occurs twice; keep one" in err
    assert f"{qrels}: 11 more broken lines" in err
    assert err.count("\n") == 22
    assert "31 lines are broken" in err


def test_judgments_of_unknown_documents_and_queries_are_counted_and_reported(capsys, files):
    corpus, queries, qrels = files
    lines = [*qrels.read_text().splitlines(), "zz\tO1-d1\t1", "zz\tO1-d2\t1"]
    first, *rest = QUERIES
    lines = [line for line in lines if not line.startswith(rest[-1])]
    lines += [f"{first}\tnowhere\t2", f"{rest[-1]}\tO1-d1\t0"]
    write(qrels, lines)
    queries.write_bytes(queries.read_bytes() + b'{"_id": "extra", "text": "why"}\n')
    code, out, err = call(capsys, corpus, queries, qrels, "--json")
    assert code == 0
    assert err.splitlines() == [
        f"causalrag: warning: 2 judgments of unknown queries left out, the first of 'zz': "
        f"{queries} lacks it",
        f"causalrag: warning: 1 judgment of unknown documents, the first of 'nowhere' for query "
        f"{first!r}: the corpus lacks it; no order can find them, both orders score as much lower",
        "causalrag: warning: 1 query without a judgment left out",
        "causalrag: warning: 1 query without a relevant document in the corpus left out: neither "
        "order could gain",
    ]
    found = json.loads(out)
    assert found["n"] == len(QUERIES) - 1
    assert found["input"] == {
        "documents": len(DOCUMENTS),
        "queries": len(QUERIES) + 1,
        "judgments": len(QUERIES) + 3,
        "probes": len(QUERIES) - 1,
        "judgments_of_unknown_queries": 2,
        "judgments_of_unknown_documents": 1,
        "queries_without_judgment": 1,
        "queries_without_relevant_document": 1,
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tO1-d1\t1"], "has a judgment in"),
        (["O1\tnowhere\t1"], "no query has a relevant document (grade above 0) in the corpus"),
        (["O1\tO1-d1\t0"], "no query has a relevant document"),
    ],
)
def test_no_overlap_is_one_error_that_names_both_sides(capsys, files, lines, message):
    corpus, queries, qrels = files
    name = next(iter(QUERIES))
    write(qrels, [line.replace("O1\t", f"{name}\t", 1) for line in lines])
    code, out, err = call(capsys, corpus, queries, qrels)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert "begin with" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--level", "1.5"], "level must lie strictly between 0 and 1, got 1.5"),
        (["--level", "nan"], "got nan"),
        (["--measure", "ndcg@10"], "names have their case: nDCG"),
        (["--measure", "nDCG@99999999999999999999"], "is out of range; give a smaller one"),
        (["--window", "0"], "'0' is not a whole number of at least 1"),
        (["--method", "similarity"], "invalid choice: 'similarity'"),
        (["--tau", "60"], "tau is 60.0"),
        (["--encoder", "used"], "unknown encoder 'used'"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(capsys, files, options, message):
    code, out, err = call(capsys, *files, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_missing_inputs_are_named(capsys, files, tmp_path):
    corpus, queries, qrels = files
    for arguments in [("no", queries, qrels), (corpus, "no", qrels), (corpus, queries, "no")]:
        code, _, err = call(capsys, *arguments)
        assert code == 2
        assert err == "causalrag: error: no such file or folder: no\n"
    assert "give one corpus.jsonl by itself" in call(capsys, [corpus, tmp_path], queries, qrels)[2]
    code, _, err = call(capsys, tmp_path, queries, qrels)
    assert code == 2
    assert f"no readable .txt or .md file in {tmp_path}" in err
    assert f"for the BEIR corpus in it give {corpus}" in err
    code, _, err = call(capsys, write(tmp_path / "empty.jsonl", []), queries, qrels)
    assert "empty.jsonl holds no document" in err


# What it says

SETTINGS = {"method": "hybrid", "encoder": "use", "tau": 0.6, "absorption": "semantic"}
SETTINGS |= {"window": 20, "measure": "nDCG@10"}


def told(gains, level=0.95):
    frame = pd.DataFrame({"baseline": 0.5, "reranked": 0.5 + np.array(gains), "gain": gains})
    frame = frame.assign(
        overlap=0.2,
        shared_weight=0.1,
        top_gap=0.3,
        excess_repetition=0.05,
        largest_excess_repetition=0.2,
    )
    return as_object(frame, SETTINGS, level, {"documents": 9})


@pytest.mark.parametrize(
    ("gains", "decision", "enabled", "advice"),
    [
        ([0.1, 0.2, 0.1, 0.3, 0.1, 0.2], "enable", True, "Re-rank with these settings."),
        ([-0.1, -0.2, -0.1, -0.3, -0.1, -0.2], "disable", False, "the re-ranker makes it worse"),
        ([0.1, 0.2, -0.1, 0.3, 0.1, -0.2] * 2, "abstain", False, "about 56 probes in all"),
        ([0.1, -0.1] * 5, "abstain", False, "The mean gain of these probes is zero"),
        ([0.1, 0.3, -0.3, 0.0], "abstain", False, "Label at least 2 more probes; if the gains"),
        ([0.1], "abstain", False, "Label at least 5 more probes; draw them at random"),
    ],
)
def test_every_decision_says_what_to_do_next(gains, decision, enabled, advice):
    found = told(gains)
    assert (found["decision"], found["enabled"]) == (decision, enabled)
    assert advice in found["next"]
    needed = found["probes_needed"]
    if decision == "abstain" and needed and len(gains) >= 6:
        assert f"{needed} probes in all" in found["next"]
        assert f"{needed - len(gains)} more" in found["next"]
    text = as_text(found, 10_000)
    assert text.startswith(f"decision: {decision}" + ("\n" if enabled else " (the baseline stays)"))
    assert found["reason"] in text
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_text_fits_any_width(columns):
    for gains in ([0.1] * 7, [0.1], [-0.1, 0.2, 0.3]):
        lines = as_text(told(gains), columns).splitlines()
        assert max(map(cells, lines)) <= columns


def test_the_reliability_is_of_probes_of_this_size():
    gains = np.random.default_rng(0).normal(0.05, 0.2, 25)
    found = told(gains)
    assert found["reliability"]["value"] == gate.reliability(gains, 25)
    assert sum(found["reliability"]["decisions"].values()) == 2000


def test_progress_shows_on_a_terminal_and_standard_output_stays_json(files):
    main, other = pty.openpty()
    corpus, queries, qrels = map(str, files)
    command = [sys.executable, "-m", "causalrag.cli", "gate", corpus, "--json"]
    process = subprocess.Popen(
        [*command, "--queries", queries, "--qrels", qrels], stdout=subprocess.PIPE, stderr=other
    )
    os.close(other)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal closes with the process
        while piece := os.read(main, 1000):
            shown += piece
    out = process.stdout.read()
    process.stdout.close()
    os.close(main)
    assert process.wait(timeout=60) == 0
    assert json.loads(out)["n"] == len(QUERIES)
    assert b"encoding 21/21" in shown
    assert b"re-ranking 1/3" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_the_commands_are_reachable_as_a_module_and_the_help_names_the_formats(capsys):
    code, out, _ = call(capsys, "x", "y", "z", "--help")
    assert code == 0
    for word in ("hybrid", "corpus.jsonl", "queries", "qrels", "TREC"):
        assert word in out
    done = subprocess.run(
        [sys.executable, "-m", "causalrag.cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(name in done.stdout for name in ("rank", "explain", "verify", "gate"))
