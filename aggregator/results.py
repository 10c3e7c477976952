"""What a notebook calculates with: the names of `aggregator.collector.results`, kept short.

Also `Words`, what a release says about strings that people wrote; `documents_in`, which reads a
release; and `text_tasks_in`, which finds the text questions among a collector's tasks.
"""

from typing import TYPE_CHECKING

from aggregator.collector import results
from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.collector.results import *  # noqa: F403  # its __all__ is ours
    from aggregator.steward.text.found_strings import Words
    from aggregator.steward.text.released import documents_in
    from aggregator.steward.text.text_tasks import text_tasks_in
else:
    _texts = exports(
        "aggregator.steward.text",
        {
            "released": ("documents_in",),
            "text_tasks": ("text_tasks_in",),
            "found_strings": ("Words",),
        },
    )

    def __getattr__(name: str) -> object:
        if name.startswith("__"):  # sharing __path__ would make its modules importable twice
            raise AttributeError(name)
        return getattr(results, name) if name in results.__all__ else _texts(name)


__all__ = [*results.__all__, "Words", "documents_in", "text_tasks_in"]  # noqa: PLE0604  # the first are names, too
