"""A client of the tests of deaths goes on for as long as a service is being started."""

import httpx
import pytest

from tests.support import sudden_death
from tests.support.sudden_death import Patient

STARTS = 5
REQUEST = httpx.Request("GET", "http://127.0.0.1/")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Patient:
    """Return a client without any patience, of a service that is only there after a while."""
    asked = 0

    async def answer(_self: object, request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked <= STARTS:
            raise httpx.ConnectError("nobody listens", request=request)
        return httpx.Response(503 if asked <= 2 * STARTS else 200)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    monkeypatch.setattr(sudden_death, "PATIENCE_SECONDS", -1)
    return Patient(through_outages=True)


async def test_nobody_gives_up_while_something_is_being_mended(patient: Patient) -> None:
    patient.is_away = lambda: True
    assert (await patient.handle_async_request(REQUEST)).status_code == 200
    assert patient.broken_connections == {"ConnectError": STARTS}


async def test_what_nobody_mends_is_given_up(patient: Patient) -> None:
    with pytest.raises(httpx.ConnectError):
        await patient.handle_async_request(REQUEST)
