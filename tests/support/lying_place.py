"""A place of objects that, for as long as it lies, answers wrongly for the objects that it has."""

import dataclasses
from collections.abc import Callable, Sequence

Lie = Callable[[bytes], bytes | None]
"""What is answered instead of an object; None for one that is not there."""

LIES: dict[str, Lie] = {
    "a page of HTML": lambda _: b"<!doctype html><title>We will be back soon</title>" * 20,
    "half a body": lambda body: body[: len(body) // 2],
    "an empty body": lambda _: b"",
    "not there": lambda _: None,
    "one byte changed": lambda body: body[:100] + bytes([body[100] ^ 1]) + body[101:],
    "one byte less": lambda body: body[:-1],
    "twice the body": lambda body: body * 2,
    "zeros of the same length": lambda body: bytes(len(body)),
}


@dataclasses.dataclass(slots=True)
class LyingPlace:
    """A folder or bucket in memory.

    Attributes:
        lie: What it answers for an object, if it lies.
        lies_left: For how many more requests it lies.
        puts_lie: What it stores instead of an object, if it lies about that.
        stored: The objects.
    """

    name: str = "s3://reports/leader"
    may_be_covered: bool = False
    lie: Lie | None = None
    lies_left: int = 10**9
    puts_lie: Lie | None = None
    stored: dict[str, bytes] = dataclasses.field(default_factory=dict)

    def put(self, name: str, content: bytes) -> None:
        """Store an object, or something else."""
        kept = content if self.puts_lie is None else self.puts_lie(content)
        if kept is not None:
            self.stored[name] = kept

    def get(self, name: str, most: int) -> bytes | None:  # noqa: ARG002  it lies as it likes
        """Return an object, or something else."""
        found = self.stored.get(name)
        if found is None or self.lie is None or not self.lies_left:
            return found
        self.lies_left -= 1
        return self.lie(found)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects."""
        for name in names:
            self.stored.pop(name, None)
