"""Theme folders and BEIR judgments: tolerated dirt is read, damage is refused with its place."""

import gzip
import json
import zipfile
from collections import Counter

import pytest

from causalrag.datasets import ROLES, beir_qrels, load_themes, opening

THEME = {"theme": "T1", "lang": "zh", "query": "数据出境如何评估", "answer": "申报。"}
DOC = {"theme": "T1", "id": "d1", "role": "target", "title": "指南", "text": "申报材料"}


def lines(*records, end="\n"):
    return "".join(json.dumps(r, ensure_ascii=False) + end for r in records).encode()


@pytest.fixture
def write(tmp_path):
    def write_folder(themes=None, docs=None):
        (tmp_path / "themes.jsonl").write_bytes(lines(THEME) if themes is None else themes)
        (tmp_path / "docs.jsonl").write_bytes(lines(DOC) if docs is None else docs)
        return tmp_path

    return write_folder


def test_a_folder_is_read_into_themes_and_documents(write):
    more = {**DOC, "id": "d2", "role": "stuffed", "gloss": "stuffed page", "n": 3}
    corpus = load_themes(write(themes=lines({**THEME, "gloss": "how?"}), docs=lines(DOC, more)))
    (theme,) = corpus.themes
    assert (theme.theme, theme.lang, theme.query, theme.answer) == tuple(THEME.values())
    assert theme.extra == {"gloss": "how?"}
    first, second = theme.documents
    assert (first.id, first.role, first.title, first.text) == ("d1", "target", "指南", "申报材料")
    assert first.extra == {}
    assert second.extra == {"gloss": "stuffed page", "n": 3}
    assert theme.with_role("stuffed") == (second,)
    with pytest.raises(ValueError, match="unknown role 'best'"):
        theme.with_role("best")


def test_order_of_the_files_is_kept_and_documents_go_to_their_theme(write):
    themes = lines({**THEME, "theme": "T2"}, THEME)
    docs = lines(DOC, {**DOC, "theme": "T2"}, {**DOC, "id": "a"})
    corpus = load_themes(str(write(themes, docs)))
    assert [t.theme for t in corpus.themes] == ["T2", "T1"]
    assert [[d.id for d in t.documents] for t in corpus.themes] == [["d1"], ["d1", "a"]]


def test_bom_crlf_blank_lines_and_a_missing_last_newline_are_read(write):
    plain = load_themes(write())
    docs = b"\xef\xbb\xbf" + lines(DOC, end="\r\n") + b"\r\n" + lines({**DOC, "id": "e"}, end="")
    corpus = load_themes(write(b"\xef\xbb\xbf" + lines(THEME, end="\r\n"), docs))
    assert corpus.themes[0].query == plain.themes[0].query
    assert corpus.themes[0].documents[0] == plain.themes[0].documents[0]
    assert [d.id for d in corpus.themes[0].documents] == ["d1", "e"]


def test_a_line_separator_inside_a_string_does_not_end_the_line(write):
    corpus = load_themes(write(docs=lines({**DOC, "text": "a\u2028b\x85c"})))
    assert corpus.themes[0].documents[0].text == "a\u2028b\x85c"


@pytest.mark.parametrize("title", [None, "absent"])
def test_a_null_or_absent_title_is_empty(write, title):
    record = {**DOC, "title": title}
    if title:
        del record["title"]
    assert load_themes(write(docs=lines(record))).themes[0].documents[0].title == ""


def test_an_empty_text_and_a_number_as_id_are_read(write):
    document = load_themes(write(docs=lines({**DOC, "id": 7, "text": ""}))).themes[0].documents[0]
    assert (document.id, document.text) == ("7", "")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (b'{"theme": "T1", "id": "d2", "ro', "broken or cut JSON"),
        (b"[1, 2]\n", "expected a JSON object, got list"),
        (b'{"theme": "\xff"}\n', "not UTF-8"),
        (b"[" * 100_000 + b"\n", "broken or cut JSON"),
        (lines({**DOC, "id": "d2", "role": "best"}), "unknown role 'best'; known: target"),
        (lines({**DOC, "theme": "T9"}), "unknown theme 'T9'; known: T1"),
        (lines(DOC), "duplicate id 'd1' in theme 'T1'"),
        (lines({**DOC, "id": None}), "'id' must be a string, got None"),
        (lines({**DOC, "id": " "}), "'id' is blank"),
        (lines({**DOC, "id": True}), "'id' must be a string"),
        (lines({**DOC, "id": "d2", "text": None}), "'text' must be a string"),
        (lines({**DOC, "id": "d2", "title": 3.5}), "'title' must be a string"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_line(write, second, message):
    with pytest.raises(ValueError, match=rf"docs\.jsonl, line 2: .*{message}"):
        load_themes(write(docs=lines(DOC) + second))


@pytest.mark.parametrize(
    ("themes", "message"),
    [
        (lines(THEME, THEME), "line 2: duplicate theme 'T1'"),
        (lines({**THEME, "query": "  "}), "line 1: field 'query' is blank"),
        (lines({"theme": "T1", "query": "q"}), "line 1: field 'lang' must be a string"),
        (b"", "holds no theme"),
    ],
)
def test_a_bad_theme_is_refused(write, themes, message):
    with pytest.raises(ValueError, match=message):
        load_themes(write(themes=themes))


def test_a_theme_without_documents_is_refused(write):
    with pytest.raises(ValueError, match="no document belongs to theme 'T2'"):
        load_themes(write(themes=lines(THEME, {**THEME, "theme": "T2"})))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no themes\.jsonl"):
        load_themes(tmp_path)


def test_a_gz_is_read_and_one_that_stops_half_way_is_refused(write):
    folder = write()
    packed = gzip.compress(lines(*({**DOC, "id": str(i), "n": i**9} for i in range(500))))
    (folder / "docs.jsonl").unlink()
    (folder / "docs.jsonl.gz").write_bytes(packed)
    assert len(load_themes(folder).themes[0].documents) == 500
    for broken in (packed[: len(packed) // 2], packed[:-4], b"not gzip"):
        (folder / "docs.jsonl.gz").write_bytes(broken)
        with pytest.raises(ValueError, match=r"docs\.jsonl\.gz is damaged or cut short"):
            load_themes(folder)


def test_the_opening_corpus_has_one_target_and_two_of_each_other_role():
    corpus = opening()
    assert [theme.lang for theme in corpus.themes] == ["en", "en", "zh"]
    for theme in corpus.themes:
        counts = Counter(d.role for d in theme.documents)
        assert [counts[role] for role in ROLES] == [1, 2, 2, 2]
        assert all(d.title and d.text for d in theme.documents)
        assert theme.answer


# --- BEIR -------------------------------------------------------------------------------------


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
    monkeypatch.delenv("CAUSALRAG_DATA")
    with pytest.raises(FileNotFoundError, match="set CAUSALRAG_DATA"):
        beir_qrels("scifact")
