"""The benchmarks' part of `make results`: its numbers, and that nothing is lost or done twice."""

import importlib
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from beir_files import write_beir
from book_scripts import BOOK, book_scripts
from reranking import HashEncoder

import causalrag as cr
from causalrag import results

pytest.importorskip("pyarrow")

MEASURES = ["nDCG@10", "P@5", "RR@10"]
STAGES = ("similarity", "bm25", "fusion", "rm3")
WORDS = [
    f"{stem}{end}"
    for stem in ("bread", "dough", "yeast", "gas", "oven", "crust", "flour", "salt", "heat")
    for end in ("", "mill", "bin")
]


def written(name, seed=0, n_documents=60, n_queries=13):
    """Documents, queries and judgments of a small data set.

    It has a blank document, doubles, documents that say a query and nothing else (their B is
    empty), and a query that no document matches.
    """
    draw = random.Random(seed)
    documents = [
        {
            "_id": f"d{n}",
            "title": "",
            "text": " ".join(draw.choices(WORDS, k=draw.choice((1, 2, 40)))),
        }
        for n in range(n_documents)
    ]
    documents[7]["text"] = " "
    documents[9] |= {"text": documents[8]["text"], "title": None}
    asked = [
        {"_id": f"q{n}", "text": " ".join(draw.sample(WORDS, 3))} for n in range(n_queries - 1)
    ]
    documents += [
        {"_id": f"echo{n}", "title": "", "text": query["text"]} for n, query in enumerate(asked)
    ]
    asked.append({"_id": "unmatched", "text": "zeppelin quartz"})
    judged = [
        f"{query['_id']}\t{document['_id']}\t{draw.randint(0, 2)}"
        for query in asked
        for document in draw.sample(documents, 20)
    ]
    if name == "arguana":  # its queries are documents, under the same id
        documents += [{"_id": query["_id"], "title": "", "text": query["text"]} for query in asked]
    judged.append("q0\toutside\t1")
    return documents, asked, judged


def lay(folder, name, seed=0):
    return write_beir(folder, name, *written(name, seed))


class Counting(HashEncoder):
    """Counts the texts that reach the model."""

    name = "counting"

    def __init__(self):
        super().__init__()
        self.seen, self.calls = [], []

    def encode(self, texts, role="document"):
        self.seen += [(role, text) for text in texts]
        self.calls.append(role)
        return super().encode(texts, role)


