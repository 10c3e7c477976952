"""What is wrong with refused noise: names for faults, found by comparing alternatives.

Nothing here decides whether a pair is refused: that was decided before, with a stated error. A name
is the likeliest of the explanations below, and has no error probability of its own.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from aggregator.steward.audit.bucket_checks import Run, run_log_p, silent_run
from aggregator.steward.audit.bucket_faults import of_buckets, of_totals
from aggregator.steward.audit.fault import Fault, FaultKind
from aggregator.steward.audit.noise_table import LARGEST, Floats, Integers, NoiseTable
from aggregator.steward.audit.other_laws import FAMILIES, table_of
from aggregator.steward.audit.pair_audit import Laws, Likeness, Releases
from aggregator.steward.audit.pair_check import Check
from aggregator.steward.audit.pair_events import law_check
from aggregator.steward.audit.tail_bounds import log_tail
from aggregator.steward.audit.window_checks import alike_log_p

_FACTORS = np.geomspace(1 / 64, 64, 601)
_AROUND = np.geomspace(1 / 2, 2, 101)
_CLEAR = math.log(1e-9)
"""The p-value below which an explanation is refused, too."""

_STEPS = 50
_AS_LIKELY = 3.0
_ABOUT = 1.1
"""If no law is recognised, a deviation that is off by more than this factor is the fault."""

_WIDEST = 5000
"""No law is fitted if a draw exceeds both this and the right law's table."""


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """A law that noise may have been drawn from instead."""

    kind: FaultKind
    text: str
    table: NoiseTable


def name_faults(releases: Releases, laws: Laws, checks: Sequence[Check]) -> list[Fault]:
    """Return the faults behind refused checks; none if no check refused."""
    refused = [check for check in checks if check.is_refused]
    faults = [Fault(each.party, FaultKind.WRONG_SUM, each.text) for each in releases.mistakes]
    if releases.counted != releases.uploaded:
        counts = f"{releases.counted} reports counted, {releases.uploaded} uploaded"
        faults.append(Fault("leader", FaultKind.WRONG_COUNT, counts))
    for party, rows in (("leader", releases.leader), ("helper", releases.helper)):
        if any(check.series == party for check in refused):
            faults += _faults_of(party, rows, laws.single)
    if any(check.series == "pair" and check.name in {"peers", "order"} for check in refused):
        faults += _shared(releases)
    if refused and not faults:
        worst = min(refused, key=lambda check: check.log_p)
        faults.append(Fault("pair", FaultKind.UNKNOWN, f"{worst.series}: {worst.worst}"))
    return faults


def draws_in_the_sum(total: Integers, laws: Laws) -> int:
    """Return how many aggregators' right draws the results most likely contain: 0, 1 or 2."""
    if not total.any():
        return 0
    both, single = (law.logs_of(law.in_steps(total)) for law in (laws.both, laws.single))
    if laws.both.step != laws.single.step:
        # Likelihoods with different steps cannot be compared: compare the deviation instead.
        ratio = float(total.std()) / (laws.single.deviation * laws.single.step)
        return 2 if ratio > 2**0.25 else 1
    return 2 if both >= single else 1


