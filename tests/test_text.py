"""Tokens must be the same for query and document, and every rule in the docstring must hold."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opencc import OpenCC

from causalrag.keywords import TfidfKeywords
from causalrag.text import normalise, stop_words, tokenize

MIXED = st.text(
    alphabet=st.one_of(
        st.sampled_from("数据出境不合适没有未的了一二〇年上海水爱"),
        st.sampled_from("數據於後乾隆坤着著藉徵調覆複瞭望夥壞坏瀋沈薴衞畢昇"),
        st.sampled_from("abcGPT019-./_&'’ \n,，。+#%—"),
        st.characters(),
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我爱上海的水", ["爱", "上海", "水"]),
        ("数据出境的安全如何评估", ["数据", "出境", "安全", "评估"]),
        ("猫", ["猫"]),
        ("How do I find out where the water is going?", ["find", "water", "going"]),
        ("用BGE-M3做检索 (dense retrieval)", ["bge-m3", "检索", "dense", "retrieval"]),
    ],
)
def test_hard_case_1_content_words_are_kept_in_order_those_of_one_character_too(text, expected):
    assert tokenize(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("不合适", ["不合适"]),
        ("适合 / 不适合", ["适合", "不适合"]),
        ("这个不太合适", ["不合适"]),
        ("不是很合适", ["不合适"]),
        ("没有效果", ["没有效果"]),
        ("未经同意", ["未同意"]),
        ("非个人信息", ["非个人信息"]),
        ("只开花不结果", ["开花", "不结果"]),
        ("不能使用", ["不能", "使用"]),
    ],
)
def test_hard_case_2_a_negated_word_is_never_the_word_itself(text, expected):
    assert tokenize(text) == expected


def test_a_negator_without_a_word_to_negate_stands_alone():
    assert tokenize("未对数据进行评估") == ["未", "数据", "评估"]
    assert tokenize("不。合适") == ["不", "合适"]


@pytest.mark.parametrize("text", ["合不合适", "合适不合适", "有没有合适的"])
def test_a_question_that_offers_both_is_no_negation(text):
    assert tokenize(text) == ["合适"]


def test_hard_case_2_english_negation_is_a_stated_limit():
    assert tokenize("not suitable") == tokenize("suitable") == ["suitable"]


def test_hard_case_3_latin_words_inside_chinese_are_one_case_folded_term():
    assert tokenize("AI和ai与Ai，ＡＩ") == ["ai"] * 4


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("每次0.5g口服", "0.5g"),
        ("COVID-19疫情", "covid-19"),
        ("covid–19", "covid-19"),
        ("GPT-4o", "gpt-4o"),
        ("GPT‑4o", "gpt-4o"),
        ("gpt-3.5-turbo", "gpt-3.5-turbo"),
        ("符合GB/T 35273要求", "gb/t 35273"),
        ("符合 gb/t35273 要求", "gb/t 35273"),
        ("GB/T\u300035273—2020", "gb/t 35273-2020"),
        ("ISO/IEC 27001:2022", "iso/iec 27001:2022"),
        ("RFC 793", "rfc 793"),
        ("T/CESA 1159", "t/cesa 1159"),
        ("a t-test", "t-test"),
        ("max_tokens", "max_tokens"),
        ("C++ 语言", "c++"),
        ("R&D", "r&d"),
    ],
)
def test_hard_case_4_an_identifier_survives_whole(text, token):
    assert token in tokenize(text)
    assert not any(part in tokenize(text) for part in ("19", "35273", "4o", "5g", "t", "turbo"))


def test_a_word_before_a_number_is_not_taken_for_a_standard():
    assert tokenize("in 2020 and/or 300 GB 2 slots") == ["gb", "slots"]


def test_other_hyphenated_words_are_split():
    assert tokenize("cross-border, late/early; end.Start") == [
        "cross",
        "border",
        "late",
        "early",
        "end",
        "start",
    ]


def test_contractions_and_possessives_leave_no_stump():
    assert tokenize("Don't! It’s ColBERT's index; we'll see") == ["colbert", "index"]


@pytest.mark.parametrize(
    "text",
    ["2023", "3.5% 1,000 1e-5", "10:30 2020-01-01 1/2 ½", "二〇二三年三月", "一百五十", "１２３"],
)
def test_pure_numbers_are_dropped(text):
    assert tokenize(text) == []


def test_a_word_made_of_two_digits_is_no_number():
    assert tokenize("三七") == ["三七"]


def test_hard_case_6_full_width_characters_become_plain_ones():
    assert normalise("ＡＢＣ１２３") == "abc123"
    assert tokenize("ＡＢＣ１２３") == ["abc123"]


def test_invisible_characters_do_not_cut_a_word():
    assert tokenize("数\u200b据 co\u00adoperate \ufeffaudit") == ["数据", "cooperate", "audit"]


@pytest.mark.parametrize(
    "text", ["", "   \n\t", "，。！？", "的了是", "😀👍🏽1️⃣", "the of and", "a b c", "\x00\ud83d"]
)
def test_hard_case_7_a_text_without_content_has_no_tokens(text):
    assert tokenize(text) == []


@pytest.mark.parametrize("value", [None, b"text", 3, ["text"]])
def test_hard_case_7_anything_but_a_string_is_refused(value):
    with pytest.raises(TypeError, match="must be a string"):
        tokenize(value)
    with pytest.raises(TypeError, match="must be a string"):
        normalise(value)


def test_other_scripts_are_cut_into_words():
    assert tokenize("привет мир, naïve café, 한국어") == [
        "привет",
        "мир",
        "naïve",
        "café",
        "한국어",
    ]


@settings(max_examples=300, deadline=None)
@given(MIXED)
def test_any_text_gives_clean_tokens_and_normalising_first_changes_nothing(text):
    tokens = tokenize(text)
    assert normalise(normalise(text)) == normalise(text)
    assert tokenize(normalise(text)) == tokens
    assert all(token == token.strip() and token for token in tokens)
    assert not set(tokens) & (stop_words("en") | stop_words("zh"))


def test_a_long_text_costs_linear_time():
    start = time.perf_counter()
    for unit in ("a-", "1-", "gb/t 1-", "a.", "'", "不", "合不", "x1/", "徵調", "看著"):
        tokenize(unit * 20_000)
    assert time.perf_counter() - start < 10


# Traditional characters


def test_hard_case_5_traditional_and_simplified_characters_give_the_same_tokens_and_keywords():
    traditional, simplified = "數據出境安全評估", "数据出境安全评估"
    assert tokenize(traditional) == tokenize(simplified) == ["数据", "出境", "安全", "评估"]
    for corpus in ([simplified, "出境申报"], [traditional, "出境申報"]):
        kw = TfidfKeywords.fit(corpus)
        assert kw.query(traditional) == kw.query(simplified) == kw.document(traditional)
        assert kw.query(traditional)
        assert kw.idf("數據") == kw.idf("数据") != kw.idf("unseen")


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [
        ("乾燥 乾淨 餅乾 若干 干預 幹部 樹幹", "干燥 干净 饼干 若干 干预 干部 树干"),
        ("乾隆 乾坤 乾陵", "乾隆 乾坤 乾陵"),
        ("後來 以後 皇后 王后", "后来 以后 皇后 王后"),
        ("頭髮 理髮 發展 出發", "头发 理发 发展 出发"),
        ("麵粉 麵條 方面 牆面", "面粉 面条 方面 墙面"),
        ("裡面 裏面 公里", "里面 里面 公里"),
        ("臺灣 台灣 舞台 颱風", "台湾 台湾 舞台 台风"),
        ("關於 於是 樊於期", "关于 于是 樊於期"),
        ("著名 顯著 著作權", "著名 显著 著作权"),
        ("覆蓋 複雜 恢復 答覆", "覆盖 复杂 恢复 答复"),
        ("瞭解 瞭望 藉口 慰藉", "了解 瞭望 借口 慰藉"),
        ("象徵 徵調 宮商角徵羽", "象征 征调 宫商角徵羽"),
        ("衞生 綫路 説明 爲何 羣眾", "卫生 线路 说明 为何 群众"),
        ("歷史 日曆 鬱金香 濃郁 鐘錶", "历史 日历 郁金香 浓郁 钟表"),
        ("損壞 打壞 瀋陽 畢昇", "损坏 打坏 沈阳 毕升"),
    ],
)
def test_difficult_characters_are_read_by_the_words_around_them(traditional, simplified):
    assert normalise(traditional) == simplified
    assert normalise(simplified) == simplified


@pytest.mark.parametrize("region", ["s2t", "s2tw", "s2hk"])
def test_stop_words_in_traditional_characters_are_dropped(region):
    convert = OpenCC(region).convert
    traditional = {word: convert(word) for word in stop_words("zh")}
    assert sum(word != spelled for word, spelled in traditional.items()) > 100
    # Three hold a negator or another word, in either spelling (不是 alone is 不).
    assert {w: tokenize(s) for w, s in traditional.items()} == {w: tokenize(w) for w in traditional}
    assert sum(bool(tokenize(spelled)) for spelled in traditional.values()) <= 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他看著電視", ["看着", "电视"]),
        ("沿著河堤", ["河堤"]),
        ("穿著 意味著 著迷 執著", ["穿着", "意味着", "着迷", "执着"]),
        ("显著 著名 专著 土著", ["显著", "著名", "专著", "土著"]),
        ("著", []),
        ("未經同意，並非個人信息，沒有效果", ["未同意", "非个人信息", "没有效果"]),
    ],
)
def test_the_particle_and_negation_of_traditional_text_are_read_as_in_simplified(text, expected):
    assert tokenize(text) == expected


def test_japanese_is_read_as_chinese_a_stated_limit():
    assert normalise("情報の検索") == "情报の検索"


def dictionary():
    import jieba

    with jieba.get_module_res("dict.txt") as lines:
        for line in lines:
            word, frequency, _ = line.decode("utf-8").split(" ")
            yield word, int(frequency)


def is_simplified(word):
    try:
        word.encode("gb2312")  # the 6763 characters of the simplified standard of 1980
    except UnicodeEncodeError:
        return False
    return True


def test_simplified_words_stay_as_they_are_but_for_one_in_a_thousand():
    words = {w: f for w, f in dictionary() if is_simplified(w) and w == w.lower()}
    assert len(words) > 300_000
    after = normalise("\n".join(words)).split("\n")
    changed = {w for w, plain in zip(words, after, strict=True) if w != plain}
    assert len(changed) < 0.0011 * len(words)
    # Of these, the ones with two characters that are not quite rare; the dictionary counts 60
    # million occurrences. The rest are traditional spellings that it holds besides simplified ones.
    common = {w for w in changed if len(w) > 1 and words[w] >= 30}
    assert common <= {"拚命", "郭振乾", "承乾宫", "公冶乾", "言伯乾"}
    assert all(normalise(word) == word for word in stop_words("zh"))


@pytest.mark.parametrize("text", ["东西打坏了", "这一坏习惯", "小沈重申", "哪吒", "覆盖", "显著"])
def test_simplified_characters_that_were_once_others_are_not_converted(text):
    assert normalise(text) == text


@pytest.mark.parametrize("region", ["s2t", "s2tw", "s2hk"])
def test_words_written_in_traditional_characters_come_back_as_they_were(region):
    words = [w for w, _ in dictionary() if is_simplified(w)][::60]
    convert = OpenCC(region).convert
    traditional = [convert(word) for word in words]
    assert sum(a != b for a, b in zip(words, traditional, strict=True)) > 2000
    missed = [w for w, t in zip(words, traditional, strict=True) if tokenize(w) != tokenize(t)]
    assert len(missed) < 0.002 * len(words)
    twice = [normalise(text) for text in traditional]
    assert [normalise(text) for text in twice] == twice


# Words and keywords


def test_hard_case_8_chinese_is_never_one_token_and_stop_words_only_are_no_error():
    text = "企业向境外提供重要数据应当申报安全评估"
    assert {"企业", "数据", "申报", "评估"} <= set(tokenize(text))
    kw = TfidfKeywords.fit([text, "的了是"])
    assert len(kw.query(text)) > 4
    assert max(map(len, kw.query(text))) <= 4
    assert kw.query("的了是") == TfidfKeywords.fit(["的了是", "the of"]).document("的") == {}


def test_stop_word_lists_hold_no_content_and_no_negation():
    assert not {"水", "安全", "数据", "不能", "不得", "不", "没有"} & stop_words("zh")
    assert not {"system", "fire", "bill", "computer", "interest"} & stop_words("en")
    assert all(word == normalise(word) for word in stop_words("en") | stop_words("zh"))
    with pytest.raises(ValueError, match=r"'fr'.*en, zh"):
        stop_words("fr")


def test_threads_share_one_dictionary_and_agree():
    with ThreadPoolExecutor(8) as pool:
        results = set(pool.map(lambda _: tuple(tokenize("数据出境安全評估辦法")), range(40)))
    assert results == {("数据", "出境", "安全", "评估", "办法")}


def test_loading_is_late_silent_and_leaves_no_file(tmp_path):
    code = (
        "import sys, logging, causalrag.text as t; logging.basicConfig(level=logging.DEBUG); "
        "t.tokenize('Data export'); assert not {'jieba', 'opencc'} & set(sys.modules); "
        "print(len(t.tokenize('數據出境')))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("2", "")
    assert list(tmp_path.iterdir()) == []
