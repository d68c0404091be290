"""Pages of the repository in the site: files shown whole, links to files of the repository, and pages nobody listed.

The pages are plain Markdown with links between files, so that they also read well where the repository is browsed. A
link to a file that the site shows leads to its page; a link to another file of the repository becomes a download.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SHOWS = re.compile(r"^<!-- shows: (\S+) -->$", re.MULTILINE)
UNLISTED = "<!-- pages that no list above names -->"
FENCED = re.compile(r"(^```.*?^```$|^~~~.*?^~~~$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"\[(?P<text>(?:`[^`\n]*`|[^\]`])*)\]\((?P<target>[^)\s]+)\)|`[^`\n]+`"
)  # or code, which stays as it is


def shown_files() -> dict[Path, str]:
    """Files of the repository that a page of the site shows, with the name of that page."""
    pages = {ROOT / "README.md": "index"}
    for path in sorted(DOCS.rglob("*.md")):
        found = SHOWS.search(path.read_text(encoding="utf-8"))
        if found:
            pages[(path.parent / found[1]).resolve()] = docname(path)
    return pages


def docname(path: Path) -> str:
    return path.relative_to(DOCS).with_suffix("").as_posix()


def translated(link: str, folder: Path, page: str, shown: dict[Path, str]) -> str:
    """A link of a file in ``folder`` as the page ``page`` of the site needs it."""
    if re.match(r"[a-z]+:|#|/", link):
        return link
    target, hash_sign, anchor = link.partition("#")
    file = (folder / target).resolve()
    if file.is_dir():
        file = file / "README.md"
    if file in shown:
        file = DOCS / f"{shown[file]}.md"
    return os.path.relpath(file, (DOCS / page).parent) + hash_sign + anchor


def with_links(text: str, folder: Path, page: str, shown: dict[Path, str]) -> str:
    """The text with every link outside code translated."""

    def translate(found: re.Match[str]) -> str:
        if found["target"] is None:
            return found[0]
        target = (folder / found["target"]).resolve()
        if target.is_dir() and not (target / "README.md").exists():
            return found["text"]  # a folder without a page
        return f"[{found['text']}]({translated(found['target'], folder, page, shown)})"

    parts = FENCED.split(text)
    return "".join(part if index % 2 else LINK.sub(translate, part) for index, part in enumerate(parts))


def unlisted(found: set[str], index: str) -> str:
    """A list of contents with the top-level pages that the index does not name: a new page is never lost."""
    named = re.findall(r"^(?:.* <)?([\w/*-]+)>?$", index, re.MULTILINE)
    rest = {page for page in found if "/" not in page and page != "index"}
    rest -= {page for name in named for page in fnmatch.filter(rest, name)}
    if not rest:
        return ""
    return "\n".join(["```{toctree}", ":caption: More", ":hidden:", "", *sorted(rest), "```"])


def present(text: str, found: set[str]) -> str:
    """The text without entries of lists of contents, such as ``scaling*``, that no page matches."""

    def keep(entry: re.Match[str]) -> str:
        return entry[0] if fnmatch.filter(found, entry[1]) else ""

    return re.sub(r"^([\w/-]*\*[\w/]*)\n", keep, text, flags=re.MULTILINE)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    shown = app.config["repository_shown"]
    text, folder = source[0], (DOCS / page).parent
    found = SHOWS.search(text)
    if found:
        file = (folder / found[1]).resolve()
        app.env.note_dependency(str(file))
        text, folder = file.read_text(encoding="utf-8"), file.parent
    if UNLISTED in text:
        text = present(text.replace(UNLISTED, unlisted(app.env.found_docs, text)), app.env.found_docs)
    source[0] = with_links(text, folder, page, shown)


def always_read(app: Sphinx, env: object, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages whose content comes from elsewhere: the package may have changed, or there are other pages to list."""
    del env, changed
    made = [page for page in app.env.found_docs if "<!-- " in (DOCS / f"{page}.md").read_text(encoding="utf-8")]
    return [page for page in made if page != "index" or added or removed]


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_config_value("repository_shown", shown_files(), "env")
    app.connect("source-read", read)
    app.connect("env-get-outdated", always_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
