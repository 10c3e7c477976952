"""A task with other habits than ours is served: its key's id, its tokens' header, its bytes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.dap.auth import TokenHeader
from aggregator.dap.ids import encode_base64url
from aggregator.protocol.task_file import task_from_table, task_to_table
from aggregator.service.storage.engine import tables
from tests.support.between import Between
from tests.support.pair import Pair
from tests.support.tasks import make_task

KEY_ID = 5


@pytest.fixture(name="pair")
async def _pair(tmp_path: Path) -> AsyncIterator[Pair]:
    table = task_to_table(make_task(min_batch_size=1))
    del table["task_info"]
    table |= {
        "task_info_bytes": encode_base64url(b"\xff\0theirs"),
        "token_header": TokenHeader.DAP_AUTH_TOKEN.value,
    }
    made = Pair(tmp_path, task_from_table(table))
    await made.provision()
    for service in (made.leader, made.helper):
        await service.database.run(
            "another id",
            lambda tx: tx.connection.execute(tables.tasks.update().values(verify_key_id=KEY_ID)),
        )
        service.restart()
    yield made
    await made.close()


async def test_a_task_of_other_habits_is_aggregated_and_collected(
    pair: Pair, between: Between
) -> None:
    await pair.upload(await pair.reports([0, 1, 1]))
    assert (await pair.collect()).values == (1, 2, 0, 0)
    assert {body[0] for body in between.posts} == {KEY_ID}
    for request in between.requests:
        assert "authorization" not in request.headers
        assert request.headers["dap-auth-token"]


@pytest.mark.parametrize("name", ["authorization", "dap-auth-token"])
async def test_a_wrong_token_opens_nothing_in_either_header(pair: Pair, name: str) -> None:
    """Knowing that one header is looked at must not help to get past the other."""
    for url in (pair.url_of("aggregation_jobs"), pair.url_of("collection_jobs")):
        for value in ("Bearer wrong", "wrong", ""):
            answer = await pair.http.post(url, headers={name: value})
            assert answer.status_code == 401
