"""What an index shows of the package: where it comes from, and a README whose links lead there.

Links within the repository are dead on an index, and the repository itself does not know where it
is hosted. So whoever publishes a version says it: `PRIO_SOURCE_URL=https://…/blob/v0.1.0`. Without
that, the package has the README's words, and only links to elsewhere.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

URLS = {
    "DAP": "https://datatracker.ietf.org/doc/draft-ietf-ppm-dap/",
    "VDAF": "https://datatracker.ietf.org/doc/draft-irtf-cfrg-vdaf/",
}
"""What anybody can look up of the protocol, wherever the source is."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def on_an_index(readme: str, source: str = "") -> str:
    """Return a README with links that work outside its repository.

    Args:
        readme: Its text, in Markdown.
        source: Where the files of this version are shown, without a slash at its end. If not given,
            links to them are their words alone, and pictures what stands for them.
    """

    def leading(found: re.Match[str]) -> str:
        mark, words, path = found.groups()
        if not source:
            return f"*{words}*" if mark else words
        # Hosts show a file's page at one address, and the picture in it at another.
        base = re.sub(r"/(blob|src)/", "/raw/", source, count=1) if mark else source
        return f"{mark}[{words}]({base}/{path})"

    return _LINK.sub(leading, readme)


class PackageMetadata(MetadataHookInterface):
    """Fills in `readme` and `urls` of `pyproject.toml`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both in a project's metadata, or raise ValueError if the source is no https URL."""
        source = os.environ.get("PRIO_SOURCE_URL", "").removesuffix("/")
        if source and not re.fullmatch(r"https://[^\s()]+", source):
            raise ValueError(f"PRIO_SOURCE_URL: must be an https:// URL, not {source!r}")
        text = on_an_index((Path(self.root) / "README.md").read_text("utf-8"), source)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = URLS | ({"Source": source} if source else {})
