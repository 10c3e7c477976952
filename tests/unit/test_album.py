"""Pictures of pages are compared: what is a difference, where it is, and how much they take."""

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.support.album import FOLDER, HALF, SHIFT, Picture, difference, halved, small

INK, PAPER, BLUE, RED = (27, 31, 36), (255, 255, 255), (47, 109, 179), (165, 29, 29)


def drawn(
    word: str = "collected", at: tuple[int, int] = (40, 60), bar: tuple[int, int, int] = BLUE
) -> Picture:
    """Return a page of 240 x 160 pixels with a word and a bar, halved."""
    image = Image.new("RGB", (240, 160), PAPER)
    draw = ImageDraw.Draw(image)
    draw.text(at, word, INK)
    draw.rectangle((120, 100, 200, 120), bar)
    return halved(np.asarray(image))


def test_a_picture_is_as_it_was_after_it_was_kept_in_few_colours() -> None:
    with Image.open(io.BytesIO(small(drawn()))) as kept:
        assert kept.mode == "P"
        assert difference(drawn(), np.asarray(kept.convert("RGB"))) is None


def test_edges_and_places_may_be_a_little_off() -> None:
    entropy = np.random.default_rng(1)
    softer = np.clip(drawn() + entropy.integers(-20, 20, drawn().shape), 0, 255).astype(np.uint8)
    assert difference(softer, drawn()) is None
    assert difference(drawn(at=(40 + HALF * SHIFT, 60)), drawn()) is None
    assert difference(drawn()[:-SHIFT], drawn()) is None


@pytest.mark.parametrize(
    ("changed", "left", "top"),
    [
        (drawn(word="too few"), 40, 60),
        (drawn(word="collects"), 80, 60),
        (drawn(at=(40, 70)), 40, 60),
        (drawn(bar=RED), 120, 100),
    ],
    ids=["word", "end of a word", "place", "colour"],
)
def test_what_has_changed_is_found_where_it_is(changed: Picture, left: int, top: int) -> None:
    said = difference(changed, drawn())
    assert said is not None
    words = said.split()
    assert abs(int(words[words.index("between") + 1]) - left) <= 24
    assert abs(int(words[-6]) - top) <= 16


def test_a_page_of_another_length_is_told_by_its_size() -> None:
    assert difference(drawn()[:-10], drawn()) == "the page has 240 x 140 pixels, and had 240 x 160"


def test_the_pictures_take_less_than_a_megabyte_and_a_quarter() -> None:
    files = list(FOLDER.iterdir())
    assert {file.suffix for file in files} == {".png"}
    assert sum(file.stat().st_size for file in files) < 1_250_000
