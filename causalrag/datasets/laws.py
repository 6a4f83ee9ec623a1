"""A real knowledge base: the 471 Chinese laws and regulations below ``$CAUSALRAG_DATA``.

The archive has one Markdown file per law and no judgments. Nothing is extracted or downloaded, and
no text of it is part of this package; how archives are checked is in `archives`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from causalrag.datasets.archives import Archive, opened
from causalrag.documents import is_blank, joined

__all__ = ["Law", "laws", "laws_path"]

# Stands between the dates of a law's adoption and its articles.
_MARK = "<!-- INFO END -->"


@dataclass(frozen=True)
class Law:
    """One law; a document as `CausalReranker.rank` takes them.

    Attributes
    ----------
    id : str
        The file's name without ``.md``.
    title : str
        The file's first line without ``#``.
    text : str
        All that follows, the dates of adoption included, as it stands there: chapters are headings
        that begin with ``#``, articles are paragraphs. The comment that ends the dates is left out.
    """

    id: str
    title: str
    text: str

    @property
    def full_text(self) -> str:
        """Title and text, as `CausalReranker.rank` reads them."""
        return joined((self.title, self.text))

    @property
    def headings(self) -> tuple[str, ...]:
        """Its headings without ``#``, in order: parts, chapters, sections; may be empty."""
        lines = (line.strip() for line in self.text.split("\n") if line.startswith("#"))
        return tuple(line.lstrip("#").strip() for line in lines)

    @property
    def body(self) -> str:
        """`text` without its headings."""
        return "\n".join(line for line in self.text.split("\n") if not line.startswith("#"))


def laws_path() -> Path:
    """Give the path of the archive, ``$CAUSALRAG_DATA/laws/laws471.zip``.

    Raises
    ------
    FileNotFoundError
        If the variable is not set, or there is no such file.
    """
    root = os.environ.get("CAUSALRAG_DATA", "")
    if not root:
        raise FileNotFoundError(
            "no archive of laws: set CAUSALRAG_DATA to the folder that holds laws/laws471.zip"
        )
    path = Path(root) / "laws" / "laws471.zip"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist; set CAUSALRAG_DATA to the folder that holds laws/laws471.zip"
        )
    return path


def laws() -> tuple[Law, ...]:
    """Read the laws.

    Returns
    -------
    tuple of Law
        Sorted by `id` (code points), whatever the order in the archive.

    Raises
    ------
    FileNotFoundError
        As `laws_path`.
    ValueError
        If the archive is damaged or cut short, a member points out of its folder, there is no law,
        two files have one name, or a file is not UTF-8, has no title or no text. Names the file.
    """
    archive = Archive(laws_path(), "", "fetch it again")
    with opened(archive) as (file, members):
        names = [name for name in members if name.endswith(".md")]
        contents = [(name, file.read(name)) for name in names]
    found: dict[str, Law] = {}
    for name, data in contents:
        law = _law(PurePosixPath(name).stem, data, f"{archive.path}:{name}")
        if law.id in found:
            raise ValueError(f"{archive.path} has two files {law.id}.md; {archive.remedy}")
        found[law.id] = law
    if not found:
        raise ValueError(f"{archive.path} holds no law, no .md file; {archive.remedy}")
    return tuple(found[name] for name in sorted(found))


def _law(name: str, data: bytes, where: str) -> Law:
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8 ({error})") from error
    first, _, rest = content.replace("\r\n", "\n").partition("\n")
    title = first.removeprefix("# ").strip()
    if not first.startswith("# ") or is_blank(title):
        raise ValueError(f"{where} has no title: its first line is {first!r:.60}, not '# …'")
    lines = [line for line in rest.split("\n") if line.strip() != _MARK]
    text = "\n".join(lines).strip()
    if is_blank(text):
        raise ValueError(f"{where} has a title and no text")
    return Law(name, title, text)
