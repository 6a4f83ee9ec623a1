"""Stored results as Parquet: their form, their provenance, and the reader of the benchmarks."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import causalrag as cr
from causalrag import results

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

STORED = Path(__file__).resolve().parent.parent / "book" / "results" / "beir"
MEASURES = ["nDCG@10", "P@5", "RR@10"]


def about(dataset="scifact", encoder="use", reranker=None, **changed):
    model = {"name": encoder, "kind": "encoder", "fingerprint": "f"}
    settings = {"tau": 0.6}
    if reranker:
        model = {"name": reranker, "kind": "cross_encoder", "fingerprint": "g"}
        settings["candidates"] = {"encoder": encoder, "fingerprint": "f"}
    return {
        "command": f"make results DATASETS={dataset}",
        "corpus": {"name": dataset, "sha256": {"documents": "d", "queries": "q"}},
        "made": "2024-05-01",
        "model": model,
        "platform": {"system": "Linux"},
        "settings": settings,
        "versions": {"python": "3.11.0"},
    } | changed


def queries(dataset="scifact", encoder="use", methods=("similarity", "causal"), ids=("q1", "q2")):
    rows = [
        (dataset, encoder, method, 20, 0.6, query_id, 0.1 * place, 0.2, 1.0)
        for method in methods
        for place, query_id in enumerate(ids)
    ]
    return pd.DataFrame(rows, columns=list(results.TABLES["beir"]["queries"]))


# Overlap, shared weight, excess repetition; coverage, repetition of keywords, bend.
STATISTICS = (0.3, 0.4, 0.0, 0.5, 0.1, 0.2)


def candidates(ids=("q1", "q2")):
    rows = [
        (query_id, stage, doc_id, 1, 1.0 / (place + 1), 0.1, 0.2, True, place > 0, *STATISTICS)
        for query_id in ids
        for stage in ("similarity", "bm25")
        for place, doc_id in enumerate(("007", "数据", "d 3"))
    ]
    return pd.DataFrame(rows, columns=list(results.TABLES["beir_candidates"]["candidates"]))


def scores():
    return pd.DataFrame([("q1", "007", -3.5)], columns=["query_id", "doc_id", "score"])


def lay(folder, dataset="scifact", encoder="use"):
    told, stem = about(dataset, encoder), f"{dataset}-{encoder}.parquet"
    results.save_parquet(folder / stem, "beir", told, queries(dataset, encoder))
    results.save_parquet(folder / "candidates" / stem, "beir_candidates", told, candidates())
    return folder / stem


# --- one file -----------------------------------------------------------------------------------


def test_a_table_comes_back_as_it_was_with_its_provenance(tmp_path):
    for kind, table in (
        ("beir", queries()),
        ("beir_candidates", candidates()),
        ("beir_scores", scores()),
    ):
        path = tmp_path / "new" / f"{kind}.parquet"
        results.save_parquet(path, kind, about(), table)
        stored = results.load_parquet(path)
        assert (stored.kind, stored.provenance) == (kind, about())
        [(name, found)] = stored.tables.items()
        assert name == next(iter(results.TABLES[kind]))
        pd.testing.assert_frame_equal(found, table)
        assert found.map(type).equals(table.map(type))


def test_the_provenance_stands_in_the_schema_as_json(tmp_path):
    results.save_parquet(tmp_path / "x.parquet", "beir", about(), queries())
    metadata = pq.read_schema(tmp_path / "x.parquet").metadata
    assert json.loads(metadata[b"causalrag"])["provenance"] == about()
    assert list(metadata) == [b"causalrag"]


def test_the_same_result_gives_the_same_bytes_whatever_the_index(tmp_path):
    results.save_parquet(tmp_path / "a.parquet", "beir", about(), queries())
    shuffled = queries()
    shuffled.index = pd.Index([7, 5, 3, 1], name="place")
    results.save_parquet(tmp_path / "b.parquet", "beir", about(), shuffled)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize(
    ("kind", "told", "table", "message"),
    [
        ("other", about(), queries(), "unknown kind 'other'"),
        ("themes", about(), queries(), "has the columns"),
        ("cost", about(), queries(), "several tables"),
        ("beir", {}, queries(), "provenance lacks command, corpus"),
        ("beir", about(settings={"tau": np.nan}), queries(), "JSON"),
        ("beir", about(), queries()[[*queries().columns[::-1]]], "has the columns"),
        ("beir", about(), queries().assign(extra=1), "has the columns"),
        ("beir", about(), queries().assign(tau=np.nan), "'tau' lacks a value in row 0"),
        ("beir", about(), queries().assign(tau=np.inf), "'tau' holds an infinity"),
        ("beir", about(), queries().assign(query_id=[None, "a", "b", "c"]), "lacks a value"),
        ("beir", about(), queries().assign(query_id=[1, "a", "b", "c"]), "cannot be stored"),
    ],
)
def test_what_is_no_result_is_not_written(tmp_path, kind, told, table, message):
    with pytest.raises(ValueError, match=message):
        results.save_parquet(tmp_path / "new" / "x.parquet", kind, told, table)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_write_that_fails_leaves_the_earlier_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    results.save_parquet(path, "beir", about(), queries())
    before = path.read_bytes()

    def full(self, data):
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        results.save_parquet(path, "beir", about(), queries(ids=("q9", "q8")))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_file_is_refused_by_name_wherever_the_damage_is(tmp_path):
    path = tmp_path / "x.parquet"
    results.save_parquet(path, "beir", about(), queries())
    whole, refused = path.read_bytes(), 0
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        message = ""
        try:
            stored = results.load_parquet(path)
        except ValueError as error:
            message = str(error)
        if message:
            refused += 1
            assert re.search(r"x\.parquet is no stored result.*make results FORCE=1", message, re.S)
        else:  # a byte that nobody reads, such as a statistic
            pd.testing.assert_frame_equal(stored.tables["queries"], queries())
            assert stored.provenance == about()
    assert refused > 10
    for broken in (whole[:-10], whole[: len(whole) // 2], b"", b"<html>not found</html>"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"x\.parquet is no stored result"):
            results.load_parquet(path)


def test_a_parquet_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.Table.from_pandas(queries(), preserve_index=False)
    for metadata in (
        None,
        {b"causalrag": b"{}"},
        {b"causalrag": b"[1]"},
        {b"causalrag": b"not JSON"},
        {b"causalrag": json.dumps({"schema": 2, "kind": "beir", "provenance": about()}).encode()},
        {b"causalrag": json.dumps({"schema": 1, "kind": "cost", "provenance": about()}).encode()},
        {b"causalrag": json.dumps({"schema": 1, "kind": ["a"], "provenance": about()}).encode()},
        {b"causalrag": json.dumps({"schema": 1, "kind": "beir", "provenance": 3}).encode()},
    ):
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(ValueError, match=r"x\.parquet is no stored result"):
            results.load_parquet(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_file_with_a_number_that_is_none_is_refused(tmp_path, value):
    path = tmp_path / "x.parquet"
    table = pa.Table.from_pandas(queries().assign(**{"P@5": value}), preserve_index=False)
    head = json.dumps({"schema": 1, "kind": "beir", "provenance": about()}).encode()
    pq.write_table(table.replace_schema_metadata({b"causalrag": head}), path)
    with pytest.raises(ValueError, match=r"x\.parquet is no stored result \(the column 'P@5'"):
        results.load_parquet(path)


def test_a_file_that_is_not_there_is_named_with_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no .*x\.parquet; make it with: make results"):
        results.load_parquet(tmp_path / "x.parquet")


def test_without_pyarrow_one_error_gives_the_install_line_and_the_json_form_works(tmp_path):
    code = """
