"""The boundary's part of `make results`: its windows, its orders, and that nothing is lost."""

import random

import numpy as np
import pytest
from beir_files import write_beir
from book_scripts import book_scripts
from reranking import HashEncoder

import causalrag as cr
from causalrag import results
from causalrag.adjust import DEFAULT, GUARD
from causalrag.stuffing import ATTACKS

pytest.importorskip("pyarrow")

THINGS = (
    "heron",
    "ferry",
    "choir",
    "market",
    "harbour",
    "chapel",
    "bridge",
    "gate",
    "bell",
    "hill",
)
ACTS = ("rests", "waits", "returns", "sings", "opens", "closes", "turns", "falls", "shines")
OTHER_THINGS = ("enzyme", "neuron", "lattice", "quartz", "plasma", "vector", "isotope", "polymer")
OTHER_ACTS = ("decays", "binds", "oscillates", "dissolves", "expands", "cools")


def lay(folder):
    """A small data set of sentences, as a BEIR archive."""
    draw = random.Random(3)

    def text(things, acts):
        return " ".join(
            f"The {draw.choice(things)} {draw.choice(acts)} near a {draw.choice(things)}."
            for _ in range(draw.choice((6, 9, 14)))
        )

    # The last twenty share no word with a query: what is spliced comes out of them.
    subjects = [(THINGS, ACTS)] * 50 + [(OTHER_THINGS, OTHER_ACTS)] * 20
    documents = [
        {"_id": f"d{n}", "title": f"Page {n}", "text": text(*words)}
        for n, words in enumerate(subjects)
    ]
    queries = [
        {"_id": f"q{n}", "text": f"{draw.choice(ACTS)} {' '.join(draw.sample(THINGS, 2))}"}
        for n in range(12)
    ]
    judged = [
        f"{query['_id']}\t{document['_id']}\t1"
        for query in queries[:11]
        for document in draw.sample(documents[:50], 6)
    ]
    judged.append(f"{queries[11]['_id']}\td0\t0")  # without a relevant document
    write_beir(folder, "scifact", documents, queries, judged)


class Hashed(HashEncoder):
    """Counts what reaches it, and stops when told to."""

    name = "hashed"

    def __init__(self):
        super().__init__()
        self.seen = []

    def encode(self, texts, role="document"):
        self.seen += [(role, text) for text in texts]
        return super().encode(texts, role)


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    lay(folder)
    with book_scripts("phase_results") as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSALRAG_DATA", str(folder))
        module = found.phase_results
        patch.setattr(module, "CHUNK", 3)
        for name, value in {
            "N_QUERIES": 5,
            "N_PROBES": 2,
            "N_TARGETED": 3,
            "STRENGTHS": (0.2, 0.6),
        }.items():
            patch.setattr(module.methods, name, value)
        yield module


def make(part, folder, model, encode_only=False):
    places = part.Places(folder / "out", folder / "vectors", folder / "work")
    encoder = cr.load_encoder(model)
    part.make_phase(
        ["scifact", "arguana_with_self"], [("hashed", encoder)], places, False, encode_only
    )
    return folder / "out"


@pytest.fixture(scope="module")
def made(part, tmp_path_factory):
    folder, model = tmp_path_factory.mktemp("made"), Hashed()
    return make(part, folder, model), model, folder


@pytest.fixture(scope="module")
def found(made):
    return results.read_phase(made[0] / "phase")


def test_every_window_of_every_query_is_there_once(part, found):
    table, provenance = found
    assert list(table.columns) == list(results.TABLES["phase"]["queries"])
    about = provenance["scifact"]["hashed"]
    methods = about["settings"]["methods"]
    rates = about["settings"]["rates"]
    # Neighbours are in the collection already: they are not put into it.
    assert len(table) == (len(ATTACKS) * (len(rates) + 1) - 1) * len(methods) * 7
    assert set(table["rate"]) == {*rates, -1.0}
    assert not table.duplicated(["attack", "rate", "method", "query_id"]).any()
    assert set(methods) == set(part.methods.METHODS)


