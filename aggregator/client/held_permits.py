"""Signed permits in an outbox: asked for, held, and gone with the report that they let count.

What is asked for is stored before it is sent. An issuer answers once and for ever, so a permit
whose request is forgotten could not be had again.
"""

import dataclasses
import sqlite3
from collections.abc import Callable, Iterable, Sequence

from aggregator.protocol.blind_signing import Blinded
from aggregator.protocol.permit_requests import Place

Execute = Callable[..., sqlite3.Cursor]
"""Runs a statement in the transaction that is open."""


@dataclasses.dataclass(frozen=True, slots=True)
class SignedPermit:
    """A permit that is held: its opening, and the signature of its report's id."""

    opening: bytes = dataclasses.field(repr=False)
    signature: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A permit that the issuer has not answered yet."""

    place: Place
    opening: bytes = dataclasses.field(repr=False)
    blinded: Blinded


_OF = "holder = ? AND domain = ? AND window_number = ? AND number = ?"
_ANSWERED = "UPDATE permits SET opening = ?, blinded = NULL, inverse = NULL, signature = ?"


def known_places(execute: Execute, holder: str) -> set[Place]:
    """Return the places of a person that were ever asked for."""
    rows = execute("SELECT domain, window_number, number FROM permits WHERE holder = ?", (holder,))
    return {Place(bytes(domain), window, number) for domain, window, number in rows}


def ask(execute: Execute, holder: str, asked: Iterable[Asked]) -> None:
    """Store what is going to be asked for, unless the place was asked for before."""
    for each in asked:
        of = (holder, each.place.domain, each.place.window, each.place.number)
        secret = (each.opening, each.blinded.sent, each.blinded.inverse)
        execute("INSERT OR IGNORE INTO permits VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", (*of, *secret))


def unanswered(execute: Execute, holder: str) -> list[Asked]:
    """Return what a person was not answered yet, in order."""
    rows = execute(
        "SELECT domain, window_number, number, opening, blinded, inverse FROM permits "
        "WHERE holder = ? AND blinded IS NOT NULL ORDER BY domain, window_number, number",
        (holder,),
    )
    return [
        Asked(Place(domain, window, number), opening, Blinded(sent, inverse))
        for domain, window, number, opening, sent, inverse in rows
    ]


def keep(execute: Execute, holder: str, answered: Sequence[tuple[Asked, bytes | None]]) -> None:
    """Store signatures; None for what another device has, and this one never gets."""
    for each, signature in answered:
        execute(
            f"{_ANSWERED} WHERE {_OF} AND blinded = ?",
            (
                None if signature is None else each.opening,
                signature,
                holder,
                each.place.domain,
                each.place.window,
                each.place.number,
                each.blinded.sent,
            ),
        )


def held(execute: Execute, holder: str, place: Place) -> SignedPermit | None:
    """Return a permit that is held and was not used; None if there is none."""
    row = execute(
        f"SELECT opening, signature FROM permits WHERE {_OF} AND signature IS NOT NULL",  # noqa: S608  our own words
        (holder, place.domain, place.window, place.number),
    ).fetchone()
    return None if row is None else SignedPermit(*row)


def is_gone(execute: Execute, holder: str, place: Place) -> bool:
    """Return whether a permit was used, or is another device's."""
    row = execute(
        f"SELECT 1 FROM permits WHERE {_OF} AND blinded IS NULL AND signature IS NULL",  # noqa: S608  our own words
        (holder, place.domain, place.window, place.number),
    )
    return row.fetchone() is not None


def use(execute: Execute, holder: str, place: Place) -> None:
    """Take a permit out, which is in a report now."""
    execute(
        f"UPDATE permits SET opening = NULL, signature = NULL WHERE {_OF}",  # noqa: S608  our own words
        (holder, place.domain, place.window, place.number),
    )


def forget_before(execute: Execute, holder: str, domain: bytes, window: int) -> None:
    """Forget the permits of windows that are over."""
    execute(
        "DELETE FROM permits WHERE holder = ? AND domain = ? AND window_number < ?",
        (holder, domain, window),
    )
