"""From a page to a file: jinja2 and one template. The file asks for nothing over the network."""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Final

from ars.report.page import Page
from ars.results.export import library_version
from ars.store.files import write_whole

if TYPE_CHECKING:
    import jinja2

__all__ = ["render", "report_needed", "write"]

_CODE: Final = re.compile(r"`([^`\n]+)`")


def report_needed() -> None:
    """Raises ImportError, with what to do, unless reports can be made here."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise ImportError("reports need jinja2: pip install 'libars[report]'") from error


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2
    from markupsafe import Markup, escape

    def inline(text: str) -> Markup:
        """Escaped text, in which backticks mark code."""
        return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ars.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline"] = inline
    return environment


def render(page: Page) -> str:
    """Make one HTML document of a page.

    Parameters
    ----------
    page : Page

    Returns
    -------
    str
        With styles, scripts and pictures inside.

    Raises
    ------
    ImportError
        If jinja2 is missing.
    """
    report_needed()
    return _environment().get_template("page.html").render(page=page, version=library_version())


def write(page: Page, path: str | os.PathLike[str]) -> None:
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    page : Page
    path : path
        The file; an existing one is replaced.

    Raises
    ------
    ImportError
        If jinja2 is missing.
    StorageError
        If the file cannot be written. A file that was there before is unchanged.
    """
    write_whole(path, [render(page).encode()])
