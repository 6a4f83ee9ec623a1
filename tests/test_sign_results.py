"""The sign's part of `make results`: its scores are the library's, its nulls are nulls."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from beir_files import write_beir
from book_scripts import BOOK, book_scripts
from reranking import HashEncoder
from scipy.stats import spearmanr

import causalrag as cr
from causalrag import results

pytest.importorskip("pyarrow")

TAU = 0.6


@pytest.fixture(scope="module")
def book():
    """The scripts as modules, which find each other as when they are run."""
    with book_scripts("provenance", "sign_methods", "sign_results") as found:
        yield found


class Drawn:
    """Terms "w0", "w1", ... with random directions; few dimensions, so that some lie close."""

    name, dimension = "drawn", 6

    def __init__(self, seed=0, n=400):
        self.fingerprint = f"drawn-{seed}"  # the library keeps terms by it
        table = np.random.default_rng(seed).normal(size=(n, self.dimension))
        self.table = (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)

    def encode(self, texts, role="document"):
        rows = np.array([self.table[[int(w[1:]) for w in t.split()]].sum(axis=0) for t in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def world(seed, n_documents=40, n_queries=12, m=8):
    """Documents and queries that are drawn alike, without regard to each other."""
    rng, encoder = np.random.default_rng(seed), Drawn(seed)

    def words(size):
        return {f"w{i}": float(rng.uniform(0.2, 1)) for i in rng.choice(400, size, replace=False)}

    documents = [words(m) for _ in range(n_documents)]
    queries = [words(3) for _ in range(n_queries)]
    vectors = encoder.encode([" ".join(query) for query in queries], "query")
    return documents, queries, vectors, encoder


def value(found, measure, pairing):
    (one,) = [v.value for v in found if (v.measure, v.pairing) == (measure, pairing)]
    return one


# --- scores ---------------------------------------------------------------------------------------


def test_each_pairing_is_the_library_s_score_of_one_query_with_the_b_of_another(book):
    documents, queries, vectors, encoder = world(1)
    documents[3] = dict.fromkeys(queries[0], 1.0)  # its B is empty for the first query
    alignments = book.sign_methods.Alignments(documents, queries, vectors, encoder, TAU)

    def score(asking, splitting):
        parts = [cr.partition(queries[splitting], d, encoder, tau=TAU) for d in documents]
        return np.array(
            [
                cr.causal_score(vectors[asking], p.residual, encoder) if p.residual else np.nan
                for p in parts
            ]
        )

    others = np.array([4, 7])
    found = alignments.measure(np.arange(len(documents)), 0, others)
    np.testing.assert_allclose(
        alignments.causal(np.arange(len(documents)), 0), score(0, 0), atol=1e-6
    )
    assert np.isnan(score(0, 0)[3])
    expected = {
        "own": np.nanmean(score(0, 0)),
        "repartitioned": np.mean([np.nanmean(score(p, p)) for p in others]),
        "frozen": np.mean([np.nanmean(score(p, 0)) for p in others]),
        "crossed": np.mean([np.nanmean(score(0, p)) for p in others]),
    }
    assert len({round(x, 4) for x in expected.values()}) == 4
    for pairing, wanted in expected.items():
        assert value(found, "alignment", pairing) == pytest.approx(wanted, abs=1e-6)


def test_match_is_the_weight_share_of_a_or_the_share_of_the_query_s_keywords(book):
    documents, queries, vectors, encoder = world(2)
    documents[0] |= dict.fromkeys(list(queries[0])[:2], 0.5)
    alignments = book.sign_methods.Alignments(documents, queries, vectors, encoder, TAU)
    places = np.arange(len(documents))
    found = alignments.measure(places, 0, np.array([1]))
    shares, overlaps = [], []
    for document in documents:
        part = cr.partition(queries[0], document, encoder, tau=TAU)
        shares.append(sum(part.shared.values()) / sum(document.values()))
        overlaps.append(len(set(queries[0]) & set(document)) / len(queries[0]))
    aligned = alignments.causal(places, 0)
    assert value(found, "shared_weight", "own") == pytest.approx(np.mean(shares))
    for measure, match in (("by_shared_weight", shares), ("by_overlap", overlaps)):
        wanted = spearmanr(np.round(match, 12), aligned).statistic
        assert value(found, measure, "own") == pytest.approx(wanted)


def test_a_correlation_leaves_out_what_has_no_b_and_is_nothing_where_nothing_varies(book):
    rng = np.random.default_rng(0)
    match, aligned = np.round(rng.uniform(size=(9, 3)), 1), rng.normal(size=(9, 3))
    match[:, 1] = 0.0  # the query matches no document
    aligned[[0, 5], 2] = np.nan
    found = book.sign_methods.correlations(match, aligned)
    assert found[0] == pytest.approx(spearmanr(match[:, 0], aligned[:, 0]).statistic)
    assert np.isnan(found[1])
    rest = [1, 2, 3, 4, 6, 7, 8]
    assert found[2] == pytest.approx(spearmanr(match[rest, 2], aligned[rest, 2]).statistic)
    assert np.isnan(book.sign_methods.correlations(match[:4], aligned[:4])).all()  # too few


# --- nulls ----------------------------------------------------------------------------------------


def test_each_query_is_another_s_other_as_often_as_any_and_never_its_own(book):
    for n in (3, 30):
        rings = book.sign_methods.rings(n)
        assert rings.shape == (n, min(20, n - 1))
        assert (np.bincount(rings.ravel(), minlength=n) == rings.shape[1]).all()
        for at, others in enumerate(rings):
            assert at not in others
            assert len(set(others)) == len(others)
    assert (book.sign_methods.rings(30) == rings).all()  # seeded


def excesses(book, seeds, plant=0.0):
    """Mean excesses in worlds of their own, with documents that hold words near the query or not.

    Each value is of one world: its queries share the documents.
    """
    found = {"repartitioned": [], "frozen": []}
    for seed in seeds:
        documents, queries, vectors, encoder = world(seed)
        if plant:  # for each query one document out of the words that are fairly close to it
            cosines = encoder.table @ vectors.T
            for at in range(len(queries)):
                near = np.flatnonzero((cosines[:, at] > 0.2) & (cosines[:, at] < plant))[:8]
                documents[at] = {f"w{i}": 1.0 for i in near}
        alignments = book.sign_methods.Alignments(documents, queries, vectors, encoder, TAU)
        rings = book.sign_methods.rings(len(queries))
        for null, values in found.items():
            each = []
            for at, others in enumerate(rings):
                places = np.array([at]) if plant else np.arange(len(documents))
                told = alignments.measure(places, at, others)
                each.append(value(told, "alignment", "own") - value(told, "alignment", null))
            values.append(np.mean(each))
    return {null: cr.evaluate.mean(values) for null, values in found.items()}


def test_without_any_association_the_repartitioned_null_leaves_nothing_the_frozen_one_a_minus(book):
    found = excesses(book, range(30))
    assert found["repartitioned"].low < 0 < found["repartitioned"].high
    assert abs(found["repartitioned"].value) < 0.01
    assert found["frozen"].high < -0.02  # q has lost its own words, the other has not


def test_an_association_that_is_there_exceeds_both_nulls(book):
    found = excesses(book, range(10), plant=0.55)
    assert found["repartitioned"].low > 0.1
    assert found["frozen"].low > 0.1


def test_random_documents_are_drawn_without_regard_to_the_window_and_alike_each_time(book):
    allowed = np.setdiff1d(np.arange(50), [7])
    first, again = (book.sign_methods.draws(3, allowed, 20) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert len(first) == 5
    assert all(len(set(group)) == 20 and 7 not in group for group in first)
    assert len(book.sign_methods.draws(3, allowed[:4], 20)[0]) == 4
    assert set(first[0]) != set(first[1]) != set(book.sign_methods.draws(4, allowed, 20)[0])


def test_reciprocal_ranks_put_an_empty_b_behind_and_stop_at_ten(book):
    relevant = np.array([False, True, False])
    found = book.sign_methods.reciprocal_ranks(np.array([0.1, np.nan, -0.9]), relevant)
    assert found == {"similarity": 0.5, "causal": pytest.approx(1 / 3)}
    far = np.zeros(12, dtype=bool)
    far[10] = True
    scores = np.r_[np.zeros(10), 1.0, 0.0]
    assert book.sign_methods.reciprocal_ranks(scores, far) == {"similarity": 0.0, "causal": 1.0}


# --- the part -------------------------------------------------------------------------------------

WORDS = [
    f"{a}{b}" for a in ("bread", "dough", "yeast", "oven", "salt") for b in ("", "mill", "bin")
]


@pytest.fixture
def made(book, tmp_path, monkeypatch):
    """A small ArguAna whose windows are stored as the benchmarks' part stores them."""
    rng = np.random.default_rng(0)
    documents = {f"d{n}": " ".join(rng.choice(WORDS, 12)) for n in range(30)}
    queries = {f"d{n}": documents[f"d{n}"] for n in range(6)}
    write_beir(
        tmp_path / "data",
        "arguana",
        [{"_id": k, "title": "", "text": v} for k, v in documents.items()],
        [{"_id": k, "text": v} for k, v in queries.items()],
        [f"d{n}\td{n + 10}\t1" for n in range(6)],
    )
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path / "data"))
    encoder = cr.load_encoder(HashEncoder())
    keywords = cr.TfidfKeywords.fit(list(documents.values()), top_document=15, top_query=10)
    reranker = cr.CausalReranker(encoder, keywords, method="causal")
    columns = results.TABLES["beir_candidates"]["candidates"]
    rows = []
    for query_id, query in queries.items():
        others = [{"id": k, "text": v} for k, v in documents.items() if k != query_id][:20]
        for place in sorted(reranker.rank(query, others), key=lambda place: place.index):
            row = dict.fromkeys(columns, 0.0) | {
                "query_id": query_id,
                "first_stage": "similarity",
                "doc_id": place.doc_id,
                "grade": int(place.doc_id == f"d{int(query_id[1:]) + 10}"),
                "causal": place.causal,
                "has_residual": bool(place.residual),
            }
            rows.append(row)
    about = book.provenance.provenance("x", {"name": "arguana"}, {}, {})
    stored = tmp_path / "out" / "beir" / "candidates" / f"arguana-{encoder.name}.parquet"
    results.save_parquet(stored, "beir_candidates", about, pd.DataFrame(rows, columns=columns))
    places = SimpleNamespace(output=tmp_path / "out", embeddings=tmp_path / "vectors")

    def make(force=False):
        languages = {encoder.name: ("en",)}
        book.sign_results.make_sign(["arguana"], [("x", encoder)], places, force, languages)
        return results.load_parquet(places.output / "sign" / f"arguana-{encoder.name}.parquet")

    return SimpleNamespace(make=make, stored=stored, rows=rows, columns=columns, about=about)


