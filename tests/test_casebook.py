"""Casebook folders: read as they stand, refused with their place; and the packaged one's form."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest

import causalrag as cr
from causalrag import datasets
from causalrag.datasets import CASE_ROLES, case_study, load_case_study

DOC = {
    "id": "C01",
    "role": "target",
    "title": "借书指南",
    "sections": [
        {"heading": "一、借书", "text": "读者凭证借书。"},
        {"heading": "二、还书", "text": "逾期者缴纳少量费用。"},
    ],
    "gloss": {"title": "Lending guide", "headings": ["Lending", "Return"], "summary": "How to."},
}
OTHER = {**DOC, "id": "C02", "role": "filler", "title": "停车规定"}
QUERY = {"id": "Q01", "query": "如何借书", "gloss": "How do I borrow a book?"}


def lines(*records, end="\n"):
    return "".join(json.dumps(r, ensure_ascii=False) + end for r in records).encode()


@pytest.fixture
def write(tmp_path):
    def write_folder(docs=None, queries=None):
        (tmp_path / "docs.jsonl").write_bytes(lines(DOC, OTHER) if docs is None else docs)
        (tmp_path / "queries.jsonl").write_bytes(lines(QUERY) if queries is None else queries)
        return tmp_path

    return write_folder


def test_a_folder_is_read_into_documents_and_queries(write):
    study = load_case_study(str(write(lines(OTHER, {**DOC, "n": 3}), lines({**QUERY, "form": 1}))))
    assert [document.id for document in study.documents] == ["C02", "C01"]
    document = study.target
    assert (document.id, document.role, document.title) == ("C01", "target", "借书指南")
    assert [(s.heading, s.text) for s in document.sections] == [
        ("一、借书", "读者凭证借书。"),
        ("二、还书", "逾期者缴纳少量费用。"),
    ]
    assert document.gloss == datasets.Gloss("Lending guide", ("Lending", "Return"), "How to.")
    assert document.extra == {"n": 3}
    (query,) = study.queries
    assert (query.id, query.query, query.gloss) == tuple(QUERY.values())
    assert query.extra == {"form": 1}
    assert study.with_role("filler") == study.documents[:1]
    assert study.with_role("law") == ()
    with pytest.raises(ValueError, match="unknown role 'best'; known: target, draft"):
        study.with_role("best")


def test_the_text_is_headings_and_texts_and_both_can_be_had_apart(write):
    document = load_case_study(write()).target
    assert document.text == "一、借书\n读者凭证借书。\n二、还书\n逾期者缴纳少量费用。"
    assert document.full_text == f"借书指南 {document.text}"
    assert document.headings == ("一、借书", "二、还书")
    assert document.body == "读者凭证借书。\n逾期者缴纳少量费用。"


def test_documents_can_be_ranked_as_they_are_and_no_gloss_is_read(write):
    study = load_case_study(write())
    ranking = cr.CausalReranker("use", method="similarity").rank("如何借书", study.documents)
    assert {place.doc_id for place in ranking} == {"C01", "C02"}
    assert sorted(place.text for place in ranking) == sorted(study.texts)
    assert not any("Lending" in text for text in study.texts)


def test_bom_crlf_and_blank_lines_are_read(write):
    expected = load_case_study(write())
    dirty = b"\xef\xbb\xbf" + lines(DOC, OTHER, end="\r\n\r\n")
    assert load_case_study(write(dirty)) == expected


def without(record, key):
    return {k: v for k, v in record.items() if k != key}


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        (lines(DOC, {**OTHER, "id": "C01"}), r"docs\.jsonl, line 2: duplicate id 'C01'"),
        (lines(DOC, {**OTHER, "role": "near"}), r"line 2: unknown role 'near'; known: target"),
        (lines(DOC, OTHER)[:-40], r"line 2: broken or cut JSON"),
        (lines(without(DOC, "title")), r"line 1: field 'title' must be a string, got None"),
        (lines({**DOC, "title": " "}), r"line 1: field 'title' is blank"),
        (lines({**DOC, "sections": []}), r"line 1: field 'sections' must be a list of objects"),
        (lines({**DOC, "sections": ["a"]}), r"line 1: field 'sections' must be a list of objects"),
        (lines({**DOC, "sections": [{"heading": "一", "text": ""}]}), r"field 'text' is blank"),
        (lines(without(DOC, "gloss")), r"line 1: field 'gloss' must be an object"),
        (
            lines({**DOC, "gloss": {**DOC["gloss"], "headings": ["One"]}}),
            r"line 1: the gloss needs one heading for each of 2 sections",
        ),
        (
            lines({**DOC, "gloss": {**DOC["gloss"], "headings": ["One", " "]}}),
            r"line 1: a heading of the gloss is blank",
        ),
        (b"[1]\n", r"line 1: expected a JSON object, got list"),
        (b"", r"0 documents of the role target \(none\); a case study has one"),
        (lines(OTHER), r"0 documents of the role target"),
        (lines(DOC, {**DOC, "id": "C09"}), r"2 documents of the role target \(C01, C09\)"),
    ],
)
def test_broken_documents_are_refused_with_their_place(write, docs, message):
    with pytest.raises(ValueError, match=message):
        load_case_study(write(docs))


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (b"\n", r"queries\.jsonl holds no query"),
        (lines(QUERY, QUERY), r"queries\.jsonl, line 2: duplicate id 'Q01'"),
        (lines({**QUERY, "query": ""}), r"queries\.jsonl, line 1: field 'query' is blank"),
        (lines(without(QUERY, "gloss")), r"line 1: field 'gloss' must be a string"),
    ],
)
def test_broken_queries_are_refused_with_their_place(write, queries, message):
    with pytest.raises(ValueError, match=message):
        load_case_study(write(queries=queries))


@pytest.mark.parametrize("name", ["docs.jsonl", "queries.jsonl"])
def test_a_missing_file_is_named(write, name):
    folder = write()
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no {name}; a casebook holds"):
        load_case_study(folder)


# --- the packaged casebook: frozen, and of the form its data card states; nothing is scored -------

CASEBOOK = Path(datasets.__file__).parents[1] / "data" / "casebook"
# Of SHA256SUMS, as committed before the first scoring run; a changed text must change this line.
FROZEN = "12b0003445fbdcef8bde5187ec3257094f31e5e236cd1079d7adfd908b82f8ab"
COUNTS = {"target": 1, "draft": 3, "automotive": 3, "law": 1, "filler": 22}


def test_the_texts_are_those_that_were_frozen():
    sums = (CASEBOOK / "SHA256SUMS").read_text(encoding="utf-8")
    assert hashlib.sha256(sums.encode()).hexdigest() == FROZEN
    files = {}
    for line in sums.splitlines():
        expected, file = line.split()
        files[file] = expected
        assert hashlib.sha256((CASEBOOK / file).read_bytes()).hexdigest() == expected
    assert {"docs.jsonl", "queries.jsonl"} <= set(files)
    assert (CASEBOOK / "README.md").is_file()


def test_the_casebook_has_the_documents_of_table_1_and_fillers():
    study = case_study()
    counts = Counter(document.role for document in study.documents)
    assert counts == COUNTS
    assert set(COUNTS) == set(CASE_ROLES)
    assert len({document.id for document in study.documents}) == 30
    assert len({document.title for document in study.documents}) == 30


def test_the_queries_are_twelve_and_hold_both_word_orders():
    study = case_study()
    queries = [query.query for query in study.queries]
    assert len(set(queries)) == len(queries) == 12
    assert {"如何评估数据出境的安全", "数据出境的安全如何评估"} <= set(queries)


def test_each_document_has_its_length_and_its_gloss():
    for document in case_study().documents:
        assert 500 <= len(document.text) <= 1100, document.id
        assert len(re.findall(r"[一-鿿]", document.text)) > 0.7 * len(document.text), document.id
        assert 5 <= len(document.sections) <= 8, document.id
        assert len(document.gloss.headings) == len(document.sections), document.id
        gloss = " ".join((document.gloss.title, *document.gloss.headings, document.gloss.summary))
        assert not re.search(r"[一-鿿]", gloss), document.id
