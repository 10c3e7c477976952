"""Each setting has an effect: something outside the settings reads it.

A read is `settings.NAME`, by whatever ends in `settings` or is a `Reading`'s `now`, in a module
that imports a party's settings: in others it may be another value of that name. A property of the
settings reads what it is made of, if it is itself read; their checks of each other do not count.
"""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import aggregator
from tests.support.reference import CLASSES

PACKAGE = Path(aggregator.__file__).parent
OWN = {*(PACKAGE / "service" / "config").glob("*_settings.py")}
KINDS = {"AnySettings", *(kind.__name__ for kind in CLASSES.values())}


@functools.cache
def with_settings(source: str) -> ast.Module | None:
    """Return what a module that imports settings says; None for others, most of them unread."""
    if not any(kind in source for kind in KINDS):
        return None
    tree = ast.parse(source)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = {alias.name for node in imports for alias in node.names}
    return tree if KINDS & names else None


def attributes_of(tree: ast.AST, owners: Iterable[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            if owner.endswith(tuple(owners)):
                yield node.attr


def properties(tree: ast.Module) -> Mapping[str, set[str]]:
    """Return what each property of the settings reads of them, in whichever class."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            if "property" in marks:
                found[node.name] |= set(attributes_of(node, ["self"]))
    return found


def unread(names: Iterable[str], sources: Iterable[str], own: str) -> set[str]:
    trees = [tree for tree in map(with_settings, sources) if tree is not None]
    read = {name for tree in trees for name in attributes_of(tree, ["settings", "now"])}
    made_of = properties(ast.parse(own))
    while more := {name for each in read & made_of.keys() for name in made_of[each]} - read:
        read |= more
    return set(names) - read


def test_something_reads_every_setting() -> None:
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if path not in OWN]
    names = {name for kind in CLASSES.values() for name in kind.model_fields}
    own = "\n".join(path.read_text() for path in OWN)
    assert unread(names, sources, own) == set()
    assert unread({*names, "planted"}, sources, own) == {"planted"}


def test_a_setting_that_only_checks_and_unread_properties_read_is_found() -> None:
    own = """
class LeaderSettings:
    @property
    def made(self): return self.first
    @property
    def unused(self): return self.second
    def _agree(self): return self.third
"""
    user = "from aggregator.service.config import LeaderSettings\ndef f(settings): settings.made"
    stranger = "def f(settings): settings.third"
    assert unread(["first", "second", "third"], [user, stranger], own) == {"second", "third"}
