"""The ablations' part of `make results`: one thing varied at a time, by the library's scores."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from beir_files import write_beir
from book_scripts import BOOK, book_scripts
from reranking import HashEncoder

import causalrag as cr
from causalrag import results
from causalrag.embeddings import EmbeddingCache

pytest.importorskip("pyarrow")

WORDS = [f"{a}{b}" for a in ("ken", "lor", "mas", "nip", "ost", "pra") for b in ("ta", "ve", "du")]


@pytest.fixture(scope="module")
def book():
    """The scripts as modules, which find each other as when they are run."""
    with book_scripts(
        "phase_methods", "beir_results", "ablation_methods", "ablation_results"
    ) as found:
        yield found


def texts(n, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.choice((8, 15, 30)))) for _ in range(n)]


class Named(HashEncoder):
    """With a name, as every encoder that results are made with."""

    name = "hashed"


@pytest.fixture(scope="module")
def scored(book, tmp_path_factory):
    """One query's orders by study, setting and method, and what they were made from."""
    documents = texts(30)
    cache = EmbeddingCache(tmp_path_factory.mktemp("vectors"), Named(size=12))
    keywords = cr.TfidfKeywords.fit(documents)
    others = {"TextRank": cr.TextRankKeywords()}
    studies = book.ablation_methods.Studies(keywords, cache, (10, 20, 30), others)
    query = " ".join(WORDS[:5])
    reranker = cr.CausalReranker(cache, keywords, method="similarity")
    ranking = list(reranker.rank(query, documents))
    ordered, base = [p.text for p in ranking], np.array([p.base for p in ranking])
    made = {tuple(one[:3]): one.score for one in studies.score(query, ordered, base)}
    return SimpleNamespace(
        studies=studies, made=made, query=query, documents=ordered, base=base, keywords=keywords
    )


def order(score):
    return np.argsort(-score, kind="stable").tolist()


def library(scored, n=20, **method):
    reranker = cr.CausalReranker(scored.studies.encoder, scored.keywords, **method)
    ranking = reranker.rank(scored.query, scored.documents[:n], scored.base[:n])
    return [place.index for place in ranking]


def test_at_the_papers_position_every_study_gives_the_same_order(scored):
    wanted = library(scored, method="causal")
    for key in (
        ("baseline", "", "causal"),
        ("tau", "0.6", "causal"),
        ("weight", "0", "hybrid"),
        ("keywords per document", "15", "causal"),
        ("keywords per query", "10", "causal"),
        ("extractor", "TF-IDF", "causal"),
        ("vector of B", "centroid", "causal"),
        ("window", "20", "causal"),
    ):
        assert order(scored.made[key]) == wanted, key
    hybrid = library(scored, method="hybrid")
    for study, setting in (("baseline", ""), ("weight", "0.5"), ("tau", "0.6"), ("window", "20")):
        assert order(scored.made[study, setting, "hybrid"]) == hybrid, study


def test_other_positions_are_those_of_the_library(scored):
    made = scored.made
    for tau in (0.3, "auto"):
        assert order(made["tau", str(tau), "causal"]) == library(scored, method="causal", tau=tau)
    exact = library(scored, method="causal", absorption="exact")
    assert order(made["tau", "exact", "causal"]) == exact
    for n in (10, 30):
        assert order(made["window", str(n), "adjusted"]) == library(scored, n, method="adjusted")
        assert order(made["window", str(n), "causal"]) == library(scored, n, method="causal")
    few = cr.TfidfKeywords.fit(scored.documents, top_document=5)
    reranker = cr.CausalReranker(scored.studies.encoder, few, method="causal")
    ranking = reranker.rank(scored.query, scored.documents[:20], scored.base[:20])
    assert order(made["keywords per document", "5", "causal"]) == [p.index for p in ranking]
    assert len({tuple(order(score)) for score in made.values()}) > 10  # the knobs do something


def test_what_is_encoded_without_a_holds_no_word_of_it(scored):
    found = scored.studies.texts(scored.query, scored.documents[:20])
    reranker = cr.CausalReranker(scored.studies.encoder, scored.keywords, method="causal")
    ranking = reranker.rank(scored.query, scored.documents[:20], scored.base[:20])
    by_index = sorted(ranking, key=lambda place: place.index)
    rows, masked, whole = found[:20], found[20:40], found[40:]
    for place, row, bare, full in zip(by_index, rows, masked, whole, strict=True):
        tokens = scored.keywords.tokens(place.text)
        assert row.split() == list(place.residual)
        assert full.split() == tokens
        assert bare.split() == [t for t in tokens if t not in place.shared]
    assert any(place.shared for place in by_index)
    # Averaged word by word: the same words, each as often as it stands there.
    averaged = scored.made["vector of B", "document without A, averaged", "causal"]
    encoder = scored.studies.encoder
    query = encoder.encode([scored.query], "query")[0]
    for place, bare, score in zip(by_index, masked, averaged, strict=True):
        if place.residual:
            mean = encoder.encode(bare.split(), "term").mean(axis=0)
            cosine = mean @ query / np.linalg.norm(mean) / np.linalg.norm(query)
            assert score == pytest.approx(float(cosine), abs=1e-6)


