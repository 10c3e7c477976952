"""The answer of `prio plan text`: which strings a question without a list of answers will find."""

import math
from fractions import Fraction

from aggregator.client.text import SPELLED_ALPHABET
from aggregator.client.text.amounts import LEVELS, Range
from aggregator.client.text.hashing import FEWEST_BUCKETS, MOST_BUCKETS
from aggregator.client.text.levels import entries_of
from aggregator.client.text.spelling import LETTERS, most_spelled
from aggregator.client.text.strings import FINGERPRINTS
from aggregator.dp.certified import to_float
from aggregator.dp.decimals import integer_in, rational_in
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.errors import ParameterError
from aggregator.steward.planning.output import PlanAnswer
from aggregator.steward.text import GUESSED_STRINGS
from aggregator.steward.text.beside import foretold_deviation, foretold_half_widths
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
_MOST_AMOUNT = 10**30
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
    amount: str | None = None,
    labels: int | None = None,
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
        amount: How far the largest number that people give beside a string is from the least; none
            is asked for unless given.
        labels: How many labels the choice has by whose answers strings are counted, if by one's.

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
    asked, levels = _beside(amount, labels, buckets)
    if tasks is None:
        plan = best_plan(tail, float(whole), buckets, tried, levels)
    else:
        plan = TextPlan(tail, float(whole), tasks, buckets, tried, levels=levels)
    surely, threshold = math.ceil(plan.found_from), math.ceil(plan.threshold)
    entries = entries_of(buckets, levels)
    prio3 = HISTOGRAM.prio3({"length": entries})
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
        **_errors_beside(plan, asked, labels),
        "bytes_of_shares": prio3.public_share_size
        + prio3.input_share_size(0)
        + prio3.input_share_size(1),
        "privacy": {
            "of_a_person": f"epsilon {epsilon}, delta 0",
            "on_condition": "each client is in one task and keeps to it; no aggregator can check "
            "that. Whoever is in all of them pays for each",
        },
        "guess": guess,
        "spelling": _spelling(float(whole), plan.tasks, entries),
        "listed_choice_standard_deviation": None
        if listed is None
        else math.sqrt(to_float(listed.variance())),
    }


def _beside(amount: str | None, labels: int | None, buckets: int) -> tuple[Range | None, int]:
    """Return the possible numbers, if they are asked for, and how many levels a report tells."""
    if labels is None and amount is None:
        return None, 1
    if labels is not None and amount is not None:
        raise ParameterError("labels: strings have a number or labels beside them, not both")
    asked = None
    if amount is not None:
        size = rational_in(amount, "amount", 0, _MOST_AMOUNT, open_low=True)
        asked = Range(Fraction(0), size, size, "")
    levels = LEVELS if labels is None else integer_in(labels, "labels", 2, MOST_BUCKETS)
    integer_in(buckets, "buckets", FEWEST_BUCKETS, MOST_BUCKETS // levels)
    return asked, levels


def _errors_beside(plan: TextPlan, asked: Range | None, labels: int | None) -> PlanAnswer:
    """Return the errors of means, or of counts of labels, if either is asked for."""
    if asked is not None:
        means = foretold_half_widths(plan, asked)
        return {"means": [{"people": count, "error": error} for count, error in means]}
    if labels is not None:
        return {"labels": labels, "standard_deviation_of_a_label": foretold_deviation(plan)}
    return {}


def _spelling(epsilon: float, tasks: int, entries: int) -> PlanAnswer | None:
    """Return what a window of letters says of unnamed fingerprints; None if there is no room."""
    room, letters = most_spelled(entries), min(LETTERS, tasks)
    if not room:
        return None
    return {
        "strings": room,
        "letters": letters,
        "named_from": named_from(epsilon, tasks, letters, len(SPELLED_ALPHABET)),
    }
