"""What a task promises, short enough to be read: "ε 2 a week, 16 in all"."""

from collections.abc import Sequence
from fractions import Fraction

from aggregator.dp.filters import Cost, total
from aggregator.dp.mechanisms import Guarantee
from aggregator.dp.rationals import at_most
from aggregator.protocol.budget import cost, horizon, releases_of
from aggregator.protocol.task import Task

_DIGITS = 6
_UNITS = ((7 * 86_400, "week"), (86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def guarantee_in_short(task: Task) -> str:
    """Return the promise to a person in every batch, for one batch and for all, rounded up."""
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    promised, most = mechanism.guarantee(circuit), horizon(task)
    if promised.epsilon is None:
        return "No differential privacy"
    each = f"ε {at_most(promised.epsilon, _DIGITS)} {_each(task)}"
    delta = promised.delta or Fraction(0)
    if most is None:
        together, of_all = "with no end", ""
    else:
        everything = releases_of(task, most).cost
        pure = Fraction(0) if everything is None else everything.delta
        together = f"{at_most(cost(task, most), _DIGITS)} in all"
        of_all = f", {at_most(pure)} in all" if pure > delta else ""
    return f"{each}, {together}" + (f" (δ {at_most(delta)}{of_all})" if delta else "")


def paid_in_short(task: Task, texts: Sequence[Task], *, is_all: bool = True) -> str:
    """Return what a person pays for a survey: for its task and one task of each text question.

    If not all text questions are known, `is_all` is False, and it says that more is paid.
    """
    own = guarantee_in_short(task)
    if not is_all:
        return f"{own}; text questions add to it"
    if not texts:
        return own
    everything = (task, *texts)
    each = total([releases_of(one, 1).cost or Cost(None) for one in everything])
    if each.epsilon is None or each.delta:
        return "; ".join(
            [own, *(f"for a text question {guarantee_in_short(one)}" for one in texts)]
        )
    ends = [horizon(one) for one in everything]
    if None in ends:
        together = "with no end"
    else:
        costs = [cost(one, end or 0) for one, end in zip(everything, ends, strict=True)]
        together = f"{at_most(sum(costs, Fraction(0)), _DIGITS)} in all"
    return f"ε {at_most(each.epsilon, _DIGITS)} {_each(task)}, {together}, text questions included"


def who_must_be_honest(task: Task) -> str:
    """Return, in words, who must be honest for the guarantee to hold.

    If the policy is not bound into the reports, an honest aggregator may have a different one.
    """
    one = "at least one of the two aggregators"
    return one if task.is_policy_bound else f"{one}, which was also given this very policy"


def statement_of(task: Task, guarantee: Guarantee) -> str:
    """Return what a guarantee of the task promises, with all its conditions, in words."""
    if task.is_policy_bound or guarantee.epsilon is None:
        return guarantee.statement
    return (
        f"{guarantee.statement} The policy is not bound into the reports, so that aggregator must "
        "also have been given this very policy."
    )


def _each(task: Task) -> str:
    """Return how often there is a batch: "a week", "every 2 days"."""
    window = task.policy.window
    if window is None:
        return "a batch"
    seconds = window.length * task.time_precision
    length, unit = next(each for each in _UNITS if seconds % each[0] == 0)
    count = seconds // length
    if count > 1:
        return f"every {count:,} {unit}s"
    return f"an {unit}" if unit == "hour" else f"a {unit}"
