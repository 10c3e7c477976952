"""Extensions of tasks, reports, aggregation jobs and collection jobs: typed byte strings in order.

All four lists have the same form and the same rule: types strictly increase. Breaking the rule has
different consequences:

- a task configuration or an aggregation job is refused whole (`DecodeError`, invalidMessage);
- a collection job is refused whole (`MisorderedCollectionExtensions`, invalidExtension);
- a report is refused alone, so its lists are read as they come: one client must not be able to
  spoil the job that its report is in. The only one that we know is a permit, in the Helper's share.

`profile` lists the types that are understood, and `protocol` refuses the others.

Source: DAP, "Task Extensions", "Report Extensions", "Aggregation Job Extensions", "Collection Job
Extensions" and "Input Share Validation".
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from struct import Struct
from typing import NamedTuple, Self

from aggregator.codec import DecodeError, Reader, Writer
from aggregator.dap.problems import InvalidExtension

_HEADER = Struct(">HH")


class Extension(NamedTuple):
    """One extension of any of the lists."""

    extension_type: int
    extension_data: bytes

    def write(self, writer: Writer) -> None:
        """Append the type and the data behind its length."""
        writer.u16(self.extension_type, "extension_type")
        writer.opaque16(self.extension_data, name="extension_data")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one extension."""
        extension_type, size = reader.unpack(_HEADER)
        return cls(extension_type, reader.fixed(size))


Extensions = tuple[Extension, ...]


class MisorderedCollectionExtensions(InvalidExtension, DecodeError):
    """A collection job whose extension types do not strictly increase."""


def read_any_order(reader: Reader) -> Extensions:
    """Take a report's list, in any order."""
    return reader.list16(Extension.read)


def read_increasing(reader: Reader) -> Extensions:
    """Take the list of a task or an aggregation job.

    Raises `DecodeError` if the types do not strictly increase.
    """
    extensions = reader.list16(Extension.read)
    if not is_increasing(extensions):
        raise reader.error(_misordered(extensions))
    return extensions


def read_collection_extensions(reader: Reader) -> Extensions:
    """Take the list of a collection job.

    Raises `MisorderedCollectionExtensions` if the types do not strictly increase.
    """
    extensions = reader.list16(Extension.read)
    if not is_increasing(extensions):
        raise MisorderedCollectionExtensions(_misordered(extensions))
    return extensions


def write_extensions(writer: Writer, extensions: Extensions) -> None:
    """Append the list as it is."""
    if extensions:
        writer.list16(extensions, name="extensions")
    else:
        writer.raw(b"\0\0")


def is_increasing(extensions: Sequence[Extension]) -> bool:
    """Return whether each type is greater than the one before it."""
    types = [extension.extension_type for extension in extensions]
    return all(a < b for a, b in pairwise(types))


def find(extensions: Sequence[Extension], extension_type: int) -> bytes | None:
    """Return the data of the first extension of that type, if any."""
    for extension in extensions:
        if extension.extension_type == extension_type:
            return extension.extension_data
    return None


def unrecognized(extensions: Sequence[Extension], recognized: AbstractSet[int]) -> tuple[int, ...]:
    """Return the types that are not `recognized`, in the list's order."""
    types = (extension.extension_type for extension in extensions)
    return tuple(kind for kind in types if kind not in recognized)


def _misordered(extensions: Sequence[Extension]) -> str:
    types = [extension.extension_type for extension in extensions]
    return f"extension types must strictly increase, not be {types[:8]}"
