"""The laws: read whole and in one order, or refused with one clear error."""

import os
import warnings
import zipfile
from pathlib import Path

import pytest

import causalrag as cr
from causalrag.datasets import Law, laws, laws_path

MARK = "<!-- INFO END -->"
BRIDGES = f"""# 桥梁管理规定

2001年1月1日 公布

{MARK}

## 第一章 总则

第一条 为了管理桥梁，制定本规定。

### 第一节 养护

第二条 桥梁每年检查一次。
"""
LIBRARY = "# 图书馆办法\n\n第一条 图书按期归还。\n第二条 逾期通知读者。\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write an archive from (name, content) pairs and let the variable point to it."""
    monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))
    path = tmp_path / "laws" / "laws471.zip"
    path.parent.mkdir()

    def write_archive(*members):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
        return path

    return write_archive


def test_a_law_has_its_file_s_name_its_title_and_all_that_follows(write):
    write(("桥梁.md", BRIDGES))
    (law,) = laws()
    assert (law.id, law.title) == ("桥梁", "桥梁管理规定")
    assert law.text.startswith("2001年1月1日 公布\n")
    assert law.text.endswith("第二条 桥梁每年检查一次。")
    assert MARK not in law.text
    assert law.full_text == f"{law.title} {law.text}"


def test_headings_and_body_are_told_apart(write):
    write(("桥梁.md", BRIDGES), ("图书馆.md", LIBRARY))
    library, bridges = laws()
    assert bridges.headings == ("第一章 总则", "第一节 养护")
    assert "#" not in bridges.body
    assert "第一条 为了管理桥梁" in bridges.body
    assert "总则" not in bridges.body
    assert (library.headings, library.body) == ((), library.text)


def test_the_order_is_by_name_and_not_that_of_the_archive(write):
    members = [("丙.md", "# 丙\n文"), ("sub/甲.md", "# 甲\n文"), ("乙.md", "# 乙\n文")]
    write(*members)
    first = laws()
    write(*reversed(members))
    assert laws() == first
    assert [law.id for law in first] == sorted(["丙", "甲", "乙"])


def test_bom_crlf_and_other_files_are_no_hindrance(write):
    write(("桥梁.md", BRIDGES))
    expected = laws()
    dirty = "\ufeff" + BRIDGES.replace("\n", "\r\n")
    write(("README.txt", "notes"), ("folder/", ""), ("桥梁.md", dirty))
    assert laws() == expected


def test_laws_can_be_ranked_as_they_are(write):
    write(("桥梁.md", BRIDGES), ("图书馆.md", LIBRARY))
    ranking = cr.CausalReranker("use", method="similarity").rank("桥梁多久检查一次", laws())
    assert [place.doc_id for place in ranking] == ["桥梁", "图书馆"]
    assert isinstance(ranking[0].document, Law)
    assert ranking[0].text == ranking[0].document.full_text


# --- what is refused ------------------------------------------------------------------------------


def test_a_missing_variable_and_a_missing_file_say_what_to_set(tmp_path, monkeypatch):
    for call in (laws, laws_path):
        monkeypatch.delenv("CAUSALRAG_DATA", raising=False)
        with pytest.raises(FileNotFoundError, match=r"set CAUSALRAG_DATA to the folder that holds"):
            call()
        monkeypatch.setenv("CAUSALRAG_DATA", str(tmp_path))
        with pytest.raises(FileNotFoundError, match=r"laws471\.zip does not exist; set CAUSAL"):
            call()


@pytest.mark.parametrize("kept", [0, 10, 300, -10])
def test_an_archive_that_was_cut_short_is_refused(write, kept):
    path = write(("桥梁.md", BRIDGES), ("图书馆.md", LIBRARY))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"laws471\.zip cannot be read: .*; fetch it again"):
        laws()


def test_a_wrong_checksum_inside_is_refused(write):
    path = write(("a.md", "# a\ntext"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("桥梁.md", BRIDGES)
    data = path.read_bytes().replace("第二条".encode(), "第三条".encode())
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"cannot be read: Bad CRC-32 .*; fetch it again"):
        laws()


@pytest.mark.parametrize("name", ["../桥梁.md", "/桥梁.md", "a/../../b.md", "C:\\b.md"])
def test_a_member_that_points_out_of_its_folder_is_refused(write, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(("图书馆.md", LIBRARY), (name, BRIDGES))
    with pytest.raises(ValueError, match=r"is refused: its member .* points out of its folder"):
        laws()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("notes.txt", "x")], r"laws471\.zip holds no law, no \.md file; fetch it again"),
        ([("a/x.md", "# x\nt"), ("b/x.md", "# x\nt")], r"has two files x\.md"),
        ([("x.md", "第一条 文")], r"x\.md has no title: its first line is '第一条 文'"),
        ([("x.md", "# \n文")], r"x\.md has no title"),
        ([("x.md", "## x\n文")], r"x\.md has no title"),
        ([("x.md", "")], r"x\.md has no title"),
        ([("x.md", f"# x\n\n{MARK}\n")], r"x\.md has a title and no text"),
        ([("x.md", "# 数据".encode("gbk"))], r"x\.md is not UTF-8"),
    ],
)
def test_a_file_that_is_no_law_is_refused_by_name(write, members, message):
    write(*members)
    with pytest.raises(ValueError, match=message):
        laws()


# --- the real archive -----------------------------------------------------------------------------

REAL = Path(os.environ.get("CAUSALRAG_DATA") or "absent") / "laws" / "laws471.zip"


@pytest.mark.skipif(not REAL.is_file(), reason="CAUSALRAG_DATA names no folder with the laws")
def test_the_real_archive_has_471_laws_of_the_form_that_is_expected():
    found = laws()
    assert len(found) == len({law.title for law in found}) == 471
    assert not any("INFO END" in law.text for law in found)
    assert sum(bool(law.headings) for law in found) > 300
    assert min(len(law.text) for law in found) > 300
