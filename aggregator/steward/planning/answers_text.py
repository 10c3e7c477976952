"""The answer of `prio plan text`: which strings a question without a list of answers will find."""

import math

from aggregator.client.text import SPELLED_ALPHABET
from aggregator.client.text.spelling import LETTERS, most_spelled
from aggregator.client.text.strings import FINGERPRINTS
from aggregator.dp.certified import to_float
from aggregator.dp.decimals import integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.steward.planning.output import PlanAnswer
from aggregator.steward.text import GUESSED_STRINGS
from aggregator.steward.text.last_window import last_window
from aggregator.steward.text.plan import SURELY, TextPlan, best_plan, zipf
from aggregator.steward.text.spelled import named_from
from aggregator.vdaf.instances import HISTOGRAM

_MOST_PEOPLE = 10**9
_OF_LAST = (
    "the last window: its {count} strings that were surely found, and what else people wrote there "
    "spread as these go on"
)
_MOST_STRINGS = 10**7
_AGGREGATORS = 2
"""Both add the whole noise."""


def text(
    epsilon: str,
    reports: int | None = None,
    buckets: int = 1024,
    tasks: int | None = None,
    strings: int = GUESSED_STRINGS,
    exponent: str = "1",
    candidates: int = FINGERPRINTS,
    found: str | None = None,
) -> PlanAnswer:
    """Return strings found, errors and bytes, beside the error of a listed choice.

    Args:
        epsilon: The epsilon of a person, whichever task they are in.
        reports: How many people answer, in all tasks together; by default as many as in the last
            window, if `found` gives it.
        buckets: The buckets of each task's histogram.
        tasks: How many tasks; by default the number that finds the rarest strings.
        strings: How many different strings the guessed tail has.
        exponent: In the guessed tail the k-th most frequent string is held in proportion to
            k^-exponent.
        candidates: How many strings are tried; all fingerprints unless given.
        found: The JSON of `prio survey results --words … --json`, in place of a guess.

    Raises:
        ParameterError: A value is out of its range.
    """
    whole = rational_in(epsilon, "epsilon", 0, 64, open_low=True)
    steep = rational_in(exponent, "exponent", 0, 10)
    last = None if found is None else last_window(found)
    if last is None and reports is None:
        raise ParameterError("reports: say how many people answer, as no last window does")
    wanted = round(last.people) if last is not None and reports is None else reports
    people = integer_in(wanted, "reports", 1, _MOST_PEOPLE)
    if last is None:
        tail = zipf(people, integer_in(strings, "strings", 1, _MOST_STRINGS), float(steep))
        guess = f"{strings} strings, the k-th held in proportion to k^-{exponent}"
    else:
        if strings != GUESSED_STRINGS or steep != 1:
            raise ParameterError("found: takes the place of strings and exponent")
        tail, guess = last.tail(people), _OF_LAST.format(count=last.surely_found)
    tried = integer_in(candidates, "candidates", 1, FINGERPRINTS)
    if tasks is None:
        plan = best_plan(tail, float(whole), buckets, tried)
    else:
        plan = TextPlan(tail, float(whole), tasks, buckets, tried)
    surely, threshold = math.ceil(plan.found_from), math.ceil(plan.threshold)
    prio3 = HISTOGRAM.prio3({"length": buckets})
    listed = PureDpDiscreteLaplace(whole).laws(prio3.circuit, _AGGREGATORS)[0][1]
    is_known = math.isfinite(plan.deviation) and surely < people
    return {
        "found": f"what {surely} or more of {people} hold, with {SURELY:.0%}"
        if is_known
        else f"nothing that fewer than all {people} hold",
        "tasks": plan.tasks,
        "buckets": buckets,
        "candidates": tried,
        "threshold": threshold,
        "strings_found": round(plan.found),
        "false_strings": plan.false,
        "standard_deviation": plan.deviation,
        "bytes_of_shares": prio3.public_share_size
        + prio3.input_share_size(0)
        + prio3.input_share_size(1),
        "privacy": {
            "of_a_person": f"epsilon {epsilon}, delta 0",
            "on_condition": "each client is in one task and keeps to it; no aggregator can check "
            "that. Whoever is in all of them pays for each",
        },
        "guess": guess,
        "spelling": _spelling(float(whole), plan.tasks, buckets),
        "listed_choice_standard_deviation": None
        if listed is None
        else math.sqrt(to_float(listed.variance())),
    }


def _spelling(epsilon: float, tasks: int, buckets: int) -> PlanAnswer | None:
    """Return what a window of letters says of unnamed fingerprints; None if there is no room."""
    room, letters = most_spelled(buckets), min(LETTERS, tasks)
    if not room:
        return None
    return {
        "strings": room,
        "letters": letters,
        "named_from": named_from(epsilon, tasks, letters, len(SPELLED_ALPHABET)),
    }
