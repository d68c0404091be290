"""Spelling of what users read: the pages of the site, with docstrings, ars.h and help texts, and the README.

    python tools/spelling.py build/docs

Words are looked up in hunspell's British dictionary and in docs/dictionary.txt, one word per line. Code is skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DICTIONARY = ROOT / "docs" / "dictionary.txt"
SKIPPED = {"code", "script", "style", "svg", "nav", "aside", "footer"}  # and <pre>, except for help texts
VOID = {"br", "img", "hr", "input", "link", "meta", "source", "wbr", "col"}
HELP_PAGE = "commands.html"
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
IDENTIFIER = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")  # CamelCase
NOT_PROSE = re.compile(r"\S*[\d_/\\@=<>$~.]\S*\w|--?[a-z][\w-]*|\b[A-Z]{2,}(?:[_-][A-Z]+)*s?\b|\S+\(\)")


class Prose(HTMLParser):
    """The running text of a page: no code, no signatures, no navigation."""

    def __init__(self, skipped: set[str]) -> None:
        super().__init__()
        self.skipped, self.open, self.text = skipped, list[tuple[str, bool]](), list[str]()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            classes = (dict(attributes).get("class") or "").split()
            hidden = tag in self.skipped or "sig" in classes or "classifier" in classes or "headerlink" in classes
            self.open.append((tag, hidden or any(each for _, each in self.open[-1:])))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and not self.open[-1][1]:
            self.text.append(data)


def page_text(path: Path) -> str:
    parser = Prose(SKIPPED if path.name == HELP_PAGE else SKIPPED | {"pre", "dt"})
    html = path.read_text(encoding="utf-8")
    body = re.search(r"<article.*?</article>", html, re.DOTALL)
    parser.feed(body[0] if body else "")
    return " ".join(parser.text)


def readme_text(path: Path) -> str:
    text = re.sub(
        r"^```.*?^```|^    .*?$|<[^>]+>", " ", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)


def words(text: str) -> set[str]:
    return {word.replace("’", "'").removesuffix("'s") for word in WORD.findall(NOT_PROSE.sub(" ", text))}


def unknown(candidates: set[str]) -> set[str]:
    """Those that neither dictionary has."""
    known = set(DICTIONARY.read_text(encoding="utf-8").split())
    prose = {word for word in candidates if len(word) > 2 and not IDENTIFIER.search(word)}
    asked = sorted(word for word in prose if word not in known and word.lower() not in known)
    answer = subprocess.run(
        ["hunspell", "-l", "-d", "en_GB", "-i", "utf-8"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(answer.stdout.split()) & set(asked)


def complaints(site: Path) -> list[str]:
    """A line for every word that is not known, with the pages that have it."""
    found: dict[str, set[str]] = defaultdict(set)
    pages = {
        path: page_text(path) for path in site.rglob("*.html") if path.name not in ("genindex.html", "search.html")
    }
    pages[ROOT / "README.md"] = readme_text(ROOT / "README.md")
    for path, text in pages.items():
        for word in words(text):
            found[word].add(path.name)
    wrong = sorted(unknown(set(found)), key=str.lower)
    return [
        f"spelling: {word} ({', '.join(sorted(found[word])[:3])}); docs/dictionary.txt has our own words"
        for word in wrong
    ]


if __name__ == "__main__":
    lines = complaints(Path(sys.argv[1]))
    print("\n".join(lines) or "Every word is known.")
    raise SystemExit(1 if lines else 0)