def test_a_benchmark_is_measured_in_its_stored_windows(made):
    table = made.make().tables["queries"]
    frame = pd.DataFrame(made.rows)
    aligned = table[table["measure"].eq("alignment") & table["documents"].eq("retrieved")]
    own = aligned[aligned["pairing"] == "own"].set_index("query_id")["value"]
    kept = frame[frame["has_residual"].astype(bool)]
    wanted = kept.groupby("query_id")["causal"].mean()
    np.testing.assert_allclose(own[wanted.index], wanted, atol=1e-6)
    assert set(aligned["pairing"]) == {"own", "repartitioned", "frozen", "crossed"}
    assert set(aligned.loc[aligned["pairing"] != "own", "others"]) == {5}
    assert set(table["documents"]) == {"retrieved", "random"}
    ranks = table[table["measure"] == "RR@10"]
    assert ranks.groupby("pairing").size().to_dict() == {"causal": 6, "similarity": 6}
    keys = ["documents", "query_id", "measure", "pairing"]
    assert not table.duplicated(keys).any()


def test_a_query_s_own_document_is_never_drawn(book, made, monkeypatch):
    seen = []
    real = book.sign_methods.draws

    def spied(seed, allowed, size):
        seen.append((seed, set(allowed.tolist())))
        return real(seed, allowed, size)

    monkeypatch.setattr(book.sign_methods, "draws", spied)
    made.make(force=True)
    assert len(seen) == 6
    assert all(at not in allowed and len(allowed) == 29 for at, allowed in seen)