import sys
sys.modules["pyarrow"] = None
from causalrag import results
results.corpus_checksums("opening")
try:
    results.load_parquet("x.parquet")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert 'pip install "causalrag[beir]"' in done.stdout


# --- the benchmarks -----------------------------------------------------------------------------


def test_the_reader_joins_the_files_and_names_where_rows_come_from(tmp_path):
    lay(tmp_path)
    lay(tmp_path, "nfcorpus")
    lay(tmp_path, "scifact", "minilm")
    found = results.read_beir(tmp_path)
    assert list(found.queries.columns) == [*results.TABLES["beir"]["queries"], "reranker"]
    assert set(found.queries["reranker"]) == {""}
    pairs = [("nfcorpus", "use"), ("scifact", "minilm"), ("scifact", "use")]
    for frame, length in ((found.queries, 4), (found.candidates, 12)):
        grouped = frame.groupby(["dataset", "encoder"], sort=False).size()
        assert grouped.to_dict() == dict.fromkeys(pairs, length)
    one = found.candidates.query("dataset == 'scifact' and encoder == 'use'")
    expected = candidates()
    pd.testing.assert_frame_equal(one[list(expected.columns)].reset_index(drop=True), expected)
    assert found.provenance["scifact"]["minilm"] == about("scifact", "minilm")
    assert len(found.scores) == 0
    limited = results.read_beir(tmp_path, datasets=["scifact"], encoders=["use"])
    assert set(limited.queries["dataset"] + limited.queries["encoder"]) == {"scifactuse"}
    assert list(limited.provenance) == ["scifact"]


