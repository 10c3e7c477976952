"""What a client asks an issuer of signed permits, and what it is answered.

    u8 version = 1, u16 n, n times { opaque domain[32], u64 window, u8 number, opaque blinded[256] }

The answer is the signatures of what was blinded, in order. It has zeros, which are no signature, in
place of those that were given out before for other bytes.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final, Self

from aggregator.codec import Reader, Writer
from aggregator.protocol.permits import DOMAIN_SIZE
from aggregator.protocol.signed_permits import SIGNATURE_SIZE

_VERSION = 1
NO_SIGNATURE: Final = bytes(SIGNATURE_SIZE)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Place:
    """Which permit of a person it is: a domain, a window, and a number below those of a person."""

    domain: bytes
    window: int
    number: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class PermitRequest:
    """Permits that one person asks for, each with what is to be signed."""

    wanted: Sequence[tuple[Place, bytes]]

    def write(self, writer: Writer) -> None:
        """Append the request."""
        writer.u8(_VERSION)
        writer.u16(len(self.wanted), "permits")
        for place, blinded in self.wanted:
            writer.fixed(place.domain, DOMAIN_SIZE, "domain")
            writer.u64(place.window, "window")
            writer.u8(place.number, "number")
            writer.fixed(blinded, SIGNATURE_SIZE, "blinded")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take a request for one or more permits, none of them twice."""
        if (version := reader.u8()) != _VERSION:
            raise reader.error(f"a request for permits of version {version} is not known")
        wanted = []
        for _ in range(reader.u16()):
            domain, window, number = reader.fixed(DOMAIN_SIZE), reader.u64(), reader.u8()
            wanted.append((Place(domain, window, number), reader.fixed(SIGNATURE_SIZE)))
        if not wanted or len({place for place, _ in wanted}) < len(wanted):
            raise reader.error("a request is for one or more permits, and for each once")
        return cls(wanted)


@dataclasses.dataclass(frozen=True, slots=True)
class PermitAnswer:
    """An issuer's signatures, in the order of what was asked."""

    signatures: Sequence[bytes]

    def write(self, writer: Writer) -> None:
        """Append the signatures."""
        writer.raw(b"".join(self.signatures))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take all signatures."""
        return cls(reader.rest(lambda rest: rest.fixed(SIGNATURE_SIZE)))