def test_what_is_there_is_kept_and_made_alike_by_force(made, capsys):
    first = made.make()
    assert "stored" in capsys.readouterr().out
    made.make()
    assert "is there already" in capsys.readouterr().out
    again = made.make(force=True)
    pd.testing.assert_frame_equal(first.tables["queries"], again.tables["queries"])
    settings = again.provenance["settings"]
    assert settings["others"] == 20
    assert "repartitioned" in settings["definitions"]
    assert again.provenance["command"].startswith("make results PARTS=sign DATASETS=arguana")


def test_stored_scores_of_another_version_are_refused(made):
    rows = [dict(row) for row in made.rows]
    rows[25]["causal"] += 0.01
    frame = pd.DataFrame(rows, columns=made.columns)
    results.save_parquet(made.stored, "beir_candidates", made.about, frame)
    with pytest.raises(ValueError, match=r"query 'd1'.*renew them with: make results PARTS="):
        made.make()


def test_themes_are_pooled_by_language_and_have_their_own_documents(book, tmp_path):
    places = SimpleNamespace(output=tmp_path, embeddings=tmp_path / "vectors")
    maker = book.sign_results.Maker("x", cr.load_encoder(HashEncoder()), places, False)
    _, pools, _ = maker.themes("diagnostic")
    corpus = cr.datasets.diagnostic()
    made = pools()
    assert [len(pool.queries) for pool in made] == [5, 3]
    for pool in made:
        for theme in (t for t in corpus.themes if t.theme in pool.query_ids):
            own = [pool.texts[i] for i in pool.own[theme.theme]]
            assert own == [d.full_text for d in theme.documents]
            (target,) = pool.relevant[theme.theme]
            assert pool.texts[target] == theme.with_role("target")[0].full_text
            assert len(set(pool.windows[theme.theme])) == 10


