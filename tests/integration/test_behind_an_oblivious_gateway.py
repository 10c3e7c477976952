"""Clients reach both aggregators through a relay that sees sealed bytes alone, and a gateway that
sees no client's address (RFC 9458). Neither needs anything of the aggregators."""

import httpx

from aggregator.dap.messages import UploadErrors
from tests.support.oblivious import Gateway, ObliviousTransport
from tests.support.pair import Pair, pair_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import HELPER_URL, LEADER_URL, NO_NOISE

pair = pair_of(vdaf={"type": "Prio3Histogram", "length": 4}, privacy=NO_NOISE)


async def test_keys_and_uploads_are_served_behind_an_oblivious_gateway_as_they_are(
    pair: Pair,
) -> None:
    of_clients = (
        f"GET {LEADER_URL}hpke_config",
        f"GET {HELPER_URL}hpke_config",
        f"POST {pair.url_of('reports')}",
    )
    direct = pair.http
    gateway, relayed = Gateway(direct, of_clients), bytearray()

    async def relay(sealed: bytes) -> bytes:
        answer = await gateway.answer(sealed)
        relayed.extend(sealed + answer)
        return answer

    transport = ObliviousTransport(gateway.public_key, relay)
    pair.http = httpx.AsyncClient(transport=transport, timeout=PATIENCE_SECONDS)
    try:
        configs = await pair.configs()
        reports = await pair.reports([1, 2, 2, 3])
        assert await pair.upload(reports) == UploadErrors(())
        assert await pair.upload(reports[:1]) == UploadErrors(()), "sent again, it counts once"
        assert (await pair.send("POST", pair.url_of("collection_jobs"))).status == 403
    finally:
        await pair.http.aclose()
        pair.http = direct
    for of_a_request in (
        b"hpke_config",
        str(pair.task.task_id).encode(),
        *(each.public_key for each in configs),
        *(each.report_metadata.report_id.value for each in reports),
    ):
        assert of_a_request not in relayed
    assert (await pair.collect()).values == (0, 1, 2, 1)
