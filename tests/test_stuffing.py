"""Stuffed documents: pure, seeded, nested, as strong as asked, and refused where impossible."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from reranking import HashEncoder, TableEncoder

import causalrag as cr
from causalrag.stuffing import ATTACKS, THREATS, Stuffer, stuff
from causalrag.stuffing.carriers import VOICES
from causalrag.text import tokenize

ENGLISH = [
    f"The {subject} {verb} near the {place}. It was there for several days, and nobody minded. "
    f"The {place} is old; its {thing} was painted by hand. Visitors like the {thing} and the "
    f"{subject}. A second {place} lies behind the hill, with a {thing} of stone. In winter the "
    f"{subject} leaves the {place} for a warmer country, while the {thing} freezes over. Children "
    f"gather shells along the shore and draw what they found in large notebooks. On Sundays a boat "
    f"brings parcels, newspapers and letters from the town across the water."
    for subject in ("heron", "ferry", "choir", "market")
    for verb in ("rested", "waited", "returned")
    for place in ("harbour", "chapel", "bridge")
    for thing in ("gate", "bell")
]
CHINESE = [
    f"{subject}每天在{place}停留。{place}很古老，门前有{thing}。游客喜欢{thing}，也喜欢{subject}。"
    f"山后还有一座{place}，用石头砌成，里面收藏{thing}。冬天来临，{subject}离开这里，飞往温暖的南方。"
    f"孩子们沿着海岸收集贝壳，把看见的东西画在本子里。周日有小船送来报纸、蔬菜和城里的信件。"
    for subject in ("白鹭", "渡船", "合唱团")
    for place in ("港口", "教堂", "石桥")
    for thing in ("铜钟", "壁画", "灯塔")
]
COLLECTION = [
    {"id": f"d{i:03}", "title": f"Notes {i}" if text.isascii() else "游记", "text": text}
    for i, text in enumerate(ENGLISH + CHINESE)
] + [
    {"id": f"bread{i}", "title": "", "text": text}
    for i, text in enumerate(
        [
            "Yeast eats sugar and breathes out gas.",
            "Bread dough rests in a warm bowl.",
            "Dough for noodles has no yeast in it.",
            "面团在碗里发酵。",
            "酵母吃糖。",
        ]
    )
]
KEYWORDS = cr.TfidfKeywords.fit([document["text"] for document in COLLECTION])
QUERIES = {"en": "Why does yeast make bread dough rise?", "zh": "酵母如何让面团发酵膨胀？"}
LONG = " ".join(
    f"Sentence {w} says that {w} bread needs {w} yeast." for w in ("malt", "rye", "oat")
)
ENCODER = HashEncoder()
WRITTEN = [attack for attack in ATTACKS if attack != "neighbours"]


@pytest.fixture(scope="module")
def stuffer():
    return Stuffer(KEYWORDS, COLLECTION, ENCODER)


def share(document, wanted, extractor=KEYWORDS):
    tokens = extractor.tokens(document.full_text)
    return sum(token in wanted for token in tokens) / len(tokens)


def n_for(attack):
    return 2 if attack == "neighbours" else 12


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize("attack", ATTACKS)
def test_fewer_are_the_first_of_more_and_all_differ(stuffer, attack, lang):
    n = n_for(attack)
    many = stuffer.stuff(QUERIES[lang], attack, n)
    assert stuffer.stuff(QUERIES[lang], attack, n // 2) == many[: n // 2]
    assert len(many) == len({d.full_text for d in many}) == len({d.id for d in many}) == n
    assert {d.attack for d in many} == {attack}
    assert {d.strength for d in many} == {0.5}
    assert stuffer.stuff(QUERIES[lang], attack, 0) == ()


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_function_and_the_collections_order_change_nothing(stuffer, attack):
    order = np.random.default_rng(0).permutation(len(COLLECTION))
    n, shuffled = n_for(attack), [COLLECTION[i] for i in order]
    options = {"strength": 0.4, "seed": 3, "exclude": {"d000"}}
    one = stuff(
        QUERIES["en"], attack, n, keywords=KEYWORDS, collection=shuffled, encoder=ENCODER, **options
    )
    assert one == stuffer.stuff(QUERIES["en"], attack, n, **options)


@pytest.mark.parametrize("attack", WRITTEN)
def test_seed_and_query_change_the_texts_and_the_ids(stuffer, attack):
    first = stuffer.stuff(QUERIES["en"], attack, 3)
    for other in (
        stuffer.stuff(QUERIES["en"], attack, 3, seed=1),
        stuffer.stuff("yeast and dough", attack, 3),
    ):
        assert not {d.full_text for d in first} & {d.full_text for d in other}
        assert not {d.id for d in first} & {d.id for d in other}


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize("strength", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("attack", ["repetition", "splice", "dilution"])
def test_the_share_of_keywords_is_the_strength(stuffer, attack, strength, lang):
    wanted = strength / 5 if attack == "dilution" else strength
    for document in stuffer.stuff(QUERIES[lang], attack, 6, strength=strength):
        assert share(document, KEYWORDS.query(QUERIES[lang])) == pytest.approx(wanted, abs=0.03)
        if not strength:
            assert share(document, KEYWORDS.query(QUERIES[lang])) == 0


@pytest.mark.parametrize("query", [*QUERIES.values(), LONG, "yeast"])
@pytest.mark.parametrize("strength", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
def test_the_share_of_the_querys_tokens_in_an_echo_is_the_strength(stuffer, strength, query):
    for document in stuffer.stuff(query, "echo", 4, strength=strength):
        assert share(document, KEYWORDS.tokens(query)) == pytest.approx(strength, abs=0.04)


@pytest.mark.parametrize("lang", QUERIES)
def test_an_echo_holds_the_query_word_for_word_and_turned_around(stuffer, lang):
    query = QUERIES[lang]
    for document in stuffer.stuff(query, "echo", 3, strength=0.6):
        assert document.title == query
        assert document.text.count(query.strip("?？")) >= 1
        assert document.text.count("?") + document.text.count("？") >= 2


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize("strength", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_the_share_of_near_terms_is_the_strength_and_no_keyword_is_said(stuffer, strength, lang):
    query = QUERIES[lang]
    words = [stuffer_word.text for stuffer_word in stuffer._words(query)]
    near = {t for own in stuffer.source.near_terms(words, stuffer.encoder, lang, 12) for t in own}
    for document in stuffer.stuff(query, "synonyms", 4, strength=strength):
        tokens = Counter(KEYWORDS.tokens(document.full_text))
        assert share(document, near) == pytest.approx(strength, abs=0.03)
        assert not set(tokens) & set(KEYWORDS.tokens(query))
        said = [tokens[term] for term in near & set(tokens)]
        assert not said or max(said) - min(said) <= 1


def test_near_terms_lie_on_both_sides_of_the_default_threshold():
    table = {"yeast": (1.0, 0.0, 0.0), "gas": (0.95, 0.3, 0.0), "sugar": (0.9, 0.4, 0.0)}
    table |= {"bowl": (0.5, 0.8, 0.0), "noodles": (0.4, 0.9, 0.0)}
    source = Stuffer(KEYWORDS, COLLECTION).source
    encoder = cr.load_encoder(TableEncoder(table))
    assert source.near_terms(["yeast"], encoder, "en", 4) == [("gas", "sugar", "bowl", "noodles")]
    assert source.near_terms(["yeast"], encoder, "en", 2) == [("gas", "bowl")]
    # Above runs out: the rest comes from below.
    assert source.near_terms(["yeast"], encoder, "en", 6)[0][:4] == (
        "gas",
        "sugar",
        "bowl",
        "noodles",
    )


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize(("strength", "said"), [(0.0, 0), (0.01, 1), (0.5, 0.5), (1.0, 1.0)])
def test_titles_and_headings_hold_the_heaviest_keywords_and_the_body_none(
    stuffer, lang, strength, said
):
    words = list(KEYWORDS.query(QUERIES[lang]))
    count = said if isinstance(said, int) else int(said * len(words) + 0.5)
    for document in stuffer.stuff(QUERIES[lang], "titles", 4, strength=strength):
        title, text = (Counter(KEYWORDS.tokens(t)) for t in (document.title, document.text))
        for word in words:
            assert title[word] == text[word] == (word in words[:count])
        bodies = document.text.split("\n")[1 if count else 0 :: 2]
        assert not any(set(KEYWORDS.tokens(body)) & set(words) for body in bodies)


@pytest.mark.parametrize("attack", ["splice", "dilution", "titles"])
@pytest.mark.parametrize("lang", QUERIES)
def test_hosts_are_off_topic_in_the_querys_language_and_not_excluded(stuffer, attack, lang):
    marked = [
        {"id": i, "text": f"Entry m{i}x. {text}" if text.isascii() else f"m{i}x。{text}"}
        for i, text in enumerate(ENGLISH + CHINESE)
    ]
    marked.append({"id": 999, "text": f"m999x. Yeast and 酵母. {ENGLISH[0]} {CHINESE[0]}"})
    even = set(range(0, 999, 2))
    made = Stuffer(KEYWORDS, marked).stuff(QUERIES[lang], attack, 6, strength=0.0, exclude=even)
    hosts = [[int(i) for i in re.findall(r"(?i)m(\d+)x", document.text)] for document in made]
    assert len({own[0] for own in hosts}) == 6
    for own, document in zip(hosts, made, strict=True):
        assert len(own) == 1 or attack == "dilution"
        assert all(i % 2 and i != 999 for i in own)
        assert not set(KEYWORDS.tokens(document.full_text)) & set(KEYWORDS.query(QUERIES[lang]))
        assert document.text.isascii() == (lang == "en")


def test_a_table_of_contents_is_no_host_where_there_is_prose():
    table = [
        {"id": f"t{i}", "text": "Oven . . . . . . . . . . 12 Stove . . . . . . . . 13 " * 30}
        for i in range(20)
    ]
    made = Stuffer(KEYWORDS, table + COLLECTION).stuff(QUERIES["en"], "dilution", 9)
    assert not any(". . ." in document.text for document in made)


def test_splice_keeps_natural_sentences_whole_between_stuffed_ones(stuffer):
    words = set(KEYWORDS.query(QUERIES["en"]))
    [document] = stuffer.stuff(QUERIES["en"], "splice", 1, strength=0.4)
    sentences = document.text.split(". ")
    stuffed = [bool(set(KEYWORDS.tokens(sentence)) & words) for sentence in sentences]
    assert not stuffed[0]
    assert sum(a != b for a, b in pairwise(stuffed)) >= 3


def test_dilution_scatters_the_keywords_evenly_and_one_at_a_time(stuffer):
    words = set(KEYWORDS.query(QUERIES["en"]))
    for document in stuffer.stuff(QUERIES["en"], "dilution", 4, strength=0.6):
        at = np.flatnonzero([token in words for token in KEYWORDS.tokens(document.full_text)])
        assert np.diff(at).min() > 1
        assert np.diff(at).max() <= 2.5 * np.median(np.diff(at))


def test_neighbours_are_the_collections_own_documents_by_the_idf_of_the_keywords_held(stuffer):
    found = stuffer.stuff(QUERIES["en"], "neighbours", 3)
    own = {document["id"]: document for document in COLLECTION}
    weights = {term: KEYWORDS.idf(term) for term in KEYWORDS.query(QUERIES["en"])}
    held = {
        d["id"]: sum(w for t, w in weights.items() if t in d["text"].lower()) for d in COLLECTION
    }
    ordered = sorted((name for name in held if held[name]), key=lambda name: (-held[name], name))
    assert [d.id for d in found] == ordered[:3]
    assert all((d.title, d.text) == (own[d.id]["title"], own[d.id]["text"]) for d in found)
    without = stuffer.stuff(QUERIES["en"], "neighbours", 2, exclude={ordered[0]})
    assert [d.id for d in without] == ordered[1:3]
    assert stuffer.stuff(QUERIES["en"], "neighbours", 3, seed=9) == found


def test_a_collection_has_no_more_neighbours_than_hold_a_keyword():
    texts = ["Bread.", "Gas.", "Dry bread."]
    found = stuff("bread", "neighbours", 9, keywords=KEYWORDS, collection=texts)
    assert [document.id for document in found] == ["0", "2"]


@pytest.mark.parametrize("lang", QUERIES)
@pytest.mark.parametrize("attack", WRITTEN)
def test_texts_stay_short_and_in_the_querys_language(stuffer, attack, lang):
    for document in stuffer.stuff(QUERIES[lang], attack, 4):
        text = document.full_text
        words = len(text.split()) if lang == "en" else len(text) / 2
        assert 40 <= words <= (260 if attack == "dilution" else 170)
        assert text.isascii() == (lang == "en")


def test_the_language_can_be_asked_for():
    [document] = stuff("yeast dough", "repetition", 1, keywords=KEYWORDS, lang="zh")
    assert not document.text.isascii()
    [mixed] = stuff("GPT-4o 怎么调用接口", "echo", 1, keywords=KEYWORDS)
    assert "？" in mixed.text


def test_a_query_of_one_word_still_gives_different_documents():
    for attack in ("repetition", "echo"):
        made = stuff("yeast", attack, 15, keywords=KEYWORDS, strength=1.0)
        assert len({document.full_text for document in made}) == 15
        assert all(share(document, {"yeast"}) == 1 for document in made)


def test_carriers_with_a_word_of_the_query_are_left_out():
    query = "readers order pages page topic question"
    for attack in ("repetition", "echo"):
        for document in stuff(query, attack, 6, keywords=KEYWORDS, strength=0.0):
            assert share(document, KEYWORDS.tokens(query)) == 0


@pytest.mark.parametrize("lang", VOICES)
def test_frames_and_pronouns_have_no_content_of_their_own(lang):
    voice = VOICES[lang]
    assert tokenize(voice.pronoun) == []
    for frame in (*voice.questions, *voice.rewordings, *voice.headings, *voice.asides):
        assert frame.count("{}") == 1
        assert tokenize(frame.replace("{}", voice.pronoun)) == []
    for genre in voice.genres.values():
        assert all("{}" in sentence for sentence in genre.sentences)
        assert all(title.count("{}") == 1 for title in genre.titles)


def test_documents_can_be_ranked_as_they_are(stuffer):
    made = stuffer.stuff(QUERIES["en"], "splice", 3)
    ranking = cr.CausalReranker(ENCODER, KEYWORDS).rank(QUERIES["en"], made)
    assert {place.doc_id for place in ranking} == {document.id for document in made}
    assert ranking[0].text == made[ranking[0].index].full_text
    plain = stuff(QUERIES["en"], "neighbours", 1, keywords=KEYWORDS, collection=["Bread dough."])
    assert plain[0].full_text == "Bread dough."


def test_an_extractor_of_others_with_phrases_as_keywords_is_counted_in_tokens():
    class Phrases:
        def document(self, text):
            return {"bread dough": 2.0, "yeast": 1.0}

        query = document

    for document in stuff("bread dough, yeast", "repetition", 3, keywords=Phrases()):
        tokens = tokenize(document.full_text)
        assert sum(t in ("bread", "dough", "yeast") for t in tokens) / len(tokens) == pytest.approx(
            0.5, abs=0.03
        )


def test_every_attack_names_its_threat():
    assert tuple(THREATS) == ATTACKS
    assert ATTACKS == (
        "repetition",
        "splice",
        "echo",
        "synonyms",
        "titles",
        "dilution",
        "neighbours",
    )
    assert all(threat.endswith(".") and threat.count(".") == 1 for threat in THREATS.values())


def test_another_process_with_another_hash_seed_gives_the_same_bytes(stuffer):
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_stuffing as t;"
        "s = t.Stuffer(t.KEYWORDS, t.COLLECTION, t.ENCODER);"
        "print(ascii([s.stuff(q, a, 2) for q in t.QUERIES.values() for a in t.ATTACKS]))"
    )
    here = ascii([stuffer.stuff(q, a, 2) for q in QUERIES.values() for a in ATTACKS])
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == here


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("", "echo", 1), {}, ValueError, "query is blank"),
        ((None, "echo", 1), {}, TypeError, "query must be a str"),
        (("the of", "echo", 1), {}, ValueError, "'the of' has no keywords; ask with"),
        (("bread", "spam", 1), {}, ValueError, "unknown attack 'spam'; known: repetition, splice"),
        (("bread", "echo", -1), {}, ValueError, "n is -1; give 0 or more"),
        (("bread", "echo", 1.5), {}, TypeError, "n must be an integer, got 1.5"),
        (("bread", "echo", 1), {"seed": "x"}, TypeError, "seed must be an integer, got 'x'"),
        (("bread", "echo", 1), {"strength": 1.2}, ValueError, "strength is 1.2; it is a share"),
        (("bread", "echo", 1), {"strength": float("nan")}, ValueError, "strength is nan"),
        (("bread", "echo", 1), {"strength": "0.5"}, TypeError, "strength must be a number"),
        (("bread", "echo", 1), {"lang": "de"}, ValueError, "unknown lang 'de'; known: en, zh"),
        (("bread", "echo", 1), {"exclude": "d1"}, TypeError, "exclude must be a collection"),
        (("bread", "splice", 1), {}, ValueError, "'splice' .* give collection=documents"),
        (("bread", "titles", 1), {"collection": []}, ValueError, "give collection=documents"),
        (("bread", "splice", 1), {"collection": "text"}, TypeError, "not one str"),
        (
            ("bread", "splice", 1),
            {"collection": ["Bread."]},
            ValueError,
            "no document of the collection is off topic",
        ),
        (("bread", "synonyms", 1), {"collection": ["Bread."]}, ValueError, "give encoder="),
        (
            ("bread", "synonyms", 1),
            {"collection": ["Bread."], "encoder": ENCODER},
            ValueError,
            "no term besides the keywords",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        stuff(*arguments, keywords=KEYWORDS, **options)


def test_what_would_repeat_itself_is_refused_and_not_handed_out_twice():
    one = ["The oven is old. " * 2]
    assert len(stuff("yeast", "titles", 4, keywords=KEYWORDS, collection=one)) == 4
    with pytest.raises(ValueError, match="only 1 different documents could be written"):
        stuff("yeast", "titles", 4, keywords=KEYWORDS, collection=one, strength=0.0)
