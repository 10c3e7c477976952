"""The names of `aggregator.steward.survey`, for programs that read a survey and its results."""

from typing import TYPE_CHECKING

from aggregator.steward import survey

if TYPE_CHECKING:
    from aggregator.steward.survey import *  # noqa: F403  # its __all__ is ours
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # sharing __path__ would make its modules importable twice
            raise AttributeError(name)
        return getattr(survey, name)


__all__ = survey.__all__
