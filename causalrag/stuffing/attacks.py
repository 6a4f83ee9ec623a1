"""The attacks: each writes the title and text of one document.

`strength` s in [0, 1] means, over title and text together and up to rounding to whole words:

- repetition, splice: the share of content tokens that are query keywords is s;
- synonyms: the share of content tokens that are near terms is s;
- echo: the share of content tokens that are content tokens of the query is s;
- dilution: the share of content tokens that are query keywords is s / 5;
- titles: s |K| of the query's keywords K, rounded, at least one if s > 0, the heaviest first, stand
  in the title and once more in the headings;
- neighbours: no effect.

At s = 1 nothing but keywords is left of a repetition or a splice; at s = 0 there is no keyword.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from causalrag.stuffing.base import n_words
from causalrag.stuffing.source import Sentence, Source, clip
from causalrag.stuffing.writing import Carrier, Desk, Word, whole

__all__ = ["MIN_HOST", "WRITERS", "Draft"]

# Words of a document; it varies by a tenth.
LENGTH = {
    "repetition": 90,
    "synonyms": 90,
    "echo": 90,
    "splice": 100,
    "titles": 90,
    "dilution": 180,
}
# Content tokens that the host of an attack should have.
MIN_HOST = {"splice": 40, "titles": 50, "dilution": 40}
# Dilution: the share of keywords at strength 1.
THINNEST = 0.2
# Splice: the share of carriers in what is not keyword.
CARRIED = 1 / 6
# Titles: how many headings at most.
HEADINGS = 3

_ATOM = re.compile(r"[^\s，。、；：！？]+[，。、；：！？”]*\s*|\S+?\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_CLOSING = " .?!。？！,，;；:："


@dataclass
class Draft:
    """What one document is written from.

    Attributes
    ----------
    query : str
        As asked.
    words : sequence of Word
        What is stuffed: the query's keywords, heaviest first, or the near terms.
    strength : float
        In [0, 1].
    desk : Desk
        Carriers and the document's random numbers.
    source : Source or None
        The collection.
    hosts : sequence of int
        Off-topic documents, this document's own first.
    """

    query: str
    words: Sequence[Word]
    strength: float
    desk: Desk
    source: Source | None = None
    hosts: Sequence[int] = ()

    def length(self, attack: str) -> float:
        """Give the words that this document should have."""
        return LENGTH[attack] * float(self.desk.random.uniform(0.9, 1.1))


def _repetition(draft: Draft, attack: str = "repetition") -> tuple[str, str]:
    """Carriers with keywords in their slots; the title is a carrier too."""
    desk, length = draft.desk, draft.length(attack)
    odds = _odds(draft.strength)
    size = length / (desk.density() + odds)
    titles = desk.allowed(desk.shuffled(desk.genre.titles))
    title = [next((t for t in titles if t.size <= size), *desk.allowed(["{}"]))]
    chosen = [*title, *desk.fillers(size - title[0].size)]
    carried = sum(carrier.size for carrier in chosen)
    words = desk.taken(draft.words, odds * carried if carried else length * draft.strength)
    first, *rest = desk.filled(chosen, words)
    return first, desk.voice.space.join(rest)


def _synonyms(draft: Draft) -> tuple[str, str]:
    """Repetition of near terms."""
    return _repetition(draft, "synonyms")


def _splice(draft: Draft) -> tuple[str, str]:
    """Sentences of one host, and stuffed sentences between them."""
    desk, host, length = draft.desk, draft.hosts[0], draft.length("splice")
    odds = _odds(draft.strength)
    spent = (1 - CARRIED) * _density(draft, [host]) + CARRIED * desk.density()
    size = length / (spent + odds)
    title, body = _host(draft, [host], size * (1 - CARRIED))
    natural = sum(sentence.size for sentence in body) + title.size
    carriers = desk.fillers(natural * CARRIED / (1 - CARRIED)) if natural else []
    rest = natural + sum(carrier.size for carrier in carriers)
    words = desk.taken(draft.words, odds * rest if rest else length * draft.strength)
    stuffed = desk.filled(carriers, words)
    return title.text, desk.voice.space.join(_between([s.text for s in body], stuffed))


def _echo(draft: Draft) -> tuple[str, str]:
    """Echo the query, word for word and turned around, among empty sentences."""
    desk, length = draft.desk, draft.length("echo")
    odds = _odds(draft.strength)
    count = _counter(draft)
    query_density = n_words(draft.query) / max(count(draft.query), 1)
    wanted = length / query_density
    if draft.strength < 1:
        wanted = odds * length / (desk.density() + query_density * odds)
    echoes, said, framed = _echoes(draft, wanted)
    missing = length / desk.density() if not odds else said / odds - framed
    title = ""
    if len(echoes) > 1:
        title, *echoes = echoes
    sentences = desk.filled(desk.fillers(missing), [])
    return title, desk.voice.space.join(_between(sentences, echoes))


def _echoes(draft: Draft, wanted: float) -> tuple[list[str], int, int]:
    """Write echoes with `wanted` content tokens of the query.

    Returns
    -------
    echoes : list of str
        The first one is the query itself, or its first sentence.
    said, framed : int
        Content tokens of the query, and of the frames around them.
    """
    desk, count = draft.desk, _counter(draft)
    voice = desk.voice
    limit = max(1, round(wanted))
    parts = [part.strip() for part in _SENTENCE_END.split(draft.query)]
    pieces = [piece for part in parts if (piece := _cut(part, limit, count)).size]
    frames = desk.allowed(desk.shuffled(voice.questions))
    turned = desk.allowed(desk.shuffled(voice.rewordings))
    words = [word.text for word in draft.words]
    plain = Carrier("", 0, 0.0)
    echoes: list[str] = []
    said = framed = 0
    while wanted > 0:
        # In turn: word for word, as another question, and its keywords in another order.
        turn, form = divmod(len(echoes), 3)
        piece = pieces[(2 * turn + form) % len(pieces)]
        if form == 2 and turned:
            frame, size = turned[turn % len(turned)], sum(word.size for word in draft.words)
            inner = desk.listed(desk.shuffled(words))
        else:
            frame = frames[turn % len(frames)] if form and frames else plain
            inner, size = piece.text.strip(_CLOSING), piece.size
        if echoes and abs(said + size - wanted) >= abs(said - wanted):
            break
        if frame is plain:
            echoes.append(piece.text if piece.text[-1:] in "?!.？！。" else inner + voice.stop)
        else:
            echoes.append(frame.text.replace("{}", voice.opening + inner + voice.closing))
        framed += frame.size
        said += size
    return echoes, said, framed


def _titles(draft: Draft) -> tuple[str, str]:
    """Keywords in title and headings above an off-topic text."""
    desk, host = draft.desk, draft.hosts[0]
    size = draft.length("titles") / _density(draft, [host])
    own, body = _host(draft, [host], size)
    count = math.floor(draft.strength * len(draft.words) + 0.5)
    count = max(count, 1) if draft.strength else 0
    if not count:
        return own.text, "\n".join(sentence.text for sentence in body)
    heaviest = [word.text for word in draft.words[:count]]
    titles = [*desk.allowed(desk.shuffled(desk.genre.titles)), *desk.allowed(["{}"])]
    title = desk.sentence(titles[0], iter([desk.shuffled(heaviest)]))
    parts = min(HEADINGS, count, len(body))
    groups = _dealt(desk.shuffled(heaviest), parts)
    frames = [*desk.allowed(desk.shuffled(desk.voice.headings)), *desk.allowed(["{}"] * parts)]
    lines = []
    for part, (frame, group) in enumerate(zip(frames, groups, strict=False)):
        lines.append(desk.sentence(frame, iter([group])))
        own_part = body[part * len(body) // parts : (part + 1) * len(body) // parts]
        lines.append(desk.voice.space.join(sentence.text for sentence in own_part))
    return title, "\n".join(lines)


def _dilution(draft: Draft) -> tuple[str, str]:
    """One keyword after every so many words of a long off-topic text."""
    desk = draft.desk
    odds = _odds(THINNEST * draft.strength)
    size = draft.length("dilution") / (_density(draft, draft.hosts) + odds)
    title, body = _host(draft, draft.hosts, size)
    natural = title.size + sum(sentence.size for sentence in body)
    words = desk.taken(draft.words, odds * natural)
    asides = [carrier.text for carrier in desk.allowed(desk.voice.asides)] or ["({})"]
    atoms = _ATOM.findall(desk.voice.space.join(sentence.text for sentence in body))
    every = len(atoms) / max(len(words), 1)
    for place in reversed(range(len(words))):
        at = min(len(atoms), 1 + int((place + 0.5) * every))
        aside = asides[int(desk.random.integers(len(asides)))].replace("{}", words[place])
        atoms.insert(at, f"{aside}{desk.voice.space}")
        if desk.voice.space and not atoms[at - 1].endswith(" "):
            atoms[at - 1] += desk.voice.space
    return title.text, "".join(atoms).strip()


WRITERS: Mapping[str, Callable[[Draft], tuple[str, str]]] = {
    "repetition": _repetition,
    "splice": _splice,
    "echo": _echo,
    "synonyms": _synonyms,
    "titles": _titles,
    "dilution": _dilution,
}


# --- parts --------------------------------------------------------------------------------------


def _odds(share: float) -> float:
    """Give the keywords that go with one other token."""
    return math.inf if share >= 1 else share / (1 - share)


def _counter(draft: Draft) -> Callable[[str], int]:
    tokens = draft.desk.extractor.tokens
    return lambda text: len(tokens(text))


def _density(draft: Draft, hosts: Sequence[int]) -> float:
    """Give the words that the first host spends on one content token."""
    assert draft.source is not None
    title, text = draft.source.parts[hosts[0]]
    return max(1.0, (n_words(title) + n_words(text)) / int(draft.source.sizes[hosts[0]]))


def _host(draft: Draft, hosts: Sequence[int], size: float) -> tuple[Sentence, list[Sentence]]:
    """Take the beginning of off-topic documents, `size` content tokens with the first's title."""
    source = draft.source
    assert source is not None
    limit = round(size)
    title = clip(source.measured(source.parts[hosts[0]][0].strip()), limit // 3, source)
    taken: list[Sentence] = []
    total = title.size
    for host in hosts:
        for sentence in source.sentences(host):
            if total >= limit:
                return title, taken
            part = clip(sentence, limit - total, source)
            if part.text:
                taken.append(part)
                total += part.size
    return title, taken


def _cut(text: str, limit: int, count: Callable[[str], int]) -> Sentence:
    """Cut a part of the query at the longest prefix of at most `limit` of its content tokens."""
    tokens = count(text)
    if tokens <= limit:
        return Sentence(text, tokens)
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    if len(ends) < tokens:  # a script without spaces
        ends = list(range(1, len(text)))
    best = Sentence(text, tokens)
    for end in ends:
        size = count(text[:end])
        if size > limit:
            break
        best = Sentence(text[:end], size)
    return best


def _between(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Spread the second kind evenly among the first, which begins."""
    keyed = [((i + 0.25) / len(first), text) for i, text in enumerate(first)]
    keyed += [((i + 0.75) / len(second), text) for i, text in enumerate(second)]
    return [whole(text) for _, text in sorted(keyed, key=lambda pair: pair[0])]


def _dealt(items: Sequence[str], parts: int) -> list[list[str]]:
    """Deal items into so many lists, in turn."""
    return [list(items[start::parts]) for start in range(parts)]