# --- what is stored with the book -----------------------------------------------------------------

STORED = BOOK / "results" / "sign"


@pytest.mark.skipif(not STORED.is_dir(), reason="nothing is stored yet")
def test_the_stored_results_are_whole():
    for path in sorted(STORED.glob("*.parquet")):
        stored = results.load_parquet(path)
        assert stored.kind == "sign"
        table = stored.tables["queries"]
        assert not table.duplicated(["documents", "query_id", "measure", "pairing"]).any()
        assert table["value"].between(-1, 1).all()
        aligned = table[table["measure"].eq("alignment") & table["documents"].eq("retrieved")]
        assert aligned.groupby("pairing")["query_id"].nunique().nunique() == 1


@pytest.mark.skipif(not STORED.is_dir(), reason="nothing is stored yet")
def test_the_stored_ranks_are_those_of_the_benchmarks_part():
    looked = 0
    for path in sorted(STORED.glob("*.parquet")):
        other = STORED.parent / "beir" / path.name
        if not other.is_file():
            continue
        ours = results.load_parquet(path).tables["queries"]
        ours = ours[ours["measure"] == "RR@10"].pivot(
            index="query_id", columns="pairing", values="value"
        )
        theirs = (
            results.load_parquet(other)
            .tables["queries"]
            .pivot(index="query_id", columns="method", values="RR@10")
        )
        for method in ("similarity", "causal"):
            np.testing.assert_allclose(ours[method], theirs.loc[ours.index, method], atol=1e-9)
        assert len(ours) == len(theirs)
        looked += 1
    assert looked >= 3
