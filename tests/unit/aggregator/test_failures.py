"""An error that was caught keeps nothing of what its frames held."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anyio import CapacityLimiter

from aggregator.errors import StoreError
from aggregator.failures import in_thread, let_go

ROOT = Path(__file__).parents[3] / "aggregator"
OF_SERVICES = ("service", "collector/pages", "steward/planner")
"""Where work is done for requests."""


class Body:
    """What a frame holds; other than bytes, it can be watched."""


@pytest.fixture(autouse=True)
def _without_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def alone(_body: Body) -> None:
    raise StoreError("alone")


def with_a_cause(body: Body) -> None:
    try:
        alone(body)
    except StoreError as error:
        raise ValueError("caused") from error


def while_another_is_handled(body: Body) -> None:
    try:
        alone(body)
    except StoreError:
        raise ValueError("in its stead") from None


def of_a_group(body: Body) -> None:
    errors = []
    for fail in (alone, with_a_cause):
        try:
            fail(body)
        except Exception as error:  # noqa: BLE001  whichever it is
            errors.append(error)
    raise ExceptionGroup("both", errors)


def of_itself(body: Body) -> None:
    try:
        alone(body)
    except StoreError as error:
        error.__cause__ = error
        raise


@pytest.mark.parametrize(
    "fail", [alone, with_a_cause, while_another_is_handled, of_a_group, of_itself]
)
def test_an_error_that_is_let_go_holds_no_frame(fail: Callable[[Body], None]) -> None:
    body = Body()
    held = weakref.ref(body)
    kept: list[Exception] = []
    try:
        fail(body)
    except Exception as error:  # noqa: BLE001  whichever it is
        kept.append(error)  # as a frame would that has a name for it
        let_go(error)
    del body
    assert held() is None
    assert kept


@pytest.mark.parametrize("fail", [alone, with_a_cause])
async def test_an_error_of_a_thread_that_is_caught_holds_no_frame(
    fail: Callable[[Body], None],
) -> None:
    async def work(body: Body) -> None:
        try:
            await in_thread(fail, body)
        except (StoreError, ValueError):
            return

    body = Body()
    held = weakref.ref(body)
    await work(body)
    del body
    # The thread itself lets go of it as it asks for more work.
    await in_thread(len, "", limiter=CapacityLimiter(1))
    assert held() is None


async def test_an_error_of_a_thread_says_where_it_was_raised() -> None:
    with pytest.raises(StoreError, match="alone") as raised:
        await in_thread(alone, Body())
    assert raised.traceback[-1].name == "alone"


async def test_a_thread_returns_what_its_work_returns() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)


def test_no_service_works_in_threads_in_another_way() -> None:
    files = [file for folder in OF_SERVICES for file in (ROOT / folder).rglob("*.py")]
    assert files
    assert [str(file) for file in files if "to_thread" in file.read_text()] == []
