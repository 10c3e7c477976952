"""What needs a trace is skipped where none can be made."""

import pytest

from tests.constant_time.instruction_trace import why_not


@pytest.fixture
def _traced() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
