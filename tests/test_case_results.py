"""The case study's stored tables: what they hold, that a run goes on, and what is refused.

All texts are small ones of our own; the packaged casebook and the laws are not ranked here.
"""

import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from book_scripts import BOOK, book_scripts

import causalrag as cr
from causalrag import results
from causalrag.datasets import case_study, laws, load_case_study
from causalrag.results.cases import PARTS, case_checksums, case_path, read_cases

QUERIES = [
    {"id": "Q01", "query": "如何借阅图书", "gloss": "How are books borrowed?"},
    {"id": "Q02", "query": "图书的借阅如何办理", "gloss": "Borrowing books: how is it done?"},
]
TEXTS = {
    "C01": (
        "filler",
        "停车管理规定",
        [("一、车位", "职工凭牌照停车。"), ("二、收费", "按月收费。")],
    ),
    "C02": (
        "automotive",
        "读者须知",
        [
            ("一、开放", "图书馆借阅图书的读者请安静，图书借阅不得喧哗。"),
            ("二、其他", "图书归架。"),
        ],
    ),
    "C03": (
        "target",
        "图书借阅指南",
        [
            ("一、借阅步骤", "先登记证件，再选取资料，最后到柜台扫码。"),
            ("二、图书归还", "按期送回。"),
        ],
    ),
    "C04": ("draft", "图书借阅办法（草案）", [("一、总则", "为规范借阅制定本办法。")]),
    "C05": ("law", "公共文化法", [("一、总则", "国家保障公共文化服务。")]),
    "C06": ("filler", "食堂卫生制度", [("一、餐具", "餐具每日消毒。")]),
}
LAWS = {
    "图书馆条例": "# 图书馆条例\n\n## 第一章 借阅\n\n第一条 图书馆提供图书借阅。\n",
    "桥梁规定": "# 桥梁规定\n\n## 第一章 总则\n\n第一条 桥梁每年检查一次。\n",
    "出版办法": "# 出版办法\n\n第一条 图书出版应当登记。\n第二条 出版物送交图书馆。\n",
    "渔业法": "# 渔业法\n\n第一条 为了保护渔业资源，制定本法。\n",
    "图书借阅法": "# 图书借阅法\n\n第一条 办理图书借阅应当出示证件。\n",
}


