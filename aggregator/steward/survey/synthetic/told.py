"""What a synthetic table is of: its windows, what people are promised, and the releases."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, time

from aggregator.collector.results import Batch
from aggregator.steward.survey.write_meaning import Meaning


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What a synthetic table is of, for everybody who sees it.

    Attributes:
        windows: Its windows, for a reader.
        starts: When they begin, as times that an upload reads.
        guarantee: What people are promised.
        releases: The identifiers of what was released.
    """

    windows: tuple[str, ...]
    starts: tuple[str, ...]
    guarantee: str
    releases: tuple[str, ...]

    @classmethod
    def of(
        cls, meaning: Meaning, batches: Sequence[Batch], guarantee: str, windows: tuple[str, ...]
    ) -> "Told":
        """Return what is told of some windows of a survey, which have these names."""
        starts = sorted({start_of(meaning, batch) for batch in batches})
        return cls(
            windows,
            tuple(
                each.date().isoformat() if each.time() == time() else each.isoformat()
                for each in starts
            ),
            guarantee,
            tuple(map(release_of, batches)),
        )


def start_of(meaning: Meaning, batch: Batch) -> datetime:
    """Return when the window of a batch begins."""
    return meaning.windows.start(datetime.fromtimestamp(batch.start, UTC))


def release_of(batch: Batch) -> str:
    """Return what tells a release from any other: its own identifier, after its task's."""
    for value in batch.shown:
        for source in value.sources():
            match source.key:
                case (task, release, *_):
                    return f"{task} {release}"
                case _:
                    continue
    return ""