def test_probes_and_test_queries_have_nothing_in_common(part, found):
    table, provenance = found
    probes = set(provenance["scifact"]["hashed"]["settings"]["probes"])
    tests = set(table["query_id"]) - probes
    assert (len(probes), len(tests)) == (2, 5)
    data = cr.datasets.beir("scifact")
    drawn, kept = part.chosen(data, 5, 2)
    assert (set(drawn), set(kept)) == (tests, probes)
    assert "q11" not in probes | tests  # without a relevant document


def test_without_stuffed_documents_every_attack_is_the_same_window(found):
    clean = found[0][found[0]["rate"] == 0]
    assert (clean["stuffed_in_10"] == 0).all()
    spread = clean.groupby(["method", "query_id"])["nDCG@10"].nunique()
    assert (spread == 1).all()


def test_no_method_is_above_the_ceiling_and_the_ceiling_falls(found):
    table = found[0]
    windows = table[table["rate"] >= 0].pivot_table(
        index=["attack", "rate", "query_id"], columns="method", values="nDCG@10"
    )
    assert (windows.sub(windows["ceiling"], axis=0).to_numpy() <= 1e-12).all()
    ceilings = windows["ceiling"].unstack("rate")
    assert (np.diff(ceilings.to_numpy(), axis=1) <= 1e-12).all()


def test_the_orders_are_the_re_rankers_own(part, made):
    """Each method on one window, against `CausalReranker.rank` on the same documents."""
    collection = part.Collections().collection("scifact")
    encoder = cr.load_encoder(HashEncoder())
    boundary = part.methods.Boundary(collection, encoder, encoder)
    query_id = "q1"
    natural = [f"d{n}" for n in range(30)]
    query, data = collection.data.queries[query_id], collection.data
    clean = boundary.scores(query_id, natural)
    first = np.argsort(-clean.base, kind="stable")
    natural = [clean.ids[i] for i in first]
    clean = clean.at(first)
    for attack, documents in boundary.stuffed(query_id, natural[:20]).items():
        scores = clean.joined(boundary.scores(query_id, [], documents))
        window = part.methods.window(scores, len(natural), 0.5)
        m = min(10, len(documents))
        assert set(window.ids) == {*natural[: 20 - m], *(d.id for d in documents[:m])}
        by_id = {d.id: d for d in documents} | {
            d["id"]: d for d in data.candidates(query_id, natural)
        }
        pool = [by_id[name] for name in window.ids]
        settings = {
            "similarity": ({"method": "similarity"}, None),
            "causal_exact": ({"method": "causal", "absorption": "exact"}, None),
            "causal": ({"method": "causal"}, None),
            "hybrid": ({"method": "hybrid"}, None),
            "adjusted": ({"method": "adjusted"}, None),
            "guarded": ({"method": "adjusted", "adjustment": GUARD}, None),
            "guarded_bm25": ({"method": "adjusted", "adjustment": GUARD}, window.bm25),
            "adjusted_fusion": ({"method": "adjusted", "adjustment": DEFAULT}, window.fusion),
            "fusion": ({"method": "similarity"}, window.fusion),
        }
        for method, (options, base) in settings.items():
            reranker = cr.CausalReranker(encoder, collection.keywords, **options)
            expected = [p.doc_id for p in reranker.rank(query, pool, base, top_k=10)]
            ordered = part.methods.order(method, window)
            assert ordered.ids == expected, (attack, method)
            assert ordered.stuffed == sum(name in {d.id for d in documents} for name in expected)


def test_bm25_of_the_collections_own_documents_is_the_retrievers(part):
    collection = part.Collections().collection("scifact")
    encoder = cr.load_encoder(HashEncoder())
    boundary = part.methods.Boundary(collection, encoder, encoder)
    scores = boundary.scores("q0", collection.ids)
    expected = collection.bm25.scores(collection.data.queries["q0"])
    assert scores.bm25 == pytest.approx(expected, abs=1e-9)


