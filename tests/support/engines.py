"""The engine that a module's tests of the store are for, where it is one only."""

import pytest

ON_SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
ON_POSTGRESQL = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
