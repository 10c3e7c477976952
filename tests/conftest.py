"""What holds for every test: Hypothesis profiles, uncompiled kernels, measurements on demand."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

# No deadline anywhere: the first call of a kernel compiles it.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=os.environ.get("NUMBA_DISABLE_JIT") == "1")
def _words_wrap_around() -> Iterator[None]:
    """Let uncompiled kernels count modulo 2^64, which numpy would warn of."""
    with np.errstate(over="ignore"):
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip measurements unless they are asked for."""
    if "bench" in config.getoption("markexpr"):
        return
    on_demand = pytest.mark.skip(reason="a measurement, on demand: -m bench")
    for item in items:
        if item.get_closest_marker("bench") is not None:
            item.add_marker(on_demand)
