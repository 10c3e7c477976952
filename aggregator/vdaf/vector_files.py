"""Test vector files as typed values; a departure from the format is a `VectorFailure`."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from aggregator.errors import AggregatorError

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

T = TypeVar("T")


class VectorFailure(AggregatorError):
    """A file does not pass.

    Attributes:
        what: What is wrong.
        operation: The step's place in the file, from 0; None if no step is at fault.
    """

    def __init__(self, what: str, operation: int | None = None) -> None:
        super().__init__(what if operation is None else f"operation {operation}: {what}")
        self.what = what
        self.operation = operation


@dataclasses.dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object whose members are read by name and type.

    Attributes:
        value: What should be an object.
        place: Where it stands, for messages.
    """

    value: Json
    place: str

    def member(self, name: str) -> Json:
        """Return a member of any type."""
        if not isinstance(self.value, dict):
            raise VectorFailure(f"{self.place} is not a JSON object")
        if name not in self.value:
            raise VectorFailure(f"{self.place} has no {name}")
        return self.value[name]

    def integer(self, name: str) -> int:
        """Return an integer."""
        return self._member_of(int, name, "not an integer")

    def boolean(self, name: str) -> bool:
        """Return true or false."""
        return self._member_of(bool, name, "neither true nor false")

    def text(self, name: str) -> str:
        """Return a string."""
        return self._member_of(str, name, "not a string")

    def byte_string(self, name: str) -> bytes:
        """Return bytes written in hexadecimal."""
        try:
            return bytes.fromhex(self.text(name))
        except ValueError as error:
            raise VectorFailure(f"{name} is not hexadecimal") from error

    def byte_strings(self, name: str) -> list[bytes]:
        """Return a list of byte strings."""
        return [JsonObject({name: item}, name).byte_string(name) for item in self.items(name)]

    def byte_string_lists(self, name: str) -> list[list[bytes]]:
        """Return a list of lists of byte strings."""
        return [JsonObject({name: item}, name).byte_strings(name) for item in self.items(name)]

    def objects(self, name: str) -> list["JsonObject"]:
        """Return a list of objects."""
        return [JsonObject(item, f"an item of {name}") for item in self.items(name)]

    def items(self, name: str) -> list[Json]:
        """Return a list."""
        return self._member_of(list, name, "not a list")

    def _member_of(self, kind: type[T], name: str, otherwise: str) -> T:
        value = self.member(name)
        if type(value) is not kind:  # true is not an integer here
            raise VectorFailure(f"{name} is {otherwise}")
        return value


def nth(items: Sequence[T], index: int, name: str) -> T:
    """Return an item of a list, counted from 0."""
    if not 0 <= index < len(items):
        raise VectorFailure(f"{name} has no item {index}")
    return items[index]
