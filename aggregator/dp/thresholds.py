"""Which buckets of a noised histogram are shown: those above a threshold.

Thresholding is post-processing, so it costs no privacy at any threshold. It serves another promise:
with truncated noise and a threshold of 2k, a bucket that nobody chose is never shown, if both
aggregators follow the protocol.

Source: [DVGM22], "Combining public and private partitions".
"""

import dataclasses
from collections.abc import Sequence
from typing import Self

from aggregator.codec import Reader, Writer
from aggregator.dp.decimals import integer_in
from aggregator.dp.mechanisms import Mechanism
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit

_MULTIPLES = {"k": 1, "2k": 2}
LARGEST_THRESHOLD = 2**63 - 1
_ALWAYS_SHOWN = 2**64 - 1
"""Stands for "no threshold" in bytes; a threshold is below 2^63."""


@dataclasses.dataclass(frozen=True, slots=True)
class Thresholds:
    """A bucket is shown if its noised count is above its threshold.

    Attributes:
        private: For buckets that not everyone knows of: "2k", or "k" if only one aggregator adds
            noise, where k is the bound of truncated noise; or a number.
        public: For buckets that were declared public: any number, or None to show them all.
        public_buckets: Which buckets those are, in ascending order.
    """

    private: str | int
    public: int | None = None
    public_buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.private, str):
            if self.private not in _MULTIPLES:
                raise ParameterError(
                    f'private_threshold must be "k", "2k" or a whole number, not {self.private!r}'
                )
        else:
            integer_in(self.private, "private_threshold", 0, LARGEST_THRESHOLD)
        if self.public is not None:
            integer_in(self.public, "public_threshold", 0, LARGEST_THRESHOLD)
        if list(self.public_buckets) != sorted(set(self.public_buckets)):
            raise ParameterError("public_buckets must be in ascending order, each one once")
        if any(not 0 <= bucket < 2**32 for bucket in self.public_buckets):
            raise ParameterError("public_buckets must be from 0 to 2^32 - 1")

    @classmethod
    def from_settings(cls, values: dict[str, object], mechanism: Mechanism) -> Self | None:
        """Take thresholds out of settings, or raise `ParameterError`; None if there are none."""
        private = values.pop("private_threshold", mechanism.default_private_threshold)
        public = values.pop("public_threshold", None)
        buckets = values.pop("public_buckets", "")
        if private == "none":
            if public is not None or buckets:
                raise ParameterError(
                    "private_threshold: missing; with public buckets, the others need one"
                )
            return None
        if not isinstance(private, str | int) or isinstance(private, bool):
            raise ParameterError(
                f"private_threshold must be text or a whole number, not {private!r}"
            )
        if public is not None:
            public = integer_in(public, "public_threshold", 0, LARGEST_THRESHOLD)
        if not isinstance(buckets, str) or not all(map(str.isdecimal, buckets.split())):
            raise ParameterError(
                f'public_buckets must be bucket numbers with spaces between, "0 3", not {buckets!r}'
            )
        return cls(private, public, tuple(map(int, buckets.split())))

    def settings(self) -> dict[str, str | int]:
        """Return the settings that `from_settings` takes."""
        settings: dict[str, str | int] = {"private_threshold": self.private}
        if self.public is not None:
            settings["public_threshold"] = self.public
        if self.public_buckets:
            settings["public_buckets"] = " ".join(map(str, self.public_buckets))
        return settings

    def write(self, writer: Writer) -> None:
        """Append the encoding."""
        writer.opaque8(str(self.private).encode(), name="private_threshold")
        writer.u64(_ALWAYS_SHOWN if self.public is None else self.public)
        buckets = Writer()
        for bucket in self.public_buckets:
            buckets.u32(bucket)
        writer.opaque16(buckets.getvalue(), name="public_buckets")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the thresholds off `reader`; raises `ParameterError` too."""
        private = reader.text8("private_threshold")
        public = reader.u64()
        block = Reader(reader.opaque16(name="public_buckets"))
        return cls(
            private=int(private) if private.isdecimal() else private,
            public=None if public == _ALWAYS_SHOWN else public,
            public_buckets=block.rest(Reader.u32),
        )

    def of_buckets(self, circuit: Circuit, mechanism: Mechanism) -> list[int | None]:
        """Return each bucket's threshold; None if it is always shown.

        Raises `ParameterError` if a public bucket does not exist, or "k" is used with unbounded
        noise.
        """
        if self.public_buckets and self.public_buckets[-1] >= circuit.output_len:
            raise ParameterError(
                f"public_buckets: there is no bucket {self.public_buckets[-1]}, "
                f"the last is {circuit.output_len - 1}"
            )
        private = self._private_threshold(circuit, mechanism)
        public = set(self.public_buckets)
        return [self.public if j in public else private for j in range(circuit.output_len)]

    def select(
        self, values: Sequence[int], circuit: Circuit, mechanism: Mechanism
    ) -> list[int | None]:
        """Return the values above their thresholds, None in place of the others.

        Values are centred: -3 read as p - 3 would exceed every threshold.
        """
        limits = self.of_buckets(circuit, mechanism)
        return [
            value if limit is None or value > limit else None
            for value, limit in zip(values, limits, strict=True)
        ]

    def _private_threshold(self, circuit: Circuit, mechanism: Mechanism) -> int:
        if isinstance(self.private, int):
            return self.private
        bound = mechanism.bound(circuit)
        if bound is None:
            raise ParameterError(
                f'private_threshold "{self.private}" needs a mechanism whose noise has a bound k; '
                f"{mechanism.name} has none"
            )
        return _MULTIPLES[self.private] * bound
