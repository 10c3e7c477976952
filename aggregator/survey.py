"""What a program imports to read a survey and its results: `aggregator.steward.survey`'s names."""

from typing import TYPE_CHECKING

from aggregator.steward import survey

if TYPE_CHECKING:
    from aggregator.steward.survey import *  # noqa: F403  # its __all__ is ours
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # with its __path__ its modules would be found twice
            raise AttributeError(name)
        return getattr(survey, name)


__all__ = survey.__all__
