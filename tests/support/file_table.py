"""The table of files in docs/architecture.md, made from the modules' own first lines.

`python -m tests.support.file_table` writes it anew.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"
START = "<!-- files: python -m tests.support.file_table writes this table -->\n"
END = "<!-- end of files -->\n"


def file_table() -> str:
    """Return a row for each module that is more than re-exports, with its one responsibility."""
    rows = ["| file | its one responsibility |", "| --- | --- |"]
    for package in ("field", "aggregator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name in ("__init__.py", "__main__.py") or "versions" in path.parts:
                continue
            summary = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0]
            rows.append(f"| `{path.relative_to(ROOT)}` | {' '.join(summary.split())} |")
    return "\n".join(rows) + "\n"


def with_table(document: str) -> str:
    """Return a document with the table between its marks written anew."""
    before, _, rest = document.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{file_table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text("utf-8")), "utf-8")
