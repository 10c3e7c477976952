"""What a collector shows of a result, and what the rule that decides it promises.

A policy may show noised counts only above a threshold, or exact counts only if they are not small.
`disclose` applies the rule; everything after it sees only what is shown.

The mechanism's guarantee covers the whole vector of noised counts, so withheld counts need not stay
secret for privacy's sake. A threshold makes another promise: that no bucket is shown that nobody
chose. Suppressed exact counts are secrets, and no copy of them may be kept.
"""

import dataclasses
from collections.abc import Sequence
from decimal import Decimal

from aggregator.collector.results.partial_knowledge import CAVEATS, Thresholding, rare_answer
from aggregator.dp.certified import to_float
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.sensitivity import is_one_count
from aggregator.dp.suppression import Suppression
from aggregator.dp.thresholds import Thresholds
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit

WITHHELD = "Every count is withheld."
PUBLIC_TOTAL = (
    "The number of reports is public, so a count is also withheld if it lacks few of all reports, "
    "or where it would have told that few gave the withheld answers: a withheld count may be a "
    "large one."
)
BEFORE_SELECTION = (
    "Half widths are before selection: given that a small bucket is shown, its value is more often "
    "too large than not. Its interval follows the law of the noise given that it is shown."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What is proved about the suppression of one count, under the assumption that it names.

    The published theorem gives `epsilon` and `delta`. Where each answer is the `rare` one with at
    most `probability`, `sharper_delta` holds with epsilon 0.
    """

    rare: str
    probability: str
    epsilon: Decimal
    delta: Decimal
    sharper_delta: Decimal


@dataclasses.dataclass(frozen=True, slots=True)
class Disclosure:
    """The values of a result that may be shown, and the rule.

    Attributes:
        values: None in place of a value that is withheld.
        rule: "everything", "threshold" or "suppression".
        thresholds: Each coordinate's; None where it is always shown. Empty without thresholds.
        at_or_below: The limit of suppression; None for the other rules.
        figures: For the suppression of one count, where the theorem applies.
    """

    values: tuple[int | None, ...]
    rule: str = "everything"
    thresholds: tuple[int | None, ...] = ()
    at_or_below: int | None = None
    guarantee: str = ""
    caveats: tuple[str, ...] = ()
    figures: Figures | None = None

    @property
    def withheld(self) -> int:
        """How many values are withheld."""
        return sum(value is None for value in self.values)


def disclose(
    policy: PrivacyPolicy, circuit: Circuit, values: Sequence[int], report_count: int
) -> Disclosure:
    """Apply a policy's rule to the sums of a batch.

    The sums are centred if they are noised: -3 is -3, not p - 3. How many reports were summed is
    the leader's word.
    """
    if policy.thresholds is not None:
        return _above(policy.thresholds, policy.mechanism, circuit, values)
    if policy.suppression is not None:
        return _suppressed(policy.suppression, circuit, values, report_count)
    return Disclosure(tuple(values))


def _above(
    thresholds: Thresholds, mechanism: Mechanism, circuit: Circuit, values: Sequence[int]
) -> Disclosure:
    limits = thresholds.of_buckets(circuit, mechanism)
    public = set(thresholds.public_buckets)
    private = [limit for j, limit in enumerate(limits) if j not in public and limit is not None]
    return Disclosure(
        values=tuple(thresholds.select(values, circuit, mechanism)),
        rule="threshold",
        thresholds=tuple(limits),
        guarantee="The guarantee of the mechanism is of the whole noised vector, so it holds for "
        "what is shown at any threshold. " + _empty_buckets(mechanism, circuit, private),
        caveats=(BEFORE_SELECTION,),
    )


def _empty_buckets(mechanism: Mechanism, circuit: Circuit, private: Sequence[int]) -> str:
    """Describe what happens to buckets that nobody chose and that were not declared public."""
    if not private:
        return "All buckets were declared public."
    law, limit = mechanism.law(circuit, 2), private[0]
    bound = mechanism.bound(circuit)
    if bound is not None:
        if limit >= 2 * bound:
            return (
                "If both aggregators follow the protocol, no bucket that nobody chose is shown, "
                "other than those declared public."
            )
        if limit >= bound:
            return (
                "A bucket that nobody chose is never shown if only one aggregator adds noise; as "
                f"both do, the threshold would have to be {2 * bound}."
            )
    tail = None if law is None else law.upper_tail(limit + 1)
    chance = 0.0 if tail is None else min(1.0, len(private) * to_float(tail))
    return (
        f"If both aggregators follow the protocol, the chance that any of {len(private)} buckets "
        f"is shown if nobody chose it is at most {chance:.3g}."
    )


def _suppressed(
    rule: Suppression, circuit: Circuit, values: Sequence[int], report_count: int
) -> Disclosure:
    shown = rule.select(values, circuit, report_count)
    figures, guarantee = _figures(rule, circuit, report_count)
    caveats: tuple[str, ...] = (*CAVEATS, PUBLIC_TOTAL)
    if all(count is None for count in shown):
        caveats = (WITHHELD, *caveats)
    return Disclosure(
        values=tuple(shown),
        rule="suppression",
        at_or_below=rule.at_or_below,
        guarantee=guarantee,
        caveats=caveats,
        figures=figures,
    )


def _figures(rule: Suppression, circuit: Circuit, report_count: int) -> tuple[Figures | None, str]:
    """Return the theorem's figures for one count, if any, and what to tell a reader."""
    if not is_one_count(circuit):
        return None, f"No guarantee: nothing is proved for Prio3{circuit.name}."
    assumed = rule.assumed_probability
    if assumed is None:
        return None, (
            "No guarantee is stated: the theorem needs an assumption on the data, and the task "
            "names no assumed_probability."
        )
    try:
        rare, chance = rare_answer(assumed)
        release = Thresholding.of(report_count, chance, rule.at_or_below)
        published, sharper = release.bound(), release.sharper_bound()
    except ParameterError as error:
        return None, f"No guarantee: {error}."
    figures = Figures(rare, str(chance), published.epsilon, published.delta, sharper.delta)
    return figures, (
        f"No differential privacy. If answers are independent and each is {rare!r} with a "
        f"probability below {chance}, the published count is ({published.epsilon:.4g}, "
        f"{published.delta:.4g})-private under that assumption, and (0, {sharper.delta:.4g})-"
        "private by a sharper bound, against a reader who knows none of the other answers."
    )
