"""Examines another aggregator by asking for its HPKE configurations, as anybody may.

The answer shows its certificate, its clock (`Date`), its keys, and how long they may be cached:
enough to tell before the first report whether two parties can work together.
"""

import dataclasses
import email.utils
import re
import ssl
import time
from collections.abc import Iterator
from typing import Any, Literal

import anyio
import httpx

from aggregator.codec import DecodeError, decode
from aggregator.dap.hpke import HpkeConfigList
from aggregator.dap.resources import path
from aggregator.errors import PeerError
from aggregator.service.transport.interpretation import cause_of
from aggregator.service.transport.peer import Peer

CERTIFICATE_DAYS = 14
"""A certificate that expires sooner should be renewed now."""

SLOW_SECONDS = 2.0

Verdict = Literal["ok", "look", "fault"]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined.

    Attributes:
        verdict: Whether it is in order, needs a person's attention, or keeps the parties apart.
        subject: What was examined.
        says: What was found.
    """

    verdict: Verdict
    subject: str
    says: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """What an aggregator shows.

    Attributes:
        seconds: How long its answer took.
        tls: The protocol's version; None over plain HTTP.
        certificate_ends_at: In seconds since the Unix epoch; None if the library does not say.
        ahead_seconds: How far its clock is ahead of ours, give or take half a second and half of
            `seconds`; None if it names no time.
        cache_seconds: How long its configurations may be cached; None if it does not say.
        configs: Its HPKE configurations; None if they cannot be read.
    """

    seconds: float
    tls: str | None
    certificate_ends_at: float | None
    ahead_seconds: float | None
    cache_seconds: int | None
    configs: HpkeConfigList | None


async def examine(http: httpx.AsyncClient, peer: Peer, endpoint: str) -> Shown:
    """Ask the aggregator at `endpoint`, which `peer` also reaches.

    Raises:
        PeerError: It does not answer, or refuses.
    """
    answer = await peer.get(path("hpke_config"))  # its error names the cause if there is no answer
    url = httpx.URL(endpoint).join(path("hpke_config").removeprefix("/"))
    asked_at, asked = time.time(), time.monotonic()
    try:
        with anyio.fail_after(http.timeout.read):
            async with http.stream("GET", url, follow_redirects=False) as response:
                seconds = time.monotonic() - asked
                stream = response.extensions.get("network_stream")
                tls: Any = None if stream is None else stream.get_extra_info("ssl_object")
                headers = response.headers
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise PeerError(f"{endpoint} answers once, and not again: {cause_of(error)}") from error
    kept = re.search(r"max-age=(\d{1,9})", headers.get("cache-control", ""))
    try:
        configs = decode(HpkeConfigList, answer.carried(HpkeConfigList.message))
    except DecodeError:
        configs = None
    return Shown(
        seconds=seconds,
        tls=None if tls is None else tls.version(),
        certificate_ends_at=None if tls is None else _end(tls.getpeercert() or {}),
        ahead_seconds=_ahead(headers.get("date", ""), asked_at + seconds / 2),
        cache_seconds=None if kept is None else int(kept[1]),
        configs=configs,
    )


def findings(shown: Shown, now: float, clock_skew_seconds: int) -> Iterator[Finding]:
    """Judge what an aggregator shows.

    Args:
        shown: What it shows.
        now: Seconds since the Unix epoch by our clock.
        clock_skew_seconds: How far the two clocks may differ.
    """
    is_slow = shown.seconds > SLOW_SECONDS
    yield Finding("look" if is_slow else "ok", "answer", f"within {1000 * shown.seconds:.0f} ms")
    if shown.tls is None:
        yield Finding("look", "TLS", "none: everybody on the way can read and change what is sent")
    elif shown.certificate_ends_at is None:
        yield Finding("ok", "TLS", shown.tls)
    else:
        days = (shown.certificate_ends_at - now) / 86_400
        verdict: Verdict = "ok" if days >= CERTIFICATE_DAYS else "look"
        yield Finding(verdict, "TLS", f"{shown.tls}, a certificate for {days:.0f} more days")
    yield _of_clock(shown.ahead_seconds, clock_skew_seconds)
    if shown.configs is None:
        yield Finding("fault", "HPKE", "its configurations cannot be read: it speaks another draft")
        return
    try:
        preferred = shown.configs.preferred().id
    except DecodeError as error:
        yield Finding("fault", "HPKE", str(error))
        return
    kept = "unknown" if shown.cache_seconds is None else f"{shown.cache_seconds:,} s"
    yield Finding(
        "ok",
        "HPKE",
        f"{len(shown.configs.configs)} keys, new reports are sealed to {preferred}; "
        f"clients may keep them for: {kept}",
    )


def _of_clock(ahead: float | None, allowed: int) -> Finding:
    if ahead is None:
        return Finding("look", "clock", "it names no time")
    says = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"
    if abs(ahead) > allowed:
        return Finding("fault", "clock", f"{says}, and at most {allowed} s are allowed for")
    return Finding("ok" if abs(ahead) <= max(2, allowed / 10) else "look", "clock", says)


def _end(certificate: dict[str, Any]) -> float | None:
    ends = certificate.get("notAfter")
    return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None


def _ahead(date: str, now: float) -> float | None:
    try:
        there = email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return there + 0.5 - now  # whole seconds, rounded down
