"""Groups of tasks in which a person is in one place only, such as those of a text question.

Each task of a group names the group and its place there. A person with a report for one place never
sends one for another: clients promise that, which is why the name is bound into every report, and
no aggregator can check it. Several tasks may have one place, such as those of a question that is
asked again: a person may be in all of these.
"""

import dataclasses
from typing import Self

from aggregator.dp.decimals import integer_in
from aggregator.errors import ParameterError
from aggregator.untrusted_text import is_unsafe

_MAX_NAME_SIZE = 255
_PLACES_END = 2**32


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A task's place in a group.

    Attributes:
        name: The group's name, which must be unique worldwide: a client knows a group by nothing
            else.
        place: The task's, from 0 to 2^32 - 1.

    Raises:
        ParameterError: The name is empty, too long or not one line, or the place is out of range.
    """

    name: str
    place: int

    def __post_init__(self) -> None:
        if is_unsafe(self.name):
            raise ParameterError("group must be one line, without control characters")
        size = len(self.name.encode())
        if not 1 <= size <= _MAX_NAME_SIZE:
            raise ParameterError(f"group must be 1 to {_MAX_NAME_SIZE} bytes of UTF-8, not {size}")
        integer_in(self.place, "group_place", 0, _PLACES_END - 1)

    @classmethod
    def of(cls, name: object, place: object) -> Self | None:
        """Return the place that settings name; None if they name none.

        Raises `ParameterError` if one of them is given without the other, or is out of range.
        """
        if name is None and place is None:
            return None
        if not isinstance(name, str):
            given = "group_place: needs group" if name is None else None
            raise ParameterError(given or f"group must be text, not {name!r}")
        if place is None:
            raise ParameterError("group_place: missing; it is the task's place in the group")
        return cls(name, integer_in(place, "group_place", 0, _PLACES_END - 1))

    def settings(self) -> dict[str, str | int]:
        """Return the settings of a policy that say this."""
        return {"group": self.name, "group_place": self.place}
