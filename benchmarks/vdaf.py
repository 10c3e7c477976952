"""Times the steps of Prio3 for a batch, and the baselines to compare them with.

Batches are arrays with one row per report, as kernels take them; the extra cost of byte strings is
measured once, for `verify_init`.
"""

import dataclasses
import functools
import time
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from aggregator.vdaf.instances import HISTOGRAM
from aggregator.vdaf.ping_pong import HELPER_ID, LEADER_ID
from aggregator.vdaf.shares import to_strings
from aggregator.vdaf.verification import Aggregator, ReportShares, query_shares
from benchmarks.circuits import CTX, Case, Reports, case, drawn, honest_reports
from benchmarks.timing import Work, least_wall_seconds, median_seconds
from benchmarks.xof import hash_only, permute_only

_GENERAL_REPORTS = 100

_LEAST_SECONDS = 0.02
"""How much a thread does at a time, so that handing work to it costs little in comparison."""


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyTimes:
    """Microseconds of processor time per report, for one aggregator.

    Attributes:
        init: `verify_init`, from arrays to arrays.
        from_strings: `verify_init`, from lists of byte strings to lists of byte strings.
        hashing: The XOF alone, absorbing and squeezing as much as `init` does.
        permutations: Only the Keccak permutations in that.
    """

    init: float
    from_strings: float
    hashing: float
    permutations: float


@dataclasses.dataclass(frozen=True, slots=True)
class StepTimes:
    """Microseconds of processor time per report.

    Attributes:
        leader: The leader's `verify_init`.
        helper: The helper's.
        general: The helper's on the general path, which works for every circuit.
        message: `verifier_shares_to_message`.
        finish: `verify_next`.
        aggregate: `agg_update`.
    """

    leader: float
    helper: float
    general: float
    message: float
    finish: float
    aggregate: float

    @property
    def rest(self) -> float:
        """All that one aggregator does after `verify_init`."""
        return self.message + self.finish + self.aggregate


@dataclasses.dataclass(frozen=True, slots=True)
class ShardTimes:
    """Microseconds of processor time.

    Attributes:
        batch: Per report, in a batch.
        single: For a report alone.
    """

    batch: float
    single: float


def time_verify(made: Case, agg_id: int, reports: int, rounds: int) -> VerifyTimes:
    """Time one aggregator's `verify_init` and the hashing in it, by turns."""
    strings = honest_reports(made, reports)
    batch = strings.as_arrays()
    seconds = median_seconds(
        {
            "init": lambda: batch.verify_init(agg_id),
            "from_strings": lambda: to_strings(strings.verify_init(agg_id).verifier_share_rows),
            "hashing": lambda: hash_only(made.prio3, CTX, agg_id, reports),
            "permutations": lambda: permute_only(made.prio3, CTX, agg_id, reports),
        },
        rounds,
    )
    return VerifyTimes(**{name: 1e6 * each / reports for name, each in seconds.items()})


class _Steps:
    """Both aggregators' steps, each on what the ones before have just made, as in service."""

    def __init__(self, batch: Reports) -> None:
        self._batch = batch
        self._agg_share = batch.prio3.agg_init()

    def leader(self) -> None:
        self._leader = self._batch.verify_init(LEADER_ID)

    def helper(self) -> None:
        self._helper = self._batch.verify_init(HELPER_ID)

    def message(self) -> None:
        shares = [self._leader.verifier_share_rows, self._helper.verifier_share_rows]
        self._messages = self._batch.prio3.verifier_shares_to_message(CTX, shares)

    def finish(self) -> None:
        self._out_shares = self._batch.prio3.verify_next(self._helper.state, self._messages)

    def aggregate(self) -> None:
        self._batch.prio3.agg_update(self._agg_share, self._out_shares.shares)

    def drop(self) -> None:
        """Free what was made before the next batch, as services do."""
        del self._leader, self._helper, self._messages, self._out_shares


