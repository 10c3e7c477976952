"""Packages that load one of their modules when the first of its names is used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def exports(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return a package's `__getattr__`.

    Args:
        package: Its `__name__`.
        homes: The names that it exports, by the module that has them. No name may be that of such a
        module: importing the module would replace the name.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
