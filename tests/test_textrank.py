"""TextRank: jieba's ranks on Chinese, PageRank on English, our spelling and filters on both."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import causalrag as cr
from causalrag import text as our_text
from causalrag.datasets import opening
from causalrag.keywords import Keywords, TextRankKeywords
from causalrag.keywords import textrank as module
from causalrag.text import tokenize

TR = TextRankKeywords()
ALL = TextRankKeywords(top_document=10_000)
TEXTS = [d.text for theme in opening().themes for d in theme.documents]
CHINESE = [text for text in TEXTS if "的" in text]
ENGLISH = [text for text in TEXTS if "的" not in text]


def page_rank(tokens, rounds=2000):
    """PageRank by its definition, dense, over tokens at most four places apart; largest is 1."""
    words = list(dict.fromkeys(tokens))
    links = np.zeros((len(words), len(words)))
    for i, one in enumerate(tokens):
        for other in tokens[i + 1 : i + 5]:
            a, b = words.index(one), words.index(other)
            links[a, b] += 1
            links[b, a] += 1
    total = links.sum(axis=0)
    share = np.divide(links, total, out=np.full_like(links, 1 / len(words)), where=total > 0)
    ranks = np.full(len(words), 1 / len(words))
    for _ in range(rounds):
        ranks = 0.15 / len(words) + 0.85 * share @ ranks
    return dict(zip(words, ranks / ranks.max(), strict=True))


# --- English ----------------------------------------------------------------------------------


def test_weights_are_those_computed_by_hand():
    # audit meets audit once (both ends of a loop: 2) and report twice; the ranks sum to 1, so
    # r = 0.075 + 0.85 (1 - r) / 2, hence r = 0.5 / 1.425, and r / (1 - r) = 0.5 / 0.925.
    found = TR.document("audit audit report")
    assert found == pytest.approx({"audit": 1.0, "report": 0.5 / 0.925}, abs=1e-8)
    assert TR.query("audit report") == {"audit": 1.0, "report": 1.0}


@pytest.mark.parametrize("text", ENGLISH[:6])
def test_english_ranks_are_page_rank(text):
    assert ALL.document(text) == pytest.approx(page_rank(tokenize(text)), abs=1e-6)


def test_a_word_is_linked_with_the_four_after_it_and_no_more():
    # Of six words the outer two are five apart: one link less, a lower rank.
    found = TR.document("one1 two2 three3 four4 five5 six6")
    assert found["one1"] == found["six6"] < found["two2"] == found["five5"] == 1.0
    assert len(set(TR.document("one1 two2 three3 four4 five5").values())) == 1


def test_both_engines_rank_one_graph():
    # jieba stops after ten rounds.
    for text in ENGLISH:
        ranks = TR._jieba_ranks(tokenize(text))
        assert ranks == pytest.approx(page_rank(tokenize(text)), abs=0.03)


# --- Chinese ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "数据出境安全评估机构管理制度数据评估报告",
        "公司网络系统采购合同合同管理公司员工培训管理系统",
        "城市交通信号控制系统交通流量数据预测模型城市道路",
    ],
)
def test_chinese_ranks_are_jiebas_own_where_it_cuts_as_we_do(text):
    from jieba.analyse import TextRank
    from jieba.posseg import POSTokenizer

    tokenize(text)  # loads the segmenter, so that jieba need not write a cache file
    reference = TextRank()
    reference.tokenizer = POSTokenizer(our_text._SEGMENTER)
    assert [pair.word for pair in reference.tokenizer.cut(text)] == tokenize(text)
    expected = dict(reference.textrank(text, topK=None, withWeight=True))
    assert len(expected) > 5
    assert ALL.document(text) == pytest.approx(expected, abs=1e-8)


def test_only_listed_parts_of_speech_are_keywords():
    text = "数据出境的安全如何评估"
    assert set(tokenize(text)) == {"数据", "出境", "安全", "评估"}
    assert set(TR.query(text)) == {"数据", "出境", "评估"}  # 安全 is an adjective to jieba
    wider = TextRankKeywords(parts_of_speech=(*module.PARTS_OF_SPEECH, "an"))
    assert set(wider.query(text)) == {"数据", "出境", "安全", "评估"}
    assert set(TextRankKeywords(parts_of_speech=["an"]).query(text)) == {"安全"}


def test_one_character_words_are_dropped_from_query_and_document():
    # hard case 1
    assert tokenize("我爱上海的水") == ["爱", "上海", "水"]
    assert TR.query("我爱上海的水") == TR.document("我爱上海的水") == {"上海": 1.0}
    assert TR.query("水") == {}


def test_a_negated_word_has_the_part_of_speech_of_its_last_part():
    # hard case 2
    assert TR.document("没有效果") == {"没有效果": 1.0}
    assert TR.document("不合适") == {}
    adjectives = TextRankKeywords(parts_of_speech=["a"])
    assert adjectives.document("不合适") == {"不合适": 1.0}
    assert adjectives.document("合适") == {"合适": 1.0}


def test_a_word_without_a_neighbour_gets_the_lightest_weight():
    # Four words that are no candidates take up places: 报告 is five away from the last one that is.
    linked = ALL.document("数据评估系统数据 安全 漂亮 聪明 勇敢")
    assert set(linked) == {"数据", "评估", "系统"}
    found = ALL.document("数据评估系统数据 安全 漂亮 聪明 勇敢 报告")
    assert found == {**linked, "报告": min(linked.values())}
    assert ALL.document("安全数据") == {"数据": 1.0}


# --- both scripts, and what is the same for every extractor -----------------------------------


def test_a_mixed_text_is_one_graph_of_both_scripts():
    found = ALL.document("用BGE-M3做中文检索 (dense retrieval)，检索效果")
    assert set(found) == {"bge-m3", "检索", "dense", "retrieval", "效果"}
    assert found["检索"] == 1.0  # it is there twice
    # A word of the other script is a neighbour like any.
    assert max(ALL.document("数据 audit 评估 audit 系统").items(), key=lambda i: i[1])[0] == "audit"


def test_latin_words_need_no_part_of_speech():
    assert set(TR.document("数据 quickly")) == {"数据", "quickly"}
    assert set(TextRankKeywords(parts_of_speech=["ns"]).document("数据 quickly")) == {"quickly"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AI ai Ai ＡＩ", {"ai"}),  # hard case 3
        ("数据 AI Ai 数据", {"ai", "数据"}),
        ("GPT-4o 与 GB/T35273 及 COVID-19", {"gpt-4o", "gb/t 35273", "covid-19"}),  # hard case 4
        ("ＡＢＣ１２３ 数据", {"abc123", "数据"}),  # hard case 6
    ],
)
def test_terms_are_spelled_as_our_tokens(text, expected):
    assert set(TR.query(text)) == set(TR.document(text)) == expected


@pytest.mark.parametrize("text", ["", " \n", "，。！？", "的了是", "😀", "the of", "2020"])
def test_a_text_without_content_has_no_keywords(text):
    # hard cases 7 and 8
    assert TR.document(text) == TR.query(text) == {}


@pytest.mark.parametrize("text", ["audit", "数据", "the audit of the audit", "COVID-19"])
def test_one_keyword_is_enough(text):
    # hard case 17
    assert list(TR.query(text).values()) == [1.0]


def test_defaults_are_fifteen_and_ten_and_the_cut_keeps_the_heaviest():
    text = " ".join(f"term{i:02}" for i in range(40))
    assert (len(TR.document(text)), len(TR.query(text))) == (15, 10)
    for text in TEXTS:
        full = list(ALL.document(text).items())
        assert list(TR.document(text).items()) == full[:15]
        assert list(TR.query(text).items()) == full[:10]


def test_equal_weights_are_ordered_by_the_term():
    assert TR.query("pear fig apple quince").terms == ("apple", "fig", "pear", "quince")
    # Places at equal distances from the two ends are equal, whatever the last bits say.
    for n in range(6, 20):
        words = [f"t{i:02}" for i in range(n)]
        weights = [ALL.document(" ".join(words))[word] for word in words]
        assert weights == weights[::-1]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["数据", "评估", "audit", "report", "不", "合适", "水", "的", "GB/T 1", "。"]
        ),
        max_size=25,
    )
)
def test_terms_are_tokens_and_weights_positive_and_at_most_one(words):
    text = " ".join(words)
    found = ALL.document(text)
    assert isinstance(found, Keywords)
    assert set(found) <= set(tokenize(text))
    assert all(0 < weight <= 1 for weight in found.values())
    assert not found or max(found.values()) == 1.0
    latin = {token for token in tokenize(text) if token.isascii()}
    assert latin <= set(found)


def test_results_do_not_depend_on_the_hash_seed():
    code = (
        "from causalrag.keywords import TextRankKeywords as T; k = T();"
        f"print([list(k.document(t).items()) for t in {[ENGLISH[0], CHINESE[0]]!r}])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_jieba_writes_no_cache_file_and_logs_nothing(tmp_path):
    code = (
        "from causalrag.keywords import TextRankKeywords as T;"
        "assert T().document('数据出境评估 data') and T().document('audit report')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_tokens_and_idf_complete_the_contract():
    assert TR.tokens("Data, data 评估") == ["data", "data", "评估"]
    assert TR.idf("data") == TR.idf("unseen") == 1.0


@pytest.mark.parametrize("method", ["document", "query", "tokens", "idf"])
def test_none_is_refused(method):
    with pytest.raises(TypeError):
        getattr(TR, method)(None)


def test_unusable_arguments_are_named():
    for cut in ("top_document", "top_query"):
        with pytest.raises(ValueError, match=f"{cut} must be at least 1, got 0"):
            TextRankKeywords(**{cut: 0})
    with pytest.raises(TypeError, match="parts_of_speech must be a list of tags, got 'n'"):
        TextRankKeywords(parts_of_speech="n")
    with pytest.raises(ValueError, match="parts_of_speech is empty; give tags such as n, ns"):
        TextRankKeywords(parts_of_speech=[])


def test_a_reranker_takes_it():
    theme = opening().themes[0]
    ranking = cr.CausalReranker("use", keywords=TR).rank(theme.query, theme.documents)
    assert len(ranking) == len(theme.documents)
    assert all(np.isfinite(place.score) for place in ranking)