def time_steps(made: Case, reports: int, rounds: int) -> StepTimes:
    """Time every step of verification and aggregation by turns, in the order of service.

    The general path takes separate turns, because it would evict the others from the caches.
    """
    batch = honest_reports(made, reports).as_arrays()
    few = min(reports, _GENERAL_REPORTS)
    steps, general_shares = _Steps(batch), _report_shares(batch, slice(0, few))
    works: dict[str, Work] = {
        "leader": steps.leader,
        "helper": steps.helper,
        "message": steps.message,
        "finish": steps.finish,
        "aggregate": steps.aggregate,
        "drop": steps.drop,
    }
    seconds = median_seconds(works, rounds)
    del seconds["drop"]
    general = median_seconds({"general": lambda: query_shares(made.prio3, general_shares)}, rounds)
    return StepTimes(
        general=1e6 * general["general"] / few,
        **{name: 1e6 * each / reports for name, each in seconds.items()},
    )


def time_shard(made: Case, reports: int, rounds: int) -> ShardTimes:
    """Time sharding of a batch and of one report, by turns."""
    prio3 = made.prio3
    nonces, rands = drawn(prio3.nonce_size, reports), drawn(prio3.rand_size, reports)
    measurements = [made.measurement] * reports
    seconds = median_seconds(
        {
            "batch": lambda: prio3.shard(CTX, measurements, nonces, rands),
            "single": lambda: prio3.shard(CTX, measurements[:1], nonces[:1], rands[:1]),
        },
        rounds,
    )
    return ShardTimes(batch=1e6 * seconds["batch"] / reports, single=1e6 * seconds["single"])


def speedup_of_threads(made: Case, agg_id: int, reports: int, threads: int, rounds: int) -> float:
    """Return how many times as many reports several threads verify as one, by the wall clock.

    Each works through its own batches, as in the services; kernels hold no lock while they run.
    """
    batches = [honest_reports(made, reports).as_arrays() for _ in range(threads)]
    works = [functools.partial(batch.verify_init, agg_id) for batch in batches]
    begin = time.perf_counter()
    for work in works:
        work()
    turns = 1 + int(threads * _LEAST_SECONDS / (time.perf_counter() - begin))
    parts = [functools.partial(_in_turns, [work] * turns) for work in works]
    return _speedup(functools.partial(_in_turns, works * turns), parts, rounds)


def speedup_of_halves(made: Case, agg_id: int, reports: int, rounds: int) -> float:
    """Return how many times as fast two threads verify half a batch each as one does it all."""
    batch = honest_reports(made, reports).as_arrays()
    halves = slice(0, reports // 2), slice(reports // 2, reports)
    return _speedup(
        lambda: batch.verify_init(agg_id),
        [functools.partial(batch.verify_init, agg_id, half) for half in halves],
        rounds,
    )


def speedup_of_machine(threads: int, rounds: int) -> float:
    """Return the same for permutations that share nothing: what the machine can give just now.

    On an idle machine with enough cores it is the number of threads.
    """
    prio3, reports = case(HISTOGRAM).prio3, 20_000
    part = functools.partial(permute_only, prio3, CTX, HELPER_ID, reports // threads)
    return _speedup(lambda: permute_only(prio3, CTX, HELPER_ID, reports), [part] * threads, rounds)


def _in_turns(works: Sequence[Work]) -> None:
    for work in works:
        work()


def _speedup(whole: Work, parts: Sequence[Work], rounds: int) -> float:
    with ThreadPoolExecutor(len(parts)) as pool:
        seconds = least_wall_seconds(
            {"one": whole, "several": lambda: list(pool.map(lambda part: part(), parts))}, rounds
        )
    return seconds["one"] / seconds["several"]


def working_bytes(made: Case, agg_id: int, reports: int) -> int:
    """Return the most memory that `verify_init` takes, beyond its inputs and outputs."""
    batch = honest_reports(made, reports).as_arrays()
    batch.verify_init(agg_id, slice(0, 1))  # What is kept for the next batch is not counted.
    tracemalloc.start()
    try:
        outputs = batch.verify_init(agg_id)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del outputs
    return peak - kept


def _report_shares(batch: Reports, part: slice) -> ReportShares:
    """Return a helper's shares in the form that the general path takes."""
    arrays = batch.nonces, batch.public_shares, batch.input_shares[HELPER_ID]
    nonces, public_shares, input_shares = (np.asarray(array, np.uint8)[part] for array in arrays)
    aggregator = Aggregator(batch.verify_key, CTX, HELPER_ID)
    return ReportShares(aggregator, nonces, public_shares, input_shares)
