"""BEIR archives: tolerated dirt is read, damage is refused with its place."""

import gzip
import json
import os
import zipfile
from pathlib import Path

import pytest

import causalrag as cr
from causalrag.datasets.beir import beir, beir_qrels

# --- judgments ----------------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))
    (tmp_path / "beir").mkdir()

    def build(members, name="mini"):
        path = tmp_path / "beir" / f"{name}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            for member, data in members.items():
                out.writestr(member, data)
        return path

    return build


HEADER = b"query-id\tcorpus-id\tscore"


def test_judgments_are_read_as_text_ids_and_integer_grades(archive):
    archive({"mini/qrels/test.tsv": HEADER + b"\r\n1\t007\t2\r\n1\td-2\t0\r\n\xe6\x9f\xa5\t9\t1"})
    frame = beir_qrels("mini")
    assert list(frame.columns) == ["query_id", "doc_id", "grade"]
    assert frame.values.tolist() == [["1", "007", 2], ["1", "d-2", 0], ["查", "9", 1]]
    assert frame["grade"].dtype == "int64"


def test_only_the_asked_split_is_read_and_a_missing_one_lists_the_others(archive):
    archive({"mini/qrels/train.tsv": HEADER + b"\n1\ta\t1\n", "mini/qrels/dev.tsv": b"broken"})
    assert len(beir_qrels("mini", "train")) == 1
    with pytest.raises(ValueError, match="no split 'test'; it has: dev, train"):
        beir_qrels("mini")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (HEADER + b"\n1\ta\t1\n1\tb", r"line 3: expected query, document and grade: b'1\\tb'"),
        (HEADER + b"\n1\ta\tx\n", "line 2"),
        (HEADER + b"\n\ta\t1\n", "line 2"),
        (HEADER + b"\n1\ta\t1\n1\ta\t2\n", "line 3: 1 a has two grades"),
        (HEADER + b"\n", "holds no judgment"),
    ],
)
def test_a_line_that_is_no_judgment_is_refused(archive, data, message):
    archive({"mini/qrels/test.tsv": data})
    with pytest.raises(ValueError, match=message):
        beir_qrels("mini")


def test_a_truncated_or_damaged_archive_is_named(archive):
    body = HEADER + b"".join(b"\n%d\t%d\t1" % (i * 7919, i) for i in range(2000))
    path = archive({"mini/qrels/test.tsv": body})
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes(200) + whole[middle + 200 :]
    for broken in (whole[:middle], whole[:-30], damaged, b"", b"<html>not found</html>"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"mini\.zip cannot be read: .*fetch it again"):
            beir_qrels("mini")


@pytest.mark.parametrize("member", ["../evil.tsv", "/etc/evil", "mini\\..\\..\\evil", "C:\\evil"])
def test_an_archive_with_a_member_outside_its_folder_is_refused(archive, member):
    archive({"mini/qrels/test.tsv": HEADER + b"\n1\ta\t1\n", member: b"x"})
    with pytest.raises(ValueError, match="points out of its folder"):
        beir_qrels("mini")


@pytest.mark.parametrize("name", ["../mini", "a/b", "", ".hidden"])
def test_a_name_cannot_leave_the_data_folder(archive, name):
    with pytest.raises(ValueError, match="not the name of a data set"):
        beir_qrels(name)


def test_a_missing_archive_says_what_to_set(archive, monkeypatch):
    archive({"mini/qrels/test.tsv": b""})
    with pytest.raises(FileNotFoundError, match=r"archives there: mini.*set CAUSALRAG_DATA"):
        beir_qrels("scifact")


# --- corpus, queries and judgments --------------------------------------------------------------

DOCUMENTS = [
    {"_id": "d1", "title": "Valves", "text": "A valve.", "metadata": {}},
    {"_id": "d2", "title": None, "text": "Another\u2028valve."},
    {"_id": 7, "text": ""},
]
ASKED = [{"_id": "q2", "text": "pump?"}, {"_id": "q1", "text": "valve?"}, {"_id": "q3", "text": ""}]
JUDGED = HEADER + b"\nq1\td1\t2\nq1\t7\t0\nq2\td2\t1\n"


def jsonl(records, end="\n"):
    return "".join(json.dumps(r, ensure_ascii=False) + end for r in records).encode()


def whole(name="mini", **changed):
    """Give the members of a small data set, some of them changed, or left out by None."""
    members = {"corpus": jsonl(DOCUMENTS), "queries": jsonl(ASKED), "test": JUDGED} | changed
    places = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "test": "qrels/test.tsv"}
    return {f"{name}/{places[k]}": data for k, data in members.items() if data is not None}


def test_a_data_set_is_read_into_corpus_queries_and_judgments(archive):
    archive(whole())
    data = beir("mini")
    assert (data.name, data.split, data.drop_self) == ("mini", "test", False)
    assert data.corpus == {
        "d1": {"id": "d1", "title": "Valves", "text": "A valve."},
        "d2": {"id": "d2", "title": "", "text": "Another\u2028valve."},
        "7": {"id": "7", "title": "", "text": ""},
    }
    assert list(data.queries.items()) == [("q1", "valve?"), ("q2", "pump?")]
    assert data.qrels == {"q1": {"d1": 2, "7": 0}, "q2": {"d2": 1}}
    assert data.outside == ()
    assert repr(data) == (
        "BeirData(mini, test: 3 documents, 2 queries, 3 judgments (0 outside the corpus))"
    )