def test_a_cross_encoders_rows_stand_beside_under_its_name(tmp_path):
    lay(tmp_path)
    told = about(reranker="bge")
    rows = queries(methods=("cross_encoder",))
    results.save_parquet(tmp_path / "scifact-use-bge.parquet", "beir", told, rows)
    place = tmp_path / "candidates" / "scifact-use-bge.parquet"
    results.save_parquet(place, "beir_scores", told, scores())
    found = results.read_beir(tmp_path)
    crossed = found.queries[found.queries["method"] == "cross_encoder"]
    assert (set(crossed["reranker"]), set(crossed["encoder"])) == ({"bge"}, {"use"})
    assert found.scores.values.tolist() == [["scifact", "use", "bge", "q1", "007", -3.5]]
    assert set(found.provenance["scifact"]) == {"use", "use + bge"}


def test_hard_case_28_what_was_not_run_has_no_rows(tmp_path):
    found = results.read_beir(tmp_path)
    assert (len(found.queries), len(found.candidates), found.provenance) == (0, 0, {})
    assert "nDCG@10" in found.queries.columns
    lay(tmp_path)
    assert "cross_encoder" not in set(results.read_beir(tmp_path).queries["method"])
    with pytest.raises(FileNotFoundError, match="make it with: make results"):
        results.read_beir(tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign(dataset="nfcorpus"), "another data set or encoder"),
        (lambda t: t.assign(encoder="minilm"), "another data set or encoder"),
        (lambda t: t.assign(**{"P@5": 1.5}), r"outside \[0, 1\]"),
        (lambda t: t[:-1], "lacks a query for some method"),
        (lambda t: pd.concat([t, t]), "or has one twice"),
        (lambda t: t.iloc[[0, 1, 3, 2]], "lacks a query for some method"),
    ],
)
def test_measures_that_do_not_fit_are_refused_by_name(tmp_path, change, message):
    path = lay(tmp_path)
    results.save_parquet(path, "beir", about(), change(queries()))
    with pytest.raises(ValueError, match=message) as caught:
        results.read_beir(tmp_path)
    assert path.name in str(caught.value)
    assert "make results DATASETS=scifact FORCE=1" in str(caught.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("grade", -1),
        ("causal", 1.5),
        ("causal_exact", -1.5),
        ("coverage", -0.1),
        ("keyword_repetition", 1.2),
        ("bend", -0.25),
    ],
)
def test_a_candidate_of_impossible_value_is_refused_by_name(tmp_path, column, value):
    place = tmp_path / "candidates" / lay(tmp_path).name
    table = candidates()
    table[column] = [value, *table[column][1:]]
    results.save_parquet(place, "beir_candidates", about(), table)
    with pytest.raises(ValueError, match=f"has the {column} {value}, outside") as caught:
        results.read_beir(tmp_path)
    assert "make results DATASETS=scifact FORCE=1" in str(caught.value)


def test_an_unknown_name_is_refused_and_an_unknown_first_stage(tmp_path):
    assert results.read_beir(tmp_path, encoders=["bge-m3"]).queries.empty  # nothing was run yet
    place = tmp_path / "candidates" / lay(tmp_path).name
    with pytest.raises(ValueError, match="unknown data set 'sci-fact'; known: scifact"):
        results.read_beir(tmp_path, datasets=["sci-fact"])
    with pytest.raises(ValueError, match="no result of the encoder 'bge-m3'; it has use"):
        results.read_beir(tmp_path, encoders=["bge-m3"])
    results.save_parquet(
        place, "beir_candidates", about(), candidates()[:1].assign(first_stage="dense")
    )
    with pytest.raises(ValueError, match="the first stage 'dense'; known: similarity"):
        results.read_beir(tmp_path)


