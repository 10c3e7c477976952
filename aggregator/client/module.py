"""The browser's module in one file: the files of `browser/`, joined, without their comments.

A page that names one file by its hash gets exactly that code or none; a hash does not cover what a
module imports. Only what few pages need is in files of its own, which import the first: text
questions, and surveys. White space that means nothing goes, too. Nothing is renamed or rewritten,
so a reader can compare the file with the source: without white space and comments both are the
same.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files

from aggregator import __version__

ORDER = (
    *("field", "transform", "xof", "bytes", "digits", "sections", "circuits", "prio3"),
    *("hpke", "task", "report", "outbox", "client"),
)
"""The files in order: each comes after those that it imports."""

TEXT_ORDER = ("digest", "grid", "normal", "question", "spelling")
"""The files for text questions, which come after the others."""

ASKING_ORDER = ("numbers", "sheet", "clock", "asking")
"""The files for surveys whose answers are read, and whose sheet is made, as for a survey's page."""

SURVEY_ORDER = ("digest", "grid", *ASKING_ORDER, "answers", "meaning", "survey_client")
"""The files for surveys, which come after the first, too."""

LINKS_ORDER = ("digest", "permits", "link")
"""The files for personal links, which come after the first, too."""

SIGNED_ORDER = ("digest", "permits", "blind", "signed_permits")
"""The files for signed permits, which come after the first, too."""

_COMMENT = re.compile(r"^[ ]*/\*\*.*?\*/\n|^[ ]*//[^\n]*\n", re.MULTILINE | re.DOTALL)
_TRAILING = re.compile(r"[ ]+// [^\n]*$", re.MULTILINE)
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=[a-z])", re.MULTILINE)
_INDENT = re.compile(r"^\s+", re.MULTILINE)
_LITERAL = re.compile(
    r"""('(?:[^'\\\n]|\\.)*'
    |"(?:[^"\\\n]|\\.)*"
    |`[^`]*`
    |(?<=[(,=:!&|?])[ ]?/(?:[^/\\\n[]|\\.|\[(?:[^]\\\n]|\\.)*])+/\w*)""",
    re.VERBOSE,
)
"""A string, a template, or a pattern: what begins there is no division."""

_SUM = re.compile(r"(?<=[\w)\]]) ([+/-]=?) (?=[\w([])")  # of two terms: not where one has a sign
_SPACES = re.compile(r" ?([]=<>!&|^*%?:,;(){}[]+) ?")
_ENDS = re.compile(r"(?<=[;,({[}>])\n|\n(?=[])}])")  # each statement has its semicolon
_IMPORTED = re.compile(r"^import \{([^}]*)\} from '\./(\w+)\.js';", re.MULTILINE)
_EXPORTED = re.compile(r"^export \{([^}]*)\}", re.MULTILINE)


def file_of(name: str) -> str:
    """Return a file of the module as it lies in the package."""
    return (files("aggregator.client") / "browser" / name).read_text("utf-8")


def joined_module() -> str:
    """Return the module as one file; the same for everybody who has this version."""
    return _module("the client for browsers", ORDER, "index.js")


def joined_text() -> str:
    """Return the part for text questions, a module that imports the other from its own folder."""
    return _beside("text questions for browsers", TEXT_ORDER, "text.js")


def joined_survey() -> str:
    """Return the part for surveys, which imports the module likewise, and no other part."""
    return _beside("surveys for browsers", SURVEY_ORDER, "survey.js")


def joined_links() -> str:
    """Return the part for personal links, which imports the module likewise, and no other part."""
    return _beside("personal links for browsers", LINKS_ORDER, "links.js")


def joined_signed() -> str:
    """Return the part for signed permits, which imports the module likewise, and no other part."""
    return _beside("signed permits for browsers", SIGNED_ORDER, "signed.js")


def for_page(*, has_texts: bool, permits: Sequence[str] = ()) -> str:
    """Return all that the page of a survey is made with, to be put before its own script.

    `permits` are the files for links or signed permits, if the survey's tasks need those.
    """
    more = (*permits, *(TEXT_ORDER if has_texts else ()))
    return _joined((*ORDER, *ASKING_ORDER, *dict.fromkeys(more)))


def _beside(what: str, order: Sequence[str], index: str) -> str:
    names = sorted(
        {
            name
            for each in order
            for group, file in _IMPORTED.findall(file_of(f"{each}.js"))
            if file in ORDER
            for name in _names(group)
        }
    )
    imports = f"import {{ {', '.join(names)} }} from './prio.js';\n"
    return _module(what, order, index, imports)


def _module(what: str, order: Sequence[str], index: str, imports: str = "") -> str:
    names = [name for group in _EXPORTED.findall(file_of(index)) for name in _names(group)]
    head = f"/** Prio aggregator {__version__}, {what}; Apache-2.0. */\n"
    return f"{head}{imports}{_joined(order)}export {{ {', '.join(names)} }};\n"


def _joined(order: Sequence[str]) -> str:
    return "".join(compact(file_of(f"{name}.js")) for name in order)


def compact(text: str) -> str:
    """Return a file without its comments, imports and exports, and white space without meaning."""
    text = _IMPORT.sub("", _TRAILING.sub("", _COMMENT.sub("", text)))
    return without_spaces(_INDENT.sub("", _EXPORT.sub("", text))).rstrip() + "\n"


def without_spaces(text: str) -> str:
    """Return code without white space beside punctuation, except in strings and patterns."""
    parts = _LITERAL.split(text)
    parts[::2] = [_ENDS.sub("", _SPACES.sub(r"\1", _SUM.sub(r"\1", part))) for part in parts[::2]]
    return "".join(parts)


def _names(group: str) -> list[str]:
    return [name.strip() for name in group.split(",")]


def integrity_of(text: str) -> str:
    """Return the value of an element's `integrity` attribute for a text."""
    return "sha384-" + base64.b64encode(hashlib.sha384(text.encode()).digest()).decode()
