"""Tasks whose permits are signed, the issuer's keys, and permits as people get them."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.messages import Report
from aggregator.entropy import SystemEntropy
from aggregator.issuer import Issued
from aggregator.protocol.blind_signing import blind, blind_sign, unblind
from aggregator.protocol.permit_requests import Place
from aggregator.protocol.signed_permits import EXPONENT, IssuerKeys, signed_text
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import issuer_keys_to_table
from tests.support.pair import NOW, Pair
from tests.support.permitted import DOMAIN
from tests.support.reports import make_reports
from tests.support.tasks import NO_NOISE, TASK_ID, make_task

WINDOWS = 3
Permit = tuple[bytes, bytes]
"""An opening, and a signature of its report's id."""


@cache
def private_keys() -> list[RSAPrivateKey]:
    """Return keys for some windows, which all tests of a process share."""
    return [generate_private_key(EXPONENT, 2048) for _ in range(WINDOWS)]


def moduli() -> tuple[bytes, ...]:
    return tuple(
        each.public_key().public_numbers().n.to_bytes(256, "big") for each in private_keys()
    )


def issuer_keys(first: int) -> IssuerKeys:
    return IssuerKeys(first, moduli())


def signed_task(
    task_id: TaskId = TASK_ID,
    window: int | None = 2,
    domain: bytes = DOMAIN,
    **settings: Any,  # noqa: ANN401  a task's
) -> Task:
    """Return a task whose permits are signed for the window of now and those after it."""
    privacy = {**NO_NOISE, **settings.pop("privacy", {})}
    if window is not None:
        privacy["window"] = window
    plain = make_task(privacy=privacy, **settings)
    first = plain.permit_window_at(plain.time(NOW))
    keys = issuer_keys_to_table(issuer_keys(first))
    permits = {"domain": encode_base64url(domain), **keys}
    return make_task(privacy=privacy, permits=permits, id=str(task_id), **settings)


def window_of(task: Task, seconds: int = NOW) -> int:
    return task.permit_window_at(task.time(seconds))


def signature_of(task: Task, report_id: bytes, window: int) -> bytes:
    """Have an id signed for a window, blindly, whatever window the id says."""
    assert task.permits is not None
    assert task.issuer_keys is not None
    modulus, entropy = task.issuer_keys.of_window(window), SystemEntropy()
    assert modulus is not None
    blinded = blind(modulus, signed_text(task.permits.domain, window, report_id), entropy)
    key = private_keys()[window - task.issuer_keys.first]
    return unblind(modulus, blind_sign(key, blinded.sent, entropy), blinded.inverse)


def permits_of(task: Task, count: int, seconds: int = NOW) -> list[Permit]:
    """Return permits of the window of a moment, as many people would get them."""
    assert task.permits is not None
    window = window_of(task, seconds)
    openings = [secrets.token_bytes(16) for _ in range(count)]
    return [
        (opening, signature_of(task, task.permits.report_id(opening, window), window))
        for opening in openings
    ]


async def reports_of(
    pair: Pair,
    permits: Sequence[Permit],
    measurements: Sequence[int],
    seconds: int = NOW,
    task: Task | None = None,
) -> list[Report]:
    """Make reports with permits."""
    made_for = pair.task if task is None else task
    return make_reports(
        made_for,
        *await pair.configs(),
        measurements,
        made_for.time(seconds),
        pair.client_entropy,
        [opening for opening, _ in permits],
        [signature for _, signature in permits],
    )


@asynccontextmanager
async def signed_pair(
    folder: Path,
    task: Task | None = None,
    **settings: Any,  # noqa: ANN401  a pair's
) -> AsyncIterator[Pair]:
    """Run a pair whose task takes signed permits; nothing is given to its aggregators."""
    made = Pair(folder, task or signed_task(), **settings)
    try:
        await made.provision()
        yield made
    finally:
        await made.close()


class KeptAnswers:
    """What an issuer answered, in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, Place], Issued] = {}

    def get(self, user: str, place: Place) -> Issued | None:
        return self.kept.get((user, place))

    def keep(self, user: str, place: Place, issued: Issued) -> Issued:
        return self.kept.setdefault((user, place), issued)
