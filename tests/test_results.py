"""Stored results: their form, their provenance, and the script that makes them."""

import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import causalrag as cr
from causalrag import results

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "book" / "results"
SCRIPT = ROOT / "book" / "make_results.py"
NEEDED = {
    "platform": {"system", "architecture", "cpus"},
    "model": {"name", "kind", "fingerprint"},
    "corpus": {"name", "sha256"},
}


@pytest.fixture(scope="module")
def script():
    """The script as a module; it finds its neighbour as it does when run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        spec = importlib.util.spec_from_file_location("make_results", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "make_results", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def made(script, tmp_path_factory):
    """The opening corpus ranked with the default encoder, through the command line."""
    folder = tmp_path_factory.mktemp("results")
    arguments = ["--parts", "themes", "--corpus", "opening", "--encoders", "use"]
    assert script.main([*arguments, "--output", str(folder)]) == 0
    return folder / "themes"


class Letters:
    """An encoder and a cross-encoder of letter counts, under any name."""

    def __init__(self, name="letters"):
        self.name, self.calls = name, 0

    def encode(self, texts):
        return [[text.count(letter) + 0.5 for letter in "etaoin shr"] for text in texts]

    def predict(self, pairs):
        self.calls += 1
        return [float(len(text)) for _, text in pairs]


class Breaks(Letters):
    def predict(self, pairs):
        return super().predict(pairs) if self.calls < 2 else [np.nan] * len(pairs)


# --- what is stored in the book -----------------------------------------------------------------


def stored():
    return sorted(STORED.rglob("*.json"))


def test_every_stored_result_has_the_form_of_its_kind_and_its_whole_provenance():
    assert STORED / "cost.json" in stored()
    for path in stored():
        result = results.load(path)
        assert (result.kind == "cost") == (path.name == "cost.json")
        for key, parts in NEEDED.items():
            assert parts <= set(result.provenance[key]), path
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", result.provenance["made"])
        assert {"python", "causalrag", "numpy"} <= set(result.provenance["versions"])


def test_no_stored_result_names_a_machine_or_a_folder():
    for path in stored():
        about = json.dumps(results.load(path).provenance)
        assert not re.search(r'(?<![\w/."])/\w|"/|\\\\\w|[A-Za-z]:\\', about), path
        assert platform.node() not in about or len(platform.node()) < 4


def test_stored_ranks_are_of_the_corpora_as_they_are_now_with_the_papers_settings():
    if not (STORED / "themes").is_dir():
        pytest.skip("no ranks are stored yet")
    frame = results.read(STORED / "themes")
    for name, about in frame.attrs["provenance"].items():
        sha256 = results.corpus_checksums(about["corpus"]["name"])
        assert about["corpus"]["sha256"] == sha256, name
        if about["model"]["kind"] == "encoder":
            wanted = {"tau": 0.6, "top_document": 15, "top_query": 10, "weight": 0.5}
            assert wanted.items() <= about["settings"].items(), name


def test_the_stored_cost_is_summed_up_as_its_rows_say(script):
    tables = results.load(STORED / "cost.json").tables
    queries, summary = tables["queries"], tables["summary"]
    again = script.step_cost.summarise(queries, float(tables["corpus"]["embed_s"].iloc[0]))
    pd.testing.assert_frame_equal(again, summary)
    assert sorted(queries["k"].unique()) == [10, 20, 50]
    assert (queries["extractions"] == queries["k"]).all()
    assert (queries["residual"] <= queries["keywords"]).all()
    assert (queries["keywords"] <= 15 * queries["k"]).all()
    assert (queries["term_encodings"] <= queries["keywords"] + 10).all()
    assert (queries[["query_s", "search_s", "cold_s", "warm_s"]] > 0).all(axis=None)
    assert (summary["low"] <= summary["median"]).all()
    assert (summary["median"] <= summary["high"]).all()


# --- the script -----------------------------------------------------------------------------------


def test_the_script_stores_the_ranks_that_the_reranker_gives(made):
    frame = results.read(made)
    assert set(frame["corpus"] + frame["model"]) == {"openinguse"}
    assert len(frame) == 3 * 7 * 4
    corpus = cr.datasets.opening()
    texts = [f"{d.title} {d.text}" for theme in corpus.themes for d in theme.documents]
    keywords = cr.TfidfKeywords.fit(texts, top_document=15, top_query=10)
    methods = {
        "similarity": {"method": "similarity"},
        "causal_exact": {"method": "causal", "absorption": "exact"},
        "causal": {"method": "causal", "absorption": "semantic"},
        "hybrid": {"method": "hybrid", "absorption": "semantic"},
    }
    for name, settings in methods.items():
        reranker = cr.CausalReranker("use", keywords, tau=0.6, **settings)
        for theme in corpus.themes:
            rows = frame[(frame["theme"] == theme.theme) & (frame["method"] == name)]
            ranking = reranker.rank(theme.query, theme.documents)
            assert rows["document"].tolist() == [place.doc_id for place in ranking]
            assert rows["rank"].tolist() == [place.rank for place in ranking]
            assert rows["score"].tolist() == pytest.approx([p.score for p in ranking], abs=1e-9)


def test_what_is_there_is_kept_and_made_anew_only_on_demand(made, script, capsys):
    (path,) = made.glob("*.json")
    text = path.read_text(encoding="utf-8").replace('"made": "20', '"made": "19')
    path.write_text(text, encoding="utf-8")
    arguments = ["--parts", "themes", "--corpus", "opening", "--encoders", "use"]
    arguments += ["--output", str(made.parent)]
    script.main(arguments)
    assert path.read_text(encoding="utf-8") == text
    assert "FORCE=1 makes it anew" in capsys.readouterr().out
    script.main([*arguments, "--force"])
    assert '"made": "20' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"tau": 0.6', '"tau": 0.7'),
        ('"numpy": "', '"numpy": "0.'),
        ('"causalrag source": "', '"causalrag source": "0'),
        ('"fingerprint": "', '"fingerprint": "other '),
        ('"rank", "score"], "rows": [', '"rank", "score"], "rows": [['),
    ],
)
def test_a_result_of_other_settings_versions_or_model_is_made_anew(
    old, new, script, tmp_path, capsys
):
    model, file = Letters(), tmp_path / "themes" / "opening-cross_encoder-letters.json"
    settings = script.Model.encoder(model) if "tau" in old else script.Model.cross_encoder(model)
    script.make_themes(settings, "opening", tmp_path, force=False)
    (file,) = (tmp_path / "themes").glob("*.json")
    right = file.read_text(encoding="utf-8")
    assert old in right
    file.write_text(right.replace(old, new, 1), encoding="utf-8")
    script.make_themes(settings, "opening", tmp_path, force=False)
    assert file.read_text(encoding="utf-8") == right
    script.make_themes(settings, "opening", tmp_path, force=False)
    assert "is there already" in capsys.readouterr().out


def test_a_cross_encoder_is_stored_with_its_raw_scores(script, tmp_path):
    model = script.Model.cross_encoder(Letters())
    script.make_themes(model, "opening", tmp_path, force=False)
    frame = results.read(tmp_path / "themes")
    assert set(frame["method"]) == {"cross_encoder"}
    for theme in cr.datasets.opening().themes:
        rows = frame[frame["theme"] == theme.theme]
        lengths = {d.id: float(len(f"{d.title} {d.text}")) for d in theme.documents}
        assert dict(zip(rows["document"], rows["score"], strict=True)) == lengths
        assert rows["score"].tolist() == sorted(lengths.values(), reverse=True)
    (about,) = frame.attrs["provenance"].values()
    assert about["command"] == "make results CORPUS=opening RERANKER=path/to/letters"
    assert about["model"]["kind"] == "cross_encoder"


def test_an_encoder_of_one_language_ranks_the_themes_in_it_only(script, tmp_path):
    script.make_themes(script.Model.encoder(Letters("minilm")), "opening", tmp_path, force=False)
    frame = results.read(tmp_path / "themes")
    english = [theme.theme for theme in cr.datasets.opening().themes if theme.lang == "en"]
    assert 0 < len(english) < 3
    assert frame["theme"].unique().tolist() == english


def test_a_run_that_breaks_off_leaves_no_file(script, tmp_path):
    model = script.Model.cross_encoder(Breaks("breaks"))
    with pytest.raises(ValueError, match="returned nan"):
        script.make_themes(model, "opening", tmp_path, force=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_error_ends_the_command_with_its_message_alone(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CAUSALRAG")}
    for arguments, message in (
        (["--corpus", "opening", "--encoders", "no-model"], "unknown encoder 'no-model'"),
        (["--encoders", "--reranker", "bge-reranker-v2-m3"], "CAUSALRAG_MODELS is not set"),
        (["--cost"], "set CAUSALRAG_DATA"),
    ):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *arguments, "--output", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_cost_counts_what_the_step_extracts_and_encodes(script, monkeypatch):
    monkeypatch.setattr(script.step_cost, "BATCH", 16)
    corpus = cr.datasets.opening()
    texts = [f"{d.title} {d.text}" for theme in corpus.themes for d in theme.documents] * 8
    told = []
    run = script.step_cost.CostRun(texts, cr.load_encoder("use"), script.SETTINGS, told.append)
    rows = run.query_rows("1", corpus.themes[0].query)
    columns = results.TABLES["cost"]["queries"]
    frame = pd.DataFrame(rows, columns=list(columns))
    assert frame["k"].tolist() == [10, 20, 50]
    # Eight copies of each text: an extractor is asked once for equal ones.
    assert frame["extractions"].tolist() == [2, 3, 7]
    assert frame["keywords"].tolist() == [150, 300, 750]
    assert (frame["residual"] < frame["keywords"]).all()
    hits = cr.retrieve.dense(run.terms.vector[0], run.vectors, 50)
    extractor = run.extractor.extractor
    terms = set(extractor.query(corpus.themes[0].query))
    terms.update(*(extractor.document(texts[i]) for i in hits.indices.tolist()))
    assert frame["term_encodings"].iloc[2] == len(terms)
    assert (frame[["query_s", "search_s", "cold_s", "warm_s"]] > 0).all(axis=None)
    (row,) = pd.DataFrame(
        [run.corpus_row()], columns=list(results.TABLES["cost"]["corpus"])
    ).itertuples()
    assert (row.documents, row.batches) == (168, 10)  # ten full batches, and eight texts
    assert row.text_low <= row.text_s <= row.text_high < row.embed_s


def test_the_interval_of_a_median_has_its_level(script):
    median = script.step_cost.median
    # Ten values: between the second and the ninth, 1 - 2 (1 + 10) / 1024 = 0.979; the third and the
    # eighth would have 0.891.
    assert median(range(1, 11)) == (5.5, 2.0, 9.0)
    assert median(range(1, 11), level=0.89) == (5.5, 3.0, 8.0)
    assert median([3.0] * 6) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="5 values are too few"):
        median(range(5))


# --- the reader -----------------------------------------------------------------------------------


def test_other_texts_are_refused_with_the_file_and_the_command(made, tmp_path):
    (path,) = made.glob("*.json")
    text = path.read_text(encoding="utf-8")
    checksum = results.corpus_checksums("opening")["docs.jsonl"]
    copy = tmp_path / path.name
    copy.write_text(text.replace(checksum, "0" * 64), encoding="utf-8")
    with pytest.raises(ValueError, match="made from another docs") as caught:
        results.read(tmp_path)
    assert str(copy) in str(caught.value)
    assert "renew it with: make results CORPUS=opening ENCODERS=use" in str(caught.value)


def edited(made, tmp_path, edit):
    (path,) = made.glob("*.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    edit(data)
    copy = tmp_path / path.name
    copy.write_text(json.dumps(data), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(schema=2), "schema 2"),
        (lambda d: d.update(kind="other"), "unknown kind 'other'"),
        (lambda d: d["provenance"].pop("made"), "lacks made"),
        (lambda d: d["provenance"]["corpus"].update(name="third"), "the unknown corpus 'third'"),
        (lambda d: d.pop("tables"), "'tables'"),
        (lambda d: d["tables"].clear(), "table 'ranks' is missing"),
        (lambda d: d["tables"]["ranks"]["columns"].reverse(), "has the columns"),
        (lambda d: d["tables"]["ranks"]["rows"].pop(), "other documents"),
        (lambda d: d["tables"]["ranks"]["rows"][0].__setitem__(2, "near"), "other documents"),
        (lambda d: d["tables"]["ranks"]["rows"][0].__setitem__(4, 2), "no ranks 1 to 7"),
        (lambda d: d["tables"]["ranks"]["rows"][0].__setitem__(5, np.nan), "NaN is no number"),
        (lambda d: d["tables"]["ranks"].update(rows=[]), "lacks a method"),
        (lambda d: d["tables"]["ranks"].update(rows=d["tables"]["ranks"]["rows"][7:]), "a method"),
    ],
)
def test_a_file_that_is_not_wholly_a_result_is_refused_by_name(made, tmp_path, edit, message):
    copy = edited(made, tmp_path, edit)
    with pytest.raises(ValueError, match=message) as caught:
        results.read(tmp_path)
    assert copy.name in str(caught.value)
    assert "make results" in str(caught.value)


def test_a_cut_file_is_refused(made, tmp_path):
    (path,) = made.glob("*.json")
    (tmp_path / "cut.json").write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"cut\.json is no stored result"):
        results.load(tmp_path / "cut.json")


def test_a_folder_without_results_gives_no_rows_and_no_folder_is_an_error(tmp_path):
    frame = results.read(tmp_path)
    assert (len(frame), frame.attrs["provenance"]) == (0, {})
    assert list(frame.columns)[:3] == ["corpus", "model", "theme"]
    with pytest.raises(FileNotFoundError, match="make it with: make results"):
        results.read(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="make it with: make results"):
        results.load(tmp_path / "none.json")


def test_nothing_is_written_if_a_result_cannot_be_stored(made, tmp_path):
    (path,) = made.glob("*.json")
    result = results.load(path)
    target = tmp_path / "new" / "x.json"
    for kind, about, tables in (
        ("other", result.provenance, result.tables),
        ("themes", {}, result.tables),
        ("themes", result.provenance, {}),
        ("themes", result.provenance, {"ranks": result.tables["ranks"].assign(score=np.inf)}),
    ):
        with pytest.raises(ValueError, match=r"kind|provenance|missing|JSON"):
            results.save(target, kind, about, tables)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    results.save(target, "themes", result.provenance, result.tables)
    assert target.read_bytes() == path.read_bytes()


def test_a_write_that_fails_leaves_the_earlier_file_whole(made, tmp_path, monkeypatch):
    (path,) = made.glob("*.json")
    result = results.load(path)
    target = tmp_path / "x.json"
    results.save(target, "themes", result.provenance, result.tables)
    before = target.read_bytes()

    def full(self, data):
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    later = {**result.provenance, "made": "2099-01-01"}
    with pytest.raises(OSError, match="no space left"):
        results.save(target, "themes", later, result.tables)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_result_of_another_kind_among_themes_is_refused(made, tmp_path):
    (path,) = made.glob("*.json")
    about = results.load(path).provenance
    tables = {n: pd.DataFrame(columns=list(c)) for n, c in results.TABLES["cost"].items()}
    results.save(tmp_path / "cost.json", "cost", about, tables)
    with pytest.raises(ValueError, match=r"cost\.json holds the kind 'cost'"):
        results.read(tmp_path)


def test_an_unknown_corpus_lists_the_known_ones():
    with pytest.raises(ValueError, match="opening, diagnostic, second"):
        results.corpus_checksums("../opening")
