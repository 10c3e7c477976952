"""What a notebook calculates with: the names of `aggregator.collector.results`, kept short."""

from typing import TYPE_CHECKING

from aggregator.collector import results

if TYPE_CHECKING:
    from aggregator.collector.results import *  # noqa: F403  # its __all__ is ours
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # with its __path__ its modules would be found twice
            raise AttributeError(name)
        return getattr(results, name)


__all__ = results.__all__
