"""The permits with which `prio load` sends reports, listed or signed."""

import dataclasses
import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from aggregator.cli.local.load_stack import Stack

if TYPE_CHECKING:
    from aggregator.issuer import PrivateKeys
    from aggregator.protocol.task import Task


class Permits(StrEnum):
    """How reports of a task are permitted."""

    LISTED = "listed"
    SIGNED = "signed"


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """The permits of some reports: openings, and signatures where they are signed."""

    openings: Sequence[bytes] = dataclasses.field(repr=False)
    signatures: Sequence[bytes] | None = dataclasses.field(default=None, repr=False)

    def between(self, first: int, end: int) -> Self:
        """Return those of the reports from `first` to before `end`."""
        signed = None if self.signatures is None else self.signatures[first:end]
        return type(self)(self.openings[first:end], signed)


def keys_of(permits: Permits | None) -> "PrivateKeys | None":
    """Return the key of signed permits, for a task without windows."""
    from aggregator.issuer import new_keys

    return new_keys(0, 1) if permits is Permits.SIGNED else None


def task_tables(permits: Permits | None, keys: "PrivateKeys | None") -> dict[str, Any]:
    """Return what a task says of its permits, if it needs some."""
    from aggregator.dap.ids import encode_base64url
    from aggregator.protocol.task_file import issuer_keys_to_table

    if permits is None:
        return {}
    signed = {} if keys is None else issuer_keys_to_table(keys.public)
    return {"permits": {"domain": encode_base64url(secrets.token_bytes(32)), **signed}}


def given_out(stack: Stack, task: "Task", keys: "PrivateKeys | None", count: int) -> Given | None:
    """Make a permit for each report: in a list for both aggregators, or signed."""
    permits = task.permits
    if permits is None:
        return None
    openings = [secrets.token_bytes(16) for _ in range(count)]
    ids = [permits.report_id(each) for each in openings]
    if keys is not None:
        return Given(openings, _signed(permits.domain, keys, ids))
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.protocol.permit_lists import listed
    from aggregator.service.storage.operator.permits import add_permits

    entries = listed(permits.domain, {0: [permits.entry(each) for each in ids]})
    for party in ("leader", "helper"):
        with open_aggregator(stack.folder.config(party)) as there:
            add_permits(there.database, entries)
    return Given(openings)


def _signed(domain: bytes, keys: "PrivateKeys", ids: Sequence[bytes]) -> list[bytes]:
    """Sign openly: nobody is behind these, and aggregators see no difference."""
    from aggregator.protocol.signed_permits import scheme, signed_text

    (key,) = keys.keys
    return [key.sign(signed_text(domain, 0, each), *scheme()) for each in ids]
