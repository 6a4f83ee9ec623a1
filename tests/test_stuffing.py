"""Stuffed documents: pure, seeded, nested, as strong as asked, and refused where impossible."""

import os
import subprocess
import sys

import numpy as np
import pytest

import causalrag as cr
from causalrag.stuffing import ATTACKS, THREATS, Stuffer, stuff
from causalrag.stuffing.carriers import CARRIERS

ENGLISH = [
    f"{subject} {verb} near the {place}. It {verb} there for {count} days, and nobody minds. "
    f"The {place} is old; its {thing} was painted by hand. Visitors like the {thing} and the "
    f"{subject}. A second {place} lies behind the hill, with a {thing} of stone."
    for subject in ("heron", "ferry", "choir", "market")
    for verb in ("rests", "waits", "returns")
    for place in ("harbour", "chapel", "bridge")
    for count, thing in ((3, "gate"), (9, "bell"))
]
CHINESE = [
    f"{subject}每天在{place}停留。{place}很古老，门前有{thing}。游客喜欢{thing}，也喜欢{subject}。"
    f"山后还有一座{place}，用石头砌成，里面收藏{thing}。冬天来临，{subject}离开这里。"
    for subject in ("白鹭", "渡船", "合唱团")
    for place in ("港口", "教堂", "石桥")
    for thing in ("铜钟", "壁画", "灯塔")
]
COLLECTION = [
    {"id": f"d{i}", "title": text.split()[0] if text.isascii() else text[:2], "text": text}
    for i, text in enumerate(ENGLISH + CHINESE)
]
KEYWORDS = cr.TfidfKeywords.fit([document["text"] for document in COLLECTION])
QUERIES = {"en": "does yeast make bread dough rise", "zh": "酵母如何让面团发酵膨胀"}
ENCODER = cr.load_encoder("use")
MADE = [attack for attack in ATTACKS if attack != "neighbours"]


@pytest.fixture(scope="module")
def stuffer():
    return Stuffer(KEYWORDS, COLLECTION, ENCODER)


def share(document, query):
    tokens = KEYWORDS.tokens(document.full_text)
    return sum(token in KEYWORDS.query(query) for token in tokens) / len(tokens)


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize("attack", ATTACKS)
def test_fewer_are_the_first_of_more_and_all_differ(stuffer, attack, lang):
    query = QUERIES[lang]
    many = stuffer.stuff(query, attack, 12)
    assert stuffer.stuff(query, attack, 5) == many[:5]
    assert Stuffer(KEYWORDS, COLLECTION, ENCODER).stuff(query, attack, 12) == many
    assert len({document.full_text for document in many}) == 12
    assert len({document.id for document in many}) == 12
    assert {document.attack for document in many} == {attack}
    assert stuffer.stuff(query, attack, 0) == ()


@pytest.mark.parametrize("attack", MADE)
def test_another_seed_gives_other_documents(stuffer, attack):
    assert stuffer.stuff(QUERIES["en"], attack, 3, seed=1) != stuffer.stuff(
        QUERIES["en"], attack, 3, seed=2
    )


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize("strength", [0.0, 0.2, 0.5, 0.7])
@pytest.mark.parametrize("attack", ["repetition", "splice", "dilution"])
def test_the_share_of_keywords_is_the_strength(stuffer, attack, strength, lang):
    wanted = strength * (0.2 if attack == "dilution" else 1)
    for document in stuffer.stuff(QUERIES[lang], attack, 6, strength=strength):
        # One slot more or less: three words of some seventy, six for the splice.
        assert share(document, QUERIES[lang]) == pytest.approx(wanted, abs=0.09)
        if not strength:
            assert share(document, QUERIES[lang]) == 0


@pytest.mark.parametrize("lang", QUERIES)
def test_an_echo_holds_the_query_word_for_word_as_often_as_asked(stuffer, lang):
    query = QUERIES[lang]
    for strength in (0.0, 0.25, 0.5, 1.0):
        document = stuffer.stuff(query, "echo", 1, strength=strength)[0]
        asked = document.text.count(query)
        others = sum(document.text.count(plain) for plain in CARRIERS[lang].plain)
        assert asked / (asked + others) == pytest.approx(strength, abs=0.17)
    assert (share(stuffer.stuff(query, "echo", 1, strength=0.0)[0], query)) == 0


@pytest.mark.parametrize("lang", QUERIES)
def test_titles_hold_the_share_of_keywords_and_the_body_holds_none(stuffer, lang):
    query, words = QUERIES[lang], KEYWORDS.query(QUERIES[lang])
    for strength in (0.0, 0.5, 1.0):
        document = stuffer.stuff(query, "titles", 1, strength=strength)[0]
        named = set(words) & set(KEYWORDS.tokens(document.title))
        assert len(named) == round(strength * len(words))
        if strength:
            counts = [KEYWORDS.tokens(document.text).count(word) for word in named]
            assert counts == [2] * len(named)  # once under each heading