def test_documents_and_judgments_are_what_rank_and_evaluate_take(archive):
    class Letters:
        def encode(self, texts):
            return [[text.count("v") + 1.0, text.count("p")] for text in texts]

    archive(whole())
    data = beir("mini")
    reranker = cr.CausalReranker(encoder=Letters(), method="similarity")
    rankings = {q: reranker.rank(text, data.corpus.values()) for q, text in data.queries.items()}
    assert {place.doc_id for place in rankings["q1"]} == set(data.corpus)
    frame = cr.evaluate.evaluate(cr.evaluate.run_from_rankings(rankings), data.qrels)
    assert list(frame.index) == ["q1", "q2"]


def test_the_name_is_public_in_datasets(archive):
    archive(whole())
    assert len(cr.datasets.beir("mini").corpus) == 3


def test_only_queries_judged_in_the_split_are_given(archive):
    archive({**whole(), "mini/qrels/dev.tsv": HEADER + b"\nq2\td1\t1\n"})
    assert beir("mini", "dev").queries == {"q2": "pump?"}
    with pytest.raises(ValueError, match="no split 'train'; it has: dev, test"):
        beir("mini", "train")


def test_hard_case_25_a_judgment_outside_the_corpus_is_kept_counted_and_reported(archive):
    archive(whole(test=JUDGED + b"q2\tgone\t1\n"))
    data = beir("mini")
    assert data.outside == (("q2", "gone"),)
    assert data.qrels["q2"] == {"d2": 1, "gone": 1}
    assert "4 judgments (1 outside the corpus)" in repr(data)
    assert cr.evaluate.evaluate({"q2": {"d2": 1.0}}, data.qrels, "R@5").loc["q2", "R@5"] == 0.5


def test_hard_case_27_bom_crlf_blank_lines_and_a_missing_last_newline_are_read(archive):
    archive(whole())
    plain = beir("mini")
    bom = b"\xef\xbb\xbf"
    archive(
        whole(
            corpus=bom + jsonl(DOCUMENTS, end="\r\n\r\n"),
            queries=bom + jsonl(ASKED, end="\r\n").removesuffix(b"\r\n"),
            test=bom + JUDGED.replace(b"\n", b"\r\n").removesuffix(b"\r\n"),
        )
    )
    dirty = beir("mini")
    assert (dirty.corpus, dirty.queries, dirty.qrels) == (plain.corpus, plain.queries, plain.qrels)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"corpus": jsonl(DOCUMENTS)[:-9]}, r"corpus\.jsonl, line 3: broken or cut JSON"),
        ({"queries": jsonl(ASKED)[:-9]}, r"queries\.jsonl, line 3: broken or cut JSON"),
        ({"test": JUDGED[:-2]}, r"test\.tsv, line 4: expected query, document and grade"),
        ({"corpus": b'{"_id": "\xff"}'}, r"corpus\.jsonl, line 1: not UTF-8"),
        ({"corpus": b"[1]"}, r"corpus\.jsonl, line 1: expected a JSON object, got list"),
        ({"corpus": b'{"id": "d"}'}, r"line 1: field '_id' must be a string, got None"),
        ({"corpus": b'{"_id": "d"}'}, r"line 1: field 'text' must be a string, got None"),
        ({"corpus": jsonl(DOCUMENTS + DOCUMENTS[:1])}, "line 4: id 'd1' occurs twice"),
        ({"queries": jsonl(ASKED + ASKED[:1])}, "line 4: id 'q2' occurs twice"),
        ({"corpus": b"\n"}, r"corpus\.jsonl holds no document"),
        ({"test": JUDGED + b"q9\td1\t1\n"}, r"judges query 'q9', which has no text in .*queries"),
        ({"test": JUDGED + b"q3\td1\t1\n"}, r"judges query 'q3', which has no text"),
    ],
)
def test_hard_case_27_a_broken_or_truncated_line_is_refused_with_its_place(
    archive, changed, message
):
    archive(whole(**changed))
    with pytest.raises(ValueError, match=message):
        beir("mini")


