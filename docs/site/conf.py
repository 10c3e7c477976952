"""The documentation site: every document as it lies here, and a reference from docstrings.

The source is the whole repository, of which only documents are read, so that links between them
are the same here and on the site. Nothing is fetched, and a warning is an error (`make docs`).
"""

import re
from importlib import import_module

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

import aggregator

project = "Prio aggregator"
version = release = aggregator.__version__
root_doc = "docs/site/index"
include_patterns = [
    "*.md",
    "docs/**",
    "examples/*/README.md",
    "aggregator/cli/local/data/README.md",
    "tests/constant_time/README.md",
]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "alabaster"
html_theme_options = {
    "description": "Statistics about people, nobody's answers in one place",
    "sidebar_includehidden": False,
}
html_show_sphinx = False
html_copy_source = False

lexers["mermaid"] = TextLexer()  # a diagram is shown as its text


def _as_restructured_text(
    _app: object, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Turn a docstring as we write it into what Sphinx reads, in place.

    What stands in backticks is code, an indented paragraph after an empty line is code, and a
    vertical bar is no markup.
    """
    found: list[str] = []
    before = ""
    for line in lines:
        begins = line.startswith("    ") and not (found and found[-1])
        if begins and before and not before.startswith(" "):
            found += ["::", ""]
        found.append(line)
        before = line or before
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", "\n".join(found))
    parts = re.split(r"(``[^`]+``)", text)
    lines[:] = "".join(
        part if part.startswith("``") else part.replace("|", "\\|") for part in parts
    ).split("\n")


def _load_exports(_app: object) -> None:
    """Load what packages export late: Sphinx reads only what a module has."""
    packages = ("client", "collector", "results", "survey")
    for path in ("field", *(f"aggregator.{package}" for package in packages)):
        module = import_module(path)
        for name in module.__all__:
            setattr(module, name, getattr(module, name))


def setup(app: Sphinx) -> None:
    """Have docstrings read before Napoleon, whose priority is 500, reads their sections."""
    app.connect("builder-inited", _load_exports)
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=400)