def test_synonyms_hold_near_words_and_no_keyword(stuffer):
    query = QUERIES["en"]
    documents = stuffer.stuff(query, "synonyms", 4)
    vocabulary = set(KEYWORDS.vocabulary)
    for document in documents:
        tokens = KEYWORDS.tokens(document.full_text)
        assert not set(tokens) & set(KEYWORDS.query(query))
        counts = [tokens.count(t) for t in set(tokens) & vocabulary]
        assert max(counts) < len(tokens) / 5  # rotated: none stands out
    spun = {frozenset(set(KEYWORDS.tokens(d.full_text)) & vocabulary) for d in documents}
    assert len(spun) > 1 or len(next(iter(spun))) > 8


@pytest.mark.parametrize("attack", ["splice", "dilution", "titles"])
def test_what_is_spliced_shares_no_keyword_and_is_not_excluded(attack):
    marked = [*COLLECTION, {"id": "own", "title": "", "text": "Yeast. Bread rises. Dough. " * 9}]
    excluded = {document["id"] for document in COLLECTION[:60]}
    made = Stuffer(KEYWORDS, marked).stuff(QUERIES["en"], attack, 8, strength=0.0, exclude=excluded)
    for document in made:
        assert share(document, QUERIES["en"]) == 0
        first = document.text[:40]
        assert not any(first in d["text"] for d in marked if d["id"] in excluded | {"own"})


def test_neighbours_are_the_collections_own_by_the_querys_words(stuffer):
    query = "heron at the harbour bell"
    found = stuffer.stuff(query, "neighbours", 9)
    by_id = {document["id"]: document for document in COLLECTION}
    weight = {t: KEYWORDS.idf(t) for t in KEYWORDS.tokens(query)}

    def score(document):
        return sum(weight[t] for t in weight if t in KEYWORDS.tokens(document.full_text))

    scores = [score(document) for document in found]
    assert scores == sorted(scores, reverse=True)
    for document in found:
        assert document.text == by_id[document.id]["text"]
    without = stuffer.stuff(query, "neighbours", 9, exclude={found[0].id})
    assert without[:8] == found[1:]


def test_the_function_is_the_class_and_its_documents_can_be_ranked(stuffer):
    one = stuff(
        QUERIES["en"], "splice", 2, keywords=KEYWORDS, collection=COLLECTION, strength=0.4, seed=3
    )
    assert one == stuffer.stuff(QUERIES["en"], "splice", 2, strength=0.4, seed=3)
    ranking = cr.CausalReranker(ENCODER, KEYWORDS).rank(QUERIES["en"], one)
    assert sorted(place.doc_id for place in ranking) == ["splice-0", "splice-1"]
    assert ranking[0].text == one[ranking[0].index].full_text


def test_every_attack_names_its_threat():
    assert tuple(THREATS) == ATTACKS
    assert all(threat.endswith(".") and len(threat.split()) > 8 for threat in THREATS.values())


def test_another_hash_seed_gives_the_same_bytes():
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_stuffing as t, hashlib;"
        "s = t.Stuffer(t.KEYWORDS, t.COLLECTION, t.ENCODER);"
        "made = [s.stuff(q, a, 3) for q in t.QUERIES.values() for a in t.ATTACKS];"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_an_encoder_of_the_caller_decides_which_words_are_near():
    class Far:
        def encode(self, texts):
            return np.array([[1.0, float("bell" in text)] for text in texts], dtype=np.float32)

    keywords = cr.TfidfKeywords.fit([d["text"] for d in COLLECTION])
    made = Stuffer(keywords, COLLECTION, Far()).stuff("bells", "synonyms", 1, strength=0.6)[0]
    assert "bell" in keywords.tokens(made.full_text)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("", "echo", 1), {}, ValueError, "blank"),
        (("the of", "echo", 1), {}, ValueError, "has no keywords"),
        (("bread", "spam", 1), {}, ValueError, "unknown attack 'spam'; known: repetition, splice"),
        (("bread", "echo", -1), {}, ValueError, "n is -1"),
        (("bread", "echo", 1.5), {}, TypeError, "n must be an integer, got 1.5"),
        (("bread", "echo", 1), {"strength": 1.2}, ValueError, "strength is 1.2; it is a share"),
        (("bread", "echo", 1), {"strength": float("nan")}, ValueError, "strength is nan"),
        (("bread", "echo", 1), {"strength": "0.5"}, TypeError, "must be a number, not str"),
        (("bread", "echo", 1), {"lang": "de"}, ValueError, "unknown lang 'de'; known: en, zh"),
        (("bread", "splice", 1), {}, ValueError, "needs a larger collection"),
        (("bread", "neighbours", 1), {}, ValueError, "asked for 1; give a larger collection"),
        (("bread", "synonyms", 1), {}, ValueError, "needs an encoder"),
        (("bread", "synonyms", 1), {"encoder": "use"}, ValueError, "give a larger collection"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        stuff(*arguments, keywords=KEYWORDS, **options)
