"""Theme folders: tolerated dirt is read, damage is refused with its place."""

import gzip
import json
from collections import Counter

import pytest

from causalrag.datasets import ROLES, load_themes, opening

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