def test_documents_put_into_the_collection_are_retrieved_by_their_score(part):
    collection = part.Collections().collection("scifact")
    encoder = cr.load_encoder(HashEncoder())
    boundary = part.methods.Boundary(collection, encoder, encoder)
    query_id = "q2"
    clean = boundary.scores(query_id, collection.ids)
    order = {
        "similarity": [clean.ids[i] for i in np.argsort(-clean.base, kind="stable")],
        "bm25": [clean.ids[i] for i in np.argsort(-clean.bm25, kind="stable") if clean.bm25[i]],
    }
    documents = boundary.stuffed(query_id, order["similarity"][:20])["repetition"][:10]
    scores = clean.joined(boundary.scores(query_id, [], documents))
    placed = part.methods.injected(scores, order)
    best = sorted(range(len(scores.ids)), key=lambda i: -scores.base[i])[:10]
    assert placed["similarity"].ids == [scores.ids[i] for i in best]
    assert placed["bm25"].stuffed == 10  # nothing says the query's words as often
    assert placed["guarded_bm25"].stuffed <= 10
    assert set(placed) == set(part.methods.METHODS)


def test_a_second_run_makes_nothing_and_a_stopped_one_goes_on(part, made, tmp_path, capsys):
    place, model, folder = made
    before = len(model.seen)
    make(part, folder, model)
    assert len(model.seen) == before
    assert "is there already" in capsys.readouterr().out
    make(part, tmp_path, again := Hashed(), encode_only=True)
    assert not (tmp_path / "out").exists()
    assert len(set(again.seen)) == len(again.seen)
    encoded = len(again.seen)

    class Stopped(Exception):
        pass

    calls, real = [], part.methods.order

    def stopping(*arguments):
        calls.append(1)
        if len(calls) > 2000:
            raise Stopped
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part.methods, "order", stopping)
        with pytest.raises(Stopped):
            make(part, tmp_path, again)
    make(part, tmp_path, again)
    assert len(again.seen) == encoded  # all came from the cache
    for kind in ("phase", "adversary"):
        one, two = (
            results.load_parquet(next((root / kind).glob("*.parquet"))).tables
            for root in (place, tmp_path / "out")
        )
        [name] = one
        assert one[name].equals(two[name])


def test_an_adversarys_documents_are_ranked_one_at_a_time(made):
    path = next((made[0] / "adversary").glob("*.parquet"))
    table = results.load_parquet(path).tables["documents"]
    assert len(table) == 3 * 7 * 2 * 2 * 7  # queries, attacks, strengths, documents, methods
    assert {"repetition", "synonyms", "repetition + synonyms"} <= set(table["attack"])
    assert table["rank"].between(1, 21).all()
    alone = table[table["method"] == "similarity"]
    assert ((alone["rank"] == 1) == (alone["base"] > alone["first_base"])).all()
    mean = table[table["attack"] == "repetition"].groupby("strength")["excess_to_bend"].mean()
    assert mean.is_monotonic_increasing


def test_what_is_not_a_whole_result_is_refused(made, tmp_path):
    path = next((made[0] / "phase").glob("*.parquet"))
    stored = results.load_parquet(path)
    table = stored.tables["queries"]
    for broken in (
        table.assign(**{"nDCG@10": 1.5}),
        table.iloc[[0, 0]],
    ):
        results.save_parquet(tmp_path / path.name, "phase", stored.provenance, broken)
        with pytest.raises(ValueError, match="make it anew with: make results PARTS=phase"):
            results.read_phase(tmp_path)
    with pytest.raises(FileNotFoundError, match="make results"):
        results.read_phase(tmp_path / "absent")
    folder = made[0] / "phase"
    assert results.read_phase(folder, datasets=["nfcorpus"])[0].empty
    for asked, error, message in (
        ({"datasets": ["nfcorpsu"]}, ValueError, "unknown data set 'nfcorpsu'; known: "),
        ({"encoders": ["used"]}, ValueError, "no result of the encoder 'used'; it has hashed"),
        ({"encoders": "hashed"}, TypeError, "encoders"),
    ):
        with pytest.raises(error, match=message):
            results.read_phase(folder, **asked)
