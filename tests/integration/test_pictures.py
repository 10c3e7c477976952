"""The documents' pictures are those that the product makes."""

import pytest

from tests.support.pictures import FOLDER, pictures


@pytest.mark.slow
def test_each_picture_is_what_the_product_makes_today() -> None:
    made = pictures()
    assert {each.name for each in FOLDER.glob("*.svg")} == made.keys()
    for name, content in made.items():
        is_same = (FOLDER / name).read_bytes() == content
        assert is_same, f"{name}: run python -m tests.support.pictures"
