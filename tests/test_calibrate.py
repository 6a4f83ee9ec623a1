"""tau="auto": a quantile of an encoder's own cosines, and nothing else."""

import math
import random

import numpy as np
import pytest
from reranking import HashEncoder, TableEncoder

import causalrag as cr
from causalrag import calibrate
from causalrag.calibrate import QUANTILE, language, tau_for, word_list

# Three words at 0.8, 0.6 and 0 of one another.
TABLE = TableEncoder({"a": (1.0, 0.0, 0.0), "b": (0.8, 0.6, 0.0), "c": (0.0, 1.0, 0.0)})


def test_it_is_the_quantile_of_all_pairs():
    assert tau_for(TABLE, ["a", "b", "c"], 0.5) == pytest.approx(0.6)
    assert tau_for(TABLE, ["a", "b", "c"], 0.75) == pytest.approx(0.7)
    encoder = cr.load_encoder("use")
    words = random.Random(0).sample(word_list("en"), 60)
    vectors = encoder.encode(words, "term").astype(float)
    pairs = [vectors[i] @ vectors[j] for i in range(60) for j in range(i)]
    assert tau_for(encoder, words) == pytest.approx(np.quantile(pairs, QUANTILE), abs=1e-6)


def test_order_and_repetition_of_the_words_count_nothing_and_a_larger_quantile_gives_no_less():
    words = list(word_list("en"))[:80]
    shuffled = random.Random(1).sample(words, 80) + words[:5]
    assert tau_for(HashEncoder(), words) == tau_for(HashEncoder(), shuffled)
    found = [tau_for(HashEncoder(), words, q) for q in (0.1, 0.5, 0.9, 0.999)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_an_encoder_that_tells_no_words_apart_absorbs_equal_words_only():
    class Constant:
        def encode(self, texts):
            return np.ones((len(texts), 3), dtype=np.float32)

    assert tau_for(Constant(), ["a", "b", "c"]) == 1.0


def test_the_packaged_lists_are_different_words_of_one_script():
    for lang in calibrate.LANGUAGES:
        words = word_list(lang)
        assert len(words) == len(set(words)) > 400
        assert {language(word) for word in words} == {lang}
        assert all(word == word.lower().strip() for word in words)


def test_the_reranker_takes_the_encoders_own_threshold_for_the_querys_language():
    encoder = cr.load_encoder("use")
    reranker = cr.CausalReranker(encoder, tau="auto", method="causal")
    for query, lang in (("why does bread rise", "en"), ("面包为什么会发酵", "zh")):
        texts = ["yeast makes gas", "酵母产生气体", "a river"]
        tau = tau_for(encoder, lang=lang)
        ranking = reranker.rank(query, texts)
        assert f"tau {tau:g}" in ranking.explain()
        fixed = cr.CausalReranker(encoder, tau=tau, method="causal").rank(query, texts)
        assert [(r.doc_id, r.score) for r in ranking] == [(r.doc_id, r.score) for r in fixed]
    exact = cr.CausalReranker(encoder, tau="auto", absorption="exact").rank("bread", ["bread gas"])
    assert exact[0].shared.terms == ("bread",)


def test_the_command_line_takes_auto(capsys, tmp_path):
    (tmp_path / "a.txt").write_text("yeast makes gas and bread rises", encoding="utf-8")
    from causalrag.cli import main

    assert main(["explain", "why does bread rise", str(tmp_path), "--tau", "auto"]) == 0
    assert f"tau {tau_for('use'):g}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"terms": ["a", "a"]}, ValueError, "at least two different terms"),
        ({"terms": "a b"}, TypeError, "terms must be a list of words"),
        ({"quantile": 1.0}, ValueError, "quantile is 1.0"),
        ({"quantile": math.nan}, ValueError, "quantile is nan"),
        ({"lang": "de"}, ValueError, "unknown lang 'de'; known: en, zh"),
    ],
)
def test_unusable_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        tau_for(TABLE, **options)


def test_another_word_than_auto_is_refused():
    with pytest.raises(TypeError, match="tau must be a number"):
        cr.CausalReranker("use", tau="automatic")
