"""Names the fingerprints of a spelling: from released letters, checked by the fingerprint.

The places that ask for a position count its letters, so a string's score is the sum
of its letters' counts. The strings with the best scores are tried; one with the fingerprint in
question is what people wrote. If n strings are tried for each of F fingerprints, n F / 2^32 match
by chance.
"""

import dataclasses
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.client.text.hashing import NO_ANSWER
from aggregator.client.text.spelling import Spelling
from aggregator.client.text.strings import FINGERPRINTS, fingerprint
from aggregator.errors import ParameterError

TRIED: Final = 2**13
"""How many strings are tried for each fingerprint."""

_SIMULATED: Final = 50
_OFTEN: Final = 0.9
_CLOSE: Final = 0.02

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Spelled:
    """What a window of a spelling shows.

    Names are by fingerprint; None if none of the tried strings matches. `expected_false` is the
    expected number of names that nobody wrote.
    """

    names: dict[int, str | None]
    tried: int
    expected_false: float


def spelled(spelling: Spelling, tables: npt.NDArray[np.int64], tried: int = TRIED) -> Spelled:
    """Return the string of each fingerprint, where one of those tried matches.

    Tables have a row for each place: its histogram as it was released. Raises `ParameterError` if
    the tables have the wrong shape.
    """
    if tables.shape != (spelling.tasks, spelling.entries):
        raise ParameterError(
            f"tables must be {spelling.tasks} of {spelling.entries} buckets, not "
            f"{' of '.join(map(str, tables.shape))}"
        )
    count, size = len(spelling.fingerprints), spelling.size
    letters = np.delete(tables, NO_ANSWER, axis=1)[:, : count * size]
    scores = np.zeros((spelling.letters, count, size))
    for place, row in enumerate(letters):
        scores[spelling.position(place)] += row.reshape(count, size)
    names = {
        each: _named(spelling, each, scores[:, number], tried)
        for number, each in enumerate(spelling.fingerprints)
    }
    return Spelled(names, tried, tried * count / FINGERPRINTS)


def _named(spelling: Spelling, wanted: int, scores: Floats, tried: int) -> str | None:
    letters = [*spelling.alphabet, ""]  # the last stands for the end of the string
    for codes in _best(scores, tried).tolist():
        string = "".join([letters[each] for each in codes])
        if fingerprint(string, spelling.hashes.meaning) == wanted:
            return string
    return None


def _best(scores: Floats, tried: int) -> npt.NDArray[np.int16]:
    """Return the strings with the best scores, letters as numbers and -1 after the end."""
    positions, size = scores.shape
    letters = size - 2  # a letter that is not in the alphabet cannot be named
    codes = np.zeros((1, 0), np.int16)
    totals, ended = np.zeros(1), np.zeros(1, np.bool_)
    for position in range(positions):
        row = scores[position]
        longer = totals[:, None] + row[None, :letters]
        longer[ended] = -np.inf
        over = totals + row[-1]
        if position == 0:
            over[:] = -np.inf  # a string has at least one letter
        every = np.concatenate([longer, over[:, None]], axis=1)
        flat = every.ravel()
        kept = np.flatnonzero(np.isfinite(flat))
        if len(kept) > tried:
            kept = kept[np.argpartition(-flat[kept], tried)[:tried]]
        from_, letter = np.divmod(kept, letters + 1)
        is_over = letter == letters
        added = np.where(is_over, -1, letter).astype(np.int16)
        codes = np.concatenate([codes[from_], added[:, None]], axis=1)
        totals, ended = flat[kept], ended[from_] | is_over
    best: npt.NDArray[np.int16] = codes[np.argsort(-totals, kind="stable")]
    return best


def named_from(epsilon: float, tasks: int, letters: int, alphabet: int, tried: int = TRIED) -> int:
    """Return how many people must hold a string for it to be named nine times out of ten.

    Simulates fifty counts of a string that fills all positions: it is named if at most `tried`
    strings have a score as good as its own.
    """
    rng = np.random.default_rng(1)
    places = np.bincount(np.arange(tasks) % letters)
    stop = 1 - math.exp(-epsilon / 2)
    # The end of a string counts as a letter. Both aggregators' draws are differences of two.
    shape = (_SIMULATED, letters, alphabet + 1)
    draws = np.broadcast_to(2 * places[None, :, None], shape)
    noise = rng.negative_binomial(draws, stop) - rng.negative_binomial(draws, stop)
    # From 1 to a count whose part in a position is about twice as large as the noise there.
    low, high = 1, math.ceil(2 * math.sqrt(tasks * letters * float(noise.var() / places.mean())))
    while _chance_of_naming(noise, places, high, tried) < _OFTEN:
        low, high = high, 2 * high
    while high - low > max(1, low * _CLOSE):
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if _chance_of_naming(noise, places, middle, tried) >= _OFTEN
            else (middle, high)
        )
    return high


def _chance_of_naming(
    noise: npt.NDArray[np.int64], places: npt.NDArray[np.int64], held: int, tried: int
) -> float:
    """Return how often a string held by this many people is among the strings tried."""
    people = np.random.default_rng(2).poisson(held * places / places.sum(), noise.shape[:2])
    true = noise[:, :, :1] + people[:, :, None]
    lead = np.concatenate([np.zeros_like(true), noise[:, :, 1:] - true], axis=2)
    return float(np.mean([_as_good(each) <= tried for each in lead]))


def _as_good(lead: npt.NDArray[np.int64]) -> float:
    """Return how many strings have a score of 0 or more, from what each letter adds to it."""
    reach = int(lead.max(axis=1).sum())  # a score further below cannot come up again
    counts = np.zeros(2 * reach + 1)
    counts[reach] = 1
    for letters in lead:
        new = np.zeros_like(counts)
        for added in letters[letters >= -2 * reach]:
            if added >= 0:
                new[added:] += counts[: len(counts) - added]
            else:
                new[:added] += counts[-added:]
        counts = new
    return float(counts[reach:].sum())
