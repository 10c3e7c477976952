"""Pictures of whole pages, compared with those that a person has looked at.

What differs between machines is taken away: the font is that of matplotlib, which the lock file
pins, whatever the machine has; a picture is halved, so that the edges of letters blur; and a part
of it may lie a little beside where it was. What a browser of another version draws otherwise
remains below the tolerance; a word, a colour or a chart that has changed does not.
"""

import base64
import functools
from functools import cache
from io import BytesIO
from itertools import product
from pathlib import Path

import matplotlib as mpl
from PIL import Image, ImageChops

from tests.support.browser import LOOKS, Scheme, Visit

FOLDER = Path(__file__).parents[1] / "browser" / "pictures"
REDRAW = "pytest tests/browser --redraw"

HALF = 2
"""Pixels of a page, across and down, to one of a picture."""

TILE = 4
"""Pixels of a picture, across and down, that are compared together."""

TOLERANCE = 0.1
"""How far a tile may be off on average, of the distance from black to white."""

SHIFT = 1
"""How many pixels of a picture a tile may lie beside where it was."""

_COLOURS = 16
_STILL, _TRIES = 4, 20
"""How many pictures one after the other must be the same before a page is said to differ, and how
often one is taken at most."""

_PINNED = """async (fonts) => {
  for (const [weight, text] of fonts) {
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    document.fonts.add(await new FontFace("Pinned", bytes, {weight}).load());
  }
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*{font-family:Pinned!important;caret-color:transparent!important}");
  document.adoptedStyleSheets = [sheet];
  document.activeElement.blur();
}"""

_DRAWN = """async ([scheme, width]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  while (innerWidth !== width || dark.matches !== (scheme === "dark")) await frame();
  await document.fonts.ready;
  await Promise.all([...document.images].map((each) => each.decode().catch(() => {})));
  await frame();
  await frame();  // the one before it has been drawn
}"""
"""Waits for the page itself and not for a time: a busy machine draws when it can."""


class Album:
    """The pictures that a person has looked at.

    Args:
        folder: Where what differs is put.
        redraws: Whether pictures are replaced by what is seen.
    """

    def __init__(self, folder: Path, *, redraws: bool) -> None:
        self._folder = folder
        self._redraws = redraws

    def compare(self, visit: Visit, name: str) -> None:
        """Compare the page that is open, in both colour schemes and both widths."""
        visit.page.evaluate(_PINNED, _fonts())
        said = []
        for scheme, width in LOOKS:
            visit.look(scheme, width)
            file = f"{name}-{scheme}-{width}.png"
            expected = _opened(FOLDER / file) if (FOLDER / file).exists() else None
            seen, fault = _compared(visit, (scheme, width), None if self._redraws else expected)
            if self._redraws:
                (FOLDER / file).write_bytes(small(seen))
            elif fault is not None:
                (self._folder / file).write_bytes(small(seen))
                said.append(f"{file}: {fault}; it is now as in {self._folder / file}")
        assert not said, "\n".join([*said, f"where a page was meant to change: {REDRAW}"])


def difference(seen: Image.Image, expected: Image.Image) -> str | None:
    """Return where two pictures differ, in pixels of the page; None if they do not."""
    if seen.width != expected.width or abs(seen.height - expected.height) > SHIFT:
        sizes = [f"{HALF * each.width} x {HALF * each.height}" for each in (seen, expected)]
        return f"the page has {sizes[0]} pixels, and had {sizes[1]}"
    around = range(-SHIFT, SHIFT + 1)
    offs = (_off(ImageChops.offset(seen, *by), expected) for by in product(around, around))
    off = functools.reduce(ImageChops.darker, offs)
    places = off.point(lambda each: 255 * (each > 255 * TOLERANCE)).getbbox()
    if places is None:
        return None
    left, top, right, bottom = (HALF * TILE * each for each in places)
    return (
        f"it differs between {left} and {right} pixels from the left "
        f"and {top} and {bottom} from the top"
    )


def small(picture: Image.Image) -> bytes:
    """Return a picture as PNG, of few colours."""
    file = BytesIO()
    # Rare colours are kept, such as those of a warning.
    few = picture.quantize(
        _COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE
    )
    few.save(file, "png", optimize=True)
    return file.getvalue()


def _off(seen: Image.Image, expected: Image.Image) -> Image.Image:
    """Return how far each tile is off on average, in the colour that is furthest off."""
    size = [min(lengths) // TILE * TILE for lengths in zip(seen.size, expected.size, strict=True)]
    difference = ImageChops.difference(*(each.crop((0, 0, *size)) for each in (seen, expected)))
    return functools.reduce(ImageChops.lighter, difference.split()).reduce(TILE)


def _compared(
    visit: Visit, look: tuple[Scheme, int], expected: Image.Image | None
) -> tuple[Image.Image, str | None]:
    """Return the page once it is as expected or stands still, and where it differs then."""
    same, before = 0, b""
    for _ in range(_TRIES):
        visit.page.evaluate(_DRAWN, look)
        shot = visit.page.screenshot(full_page=True, animations="disabled", scale="css")
        same = same + 1 if shot == before else 1
        if same == 1:
            seen = _opened(BytesIO(shot)).reduce(HALF)
            fault = "is a new picture" if expected is None else difference(seen, expected)
        if fault is None or same == _STILL:
            break
        before = shot
    return seen, fault


def _opened(file: Path | BytesIO) -> Image.Image:
    with Image.open(file) as image:
        return image.convert("RGB")


@cache
def _fonts() -> list[tuple[str, str]]:
    """Return the weights of the font and their files, base64."""
    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    files = {"400": "DejaVuSans.ttf", "700": "DejaVuSans-Bold.ttf"}
    return [
        (weight, base64.b64encode((folder / file).read_bytes()).decode())
        for weight, file in files.items()
    ]
