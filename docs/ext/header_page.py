"""The reference of the C interface, made from ars.h: its sections, its declarations, and the comment before each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx
from sphinx.domains.c import CDomain
from sphinx.util.typing import ExtensionMetadata

HEADER = Path(__file__).resolve().parents[2] / "bridge/include/ars.h"
PLACE = "<!-- ars.h -->"
PRIVATE = "private"
SECTION = re.compile(r"^/\* -{4} (.+?) -{4,} \*/$", re.MULTILINE)
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
NAME = re.compile(r"(?<![\w`/\"#])((?:ars|ARS|rs)_[A-Za-z]\w*(?:\([^()]*\))?)(?![\w`])")


class Declared(NamedTuple):
    """One declaration, as a directive of Sphinx's C domain names it."""

    directive: str
    signature: str
    remark: str  # the comment on its own line, if there is one
    members: tuple[str, ...] = ()


def marked(line: str) -> str:
    """Names and calls as code, pointers with their asterisk."""
    parts = NAME.split(line)
    return "".join(f"`{part}`" if index % 2 else part.replace("*", r"\*") for index, part in enumerate(parts))


def prose(comment: str) -> str:
    """The text of a comment as Markdown: paragraphs, lists, and code where it is indented."""
    lines = [re.sub(r"^ \* ?", "", line) for line in comment.strip("\n").splitlines()]
    lines[0] = lines[0].strip()
    result, block = [], False
    for line in lines:
        code = line.startswith("    ")
        if code and not block:
            result.append("```c")
        if block and not code and line.strip():
            result[-1:] = ["```", ""] if not result[-1].strip() else [result[-1], "```", ""]
            block = False
        block = block or code
        result.append(line[4:] if code else marked(re.sub(r"^ - ", "- ", line)))
    if block:
        result.append("```")
    return "\n".join(line.rstrip() for line in result).strip()


def declarations(code: str) -> list[Declared]:
    """The public declarations of a piece of the header, in order."""
    found: list[tuple[int, Declared]] = []
    remarks = r"[ \t]*(?:/\*\s*(?P<remark>[^\n]*?)\s*\*/)?"
    for function in re.finditer(rf"^ARS_API (?P<text>[^;]+?)(?: ARS__APART)?;{remarks}", code, re.MULTILINE):
        signature = " ".join(function["text"].split())
        found.append((function.start(), Declared("c:function", signature, function["remark"] or "")))
    functions = {re.search(r"(\w+)\(", each.signature)[1] for _, each in found}  # type: ignore[index]
    for macro in re.finditer(r"^#define (?P<name>\w+)(?P<arguments>\([^)]*\))?", code, re.MULTILINE):
        if macro["name"] not in functions:
            found.append((macro.start(), Declared("c:macro", macro["name"] + (macro["arguments"] or ""), "")))
    for struct in re.finditer(r"^typedef struct (\w+) \{", code, re.MULTILINE):
        found.append((struct.start(), Declared("c:struct", struct[1], "")))
    for enum in re.finditer(r"^enum (\w+) \{([^}]*)\};", code, re.MULTILINE):
        members = tuple(re.findall(r"\b([A-Z]\w+)\b", enum[2]))
        found.append((enum.start(), Declared("c:enum", enum[1], "", members)))
    ordered = [each for _, each in sorted(found, key=lambda pair: pair[0])]
    return [each for each in ordered if not re.search(r"\b(?:ars|ARS)__", each.signature)]


def sentence(remark: str) -> str:
    return f"{remark[0].upper()}{remark[1:]}." if remark else ""


def directive(declared: list[Declared], body: str) -> str:
    """Signatures above one text. The text stands below the last of them."""
    parts = []
    for index, each in enumerate(declared):
        last = index == len(declared) - 1
        text = "\n\n".join(filter(None, [sentence(each.remark), body if last else ""]))
        members = "".join(f"\n:::{{c:enumerator}} {name}\n:::\n" for name in each.members)
        parts.append(f"::::{{{each.directive}}} {each.signature}\n{text}\n{members}::::\n")
    return "\n".join(parts)


def pieces(text: str) -> list[tuple[str, str]]:
    """(comment, code that follows it up to the next comment that begins a line) for every such comment."""
    starts = [found for found in COMMENT.finditer(text) if text[: found.start()].endswith("\n")]
    ends = [found.start() for found in starts[1:]] + [len(text)]
    return [(found[1], text[found.end() : end]) for found, end in zip(starts, ends, strict=True)]


def page(text: str) -> str:
    """The whole page: the opening comment, then a section for every section of the header."""
    opening = COMMENT.search(text)
    assert opening, "ars.h begins with a comment"
    first, *rest = prose(opening[1]).split("\n\nBefore you begin:\n")
    result = [first.partition("\n\n")[2], "\n## Before you begin\n", *rest]
    titles = SECTION.split(text)[1:]
    for title, body in zip(titles[::2], titles[1::2], strict=True):
        if title.startswith(PRIVATE):
            break
        result.append(f"\n## {title[0].upper()}{title[1:]}\n")
        for comment, code in pieces(body):
            first_block, *others = [declarations(block) for block in code.strip().split("\n\n")]
            result.append(directive(first_block, prose(comment)) if first_block else prose(comment) + "\n")
            result += [directive(block, "") for block in others]
    return "\n".join(result)


def read(app: Sphinx, name: str, source: list[str]) -> None:
    del name
    if PLACE in source[0]:
        app.env.note_dependency(str(HEADER))
        source[0] = source[0].replace(PLACE, page(HEADER.read_text(encoding="utf-8")))


class Names(CDomain):
    """The domain of C, whose parameters the search does not list: they are beside their functions."""

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        return (found for found in super().get_objects() if found[2] != "functionParam")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_domain(Names, override=True)
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