class Lengths:
    """A cross-encoder with raw scores beyond what a sigmoid tells apart; breaks when told to."""

    name, fingerprint = "lengths", "lengths"

    def __init__(self, calls=10**9):
        self.left, self.asked = calls, []

    def predict(self, pairs):
        self.left -= 1
        self.asked.append(pairs[0][0])
        return [np.nan if self.left < 0 else 40.0 + len(text) for _, text in pairs]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("nfcorpus", "arguana"):
        lay(folder, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALRAG_DATA", str(folder))
        yield folder


@pytest.fixture(scope="module")
def maker():
    """The module that makes the results, with small chunks."""
    with book_scripts("beir_results") as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(found.beir_results, "CHUNK", 4)
        patch.setattr(found.beir_results, "PAIR_CHUNK", 2)
        yield found.beir_results


def make(maker, folder, names, model, reranker=None, force=False):
    adapter = cr.load_encoder(model)
    if reranker is not None:
        from causalrag.cross_encoder import load_cross_encoder

        reranker = ("lengths", load_cross_encoder(reranker))
    places = maker.Places(folder / "out", folder / "vectors", folder / "work")
    maker.make_beir(names, [("counting", adapter)], reranker, places, force)
    return folder / "out" / "beir"


@pytest.fixture(scope="module")
def made(maker, data, tmp_path_factory):
    """All three data sets with one encoder; and that encoder, which counted."""
    folder, model = tmp_path_factory.mktemp("made"), Counting()
    place = make(maker, folder, ["nfcorpus", "arguana", "arguana_with_self"], model)
    return place, model, folder


@pytest.fixture(scope="module")
def found(made):
    return results.read_beir(made[0])


def windows(found, dataset, stage="similarity"):
    rows = found.candidates
    rows = rows[(rows["dataset"] == dataset) & (rows["first_stage"] == stage)]
    return dict(iter(rows.groupby("query_id", sort=False)))


def measured(found, dataset, method):
    rows = found.queries
    rows = rows[(rows["dataset"] == dataset) & (rows["method"] == method)]
    return rows.set_index("query_id")[MEASURES]


def expected(data_set, orders):
    run = cr.evaluate.run_from_rankings({q: orders.get(q, []) for q in data_set.queries})
    return cr.evaluate.evaluate(run, data_set.qrels, MEASURES)


# --- the numbers --------------------------------------------------------------------------------

DATASETS = ("nfcorpus", "arguana", "arguana_with_self")


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_re_ranking_of_the_stored_candidates_gives_the_stored_measures(found, dataset, stage):
    data_set = cr.datasets.beir(dataset)
    texts = [
        f"{d['title']} {d['text']}" if d["title"] else d["text"] for d in data_set.corpus.values()
    ]
    keywords = cr.TfidfKeywords.fit(texts, top_document=15, top_query=10)
    suffix = "" if stage == "similarity" else f"_{stage}"
    methods = {f"causal{suffix}": {"method": "causal"}, f"hybrid{suffix}": {"method": "hybrid"}}
    if not suffix:
        methods["causal_exact"] = {"method": "causal", "absorption": "exact"}
        methods["causal_fallback"] = {"method": "causal_fallback"}
    methods[stage] = {"method": "similarity"}
    for name, settings in methods.items():
        reranker = cr.CausalReranker(HashEncoder(), keywords, tau=0.6, weight=0.5, **settings)
        orders = {}
        for query_id, rows in windows(found, dataset, stage).items():
            documents = data_set.candidates(query_id, rows["doc_id"])
            assert len(documents) == len(rows)
            ranking = reranker.rank(data_set.queries[query_id], documents, rows["base"])
            orders[query_id] = [place.doc_id for place in ranking]
            column = "causal_exact" if name == "causal_exact" else "causal"
            by_place = sorted(ranking, key=lambda place: place.index)
            assert [p.causal for p in by_place] == pytest.approx(rows[column].tolist(), abs=1e-6)
            has_residual = rows["has_residual" + column.removeprefix("causal")]
            assert [len(p.residual) > 0 for p in by_place] == has_residual.tolist()
        again = expected(data_set, orders)
        pd.testing.assert_frame_equal(again, measured(found, dataset, name), check_names=False)


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_stored_arrays_alone_give_the_same_orders(found, dataset):
    """No encoder, no text: sorting by the columns is the re-ranking."""
    data_set = cr.datasets.beir(dataset)

    def orders(stage, score):
        """Order by score; -inf stands for what follows the others, whatever its score."""
        return {
            query_id: rows["doc_id"].to_numpy()[np.argsort(-score(rows), kind="stable")].tolist()
            for query_id, rows in windows(found, dataset, stage).items()
        }

    def causal(rows):
        return np.where(rows["has_residual"], rows["causal"], -np.inf)

    def hybrid(rows):
        kept, score = rows["has_residual"].to_numpy(), np.full(len(rows), -np.inf)
        score[kept] = cr.hybrid(rows["base"][kept], rows["causal"][kept])
        return score

    scores = {
        "causal_exact": lambda rows: np.where(
            rows["has_residual_exact"], rows["causal_exact"], -np.inf
        ),
        "causal": causal,
        "hybrid": hybrid,
        "fallback_mixed": lambda rows: np.where(rows["has_residual"], rows["causal"], rows["base"]),
        "ceiling": lambda rows: rows["grade"].to_numpy(),
        **{f"causal_{stage}": causal for stage in STAGES[1:]},
        **{f"hybrid_{stage}": hybrid for stage in STAGES[1:]},
    }
    for method, score in scores.items():
        stage = method.rpartition("_")[2] if method.endswith(STAGES[1:]) else "similarity"
        again = expected(data_set, orders(stage, score))
        pd.testing.assert_frame_equal(
            again, measured(found, dataset, method), check_names=False, obj=method
        )


def test_the_stored_methods_are_those_of_the_plan_for_every_query(found):
    methods = ["similarity", "bm25", "fusion", "rm3", "causal_exact", "causal", "causal_fallback"]
    methods += ["hybrid", "adjusted", "guarded", "fallback_mixed", "ceiling"]
    for stage in ("bm25", "fusion", "rm3"):
        methods += [f"{name}_{stage}" for name in ("causal", "hybrid", "adjusted", "guarded")]
    assert found.queries["method"].unique().tolist() == methods
    counts = found.queries.groupby(["dataset", "method"])["query_id"].nunique()
    assert set(counts) == {13}
    assert not found.queries.duplicated(["dataset", "method", "query_id"]).any()
    asked = list(cr.datasets.beir("nfcorpus").queries)
    assert measured(found, "nfcorpus", "causal").index.tolist() == asked


def test_grades_are_the_judgments_and_0_where_there_is_none(found):
    data_set = cr.datasets.beir("nfcorpus")
    for stage in STAGES:
        for query_id, rows in windows(found, "nfcorpus", stage).items():
            judged = data_set.qrels[query_id]
            assert rows["grade"].tolist() == [judged.get(doc_id, 0) for doc_id in rows["doc_id"]]
    assert set(found.candidates["grade"]) == {0, 1, 2}


def test_similarity_is_the_cosine_over_all_documents(found):
    data_set, encoder = cr.datasets.beir("nfcorpus"), HashEncoder()
    content = [d for d in data_set.corpus.values() if d["text"].strip()]
    rows = encoder.encode([d["text"] for d in content]).astype(np.float64)
    for query_id, window in windows(found, "nfcorpus").items():
        cosines = rows @ encoder.encode([data_set.queries[query_id]], "query")[0]
        best = np.argsort(-np.round(cosines, 9), kind="stable")[:20]
        assert window["doc_id"].tolist() == [content[i]["id"] for i in best]
        assert window["base"].tolist() == pytest.approx(cosines[best].tolist(), abs=1e-6)


def test_grades_are_those_of_the_judgments_and_0_elsewhere(found):
    data_set = cr.datasets.beir("nfcorpus")
    rows = found.candidates[found.candidates["dataset"] == "nfcorpus"]
    judged = [
        data_set.qrels[q].get(d, 0) for q, d in zip(rows["query_id"], rows["doc_id"], strict=True)
    ]
    assert rows["grade"].tolist() == judged
    assert len(set(judged)) > 1


def test_statistics_are_those_of_the_gate(found):
    data_set = cr.datasets.beir("nfcorpus")
    keywords = cr.TfidfKeywords.fit(
        [d["text"] for d in data_set.corpus.values()], top_document=15, top_query=10
    )
    reranker = cr.CausalReranker(HashEncoder(), keywords, method="causal")
    names = ["overlap", "shared_weight", "excess_repetition"]
    for stage in ("similarity", "rm3"):
        query_id, rows = next(iter(windows(found, "nfcorpus", stage).items()))
        documents = data_set.candidates(query_id, rows["doc_id"])
        ranking = reranker.rank(data_set.queries[query_id], documents, rows["base"])
        told = importlib.import_module("causalrag.gate").candidate_statistics(ranking, keywords)
        np.testing.assert_allclose(rows[names], told[names])
        assert rows[names].to_numpy().any(axis=0).all()


def test_an_empty_b_falls_back_behind_the_others_or_among_them(found):
    """The data hold such documents in every first stage, and the two readings differ."""
    for stage in STAGES:
        windowed = pd.concat(windows(found, "nfcorpus", stage).values())
        assert 0 < (~windowed["has_residual"]).mean() < 0.5, stage
        assert (windowed["causal"][~windowed["has_residual"]] == 0).all()
        differ = windowed["has_residual"] != windowed["has_residual_exact"]
        assert differ.any(), stage
    plain, behind, among = (
        measured(found, "nfcorpus", name)
        for name in ("causal", "causal_fallback", "fallback_mixed")
    )
    assert not behind.equals(among)
    # Behind the others they are ordered by similarity, as they came: causal has them so already.
    pd.testing.assert_frame_equal(behind, plain)


def test_the_ceiling_is_a_bound_for_every_order_of_the_window(found):
    best = measured(found, "nfcorpus", "ceiling")["nDCG@10"]
    for method in ("similarity", "causal", "hybrid", "causal_exact", "fallback_mixed"):
        assert (measured(found, "nfcorpus", method)["nDCG@10"] <= best + 1e-12).all()
    assert best.mean() > measured(found, "nfcorpus", "similarity")["nDCG@10"].mean()


def test_fusion_joins_the_ranks_of_the_two_lists(found):
    data_set = cr.datasets.beir("nfcorpus")
    dense = cr.retrieve.DenseRetriever(HashEncoder()).fit(data_set.corpus.values())
    lexical = cr.retrieve.BM25Retriever().fit(data_set.corpus.values())
    ids = list(data_set.corpus)
    for query_id, window in windows(found, "nfcorpus", "fusion").items():
        query = data_set.queries[query_id]
        if query_id == "unmatched":
            assert (
                window["doc_id"].tolist() == windows(found, "nfcorpus")[query_id]["doc_id"].tolist()
            )
            continue
        hits = lexical.search(query, k=100)
        matched = cr.retrieve.Hits(hits.indices[hits.scores > 0], hits.scores[hits.scores > 0])
        lists = [dense.search(query, k=100), matched]
        fused = cr.retrieve.reciprocal_rank_fusion(lists, n=len(ids))
        best = np.argsort(-fused, kind="stable")[:20]
        assert window["doc_id"].tolist() == [ids[i] for i in best]


def test_hard_case_23_the_own_document_is_dropped_before_the_window_is_cut(found):
    without, kept = (windows(found, name) for name in ("arguana", "arguana_with_self"))
    some = 0
    for query_id, rows in without.items():
        assert query_id not in set(rows["doc_id"])
        assert len(rows) == 20
        others = [doc_id for doc_id in kept[query_id]["doc_id"] if doc_id != query_id]
        some += len(others) == 19
        assert rows["doc_id"].tolist()[: len(others)] == others
    assert some > 0
    for stage in STAGES[1:]:
        for query_id, rows in windows(found, "arguana", stage).items():
            assert query_id not in set(rows["doc_id"])
    assert found.provenance["arguana"]["counting"]["corpus"]["own dropped"] is True
    bm25 = [measured(found, name, "bm25")["nDCG@10"].mean() for name in DATASETS[1:]]
    assert bm25[0] > bm25[1]  # the own document is never relevant


def test_hard_case_24_doubles_stand_in_file_order_and_what_matches_nothing_is_no_candidate(found):
    for stage in STAGES:
        for rows in windows(found, "nfcorpus", stage).values():
            ids = rows["doc_id"].tolist()
            if "d9" in ids:
                assert ids.index("d8") == ids.index("d9") - 1
            assert (np.diff(rows["base"]) <= 0).all()
    assert (found.candidates[found.candidates["first_stage"] == "bm25"]["base"] > 0).all()


def test_hard_case_25_a_query_without_a_hit_counts_0_and_judgments_outside_are_counted(found):
    for method in ("bm25", "rm3", "causal_bm25", "hybrid_rm3"):
        assert measured(found, "nfcorpus", method).loc["unmatched"].tolist() == [0, 0, 0]
    assert "unmatched" not in windows(found, "nfcorpus", "bm25")
    assert found.provenance["nfcorpus"]["counting"]["corpus"]["outside"] == 1


# --- nothing twice, nothing lost ----------------------------------------------------------------


def test_no_text_is_encoded_twice_over_all_data_sets(made):
    _, model, _ = made
    assert len(model.seen) == len(set(model.seen))
    assert {role for role, _ in model.seen} == {"document", "query", "term"}
    # In bulk beforehand, not query by query: each call that is not would make a file of its own.
    assert model.calls.count("term") == 1


def test_what_is_there_is_kept_and_force_makes_it_anew_from_the_same_vectors(
    maker, made, tmp_path, capsys
):
    place, _, folder = made
    shutil.copytree(folder, tmp_path / "copy")
    model, path = Counting(), tmp_path / "copy" / "out" / "beir" / "nfcorpus-counting.parquet"
    before = path.stat().st_mtime_ns
    make(maker, tmp_path / "copy", ["nfcorpus"], model)
    assert "is there already; FORCE=1 makes it anew" in capsys.readouterr().out
    assert path.stat().st_mtime_ns == before
    make(maker, tmp_path / "copy", ["nfcorpus"], model, force=True)
    assert path.stat().st_mtime_ns > before
    assert path.read_bytes() == (place / path.name).read_bytes()
    assert model.seen == []
    assert list((tmp_path / "copy" / "work").iterdir()) == []


@pytest.mark.parametrize("which", ["", "candidates/"])
def test_a_damaged_or_missing_half_is_made_anew(maker, made, tmp_path, which):
    _, _, folder = made
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "out" / "beir" / f"{which}nfcorpus-counting.parquet"
    right = path.read_bytes()
    path.write_bytes(right[: len(right) // 2])
    make(maker, tmp_path / "copy", ["nfcorpus"], Counting())
    assert path.read_bytes() == right


@pytest.mark.parametrize("changed", ["settings", "encoder", "data", "code"])
def test_a_result_of_another_run_is_made_anew(maker, made, tmp_path, monkeypatch, changed):
    _, _, folder = made
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "out" / "beir" / "nfcorpus-counting.parquet"
    before, model = path.stat().st_mtime_ns, Counting()
    if changed == "settings":
        monkeypatch.setitem(maker.SETTINGS, "tau", 0.5)
    elif changed == "encoder":
        model.fingerprint = "another"
    elif changed == "code":
        monkeypatch.setattr(maker.origin, "source_digest", lambda also=(): "another")
    else:
        monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))
        with zipfile.ZipFile(lay(tmp_path, "nfcorpus"), "a") as archive:
            archive.writestr("nfcorpus/qrels/other.tsv", "")  # other bytes, the same content
        make(maker, tmp_path / "copy", ["nfcorpus"], model)
        assert path.stat().st_mtime_ns == before
        lay(tmp_path, "nfcorpus", seed=1)
    make(maker, tmp_path / "copy", ["nfcorpus"], model)
    assert path.stat().st_mtime_ns > before


DRIVER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
sys.path[:0] = [{book!r}, {tests!r}]
import beir_results, make_results
from causalrag import _models, embeddings
from reranking import HashEncoder

class Slow(HashEncoder):
    name, dimension, fingerprint = "slow", 6, "slow"
    def encode(self, texts, role="document"):
        with open({log!r}, "a", encoding="utf-8") as log:
            log.writelines(f"{{role}} {{text!r}}\\n" for text in texts)
        time.sleep({pause})
        return super().encode(texts, role)

_models.MODELS["slow"] = Slow
embeddings.BATCH, embeddings.PART_SECONDS = 8, 0.0
beir_results.CHUNK = 2
rank = beir_results.methods.QueryRun.rank
def slowly(self, *given):
    time.sleep({pause})
    return rank(self, *given)
beir_results.methods.QueryRun.rank = slowly
arguments = "--parts beir --encoders slow --datasets nfcorpus --output {out} --build {build}"
sys.exit(make_results.main(arguments.split()))
"""


def driver(folder, pause):
    code = DRIVER.format(
        book=str(BOOK),
        tests=str(Path(__file__).parent),
        log=str(folder / "log"),
        out=folder / "out",
        build=folder / "build",
        pause=pause,
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(folder, pause=0.0):
    child = driver(folder, pause)
    out, error = child.communicate(timeout=120)
    assert child.returncode == 0, error
    return out


def stopped(folder, pattern, sign):
    """Start a slow run, send it a signal once two files of a kind are there, and wait."""
    child, deadline = driver(folder, 0.05), time.monotonic() + 60
    while len(list((folder / "build").rglob(pattern))) < 2:
        assert child.poll() is None, child.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(sign)
    return child, *child.communicate(timeout=60)


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    ended(folder)
    return folder


def stored_bytes(folder):
    paths = sorted((folder / "out").rglob("*.parquet"))
    assert len(paths) == 2
    return [path.read_bytes() for path in paths]


@pytest.mark.parametrize("pattern", ["*.npy", "*-beir.parquet"], ids=["encoding", "ranking"])
def test_a_run_killed_half_way_goes_on_and_gives_the_same_result(undisturbed, tmp_path, pattern):
    child, _, _ = stopped(tmp_path, pattern, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert list((tmp_path / "out").rglob("*.parquet")) == []
    parts = {p: p.stat().st_mtime_ns for p in (tmp_path / "build").rglob("*.parquet")}
    vectors = len(list((tmp_path / "build").rglob("*.npy")))
    assert bool(parts) == (pattern != "*.npy")
    before = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    ended(tmp_path)
    after = (tmp_path / "log").read_text(encoding="utf-8").splitlines()[len(before) :]
    assert stored_bytes(tmp_path) == stored_bytes(undisturbed)
    # A batch that was being encoded when the run was killed is all that is encoded again.
    assert len(set(before) & set(after)) <= 8
    whole = (undisturbed / "log").read_text(encoding="utf-8").splitlines()
    assert set(before) | set(after) == set(whole)
    assert len(before) >= 8 * vectors or pattern == "*-beir.parquet"


def test_chunks_that_were_finished_are_not_ranked_again(
    maker, data, tmp_path, monkeypatch, undisturbed
):
    rank, ranked = maker.methods.QueryRun.rank, []

    def breaking(self, query_id, stages):
        ranked.append(query_id)
        if len(ranked) == 10:
            raise KeyboardInterrupt
        return rank(self, query_id, stages)

    monkeypatch.setattr(maker.methods.QueryRun, "rank", breaking)
    with pytest.raises(KeyboardInterrupt):
        make(maker, tmp_path, ["nfcorpus"], Counting())
    place = make(maker, tmp_path, ["nfcorpus"], Counting())
    asked = list(cr.datasets.beir("nfcorpus").queries)
    assert ranked == asked[:10] + asked[8:]
    assert len(results.read_beir(place).queries) == 13 * 24


def test_a_damaged_chunk_is_ranked_again(maker, made, data, tmp_path, monkeypatch):
    store, rank, ranked = maker.results.save_parquet, maker.methods.QueryRun.rank, []

    def full(path, *given):
        if "work" not in Path(path).parts:
            raise OSError("no space left")
        store(path, *given)

    with monkeypatch.context() as patch:
        patch.setattr(maker.results, "save_parquet", full)
        with pytest.raises(OSError, match="no space left"):
            make(maker, tmp_path, ["nfcorpus"], Counting())
    chunk = sorted((tmp_path / "work").rglob("*-beir.parquet"))[1]
    chunk.write_bytes(chunk.read_bytes()[:100])
    monkeypatch.setattr(
        maker.methods.QueryRun,
        "rank",
        lambda self, query_id, stages: ranked.append(query_id) or rank(self, query_id, stages),
    )
    place = make(maker, tmp_path, ["nfcorpus"], Counting())
    assert ranked == list(cr.datasets.beir("nfcorpus").queries)[4:8]
    name = "nfcorpus-counting.parquet"
    assert (place / name).read_bytes() == (made[0] / name).read_bytes()


def test_an_interrupt_ends_with_one_line_that_says_how_to_go_on(data, tmp_path):
    child, _, error = stopped(tmp_path, "*-beir.parquet", signal.SIGINT)
    assert child.returncode == 130
    assert error == "stopped; the same command goes on from here\n"


def test_progress_tells_what_is_left(maker, capsys):
    progress = maker.Progress("nfcorpus, use", "queries", every=0.0)
    progress.start(100)
    progress.started -= 100.0  # as if 100 s had passed
    progress(150, 300)
    progress(300, 300)
    first, last = capsys.readouterr().out.splitlines()
    assert first == "nfcorpus, use: 150 of 300 queries, about 5 min left"
    assert last == "nfcorpus, use: 300 of 300 queries"
    quiet = maker.Progress("nfcorpus, use", "queries")
    for done in range(1, 100):
        quiet(done, 100)
    assert capsys.readouterr().out == ""


# --- a cross-encoder ----------------------------------------------------------------------------


def test_a_cross_encoder_orders_similaritys_window_by_its_raw_scores(
    maker, made, data, tmp_path, capsys
):
    shutil.copytree(made[2], tmp_path / "copy")
    model = Lengths()
    place = make(maker, tmp_path / "copy", ["nfcorpus"], Counting(), model)
    found, data_set = results.read_beir(place), cr.datasets.beir("nfcorpus")
    assert sorted(set(model.asked)) == sorted(data_set.queries.values())
    orders = {}
    for query_id, rows in found.scores.groupby("query_id", sort=False):
        window = windows(found, "nfcorpus")[query_id]["doc_id"].tolist()
        assert rows["doc_id"].tolist() == window
        raw = [40.0 + len(data_set.corpus[doc_id]["text"]) for doc_id in window]
        assert rows["score"].tolist() == raw
        orders[query_id] = [window[i] for i in np.argsort(-np.array(raw), kind="stable")]
    crossed = found.queries[found.queries["method"] == "cross_encoder"]
    assert set(crossed["reranker"]) == {"lengths"}
    again = expected(data_set, orders)
    pd.testing.assert_frame_equal(crossed.set_index("query_id")[MEASURES], again, check_names=False)
    told = found.provenance["nfcorpus"]["counting + lengths"]
    assert told["command"].endswith("ENCODERS=path/to/counting RERANKER=path/to/lengths")
    asked = len(model.asked)
    make(maker, tmp_path / "copy", ["nfcorpus"], Counting(), model)
    assert len(model.asked) == asked
    assert "nfcorpus, counting, lengths: is there already" in capsys.readouterr().out


def test_hard_case_26_a_nan_ends_the_run_and_what_was_scored_before_is_kept(
    maker, made, data, tmp_path
):
    shutil.copytree(made[2], tmp_path / "copy")
    broken, whole = Lengths(calls=5), Lengths()
    with pytest.raises(ValueError, match="'lengths' returned nan for documents"):
        make(maker, tmp_path / "copy", ["nfcorpus"], Counting(), broken)
    out = tmp_path / "copy" / "out" / "beir"
    assert not (out / "nfcorpus-counting-lengths.parquet").exists()
    make(maker, tmp_path / "copy", ["nfcorpus"], Counting(), whole)
    asked = list(cr.datasets.beir("nfcorpus").queries.values())
    assert whole.asked == asked[4:]  # two chunks of two were finished
    assert set(results.read_beir(out).queries["reranker"]) == {"", "lengths"}


# --- reading what was stored --------------------------------------------------------------------


def altered(made, place, kind, **columns):
    """Copy the stored results of nfcorpus, with other columns in one of the two tables."""
    name = "nfcorpus-counting.parquet"
    for half in (name, f"candidates/{name}"):
        (place / half).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made[0] / half, place / half)
    path = place / (name if kind == "beir" else f"candidates/{name}")
    stored = results.load_parquet(path)
    [table] = stored.tables.values()
    results.save_parquet(path, kind, stored.provenance, table.assign(**columns))
    return path


@pytest.mark.parametrize(
    ("kind", "columns", "message"),
    [
        ("beir_candidates", {"grade": 0.5}, "has the grade 0.5, which is no whole number"),
        ("beir_candidates", {"grade": "1"}, "has the grade '1', which is no number"),
        ("beir_candidates", {"causal": "0.1"}, "has the causal '0.1', which is no number"),
        ("beir_candidates", {"has_residual": "no"}, "has_residual 'no', which is no truth value"),
        ("beir", {"P@5": "0.2"}, "has the P@5 '0.2', which is no number"),
        ("beir", {"RR@10": True}, "which is no number"),
    ],
)
def test_a_stored_value_of_another_type_is_refused_by_name(made, tmp_path, kind, columns, message):
    path = altered(made, tmp_path, kind, **columns)
    with pytest.raises(ValueError, match=message) as caught:
        results.read_beir(tmp_path)
    assert str(path) in str(caught.value)
    assert "make results" in str(caught.value)


def test_a_cosine_may_pass_one_by_rounding_and_no_more(made, tmp_path):
    altered(made, tmp_path, "beir_candidates", causal=1 + 9e-7)
    assert (results.read_beir(tmp_path).candidates["causal"] > 1).all()
    altered(made, tmp_path, "beir_candidates", causal=1 + 2e-6)
    with pytest.raises(ValueError, match=r"has the causal 1\.000002, outside"):
        results.read_beir(tmp_path)


@pytest.mark.parametrize("names", ["nfcorpus", b"nfcorpus", 5, [None], [["nfcorpus"]]])
@pytest.mark.parametrize("argument", ["datasets", "encoders"])
def test_one_name_in_place_of_several_is_refused(made, argument, names):
    with pytest.raises(TypeError, match=f"{argument} must be a list of names, such as"):
        results.read_beir(made[0], **{argument: names})


def test_names_may_come_in_any_collection_and_none_of_them_reads_nothing(made, tmp_path):
    for names in (["nfcorpus"], {"nfcorpus"}, pd.Series(["nfcorpus"]), np.array(["nfcorpus"])):
        found = results.read_beir(made[0], datasets=names)
        assert set(found.queries["dataset"]) == {"nfcorpus"}
    assert results.read_beir(made[0], datasets=[]).queries.empty
    assert results.read_beir(tmp_path, datasets=["nfcorpus"], encoders=["use"]).queries.empty


# --- what is missing or broken ------------------------------------------------------------------


@pytest.fixture
def command(maker, tmp_path, monkeypatch, capsys):
    """Run `make_results.py` on one data set; give its exit status and what it says."""
    script = importlib.import_module("make_results")
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))

    def run(*arguments):
        places = ["--output", str(tmp_path / "out"), "--build", str(tmp_path / "build")]
        with pytest.raises(SystemExit) as ended:
            script.main(["--parts", "beir", "--encoders", "use", *places, *arguments])
        return ended.value.code, capsys.readouterr().err

    return run


BROKEN = {
    "truncated": (
        lambda data: data[: len(data) // 2],
        r"nfcorpus.zip cannot be read: File is not a zip file; fetch it again",
    ),
    "checksum": (
        # One letter of a member that is stored as it is: only its checksum tells.
        lambda data: data.replace(b'"d3"', b'"d4"', 1),
        "nfcorpus.zip cannot be read: Bad CRC-32 for file 'nfcorpus/corpus.jsonl'; fetch it again",
    ),
    "empty": (lambda data: b"", "nfcorpus.zip cannot be read"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_archive_gives_one_clear_error_and_no_result(tmp_path, command, kind):
    path, (damage, message) = lay(tmp_path, "nfcorpus"), BROKEN[kind]
    path.write_bytes(damage(path.read_bytes()))
    status, error = command("--datasets", "nfcorpus")
    assert status == 1
    assert message in error
    assert str(path) in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("there", ["none", "arguana"])
def test_a_missing_folder_or_archive_gives_one_clear_error(tmp_path, command, there):
    if there == "arguana":
        lay(tmp_path, there)
    status, error = command("--datasets", "nfcorpus")
    assert status == 1
    assert f"nfcorpus.zip does not exist (archives there: {there})" in error
    assert "set CAUSALRAG_DATA to the folder that holds beir/nfcorpus.zip" in error
    assert len(error.splitlines()) == 1


def test_an_unknown_data_set_lists_the_known_ones(command):
    status, error = command("--datasets", "trec-covid")
    assert status == 2
    assert all(name in error for name in results.BENCHMARKS)
