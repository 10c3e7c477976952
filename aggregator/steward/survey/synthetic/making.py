"""Makes a survey's synthetic table: fits, and refuses what says nothing."""

import hashlib
from collections.abc import Sequence

import numpy as np

from aggregator.collector.results import Batch
from aggregator.dp.decimals import integer_in
from aggregator.errors import ParameterError
from aggregator.steward.survey.synthetic.agreement import plausible
from aggregator.steward.survey.synthetic.best import Best
from aggregator.steward.survey.synthetic.mixture import fitted
from aggregator.steward.survey.synthetic.quality import USELESS_Z, found_between
from aggregator.steward.survey.synthetic.routes import routes
from aggregator.steward.survey.synthetic.synthetic import (
    VERSION,
    Synthetic,
    agreed_of,
    generator_of,
)
from aggregator.steward.survey.synthetic.tables import released_of
from aggregator.steward.survey.synthetic.told import Told
from aggregator.steward.survey.write_meaning import Meaning

MOST_ROWS = 10_000_000
MOST_ENTRIES = 1000
"""The most answers of all questions: the time of a fit grows with the square."""

TOO_NOISY = (
    "nothing between these questions stands out from the noise (z is {z:.1f}, and {least} would "
    "be needed): take each question by itself"
)

_LEAST_SHARE = 1e-3


def synthetic_of(
    meaning: Meaning,
    batches: Sequence[Batch],
    told: Told,
    rows: int | None = None,
    seed: object = None,
    *,
    although_noise: bool = False,
) -> Synthetic:
    """Return the synthetic table of one window, or of several together.

    Args:
        meaning: What the survey's numbers mean.
        batches: One for each window.
        told: What readers are told of them.
        rows: How many rows; by default as many as there are reports.
        seed: What rows are drawn by; by default the releases.
        although_noise: Whether to make it where nothing stands out from the noise.

    Raises:
        ParameterError: Nothing between questions stands out from the noise, no two questions are
            in a table, they have too many answers, or nobody gave any.
    """
    released = released_of(meaning, batches)
    count = released.people if rows is None else integer_in(rows, "rows", 1, MOST_ROWS)
    layout, made = released.layout, agreed_of(released)
    if (entries := sum(layout.sizes)) > MOST_ENTRIES:
        raise ParameterError(
            f"the questions have {entries:,} answers together, and a synthetic table may have "
            f"{MOST_ENTRIES:,}"
        )
    found = found_between(released, made)
    if found < USELESS_Z and not although_noise:
        raise ParameterError(TOO_NOISY.format(z=found, least=USELESS_Z))
    seed = "\n".join(told.releases) if seed is None else seed
    name = hashlib.sha256(f"{VERSION}\n{seed}".encode()).hexdigest()
    beginning = [plausible(each, released.people, _LEAST_SHARE) for each in made.ones]
    allowed = routes(layout.sizes, layout.needs)
    everything = [np.ones(sum(layout.sizes), dtype=bool)]
    mixture = fitted(
        released,
        beginning,
        everything if allowed is None else allowed,
        lambda number: generator_of(name, "fit", number),
    )
    mixture = mixture.apart([at for at in layout.alone if not layout.needs[at]])
    best = Best(layout, meaning.sheet.circuit, batches)
    return Synthetic(mixture, released, best, told, count, name, found, allowed is not None)
