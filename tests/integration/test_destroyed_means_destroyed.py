"""After the answer of a release, neither store holds an un-noised share together with its key."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.pair import Pair
from tests.support.raw_bytes import files_of, keys_in, reading, shares_in
from tests.support.store import unit
from tests.support.tasks import make_task

STORE_KEY = bytes(32)


@pytest.mark.parametrize("is_read", [False, True], ids=["alone", "with readers"])
async def test_neither_aggregator_keeps_an_unnoised_share_that_can_be_read(
    tmp_path: Path, *, is_read: bool
) -> None:
    pair = Pair(tmp_path, make_task())
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 1, 3]))
    await pair.work_until_idle()
    stores = [tmp_path / f"{role}.sqlite" for role in ("leader", "helper")]
    row = pair.task.task_id.value + unit(pair.task.time(pair.clock.now()).units)
    prio3 = pair.task.prio3
    size = prio3.output_len * prio3.field.encoded_size
    for store in stores:
        assert len(shares_in(files_of(store), STORE_KEY, row, size)) == 1
    with ExitStack() as readers:
        for store in stores if is_read else ():
            readers.enter_context(reading(store))
        assert (await pair.collect()).values == (1, 2, 0, 1)
        for store in stores:
            assert keys_in(files_of(store), STORE_KEY, row) == set()
            assert shares_in(files_of(store), STORE_KEY, row, size) == set()
    await pair.close()