def test_the_size_of_a_is_added_on_similaritys_scale(scored):
    reranker = cr.CausalReranker(scored.studies.encoder, scored.keywords, method="causal")
    ranking = reranker.rank(scored.query, scored.documents[:20], scored.base[:20])
    size = np.array([len(p.shared) for p in sorted(ranking, key=lambda p: p.index)], dtype=float)
    share = (size - size.min()) / np.ptp(size)
    cosine = scored.base[:20]
    similarity = (cosine - cosine.min()) / np.ptp(cosine)
    found = scored.made["|A| feature", "+0.5", "similarity and |A|"]
    assert found == pytest.approx(similarity + 0.5 * share)


# The files


def lay(folder):
    documents = [
        {"_id": f"d{n}", "title": f"page{n}", "text": text} for n, text in enumerate(texts(60, 1))
    ]
    queries = [{"_id": f"q{n}", "text": " ".join(WORDS[n : n + 4])} for n in range(6)]
    judged = [f"q{n}\td{m}\t1" for n in range(6) for m in range(n, 60, 7)]
    write_beir(folder, "scifact", documents, queries, judged)


def test_a_benchmarks_file_holds_every_setting_for_every_query(book, tmp_path, monkeypatch):
    lay(tmp_path)
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))
    monkeypatch.setattr(book.phase_methods, "N_QUERIES", 4)
    monkeypatch.setattr(book.phase_methods, "N_PROBES", 2)
    kept = book.ablation_methods.Studies
    monkeypatch.setattr(
        book.ablation_methods, "Studies", lambda *given: kept(*given, extractors={})
    )
    place = book.beir_results.Places(tmp_path / "out", tmp_path / "vectors", tmp_path / "work")
    encoder = cr.load_encoder(Named(size=12))
    reads = {"hashed": ("en",)}
    for force in (False, False):  # the second time nothing is left to do
        book.ablation_results.make_ablations(["scifact"], [("x", encoder)], place, force, reads)
    [path] = (tmp_path / "out" / "ablations").glob("*.parquet")
    stored = results.load_parquet(path)
    table = stored.tables["measures"]
    sizes = table.groupby(["study", "setting", "method"]).size()
    assert (sizes == 4).all()
    assert table["value"].between(0, 1).all()
    assert set(table["study"]) >= {"tau", "weight", "window", "vector of B", "|A| feature"}
    about = stored.provenance["settings"]
    assert about["auto"]["en"] == cr.calibrate.tau_for(encoder)
    assert list(about["cosines"]["en"].values()) == sorted(about["cosines"]["en"].values())
    similarity = table[(table["study"] == "baseline") & (table["method"] == "similarity")]
    data = cr.datasets.beir("scifact")
    query_ids = list(similarity["query_id"])
    reranker = cr.CausalReranker(encoder, method="similarity")
    ranking = {
        q: [p.doc_id for p in reranker.rank(data.queries[q], data.corpus.values())][:10]
        for q in query_ids
    }
    run = cr.evaluate.run_from_rankings(ranking)
    qrels = {q: data.qrels[q] for q in query_ids}
    wanted = cr.evaluate.evaluate(run, qrels, ("nDCG@10",))["nDCG@10"].sort_index()
    assert list(similarity["value"]) == pytest.approx([wanted[q] for q in query_ids])


# What is stored


STORED = BOOK / "results"
# Setting of the ablations → method of the benchmarks' part: both re-order the same 20.
SAME = {
    ("baseline", "", "similarity"): "similarity",
    ("baseline", "", "causal"): "causal",
    ("window", "20", "hybrid"): "hybrid",
    ("window", "20", "adjusted"): "adjusted",
    ("tau", "exact", "causal"): "causal_exact",
}


@pytest.mark.parametrize("encoder", ["use", "minilm"])
@pytest.mark.parametrize("name", ["scifact", "nfcorpus", "arguana"])
def test_the_stored_measures_are_those_of_the_benchmarks_part(name, encoder):
    ours = results.load_parquet(STORED / "ablations" / f"{name}-{encoder}.parquet")
    ours = (
        ours.tables["measures"]
        .set_index(["study", "setting", "method", "query_id"])["value"]
        .sort_index()
    )
    theirs = results.load_parquet(STORED / "beir" / f"{name}-{encoder}.parquet").tables["queries"]
    theirs = (
        theirs.astype({"query_id": str}).set_index(["method", "query_id"])["nDCG@10"].sort_index()
    )
    for setting, method in SAME.items():
        one, other = ours.loc[setting], theirs.loc[method]
        assert len(one) == 200
        assert one.to_numpy() == pytest.approx(other.loc[one.index].to_numpy(), abs=1e-9)


@pytest.mark.parametrize(
    "path", sorted((STORED / "ablations").glob("*.parquet")), ids=lambda p: p.stem
)
def test_the_stored_files_hold_every_setting_for_every_query(path):
    table = results.load_parquet(path).tables["measures"]
    sizes = table.groupby(["study", "setting", "method", "measure"])["query_id"].nunique()
    assert sizes.nunique() == 1
    assert not table.duplicated(["study", "setting", "method", "measure", "query_id"]).any()
