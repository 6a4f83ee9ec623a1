"""Text for a terminal: how wide it is, where to break or cut it, what must not reach the screen."""

from __future__ import annotations

import unicodedata

__all__ = ["clean", "fold", "shorten", "width"]


def clean(text: str) -> str:
    """Replace control characters, so that document text cannot steer a terminal."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(char) else char for char in text)


def _steers(char: str) -> bool:
    # Cf holds the marks that reverse the reading direction, but also the joiners that scripts and
    # emoji need.
    category = unicodedata.category(char)
    return category in ("Cc", "Zl", "Zp") or (category == "Cf" and char not in "\u200c\u200d")


def width(text: str) -> int:
    """Count the terminal cells of a text: two for a wide character, none for a combining one."""
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, columns: int) -> str:
    """Cut a path at its start, which says less than its end."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[1:]
    return "…" + text


def fold(text: str, columns: int) -> list[str]:
    """Break a text into lines of at most `columns` cells, at spaces where there are any."""
    lines, line = [], ""
    for word in text.split(" "):
        piece = f"{line} {word}" if line else word
        if width(piece) <= columns:
            line = piece
            continue
        if line:
            lines.append(line)
        line = ""
        for character in word:
            if line and width(line + character) > columns:
                lines.append(line)
                line = ""
            line += character
    return [*lines, line]
