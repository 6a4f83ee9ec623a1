"""From a text to its content tokens: Chinese, English and both together.

`tokenize` serves query and document alike, so that a term has one spelling on both sides. OpenCC
turns traditional characters into simplified ones, jieba's dictionary cuts Chinese, and a pattern
cuts other scripts so that identifiers stay whole. Not done here: regional words are not translated
(軟體 becomes 软体, not 软件), words are not stemmed, and English negation is a stop word.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

_HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
# Characters nobody sees (soft hyphen, zero-width space, variation selector, byte order mark): they
# would cut a word in two. Unicode's NFKC_Casefold drops them as well.
_INVISIBLE = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
# OpenCC is not shown these two: they are the simplified forms of 壞 and 瀋, and it would read some
# of them as the old forms of 坯 and 沉, 打坏 as 打坯 and 沈重 (a name) as 沉重.
_CONVERTED = re.compile(f"[{_HAN}]+".replace("\\u4e00-", r"\u4e00-\u574e\u5750-\u6c87\u6c89-"))
_VARIANTS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
_VARIANTS |= str.maketrans(dict.fromkeys("\u2018\u2019\u02bc", "'"))

_LETTER = rf"[^\W_{_HAN}]"
_WORD = rf"{_LETTER}(?:{_LETTER}|[\u0300-\u036f])*"
# A dot joins digits (0.5g) and single letters (e.g); anywhere else it ends a sentence.
_JOINER = r"(?:[-/_&']|(?<=\d)\.(?=\d)|(?<=\b[a-z])\.(?=[a-z]\b))"
# GB/T 35273, T/CESA 1159, DB11/T 171; and, with three digits or more, ISO/IEC 27001, RFC 793.
_STANDARD = (
    rf"(?<!{_LETTER})(?:"
    r"(?P<body>[a-z]{2,5}\d{0,4}/[tz]|t/[a-z]{2,8})[\s-]?(?P<number>\d[\d.]*(?:[-:]+\d+)*)"
    r"|(?P<body3>(?:iso|iec|ieee)(?:/[a-z]{2,4})?|ansi|astm|din|gbz?|gjb|jis|rfc)"
    r"[\s-]?(?P<number3>\d{3}[\d.]*(?:[-:]+\d+)*)"
    rf")(?!{_LETTER})"
)
_TOKEN = re.compile(
    rf"(?P<han>[{_HAN}]+)"
    rf"|(?P<standard>{_STANDARD})"
    rf"|(?P<sharp>(?<!{_LETTER})[a-z](?:\+\+|\#)(?!{_LETTER}))"
    rf"|(?P<run>{_WORD}(?:{_JOINER}{_WORD})*)"
)
_NUMBER = re.compile(r"[\d./_'-]+(?:e[-+]?\d+)?")
_HAN_NUMBER = re.compile(
    r"[〇零一二两三四五六七八九十百千万亿]+[年月日号时点分秒]"
    r"|(?=.*[〇零十百千万亿])[〇零一二两三四五六七八九十百千万亿]+"
)

# A question of the form 合不合适 or 有没有 neither affirms nor denies: read as 合适, 有.
_A_NOT_A = re.compile(rf"([{_HAN}]{{1,3}}?)[不没]\1")
# Bare negators and the spelling under which they are joined to the next content word.
_NEGATORS = {
    **dict.fromkeys(("不", "不太", "不大", "不很", "不够", "不是", "并不", "从不", "毫不"), "不"),
    **dict.fromkeys(("决不", "绝不", "都不", "也不"), "不"),
    **dict.fromkeys(("没", "没有", "并没有", "从没", "毫无", "并无"), "没有"),
    **dict.fromkeys(("未", "未经", "未曾", "从未", "并未", "尚未"), "未"),
    **dict.fromkeys(("非", "并非", "绝非"), "非"),
    **{word: word for word in ("无", "别", "勿", "莫")},
}
_DEGREES = frozenset(
    ("太", "很", "够", "大", "再", "曾", "那么", "这么", "怎么", "十分", "非常", "特别", "完全")
)


def normalise(text: str) -> str:
    """Give the spelling under which texts are compared.

    NFKC, case folded, without invisible characters, traditional characters made simplified.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Full-width letters and digits become plain ones (ＡＢＣ１２３ is abc123). Applying the
        function twice changes nothing more.

    Raises
    ------
    TypeError
        If `text` is not a string.

    Notes
    -----
    OpenCC decides by the words around a character: 乾燥, 幹部 and 若干 become 干燥, 干部
    and 若干, and 乾隆 stays. Where several traditional characters share one simplified form (後 and
    后, 髮 and 發), their words become one, as in any simplified text. Simplified text stays as it
    is, apart from rare words that hold an older character (拚命 becomes 拼命) and names that OpenCC
    does not know (承乾宫 becomes 承干宫). Japanese kanji and Korean hanja are read as Chinese: 情報
    becomes 情报, 検索 stays.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {text!r:.60}")
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    plain = unicodedata.normalize("NFKC", visible.casefold())
    return plain if plain.isascii() else _simplified(plain)


