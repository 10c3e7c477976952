"""The widths at which tests run code on lanes: interpreted, and compiled."""

from typing import Any

import pytest

from field.lanes import LaneWidth, has_multiply_add

LANES = (1, 4, 8)


def _param(lanes: int, *, has_multiply_add: bool, is_interpreted: bool) -> object:
    width = LaneWidth(lanes, has_multiply_add, is_interpreted)
    way = "interpreted" if is_interpreted else "compiled"
    name = f"{way}, {lanes} lanes, products of {52 if has_multiply_add else 32} bits"
    # Eight lanes differ from one as four do.
    is_quick = is_interpreted and lanes < 8
    return pytest.param(width, id=name, marks=[] if is_quick else pytest.mark.slow)


INTERPRETED = [
    _param(lanes, has_multiply_add=is_long, is_interpreted=True)
    for lanes in LANES
    for is_long in (False, True)
]
"""Every width: any processor can interpret any."""

ONE_LAYOUT = INTERPRETED[::2]
"""Every number of lanes once, for what does not depend on how products are made."""

COMPILED = [
    _param(lanes, has_multiply_add=is_long, is_interpreted=False)
    for lanes in LANES
    for is_long in (False, True)
    if not is_long or has_multiply_add(lanes)
]
"""Every width for which this processor has the instructions."""

QUICKEST = [
    _param(lanes, has_multiply_add=has_multiply_add(lanes), is_interpreted=False) for lanes in LANES
]
"""For each number of lanes, the width that is fastest on this processor."""


def width_of(*widths: object) -> Any:  # noqa: ANN401  a fixture, whose type is pytest's own
    """Return the fixture `width` of a module's tests: each of these."""

    @pytest.fixture(params=widths)
    def width(request: pytest.FixtureRequest) -> LaneWidth:
        found: LaneWidth = request.param
        return found

    return width
