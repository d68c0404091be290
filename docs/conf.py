"""How Sphinx builds the documentation; `make docs` runs it. The parts that are ours are in docs/ext."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "ext"))

import ars  # noqa: E402  # the installed package: what is documented is what is shipped

project = "libars"
author = "The libars authors"
copyright = author  # noqa: A001  # Sphinx's name
release = version = ars.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "command_pages",
    "failure_table",
    "header_page",
    "public_names",
    "repository",
]
exclude_patterns = ["_build", "ext", "figures"]
source_suffix = {".md": "markdown"}
smartquotes = False  # quoted names are to be copied
language = "en"  # Sphinx's search ends with an error where the language is en_GB

# A reference that leads nowhere fails the build. Those to other projects are not looked up: no network is needed.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!ars\.).*"),
    ("py:class", r"ars\.[a-z_]\S*\.\w+"),  # types of private modules, which signatures name
    ("c:.*", r"size_t|bool"),
]

# ---- Markdown --------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4  # as GitHub makes them, so that links work there too
myst_links_external_new_tab = False

# ---- Python ----------------------------------------------------------------------------------------------------------

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike", "Proposal": "Proposal"}
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
add_module_names = False
autosummary_generate = False  # numpydoc loads it
numpydoc_show_class_members = False

# ---- HTML ------------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"libars {release}"
html_static_path = ["_static"]
html_css_files = ["libars.css"]
html_favicon = "figures/logo.svg"
html_logo = "figures/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it fetches pages, which browsers refuse for files
html_last_updated_fmt = None  # the same input gives the same pages
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c9e", "color-brand-content": "#0b5c9e"},
    "dark_css_variables": {"color-brand-primary": "#7ab8ef", "color-brand-content": "#7ab8ef"},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
