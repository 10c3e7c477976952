"""How many people were invited to each window of a task, by the lists that aggregators count by.

Lists hold hashes alone. A collector with one learns how many people were invited, and nothing else.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from aggregator.codec import DecodeError
from aggregator.errors import ParameterError
from aggregator.protocol.permit_lists import read_lists
from aggregator.protocol.task import Task
from aggregator.service.telemetry.lines import log

Permits = Mapping[bytes, Mapping[int, int]]
"""How many permits there are for each window of each domain."""


def permits_in(files: Iterable[Path]) -> Permits:
    """Count the permits of files of lists; what several of them have counts once.

    Raises `ParameterError`, which names the file, if one is no list, or cannot be read.
    """
    entries: dict[bytes, dict[int, set[bytes]]] = {}
    for file in files:
        try:
            lists = read_lists(file.read_bytes())
        except (DecodeError, OSError) as error:
            raise ParameterError(f"{file}: {error}") from None
        for each in lists:
            of_domain = entries.setdefault(each.domain, {})
            for window, some in each.windows.items():
                of_domain.setdefault(window, set()).update(some)
    return {
        domain: {window: len(some) for window, some in of_domain.items()}
        for domain, of_domain in entries.items()
    }


def invited_to(task: Task, start: int, permits: Permits) -> int | None:
    """Return how many people were invited to the window that begins at a second of `task`.

    None if no list is of the task: nobody was invited, an issuer signs its permits, or the lists
    are elsewhere.
    """
    if task.permits is None or task.permits.domain not in permits:
        return None
    window = task.permit_window_at(task.time(start))
    found = permits[task.permits.domain].get(window, 0)
    return found // task.policy.max_reports_per_person


class PermitLists:
    """The lists in a folder, files `*.list`, which are read again when one has changed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._seen: object = None
        self._permits: Permits = {}

    def permits(self) -> Permits:
        """Return what `permits_in` does; of files of which one is no list, what was there before.

        That is logged.
        """
        if self._folder is None:
            return {}
        try:
            stats = [(each, each.stat()) for each in sorted(self._folder.glob("*.list"))]
            seen = [(each, stat.st_mtime_ns, stat.st_size) for each, stat in stats]
            if seen != self._seen:
                self._seen = seen
                self._permits = permits_in(each for each, _ in stats)
        except (ParameterError, OSError) as error:
            log.warning("a list of permits cannot be read", reason=str(error))
        return self._permits
