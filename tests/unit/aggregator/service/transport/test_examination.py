"""What is made of what another aggregator shows."""

import dataclasses
import email.utils
import ssl
import time

import httpx
import pytest

from aggregator.codec import encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.resources import media_type
from aggregator.errors import PeerError
from aggregator.service.transport.examination import Shown, examine, findings
from aggregator.service.transport.interpretation import PeerUnreachable
from aggregator.service.transport.peer import Peer

URL = "https://helper.example/prio/"
CONFIG = HpkeConfig(7, 0x0020, 0x0001, 0x0001, bytes(range(1, 33)))
GOOD = Shown(0.05, "TLSv1.3", 90 * 86_400.0, 0.4, 3600, HpkeConfigList((CONFIG,)))


def verdicts(shown: Shown) -> dict[str, str]:
    return {each.subject: each.verdict for each in findings(shown, 0.0, 300)}


def test_what_is_in_order_is_ok() -> None:
    assert set(verdicts(GOOD).values()) == {"ok"}


@pytest.mark.parametrize(
    ("change", "subject", "verdict"),
    [
        ({"seconds": 3.0}, "answer", "look"),
        ({"tls": None, "certificate_ends_at": None}, "TLS", "look"),
        ({"certificate_ends_at": 13 * 86_400.0}, "TLS", "look"),
        ({"ahead_seconds": None}, "clock", "look"),
        ({"ahead_seconds": -60.0}, "clock", "look"),
        ({"ahead_seconds": 301.0}, "clock", "fault"),
        ({"ahead_seconds": -301.0}, "clock", "fault"),
        ({"configs": None}, "HPKE", "fault"),
        (
            {"configs": HpkeConfigList((dataclasses.replace(CONFIG, kem_id=0x0010),))},
            "HPKE",
            "fault",
        ),
    ],
)
def test_what_is_not_is_named(change: dict[str, object], subject: str, verdict: str) -> None:
    judged = verdicts(dataclasses.replace(GOOD, **change))  # type: ignore[arg-type]  # one of its own
    assert judged == {**verdicts(GOOD), subject: verdict}


async def test_clock_keys_and_cache_are_read_from_one_resource() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == URL + "hpke_config"
        return httpx.Response(
            200,
            content=encode(HpkeConfigList((CONFIG,))),
            headers={
                "content-type": media_type(HpkeConfigList.message),
                "cache-control": "max-age=1234",
                "date": email.utils.formatdate(time.time() + 100, usegmt=True),
            },
        )

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        shown = await examine(http, Peer(http, URL), URL)
    assert shown.configs == HpkeConfigList((CONFIG,))
    assert shown.cache_seconds == 1234
    assert shown.ahead_seconds == pytest.approx(100, abs=2)
    assert shown.tls is None


async def test_a_refused_certificate_is_named_with_its_reason() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:

        fault = ssl.SSLCertVerificationError(1, "certificate verify failed")
        fault.verify_message = "certificate has expired"
        raise httpx.ConnectError("it failed", request=request) from fault

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        with pytest.raises(PeerUnreachable, match="its certificate is refused: certificate has"):
            await examine(http, Peer(http, URL, attempts=1), URL)


@pytest.mark.parametrize("fault", [httpx.ReadError("reset"), httpx.InvalidURL("x"), TimeoutError()])
async def test_whoever_answers_only_once_is_named(fault: Exception) -> None:
    asked = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise fault
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        with pytest.raises(PeerError, match=f"{URL} answers once, and not again"):
            await examine(http, Peer(http, URL, attempts=1), URL)