def tokenize(text: str) -> list[str]:
    """Cut a text into its content tokens, in order, repeats included.

    Parameters
    ----------
    text : str
        Chinese, English or mixed; other alphabets are cut into words. A query or a document.

    Returns
    -------
    list of str
        Empty when the text has no content (blank, punctuation, emoji, stop words only).

    Raises
    ------
    TypeError
        If `text` is not a string.

    Notes
    -----
    The rules, the same for query and document:

    - The text is passed through `normalise`; AI, ai and ＡＩ are one token, and so are 數據 and
      数据. The particle 著 of traditional text (看著) is read as 着 unless jieba's dictionary knows
      the word with 著 better (著名, 显著).
    - Chinese words of one character are kept unless they are stop words: 我爱上海的水 gives 爱,
      上海, 水. Single letters of an alphabet are dropped (c++ and c# are kept).
    - A Chinese negator (不, 没有, 未, 无, 非, 别 ...) is joined to the content word after it, also
      across an adverb of degree: 不合适 and 不太合适 give 不合适, never 合适. Before anything else
      it stands alone. Words such as 不能 and 不得 are tokens of their own. A question such as
      合不合适 gives 合适. English "not suitable" gives "suitable": a limit.
    - Pure numbers are dropped, in digits or in Chinese numerals. A run with a letter and a digit,
      or with a part of one letter, is one token: covid-19, gpt-4o, 0.5g, x-ray, gb/t 35273 (with
      one space, however the standard was typed). Other hyphenated words are split.

    Examples
    --------
    >>> tokenize("GB/T35273 与 ISO/IEC 27001 的区别")
    ['gb/t 35273', 'iso/iec 27001', '区别']
    """
    plain = normalise(text).translate(_VARIANTS)
    tokens: list[str] = []
    for match in _TOKEN.finditer(plain):
        if match["han"]:
            tokens.extend(_han_tokens(match["han"]))
        elif match["standard"]:
            body, number = match["body"] or match["body3"], match["number"] or match["number3"]
            tokens.append(f"{body} {re.sub('-+', '-', number).rstrip('.')}")
        elif match["sharp"]:
            tokens.append(match["sharp"])
        else:
            tokens.extend(_run_tokens(match["run"]))
    return tokens


@lru_cache(maxsize=2)
def stop_words(language: str) -> frozenset[str]:
    """Give the stop words of a language, read once from ``data/stopwords_*.txt``.

    Parameters
    ----------
    language : {"en", "zh"}
        English or Chinese.

    Raises
    ------
    ValueError
        If there is no list for `language`.
    """
    if language not in ("en", "zh"):
        raise ValueError(f"no stop words for language {language!r}; known: en, zh")
    path = Path(__file__).parent / "data" / f"stopwords_{language}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(w for line in lines if not line.startswith("#") for w in line.split())


def _run_tokens(run: str) -> Iterator[str]:
    """Tokens of a run of letters and digits with joiners inside."""
    run = run.removesuffix("'s")
    if run in stop_words("en") or _NUMBER.fullmatch(run):
        return
    parts = re.split(r"[-/_&.]", run)
    whole = "_" in run or any(len(part) == 1 or re.search(r"\d", part) for part in parts)
    for token in [run] if whole else parts:
        if len(token) > 1 and token not in stop_words("en"):
            yield token


def _han_tokens(run: str) -> Iterator[str]:
    """Tokens of a run of Chinese characters, negators joined to the word they negate."""
    negator = ""
    for word in _segment(_A_NOT_A.sub(r"\1", run)):
        if word in _NEGATORS:
            if negator:
                yield negator
            negator = _NEGATORS[word]
        elif negator and word in _DEGREES:
            continue
        elif word in stop_words("zh") or _HAN_NUMBER.fullmatch(word):
            if negator:
                yield negator
            negator = ""
        else:
            yield negator + word
            negator = ""
    if negator:
        yield negator


def _simplified(text: str) -> str:
    """Convert until nothing changes: 徵調 becomes 徵调, and only then 征调."""
    convert = _converter()
    for _ in range(9):  # two rounds do for all that is known; an end for what is not
        # All runs in one call: most texts are simplified already, and a call per run is slow.
        runs = "\n".join(_CONVERTED.findall(text))
        plain = convert(runs)
        if plain == runs:
            break
        pieces = iter(plain.split("\n"))
        text = _CONVERTED.sub(lambda _: next(pieces), text)  # noqa: B023
    return text


@lru_cache(maxsize=1)
def _converter() -> Callable[[str], str]:
    from opencc import OpenCC

    # hk2s is t2s and seven Hong Kong variants more, among them 衞 for 衛. tw2s is no choice: it
    # would write 显着 for the simplified 显著.
    convert: Callable[[str], str] = OpenCC("hk2s").convert
    return convert


_SEGMENTER: Any = None
_LOADING = threading.Lock()


def _segment(run: str) -> Iterable[str]:
    global _SEGMENTER
    if _SEGMENTER is None:
        with _LOADING:
            if _SEGMENTER is None:
                _SEGMENTER = _load_segmenter()
    if "著" in run:
        run = "".join(map(_with_particle, _SEGMENTER.cut(run, HMM=False)))
    words: Iterable[str] = _SEGMENTER.cut(run)
    return words


def _with_particle(word: str) -> str:
    """Write 着 for 著 where that is the commoner spelling of a word of jieba's dictionary."""
    frequency, plain = _SEGMENTER.FREQ, word.replace("著", "着")
    return plain if frequency.get(plain, 0) > frequency.get(word, 0) else word


def _load_segmenter() -> Any:
    """Load jieba's own dictionary into a segmenter that nobody else can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its sources trip warnings of newer Pythons
        import jieba
    segmenter = jieba.Tokenizer()
    # Straight from the dictionary: jieba's `initialize` would log to stderr, and read and write a
    # marshal file in the shared temporary folder, which another user could have put there.
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    return segmenter
