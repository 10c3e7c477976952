"""What changed from one result of a question to the next, as far as the noise lets us conclude."""

import dataclasses
from collections.abc import Sequence

from aggregator.collector.results import compare_all
from aggregator.steward.survey import Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """What can be said of all main figures at once, at 95 % confidence.

    At this confidence, those in `rose` rose and those in `fell` fell. Of those in `open` nothing
    can be concluded, not even that they are equal.
    """

    before: str
    rose: Sequence[str]
    fell: Sequence[str]
    open: Sequence[str]

    @property
    def is_of_one(self) -> bool:
        """Whether only one figure was compared."""
        return len(self.rose) + len(self.fell) + len(self.open) == 1

    @property
    def document(self) -> dict[str, object]:
        """The same as JSON."""
        return {
            "since": self.before,
            "rose": list(self.rose),
            "fell": list(self.fell),
            "cannot_be_concluded": list(self.open),
        }


def changed(before: Sequence[Figure], latest: Sequence[Figure], period: str) -> Changed | None:
    """Compare the figures that both results have; None if there are none."""
    earlier = {(each.shows, each.quantity.label): each.quantity for each in before}
    both = [
        (each.quantity, earlier[each.shows, each.quantity.label])
        for each in latest
        if (each.shows, each.quantity.label) in earlier
    ]
    if not both:
        return None
    found: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for each in compare_all(both):
        found[each.is_larger].append(each.first)
    return Changed(period, found[True], found[False], found[None])
