"""What an aggregator says of its kernels before it compiles them."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aggregator.config import HelperSettings
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.runtime import Runtime
from aggregator.runtime.kernels import log_kernel_cache
from aggregator.storage.opening import open_database
from field.lanes import KernelCache
from tests.support.clock import ManualClock

DIRECTORY = Path("cache") / "vdaf-0123456789abcdef"


@pytest.mark.parametrize(
    ("cache", "level", "said"),
    [
        (KernelCache(DIRECTORY, is_warm=True, has_others=True), "info", "are cached"),
        (KernelCache(DIRECTORY, is_warm=False, has_others=False), "info", "yet: compiling"),
        (KernelCache(DIRECTORY, is_warm=False, has_others=True), "warning", "another version"),
        (None, "warning", "every process compiles"),
    ],
    ids=["warm", "cold", "stale or foreign", "none"],
)
def test_the_log_says_whether_kernels_will_be_compiled_and_why(
    cache: KernelCache | None, level: str, said: str
) -> None:
    with capture_logs() as logs:
        log_kernel_cache(cache)
    (entry,) = logs
    assert entry["log_level"] == level
    assert said in entry["event"]
    assert entry.get("directory") == (str(DIRECTORY) if cache else None)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_an_aggregator_that_warms_up_says_so_before_any_task_is_compiled(
    tmp_path: Path,
) -> None:
    settings = HelperSettings(
        database=str(tmp_path / "helper.sqlite"), store_key_file=tmp_path / "helper.key"
    )
    database = open_database(settings)
    try:
        runtime = Runtime(Role.HELPER, database, ManualClock(0), SystemEntropy())
        with capture_logs() as logs:
            await runtime.warm_up()
    finally:
        database.close()
    (entry,) = logs
    assert "kernels" in entry["event"]