def test_hard_case_27_a_gz_that_stops_half_way_is_refused(archive):
    many = [{"_id": str(n), "text": f"{n**9}"} for n in range(500)]
    packed = gzip.compress(jsonl(many))
    members = whole(corpus=None)
    archive({**members, "mini/corpus.jsonl.gz": packed})
    assert len(beir("mini").corpus) == 500
    for broken in (packed[: len(packed) // 2], packed[:-4], b"not gzip"):
        archive({**members, "mini/corpus.jsonl.gz": broken})
        with pytest.raises(ValueError, match=r"mini/corpus\.jsonl\.gz is damaged or cut short"):
            beir("mini")


def test_absent_members_are_named_with_what_is_there(archive):
    archive({"mini/readme.txt": b"", **whole(corpus=None, queries=None)})
    with pytest.raises(
        ValueError,
        match=r"has no mini/corpus\.jsonl, mini/queries\.jsonl; it has: mini/readme\.txt, mini/",
    ):
        beir("mini")
    archive(whole("other"))
    with pytest.raises(ValueError, match=r"has no mini/corpus\.jsonl, .*it has: other/corpus"):
        beir("mini")


def test_nothing_is_extracted(archive, tmp_path):
    path = archive(whole())
    beir("mini")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


# --- hard case 23: the own document of ArguAna's queries ----------------------------------------


@pytest.fixture
def arguments(archive):
    """Lay an archive of three arguments; each of the first two is a query, countered by another."""
    texts = {"a1": "Ban it.", "a2": "Allow it.", "b": "Tax it.", "a1-again": "Ban it."}
    archive(
        whole(
            "arguana",
            corpus=jsonl({"_id": d, "text": text} for d, text in texts.items()),
            queries=jsonl({"_id": q, "text": texts[q]} for q in ("a1", "a2")),
            test=HEADER + b"\na1\ta2\t1\na2\tb\t1\n",
        ),
        "arguana",
    )
    return {"a1": {"a1": 1.0, "a2": 0.5, "b": 0.1}, "a2": {"a2": 1.0, "b": 0.9, "a1": 0.2}}


def test_hard_case_23_the_own_document_is_dropped_and_keeping_it_changes_ndcg(arguments):
    data, with_self = beir("arguana"), beir("arguana_with_self")
    assert (data.drop_self, with_self.drop_self) == (True, False)
    assert (data.corpus, data.qrels) == (with_self.corpus, with_self.qrels)
    dropped, kept = data.without_own(arguments), with_self.without_own(arguments)
    assert dropped == {"a1": {"a2": 0.5, "b": 0.1}, "a2": {"b": 0.9, "a1": 0.2}}
    assert kept == arguments
    values = [
        cr.evaluate.evaluate(run, data.qrels, ["nDCG@10", "RR@10"]).mean()
        for run in (dropped, kept)
    ]
    assert values[0].tolist() == [1, 1]
    assert values[1].tolist() == pytest.approx([0.63093, 0.5], abs=1e-5)


def test_hard_case_23_both_names_say_what_is_done(arguments):
    own = "the own document of 2 queries is"
    assert f"{own} dropped from its candidates, 1 texts" in repr(beir("arguana"))
    assert f"{own} kept" in repr(beir("arguana_with_self"))


def test_candidates_leave_the_own_document_out(arguments):
    data, with_self = beir("arguana"), beir("arguana_with_self")
    assert [d["id"] for d in data.candidates("a1")] == ["a2", "b", "a1-again"]
    assert [d["id"] for d in data.candidates("a1", ["b", "a1", "a2"])] == ["b", "a2"]
    assert [d["id"] for d in with_self.candidates("a1", ["b", "a1"])] == ["b", "a1"]
    assert data.without_own({"a1": ["b", "a1"]}) == {"a1": ["b"]}
    with pytest.raises(ValueError, match="arguana has no query 'b' in its split 'test'"):
        data.candidates("b")
    with pytest.raises(ValueError, match="arguana has no document 'z'"):
        data.candidates("a1", ["z"])


def test_the_text_of_a_query_under_another_id_is_counted_and_kept(arguments):
    data = beir("arguana")
    assert data.twins == (("a1", "a1-again"),)
    assert data.without_own({"a1": {"a1-again": 1.0}}) == {"a1": {"a1-again": 1.0}}


def test_an_id_that_a_query_shares_by_chance_is_no_reason_to_drop(archive):
    archive(whole(queries=jsonl([{"_id": "d1", "text": "q"}]), test=HEADER + b"\nd1\td2\t1"))
    assert len(beir("mini").candidates("d1")) == 3


def test_both_names_have_the_same_judgments(arguments):
    assert beir_qrels("arguana_with_self").equals(beir_qrels("arguana"))


# --- the real archives --------------------------------------------------------------------------

DATA = Path(os.environ.get("CAUSALRAG_DATA") or "absent") / "beir"


@pytest.mark.parametrize(
    ("name", "documents", "queries", "outside", "grades"),
    [
        ("scifact", 5183, 300, 0, {1}),
        ("nfcorpus", 3633, 323, 0, {1, 2}),
        ("arguana", 8674, 1406, 5, {1}),
    ],
)
def test_the_archives_of_beir_have_the_sizes_that_are_known(
    name, documents, queries, outside, grades
):
    if not (DATA / f"{name}.zip").is_file():
        pytest.skip(f"CAUSALRAG_DATA names no folder with beir/{name}.zip")
    data = beir(name)
    assert (len(data.corpus), len(data.queries)) == (documents, queries)
    assert len(data.outside) == outside
    assert {grade for row in data.qrels.values() for grade in row.values()} == grades
    frame = beir_qrels(name)
    assert [(q, d, g) for q, row in data.qrels.items() for d, g in row.items()] == list(
        frame.itertuples(index=False, name=None)
    )
    assert (len(data.twins) > 0) == data.drop_self == (name == "arguana")