def test_a_candidate_twice_an_unknown_data_set_and_another_kind_are_refused(tmp_path):
    path = lay(tmp_path)
    twice = tmp_path / "candidates" / path.name
    results.save_parquet(
        twice, "beir_candidates", about(), pd.concat([candidates(), candidates()[:1]])
    )
    with pytest.raises(ValueError, match="has a candidate twice"):
        results.read_beir(tmp_path)
    lay(tmp_path)
    results.save_parquet(tmp_path / "a.parquet", "beir", about("trec-covid"), queries())
    with pytest.raises(ValueError, match=r"a\.parquet is of the unknown data set 'trec-covid'"):
        results.read_beir(tmp_path)
    ranks = pd.DataFrame(columns=list(results.TABLES["themes"]["ranks"]))
    results.save_parquet(tmp_path / "a.parquet", "themes", about(), ranks)
    with pytest.raises(ValueError, match=r"a\.parquet holds the kind 'themes'"):
        results.read_beir(tmp_path)


def test_two_halves_of_different_runs_and_one_half_alone_are_refused(tmp_path):
    path = lay(tmp_path)
    results.save_parquet(path, "beir", about(settings={"tau": 0.7}), queries())
    with pytest.raises(ValueError, match="comes from another run than the other file"):
        results.read_beir(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match="only half of the results of scifact and use"):
        results.read_beir(tmp_path)


# --- the archive on this machine ----------------------------------------------------------------

MEMBERS = {
    "corpus.jsonl": '{"_id": "d1", "title": "Valves", "text": "A valve."}\n',
    "queries.jsonl": '{"_id": "q1", "text": "valve?"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}


def zipped(path, changed=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (MEMBERS | dict(changed)).items():
            archive.writestr(f"scifact/{name}", text)


@pytest.fixture
def told(tmp_path, monkeypatch):
    """The provenance of a result that was made from the archive that lies there."""
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    zipped(tmp_path / "beir" / "scifact.zip")
    checksums = results.beir_checksums(cr.datasets.beir("scifact"))
    return about(corpus={"name": "scifact", "sha256": checksums})


def test_the_archive_that_a_result_was_made_from_is_given(told):
    data = results.local_beir(told)
    assert list(data.corpus) == ["d1"]


@pytest.mark.parametrize(
    ("member", "text", "part"),
    [
        ("corpus.jsonl", '{"_id": "d1", "title": "Valves", "text": "A pump."}\n', "documents"),
        ("queries.jsonl", '{"_id": "q1", "text": "pump?"}\n', "queries"),
        ("qrels/test.tsv", "q1\td1\t2\n", "judgments"),
    ],
)
def test_an_archive_with_another_content_is_refused_and_says_which(
    told, tmp_path, member, text, part
):
    zipped(tmp_path / "beir" / "scifact.zip", {member: text})
    with pytest.raises(ValueError, match=f"made from other {part} than the archive"):
        results.local_beir(told)


def test_the_checksum_is_of_the_content_not_of_the_archive(told, tmp_path):
    dirty = {name: text.replace("\n", "\r\n") for name, text in MEMBERS.items()}
    zipped(tmp_path / "beir" / "scifact.zip", dirty)
    assert results.local_beir(told) is not None


def test_without_the_archive_there_is_none_and_nothing_is_fetched(told, tmp_path, monkeypatch):
    (tmp_path / "beir" / "scifact.zip").unlink()
    assert results.local_beir(told) is None
    monkeypatch.delenv("CAUSALRAG_DATA")

    def fetch(*_):
        raise AssertionError("asked ir_datasets")

    monkeypatch.setattr("causalrag.datasets.archives._ask_ir_datasets", fetch)
    assert results.local_beir(told) is None


def test_a_kept_archive_of_ir_datasets_is_found(told, tmp_path, monkeypatch):
    pytest.importorskip("ir_datasets")
    monkeypatch.delenv("CAUSALRAG_DATA")
    zipped(tmp_path / "home" / "beir" / "scifact" / "source.zip")
    assert list(results.local_beir(told).corpus) == ["d1"]


# --- what is stored in the book -----------------------------------------------------------------


@pytest.mark.skipif(not STORED.is_dir(), reason="no results of the benchmarks are stored yet")
def test_what_the_book_stores_is_whole_and_names_no_machine():
    found = results.read_beir(STORED)
    assert set(found.queries["window"]) == {20}
    assert set(found.queries["tau"]) == {0.6}
    assert (
        found.candidates.groupby(["dataset", "encoder", "query_id", "first_stage"]).size().max()
        <= 20
    )
    for encoders in found.provenance.values():
        for told in encoders.values():
            assert re.fullmatch(r"20\d\d-\d\d-\d\d", told["made"])
            assert not re.search(r'(?<![\w/."])/\w|"/|\\\\\w|[A-Za-z]:\\', json.dumps(told))
