"""The browser's module in one file: what lies in `browser/`, joined, without its comments.

A page that names the file by its hash gets all of it or nothing: modules that import others would
escape the hash. Nothing is renamed or rewritten, so that a reader can compare it with the source
line by line.
"""

import base64
import hashlib
import re
from importlib.resources import files

from aggregator import __version__
from aggregator.dap.profile import DAP_18, DAP_19

ORDER = (
    *("field", "transform", "xof", "bytes", "digits", "sections", "circuits", "prio3"),
    *("hpke", "task", "report", "outbox", "client"),
)
"""The files, each after those that it imports."""

PROFILES = (DAP_18, DAP_19)
"""What the module speaks: those in `browser/task.js`."""

_COMMENT = re.compile(r"^[ ]*/\*\*.*?\*/\n|^[ ]*//[^\n]*\n", re.MULTILINE | re.DOTALL)
_TRAILING = re.compile(r"[ ]+// [^\n]*$", re.MULTILINE)
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=[a-z])", re.MULTILINE)
_INDENT = re.compile(r"^\s+", re.MULTILINE)
_EXPORTED = re.compile(r"^export \{([^}]*)\}", re.MULTILINE)


def file_of(name: str) -> str:
    """Return a file of the module as it lies in the package."""
    return (files("aggregator.client") / "browser" / name).read_text("utf-8")


def joined_module() -> str:
    """Return the module as one file; the same for everybody who has this version."""
    names = ", ".join(
        name.strip()
        for group in _EXPORTED.findall(file_of("index.js"))
        for name in group.split(",")
    )
    parts = [f"/** Prio aggregator {__version__}, the client for browsers; Apache-2.0. */\n"]
    for name in ORDER:
        text = _TRAILING.sub("", _COMMENT.sub("", file_of(f"{name}.js")))
        text = _IMPORT.sub("", text)
        parts.append(_INDENT.sub("", _EXPORT.sub("", text)))
    return "".join([*parts, f"export {{ {names} }};\n"])


def integrity_of(text: str) -> str:
    """Return what `integrity=` of an element says of a text."""
    return "sha384-" + base64.b64encode(hashlib.sha384(text.encode()).digest()).decode()
