"""Pictures of pages are compared: what is a difference, where it is, and how much they take."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from PIL import Image, ImageChops, ImageDraw

from tests.support import album
from tests.support.album import FOLDER, HALF, SHIFT, Album, difference, small
from tests.support.browser import LOOKS, Visit

INK, PAPER, BLUE, RED = (27, 31, 36), (255, 255, 255), (47, 109, 179), (165, 29, 29)


def drawn(
    word: str = "collected", at: tuple[int, int] = (40, 60), bar: tuple[int, int, int] = BLUE
) -> Image.Image:
    """Return a page of 240 x 160 pixels with a word and a bar, halved."""
    image = Image.new("RGB", (240, 160), PAPER)
    draw = ImageDraw.Draw(image)
    draw.text(at, word, INK)
    draw.rectangle((120, 100, 200, 120), bar)
    return image.reduce(HALF)


def cut(rows: int) -> Image.Image:
    """Return the page without its last rows."""
    return drawn().crop((0, 0, 120, 80 - rows))


def test_a_picture_is_as_it_was_after_it_was_kept_in_few_colours() -> None:
    with Image.open(io.BytesIO(small(drawn()))) as kept:
        assert kept.mode == "P"
        assert difference(drawn(), kept.convert("RGB")) is None


def test_edges_and_places_may_be_a_little_off() -> None:
    softer = ImageChops.add(drawn(), Image.effect_noise(drawn().size, 20).convert("RGB"), 1, -128)
    assert difference(softer, drawn()) is None
    assert difference(drawn(at=(40 + HALF * SHIFT, 60)), drawn()) is None
    assert difference(cut(SHIFT), drawn()) is None


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
def test_what_has_changed_is_found_where_it_is(changed: Image.Image, left: int, top: int) -> None:
    said = difference(changed, drawn())
    assert said is not None
    words = said.split()
    assert abs(int(words[words.index("between") + 1]) - left) <= 24
    assert abs(int(words[-6]) - top) <= 16


def test_a_page_of_another_length_is_told_by_its_size() -> None:
    assert difference(cut(10), drawn()) == "the page has 240 x 140 pixels, and had 240 x 160"


def shot(word: str) -> bytes:
    """Return a screenshot of a page with a word, twice the size of its picture."""
    file = io.BytesIO()
    page = drawn(word)
    page.resize((HALF * page.width, HALF * page.height), Image.Resampling.NEAREST).save(file, "png")
    return file.getvalue()


def visit_of(shots: Iterator[bytes]) -> Visit:
    page = SimpleNamespace(evaluate=lambda *_: None, screenshot=lambda **_: next(shots))
    return cast("Visit", SimpleNamespace(page=page, look=lambda *_: None))


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Album:
    """An album in which `page` has one word in each of its looks."""
    monkeypatch.setattr(album, "FOLDER", tmp_path / "known")
    (tmp_path / "known").mkdir()
    redrawing = Album(tmp_path, redraws=True)
    redrawing.compare(visit_of(iter([shot("collected")] * 100)), "page")
    assert len(list((tmp_path / "known").iterdir())) == len(LOOKS)
    return Album(tmp_path, redraws=False)


def test_a_page_that_is_drawn_late_is_waited_for(known: Album) -> None:
    late = [shot(word) for word in ("", "", "col", "collec", "collected")]
    known.compare(visit_of(iter(late * len(LOOKS))), "page")


def test_a_page_that_differs_and_stands_still_is_told_after_a_few_pictures(known: Album) -> None:
    shots = iter([shot("too few")] * 4 * len(LOOKS))
    with pytest.raises(AssertionError, match=r"(?s)page-light-1200.*page-dark-360.*--redraw"):
        known.compare(visit_of(shots), "page")
    assert next(shots, None) is None


@pytest.mark.slow
def test_a_page_that_never_stands_still_is_told(known: Album) -> None:
    blinking = iter([shot("too few"), shot("too many")] * 100)
    with pytest.raises(AssertionError, match="it differs"):
        known.compare(visit_of(blinking), "page")


def test_the_pictures_take_less_than_a_megabyte_and_a_quarter() -> None:
    files = list(FOLDER.iterdir())
    assert {file.suffix for file in files} == {".png"}
    assert sum(file.stat().st_size for file in files) < 1_250_000
