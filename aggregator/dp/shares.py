"""The shares of sections in a policy, run by run: as text, and as bytes.

In text a run is `10x1/110`, ten sections of a share of 1/110 each, or `1/2`, one; runs are
separated by spaces. Neighbouring runs have different shares, so there is one spelling.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from aggregator.codec import Reader, Writer
from aggregator.dp.by_section import MAX_SHARES, Shares
from aggregator.dp.rationals import MAX_RATIONAL_TEXT, format_rational, parse_rational
from aggregator.errors import ParameterError

_COUNT = re.compile(r"[1-9][0-9]{0,4}")


def shares_of_text(value: object) -> Shares:
    """Return the shares that a text names; a malformed run is a ParameterError that names it."""
    if not isinstance(value, str):
        raise ParameterError(f"shares must be text, such as '2x1/4 1/2', not {value!r}")
    shares: list[Fraction] = []
    for run in value.split():
        count, times, share = run.rpartition("x")
        if times and _COUNT.fullmatch(count) is None:
            raise ParameterError(f"shares: {run[:40]!r}: the number before x must be 1 to 65535")
        shares += _checked(int(count) if times else 1, parse_rational(share, "shares"), shares)
    return tuple(shares)


def text_of_shares(shares: Shares) -> str:
    """Return the canonical text of shares."""
    return " ".join(
        f"{count}x{format_rational(share)}" if count > 1 else format_rational(share)
        for count, share in _runs(shares)
    )


def write_shares(writer: Writer, shares: Shares) -> None:
    """Append shares: the number of runs (two bytes), and each one's sections (two) and share."""
    runs = list(_runs(shares))
    writer.u16(len(runs))
    for count, share in runs:
        writer.u16(count)
        writer.opaque8(format_rational(share).encode(), maximum=MAX_RATIONAL_TEXT, name="rational")


def read_shares(reader: Reader) -> Shares:
    """Take shares off `reader`.

    Raises `DecodeError` if there are not enough bytes; `ParameterError` if a share is invalid, or
    there are too many.
    """
    shares: list[Fraction] = []
    for _ in range(reader.u16()):
        count = reader.u16()
        shares += _checked(count, parse_rational(reader.text8("share"), "shares"), shares)
    return tuple(shares)


def _checked(count: int, share: Fraction, before: list[Fraction]) -> Iterable[Fraction]:
    if len(before) + count > MAX_SHARES:
        raise ParameterError(f"shares: there must be at most {MAX_SHARES}")
    return [share] * count


def _runs(shares: Shares) -> Iterator[tuple[int, Fraction]]:
    return ((len(list(run)), share) for share, run in itertools.groupby(shares))