@pytest.fixture(scope="module")
def book():
    """The scripts as modules, which find each other as when they are run."""
    with book_scripts("provenance", "case_methods", "case_results") as found:
        yield found


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A small casebook in place of the packaged one, and a small archive of laws."""
    folder = tmp_path / "casebook"
    folder.mkdir()
    documents = [
        {
            "id": name,
            "role": role,
            "title": title,
            "sections": [{"heading": h, "text": t} for h, t in sections],
            "gloss": {"title": "t", "headings": ["h"] * len(sections), "summary": "s"},
        }
        for name, (role, title, sections) in TEXTS.items()
    ]
    for name, records in (("docs", documents), ("queries", QUERIES)):
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    small = load_case_study(folder)
    monkeypatch.setattr(cr.datasets, "case_study", lambda: small)
    archive = tmp_path / "data" / "laws" / "laws471.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in LAWS.items():
            file.writestr(f"{name}.md", text)
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path / "data"))
    return small


class Counted:
    """The default encoder under another name; counts what it encodes."""

    name, dimension, fingerprint = "counted/use", 512, "counted-use-1"

    def __init__(self):
        self.texts = []

    def encode(self, texts, role="document"):
        self.texts += [(role, text) for text in texts]
        return cr.load_encoder("use").encode(texts, role)


@pytest.fixture
def made(book, study, tmp_path, monkeypatch):
    """The tables of one run, and all that is needed for another."""
    monkeypatch.setattr(book.case_methods, "WINDOWS", {"casebook": (6, 3), "laws": (4,)})
    monkeypatch.setattr(book.case_methods, "SIZES", (8, 10, 99))
    places = SimpleNamespace(output=tmp_path / "results", embeddings=tmp_path / "vectors")
    model = Counted()
    encoder = cr.load_encoder(model)
    run = SimpleNamespace(
        folder=places.output / "case_study", places=places, model=model, encoder=encoder
    )
    run.make = lambda force=False, **options: book.case_results.make_cases(
        [("path/to/use", encoder)], places, force, **options
    )
    run.make()
    return run


def ranked(found, query, method):
    rows = found[(found["query_id"] == query) & (found["method"] == method)]
    return rows.sort_values("rank")["doc_id"].tolist()


# --- ranks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["similarity", "causal_exact", "causal", "hybrid"])
def test_ranks_are_those_of_the_reranker_over_the_whole_casebook(made, book, study, method):
    found = read_cases(made.folder).ranks
    found = found[(found["collection"] == "casebook") & (found["window"] == 6)]
    keywords = cr.TfidfKeywords.fit(study.texts)
    reranker = cr.CausalReranker("use", keywords, **book.case_methods.METHODS[method])
    for query in study.queries:
        expected = [place.doc_id for place in reranker.rank(query.query, study.documents)]
        assert ranked(found, query.id, method) == expected


def test_beyond_a_window_the_first_stage_s_order_is_kept(made):
    found = read_cases(made.folder).ranks
    found = found[found["collection"] == "casebook"]
    narrow, wide = (found[found["window"] == window] for window in (3, 6))
    for query in ("Q01", "Q02"):
        first = ranked(wide, query, "similarity")
        for method in ("similarity", "causal_exact", "causal", "hybrid"):
            ids = ranked(narrow, query, method)
            assert sorted(ids[:3]) == sorted(first[:3])
            assert ids[3:] == first[3:]
    assert any(
        ranked(narrow, query, "causal") != ranked(wide, query, "causal") for query in ("Q01", "Q02")
    )


def test_of_the_laws_the_window_is_kept_with_scores_and_statistics(made, study):
    found = read_cases(made.folder)
    texts = [law.full_text for law in laws()]
    keywords = cr.TfidfKeywords.fit(texts)
    for query in study.queries:
        ranking = cr.CausalReranker("use", method="similarity").rank(query.query, laws(), top_k=4)
        rows = found.candidates[
            (found.candidates["collection"] == "laws") & (found.candidates["query_id"] == query.id)
        ]
        assert rows["doc_id"].tolist() == [place.doc_id for place in ranking]
        assert (rows["causal"] != rows["causal_exact"]).any()
        assert rows["title"].tolist() == [place.document.title for place in ranking]
        np.testing.assert_allclose(rows["base"], [place.base for place in ranking], atol=1e-7)
        documents = [place.document for place in ranking]
        for column, flag, options in (
            ("causal", "has_residual", {}),
            ("causal_exact", "has_residual_exact", {"absorption": "exact"}),
        ):
            reranker = cr.CausalReranker("use", keywords, method="causal", **options)
            again = sorted(reranker.rank(query.query, documents), key=lambda place: place.index)
            np.testing.assert_allclose(rows[column], [place.causal for place in again], atol=1e-7)
            assert rows[flag].tolist() == [bool(place.residual) for place in again]
        asked = set(keywords.query(query.query))
        shares = [len(asked & set(keywords.document(p.text))) / len(asked) for p in again]
        np.testing.assert_allclose(rows["overlap"], shares)


def test_the_stored_terms_give_the_causal_score_again(made, study):
    found = read_cases(made.folder)
    encoder = cr.load_encoder("use")
    keys = ["collection", "query_id", "doc_id"]
    scores = found.candidates.set_index(keys)
    for key, rows in found.terms.groupby(keys, sort=False):
        residual = rows[rows["set"] == "B"]
        (query,) = (query.query for query in study.queries if query.id == key[1])
        vector = encoder.encode([query], "query")[0]
        weights = dict(zip(residual["term"], residual["weight"], strict=True))
        score = cr.causal_score(vector, weights, encoder)
        assert score == pytest.approx(scores.loc[key, "causal"], abs=1e-6)
        assert residual["contribution"].sum() == pytest.approx(score, abs=1e-6)
        assert not residual["absorbed_by"].any()
        shared = rows[rows["set"] == "A"]
        assert (shared["cosine"] >= 0.6 - 1e-6).all()
        assert set(shared["absorbed_by"]) <= set(cr.TfidfKeywords({}, 1).query(query))
        for part in (shared, residual):
            assert part["weight"].is_monotonic_decreasing
    assert (found.terms["set"] == "A").any()


# --- density --------------------------------------------------------------------------------------


def test_keywords_are_counted_in_headings_and_bodies_apart(made):
    found = read_cases(made.folder).density
    rows = found[found["query_id"] == "Q01"].set_index(["collection", "doc_id"])
    columns = ["heading_hits", "heading_tokens", "body_hits", "body_tokens"]
    # The query's keywords: 借阅, 图书. Title 图书 借阅 指南, headings 借阅 步骤 / 图书 归还.
    assert rows.loc[("casebook", "C03"), columns].tolist()[:3] == [4, 7, 0]
    hits = rows.loc[("casebook", "C02"), ["heading_hits", "body_hits"]].tolist()
    assert hits == [0, 5]
    assert rows.loc[("laws", "渔业法"), ["heading_hits", "body_hits"]].tolist() == [0, 0]
    assert rows.loc[("laws", "图书馆条例"), ["heading_hits", "body_hits"]].tolist() == [1, 2]
    assert (rows[["heading_tokens", "body_tokens"]] > 0).all(axis=None)


def test_every_document_has_its_similarity(made, study):
    found = read_cases(made.folder).density
    assert len(found) == 2 * (len(TEXTS) + len(LAWS))
    reranker = cr.CausalReranker("use", method="similarity")
    for name, documents in (("casebook", study.documents), ("laws", laws())):
        for query in study.queries:
            rows = found[(found["collection"] == name) & (found["query_id"] == query.id)]
            expected = {place.doc_id: place.base for place in reranker.rank(query.query, documents)}
            assert rows["doc_id"].tolist() == [document.id for document in documents]
            np.testing.assert_allclose(
                rows["similarity"], [expected[name] for name in rows["doc_id"]], atol=1e-7
            )


# --- growth ---------------------------------------------------------------------------------------


def test_the_rank_is_that_among_the_casebook_and_the_laws_added_so_far(made, book, study):
    growth = read_cases(made.folder).growth
    assert growth["size"].unique().tolist() == [6, 8, 10, 11]
    assert growth["order"].nunique() == book.case_methods.ORDERS == 200
    reranker, all_laws = cr.CausalReranker("use", method="similarity"), laws()
    for row in growth[growth["order"].isin([0, 7])].itertuples():
        order = np.random.default_rng((book.case_methods.SEED, row.order)).permutation(5)
        documents = [*study.documents, *(all_laws[i] for i in order[: row.size - 6])]
        (query,) = (query.query for query in study.queries if query.id == row.query_id)
        ranking = reranker.rank(query, documents)
        assert [place.doc_id for place in ranking].index("C03") + 1 == row.rank


def test_a_rank_never_falls_as_documents_are_added_and_ends_alike(made):
    growth = read_cases(made.folder).growth
    for _, rows in growth.groupby(["query_id", "order"]):
        assert rows["rank"].is_monotonic_increasing
    for query, rows in growth.groupby("query_id"):
        ends = rows[rows["size"].isin([6, 11])].groupby("size")["rank"]
        assert (ends.nunique() == 1).all(), query
    assert growth.groupby("size")["rank"].mean().is_monotonic_increasing
    assert growth["rank"].nunique() > 1


def test_a_law_of_equal_similarity_follows_the_target(book):
    vectors = np.array([[1.0, 0], [0.6, 0.8], [0.6, 0.8]], dtype=np.float32)

    def collection(ids, rows):
        documents = [SimpleNamespace(id=name) for name in ids]
        encoder = SimpleNamespace(encode=lambda texts, role: np.array([[0.0, 1.0]] * len(texts)))
        return book.case_methods.Collection("laws", documents, encoder, vectors[rows], None)

    query = SimpleNamespace(id="Q", query="问")
    growth = book.case_methods.growth_table(
        collection("abt", [0, 1, 2]), collection("xy", [1, 0]), "t", [query], orders=3
    )
    assert growth["rank"].unique().tolist() == [2]  # after b, which ties and comes first


# --- vectors --------------------------------------------------------------------------------------


def test_the_laws_vectors_are_stored_small_and_give_the_cosines_again(made, study):
    found = read_cases(made.folder)
    ids, titles, vectors = found.vectors["counted/use"]
    assert ids == tuple(law.id for law in laws())
    assert titles == tuple(law.title for law in laws())
    assert vectors.dtype == np.float32
    exact = cr.load_encoder("use").encode([law.full_text for law in laws()])
    np.testing.assert_allclose(vectors @ exact.T, exact @ exact.T, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    raw = results.load_parquet(case_path(made.folder, "laws", "counted/use", "vectors"))
    assert raw.tables["vectors"]["vector"][0].dtype == np.float16


# --- runs -----------------------------------------------------------------------------------------


def test_all_files_are_named_and_say_where_they_come_from(made):
    names = {path.name for path in made.folder.iterdir()}
    assert names == {
        f"{collection}-counted-use-{table}.parquet"
        for collection, tables in PARTS.items()
        for table in tables
    }
    about = read_cases(made.folder).provenance["laws"]["counted/use"]
    assert about["corpus"]["sha256"] == case_checksums(cr.datasets.case_study(), laws())
    assert about["command"] == "make results ENCODERS=path/to/counted/use"
    assert about["settings"]["growth"]["orders"] == 200
    assert about["settings"]["chunks"]["size"] == 4096
    assert about["settings"]["tau"] == 0.6
    assert "case_methods.py" in about["versions"]
    assert str(made.folder.parent) not in json.dumps(about)


def test_what_is_there_is_kept_and_made_anew_only_by_force(made, capsys):
    before = {path: path.read_bytes() for path in made.folder.iterdir()}
    made.make()
    told = capsys.readouterr().out
    assert told.count("is there already; FORCE=1 makes it anew") == 2
    asked = len(made.model.texts)
    made.make(force=True)
    assert "stored" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in made.folder.iterdir()} == before
    assert len(made.model.texts) == asked  # nothing is encoded twice


@pytest.mark.parametrize("lost", ["casebook-counted-use-terms", "laws-counted-use-growth"])
def test_a_run_that_lost_a_table_makes_its_collection_again(made, capsys, lost):
    path = made.folder / f"{lost}.parquet"
    before = path.read_bytes()
    path.unlink()
    asked = len(made.model.texts)
    made.make()
    assert path.read_bytes() == before
    assert capsys.readouterr().out.count("is there already") == 1
    assert len(made.model.texts) == asked


def test_without_the_laws_the_casebook_is_made_and_the_laws_are_said_to_be_missing(
    made, capsys, monkeypatch
):
    monkeypatch.delenv("CAUSALRAG_DATA")
    for path in made.folder.iterdir():
        path.unlink()
    made.make()
    assert "laws: not made (no archive of laws: set CAUSALRAG_DATA" in capsys.readouterr().out
    found = read_cases(made.folder)
    assert list(found.provenance) == ["casebook"]
    assert (len(found.growth), found.vectors) == (0, {})  # hard case 28: nothing, not 0
    assert set(found.ranks["collection"]) == {"casebook"}


def test_damaged_laws_stop_the_run(made, tmp_path):
    archive = tmp_path / "data" / "laws" / "laws471.zip"
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"laws471\.zip cannot be read"):
        made.make()


def test_an_encoder_that_reads_no_chinese_makes_nothing(made, capsys):
    for path in made.folder.iterdir():
        path.unlink()
    made.make(languages={"counted/use": ("en",)})
    assert "case study, counted/use: it does not read Chinese (en)" in capsys.readouterr().out
    assert not any(made.folder.iterdir())


# --- reading --------------------------------------------------------------------------------------


def test_an_empty_folder_gives_empty_tables_and_a_missing_one_an_error(tmp_path):
    found = read_cases(tmp_path)
    assert [len(table) for table in found[:5]] == [0] * 5
    assert found.ranks.columns.tolist()[:3] == ["collection", "encoder", "query_id"]
    assert (found.vectors, found.provenance) == ({}, {})
    with pytest.raises(FileNotFoundError, match="make it with: make results"):
        read_cases(tmp_path / "absent")


def test_encoders_can_be_chosen(made):
    assert len(read_cases(made.folder, encoders=["use"]).ranks) == 0
    assert set(read_cases(made.folder, encoders=["counted/use"]).ranks["encoder"]) == {
        "counted/use"
    }


def test_half_a_result_is_refused(made):
    case_path(made.folder, "laws", "counted/use", "growth").unlink()
    with pytest.raises(FileNotFoundError, match=r"no .*laws-counted-use-growth\.parquet; make it"):
        read_cases(made.folder)


def test_files_of_two_runs_are_refused(made):
    path = case_path(made.folder, "casebook", "counted/use", "density")
    stored = results.load_parquet(path)
    other = {**stored.provenance, "settings": {"tau": 0.5}}
    results.save_parquet(path, stored.kind, other, stored.tables["density"])
    with pytest.raises(ValueError, match=r"from another run .* make results ENCODERS=.* FORCE=1"):
        read_cases(made.folder)


def test_results_of_other_texts_are_refused(made, study, monkeypatch):
    changed = type(study)(study.documents, study.queries[:1])
    monkeypatch.setattr(cr.datasets, "case_study", lambda: changed)
    with pytest.raises(ValueError, match=r"were made from other queries than the casebook now has"):
        read_cases(made.folder)
    monkeypatch.setattr(cr.datasets, "case_study", lambda: type(study)(study.documents[1:], ()))
    with pytest.raises(ValueError, match=r"from other documents and queries .* FORCE=1"):
        read_cases(made.folder)


def test_the_laws_of_a_result_are_found_where_they_are_and_are_the_same(
    made, tmp_path, monkeypatch
):
    about = read_cases(made.folder).provenance["laws"]["counted/use"]
    assert results.local_laws(about) == laws()
    with zipfile.ZipFile(tmp_path / "data" / "laws" / "laws471.zip", "a") as file:
        file.writestr("新法.md", "# 新法\n第一条 新。")
    with pytest.raises(ValueError, match=r"made from other laws than .*: make results ENCODERS"):
        results.local_laws(about)
    monkeypatch.delenv("CAUSALRAG_DATA")
    assert results.local_laws(about) is None


@pytest.mark.parametrize("name", ["other-use-ranks", "casebook-use-growth", "casebook-ranks"])
def test_a_file_that_does_not_belong_there_is_refused(made, name):
    (made.folder / f"{name}.parquet").write_bytes(b"x")
    with pytest.raises(ValueError, match=rf"{name}\.parquet is no table of the case study; move"):
        read_cases(made.folder)


def test_a_file_of_another_kind_is_refused(made):
    paths = [case_path(made.folder, "casebook", "counted/use", t) for t in ("ranks", "terms")]
    paths[0].write_bytes(paths[1].read_bytes())
    with pytest.raises(ValueError, match="holds the kind 'case_terms', not case_ranks"):
        read_cases(made.folder)


# --- what is stored with the book -----------------------------------------------------------------

STORED = BOOK / "results" / "case_study"


@pytest.mark.skipif(not STORED.is_dir(), reason="nothing is stored yet")
def test_the_stored_results_are_whole_and_of_the_packaged_casebook():
    found = read_cases(STORED)
    queries = [query.id for query in case_study().queries]
    for name in found.provenance:
        for encoder in found.provenance[name]:
            ranks = found.ranks[
                (found.ranks["collection"] == name) & (found.ranks["encoder"] == encoder)
            ]
            assert ranks["query_id"].unique().tolist() == queries
            windows = {"casebook": {30, 8}, "laws": {20}}[name]
            assert set(ranks["window"]) == windows
            for _, rows in ranks.groupby(["query_id", "window", "method"]):
                assert rows["rank"].tolist() == list(range(1, max(windows) + 1))
    for vectors in found.vectors.values():
        assert len(vectors.ids) == 471


def test_the_real_windows_are_the_paper_s(book):
    assert book.case_methods.WINDOWS == {"casebook": (30, 8), "laws": (20,)}
    assert book.case_methods.SIZES == (60, 120, 240)