def _faults_of(party: str, draws: Integers, table: NoiseTable) -> list[Fault]:
    if not draws.any():
        return [Fault(party, FaultKind.NO_NOISE, "every draw is 0")]
    rows = table.in_steps(draws)
    if (np.abs(rows) == LARGEST).mean() > 1 / 2:
        text = "the share is not the sum of the uploaded reports, whatever the noise"
        return [Fault(party, FaultKind.WRONG_SUM, text)]
    if rows.shape[1] > 1 and np.array_equal(rows, np.repeat(rows[:, :1], rows.shape[1], axis=1)):
        text = "all buckets of one window have one draw"
        return [Fault(party, FaultKind.CORRELATED, text)]
    is_rare = rows.shape[1] * math.log(table.magnitudes()[0]) < _CLEAR
    is_noisy = draws.any(axis=1) | (not is_rare)
    silent = [f"every draw of window {index + 1} is 0" for index in np.flatnonzero(~is_noisy)]
    rows, draws = rows[is_noisy], draws[is_noisy]
    noisy_buckets = rows[:, draws.any(axis=0)]
    repeated = _first(
        _repetition(f"windows {i + 1} and {j + 1}", noisy_buckets[i], noisy_buckets[j])
        for i, j in itertools.combinations(range(len(rows)), 2)
    )
    if repeated:
        rows = rows[:1]  # repeated draws count once, and so do their zeros
    elif (run := _silent_run(draws, table)) is not None:
        silent.append(f"{run} have no noise in any window")
        rows = np.delete(rows, np.arange(run.first, run.first + run.length), axis=1)
    elif _has_silent_buckets(draws):
        count = rows.shape[1] - noisy_buckets.shape[1]
        silent.append(f"{count} of {rows.shape[1]} buckets have no noise in any window")
        rows = noisy_buckets
    # Where silence explains the refusal, the few remaining buckets may have any median.
    is_explained = bool(silent) and law_check(party, rows, table).log_p >= _CLEAR
    common = [] if is_explained else _common_draw(rows, table)
    correlated = common or _first(
        iter([_dependence("buckets of one window", Likeness.within(rows))])
    )
    faults = [Fault(party, FaultKind.NO_NOISE, text) for text in silent]
    faults += [Fault(party, FaultKind.REPEATED, text) for text in repeated]
    faults += [Fault(party, FaultKind.CORRELATED, text) for text in correlated]
    if not faults and (found := of_buckets(party, rows, table) + of_totals(party, rows, table)):
        return found
    # Dependent draws say little about their law.
    if not correlated and (not faults or law_check(party, rows, table).log_p < _CLEAR):
        faults.append(_wrong_law(party, rows, table))
    return faults


def _silent_run(rows: Integers, table: NoiseTable) -> Run | None:
    """Return a run of silent buckets that the zeros of the others do not explain."""
    run = silent_run(rows)
    others = np.delete(rows, np.arange(run.first, run.first + run.length), axis=1)
    if not run.length or not others.size:
        return None
    zero = float((others == 0).mean())
    log_p = run_log_p(run, len(rows), rows.shape[1], max(zero, table.zero))
    return run if log_p < _CLEAR else None


def _repetition(label: str, left: Integers, right: Integers) -> str | None:
    """Describe how a window repeats another: forwards, backwards or in any order."""
    found = _dependence(label, Likeness.across(left, right))
    if found is None:
        found = _dependence(f"{label} reversed", Likeness.across(left, right[::-1]))
    if found is None:
        log_p = alike_log_p(left, right)
        if log_p is not None and log_p < _CLEAR:
            return f"{label}: the same magnitudes, in another order"
    return found


def _has_silent_buckets(rows: Integers) -> bool:
    """Return whether more buckets are always 0 than the zeros of the others explain."""
    windows, buckets = rows.shape
    is_noisy = rows.any(axis=0)
    share = float((rows[:, is_noisy] == 0).mean())
    zero = share
    for _ in range(_STEPS):  # the zeros of all buckets, from buckets that are not always 0
        zero = share * (1 - zero**windows) + zero**windows
    count, expected = int((~is_noisy).sum()), zero**windows
    is_more = windows > 1 and count > expected * buckets
    return bool(is_more and log_tail(count, buckets, expected) < _CLEAR)


def _common_draw(rows: Integers, table: NoiseTable) -> list[str]:
    """Describe one draw per window that is added to all its buckets, if that is the case."""
    offsets = np.rint(np.median(rows, axis=1)).astype(np.int64)
    rest = rows - offsets[:, None]
    if len(np.unique(offsets)) == 1:
        return []
    if law_check("", rest, table).log_p < _CLEAR:
        return []
    return [f"to all buckets of one window one number is added: {', '.join(map(str, offsets))}"]


