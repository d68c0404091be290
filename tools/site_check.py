"""Is the documentation whole? Checks a built site: links and anchors, pictures, public names, commands, spelling.

    python tools/site_check.py build/docs [--list-external]

Links to other sites are counted, and listed on request; nothing is fetched. Every complaint is a line, exit code 1.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import spelling
from sphinx.util.inventory import InventoryFile

import ars
from ars.cli import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
SUBMODULES = ("ars.cluster", "ars.diagnostics", "ars.loops", "ars.plots", "ars.weights")
LAZY = ("Network",)  # public, and not in __all__: importing it needs torch


class Page(HTMLParser):
    """Links, anchors and pictures of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.anchors, self.pictures = list[str](), set[str](), list[tuple[str, str]]()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "img":
            self.links.append(values.get("src", ""))
            self.pictures.append((values.get("src", ""), values.get("alt", "")))


def read_pages(site: Path) -> dict[Path, Page]:
    return {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def broken_links(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Links within the site whose file or anchor does not exist."""
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site.resolve())}: no such file: {link}"
            elif target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site.resolve())}: no such anchor: {link}"


def external_links(pages: dict[Path, Page]) -> list[str]:
    found = {link for page in pages.values() for link in page.links if urlsplit(link).scheme in ("http", "https")}
    return sorted(found)


def silent_pictures(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Pictures without a text for those who cannot see them; the logo beside the project's name needs none."""
    for path, page in pages.items():
        for source, text in page.pictures:
            if not text.strip() or text == source:
                yield f"{path.relative_to(site.resolve())}: no alternative text: {source}"


# ---- reference -------------------------------------------------------------------------------------------------------


def public_objects() -> dict[str, object]:
    """Every public name of the package and of the documented submodules."""
    found = {f"ars.{name}": getattr(ars, name) for name in (*ars.__all__, *LAZY)}
    for module_name in SUBMODULES:
        module = importlib.import_module(module_name)
        found |= {f"{module_name}.{name}": getattr(module, name) for name in module.__all__}
    return {name: each for name, each in found.items() if inspect.isclass(each) or inspect.isroutine(each)}


def methods(name: str, each: type) -> Iterator[tuple[str, object]]:
    """Public methods and properties that a class or its bases in libars define."""
    for method, value in inspect.getmembers(each):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        ours = getattr(inspect.unwrap(function), "__module__", "") or ""  # type: ignore[arg-type]
        wanted = inspect.isroutine(value) or isinstance(value, property)
        if not method.startswith("_") and wanted and ours.startswith("ars"):
            yield f"{name}.{method}", value


def inherited(each: type, method: str, places: dict[str, str]) -> bool:
    """Whether the page of a base class has the method."""
    return any(f"ars.{base.__name__}.{method}" in places for base in each.__mro__[1:])


def parameters(each: object) -> list[str]:
    try:
        return [name for name in inspect.signature(each).parameters if name not in ("self", "cls")]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def signature_on(html: str, name: str) -> str | None:
    found = re.search(rf'<dt class="sig[^>]*id="{re.escape(name)}">(.*?)</dt>', html, re.DOTALL)
    return re.sub(r"<[^>]+>", "", found[1]) if found else None


def missing_names(site: Path) -> Iterator[str]:
    """Public Python names, methods and parameters that the reference does not have."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    places = {
        name: item.uri for kind, items in inventory.items() if kind.startswith("py:") for name, item in items.items()
    }
    for name, each in public_objects().items():
        parts = [(name, each), *(methods(name, each) if inspect.isclass(each) else ())]
        for full, value in parts:
            if full not in places:
                if inspect.isclass(each) and full != name and inherited(each, full.rpartition(".")[2], places):
                    continue
                yield f"reference: no {full}"
                continue
            place, _, anchor = places[full].partition("#")
            shown = signature_on((site / place).read_text(encoding="utf-8"), anchor.replace("$", full))
            if shown is None:
                yield f"reference: no {full} on its page"
                continue
            exception = inspect.isclass(value) and issubclass(value, BaseException)
            absent = [] if exception else [p for p in parameters(value) if not re.search(rf"\b{p}\b", shown)]
            if absent:
                yield f"reference: {full} lacks {', '.join(absent)}"


def missing_c_names(site: Path, header: str) -> Iterator[str]:
    """Public functions and macros of ars.h that the reference does not have."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    known = {name for kind, items in inventory.items() if kind.startswith("c:") for name in items}
    public = header.partition("/* ---- private")[0]
    declared = set(re.findall(r"^ARS_API [^;(]*?\b(\w+)\(", public, re.MULTILINE))
    declared |= set(re.findall(r"^#define ((?:ars|rs|ARS_LOOP|ARS_MAX)\w*)", public, re.MULTILINE))
    yield from (f"reference/c: no {name}" for name in sorted(declared - known) if "__" not in name)


def missing_commands(site: Path) -> Iterator[str]:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    yield from (f"reference/commands: no {name}" for name in COMMANDS if f"usage: ars {name}" not in page)


def complaints(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    yield from broken_links(site, pages)
    yield from silent_pictures(site, pages)
    yield from missing_names(site)
    yield from missing_c_names(site, (ROOT / "bridge/include/ars.h").read_text(encoding="utf-8"))
    yield from missing_commands(site)
    yield from spelling.complaints(site)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a built documentation site.")
    parser.add_argument("site", type=Path)
    parser.add_argument(
        "--list-external", action="store_true", help="print links to other sites, which are not followed"
    )
    arguments = parser.parse_args()
    pages = read_pages(arguments.site)
    found = list(complaints(arguments.site, pages))
    print("\n".join(found), file=sys.stderr)
    external = external_links(pages)
    if arguments.list_external:
        print("\n".join(external))
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(external)} other sites (not followed), {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