def _wrong_law(party: str, rows: Integers, table: NoiseTable) -> Fault:
    tried = [(each.table.logs_of(rows), each) for each in _explanations(rows, table)]
    # Of equally likely explanations, the first is the plainest.
    likeliest = max((logs for logs, _ in tried), default=0.0)
    best = next((each for logs, each in tried if logs >= likeliest - _AS_LIKELY), None)
    ratio = float(rows.std()) / table.deviation
    numbers = f"mean {rows.mean():.3g}, standard deviation {ratio:.3g} times what it should be"
    if best is None or law_check(party, rows, best.table).log_p < _CLEAR:
        is_wide = not 1 / _ABOUT <= ratio <= _ABOUT
        kind = FaultKind.WRONG_SCALE if is_wide else FaultKind.WRONG_LAW
        return Fault(party, kind, f"like none of the laws that are tried; {numbers}")
    return Fault(party, best.kind, f"{best.text}; {numbers}")


def _explanations(rows: Integers, table: NoiseTable) -> Iterator[Explanation]:
    """Yield laws that the draws may come from, each with a fitted parameter."""
    deviation, reach = float(rows.std()), int(np.abs(rows).max())
    if reach > max(_WIDEST, table.reach):
        return
    rescaled = _fit(rows, table.rescaled, _FACTORS)
    yield Explanation(
        FaultKind.WRONG_SCALE,
        f"the scale is {rescaled[0]:.3g} times what it should be",
        rescaled[1],
    )
    yield Explanation(FaultKind.WRONG_SCALE, "two draws are added", table.plus(table))
    offset = round(float(np.median(rows)))
    if offset:
        yield Explanation(FaultKind.BIASED, f"{offset} is added", table.shifted(offset))
    divisor = int(np.gcd.reduce(np.abs(rows).ravel()))
    for name, weights in FAMILIES.items():
        if divisor == 1 and deviation > 0:
            make = functools.partial(table_of, weights, reach=reach)
            fitted = _fit(rows, make, deviation * _AROUND)
            text = f"{name} of standard deviation {fitted[1].deviation:.3g}"
            yield Explanation(FaultKind.WRONG_LAW, text, fitted[1])
    if divisor > 1:
        fitted = _fit(rows // divisor, table.rescaled, _FACTORS)
        probabilities = np.zeros(2 * fitted[1].reach * divisor + 1)
        probabilities[::divisor] = fitted[1].probabilities
        text = f"every draw is a multiple of {divisor}"
        yield Explanation(FaultKind.WRONG_LAW, text, NoiseTable(probabilities))


def _fit(
    rows: Integers, make: Callable[[float], NoiseTable], parameters: Floats
) -> tuple[float, NoiseTable]:
    """Return the likeliest parameter, by a grid and a finer one around its best point."""

    def likelihood(parameter: float) -> float:
        return make(float(parameter)).logs_of(rows)

    step = parameters[1] / parameters[0]
    coarse = max(parameters, key=likelihood)
    best = float(max(coarse * np.geomspace(1 / step, step, 21), key=likelihood))
    return best, make(best)


def _shared(releases: Releases) -> list[Fault]:
    texts = _first(
        _repetition(f"the leader's window {i + 1} and the helper's {j + 1}", ours, theirs)
        for i, ours in enumerate(releases.leader)
        for j, theirs in enumerate(releases.helper)
    )
    return [Fault("pair", FaultKind.SHARED, text) for text in texts]


def _first(found: Iterator[str | None]) -> list[str]:
    """Return the first text, if any."""
    return list(itertools.islice((text for text in found if text is not None), 1))


def _dependence(label: str, found: Likeness) -> str | None:
    """Describe how draws depend on each other, whatever their law; None if that is unclear.

    Over all lags, pairs are as alike as the frequencies of magnitudes and signs make them.
    """
    if not len(found.lags):
        return None
    same = found.equal.sum() / found.pairs.sum()
    agree = found.agree.sum() / max(1, found.nonzero.sum())
    logs = np.concatenate(
        [log_tail(found.equal, found.pairs, same), log_tail(found.agree, found.nonzero, agree)]
    )
    index = int(np.argmin(logs))
    return f"{label}, {found.describe(index, same)}" if logs[index] < _CLEAR else None
