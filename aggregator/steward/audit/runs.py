"""Collections of neighbouring data sets, as a dishonest aggregator and the collector see them.

A task, its parties and their keys are made up on the spot and forgotten afterwards. Reports of two
neighbouring data sets are sharded, verified and summed once; then both aggregators release the sum
over and over, each through `protocol.collection.release`, and the collector opens what they sealed.

A dishonest aggregator knows its own draw of noise and subtracts it from the result. What is left is
the true sum with the other aggregator's noise, which has to be enough. It is seen from four
vantages, none of which must reveal more than epsilon if the noise is drawn correctly:

- alone;
- less the noise of the same aggregator's last release, which would leave the true sum if noise were
  drawn once and reused;
- less the dishonest aggregator's noise once more, or with it, either of which would leave the true
  sum if both drew from one source.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from aggregator.codec import encode
from aggregator.dap.hpke import (
    HpkeCiphertext,
    HpkeKeypair,
    aggregate_share_info,
    generate_keypair,
    open_,
)
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import CollectionJobReq, TimeIntervalQuery, aggregate_share_aad
from aggregator.dap.profile import BatchMode, Role
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Interval
from aggregator.dp.policy import encode_policy
from aggregator.dp.policy_table import policy_from_mapping
from aggregator.dp.sensitivity import l1_sensitivity
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.collection import release
from aggregator.protocol.task import Task
from aggregator.steward.audit.refutation import Leans, Neighbours
from aggregator.vdaf.circuits import Measurement
from aggregator.vdaf.instances import Value, configuration_bytes, vdaf_from_parameters
from field import Vector, lift

ROLES = (Role.LEADER, Role.HELPER)
_OTHERS = 9
"""How many reports there are besides the one that differs; their number does not matter."""


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedTask:
    """What is audited: a type of measurement and a privacy policy, as in a task file."""

    vdaf_type: str
    parameters: Mapping[str, Value]
    privacy: Mapping[str, str]

    def promise(self) -> tuple[Fraction, Fraction]:
        """Return the epsilon and delta of one release.

        Raises `ParameterError` if the settings make no policy, or one that promises nothing.
        """
        circuit = vdaf_from_parameters(self.vdaf_type, self.parameters).circuit
        mechanism = policy_from_mapping(self.privacy).mechanism
        promised = mechanism.guarantee(circuit)
        if promised.epsilon is None or promised.delta is None:
            raise ParameterError(
                f"mechanism: {mechanism.name} promises nothing that could be refuted"
            )
        return promised.epsilon, promised.delta


@dataclasses.dataclass(frozen=True, slots=True)
class DataSet:
    """One of the two data sets, summed: the true sums, and each aggregator's share of them."""

    sums: tuple[int, ...]
    agg_shares: dict[Role, Vector] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedBatch:
    """The result of one batch, and what each aggregator drew, which only that aggregator sees."""

    values: list[int]
    noise: dict[Role, list[int]] = dataclasses.field(repr=False)


class Audit:
    """A made-up task with its two data sets, ready to be collected many times."""

    def __init__(self, audited: AuditedTask, entropy: Entropy) -> None:
        """Make the task, the collector's key pair and both data sets, or raise `ParameterError`."""
        self._entropy = entropy
        self._keypair = generate_keypair(0, entropy)
        self.task = _make_task(audited, self._keypair, entropy)
        self._request = CollectionJobReq(TimeIntervalQuery(Interval.of(0, 1)))
        self._aad = aggregate_share_aad(
            self.task.task_id, self.task.configuration_bytes, encode(self._request)
        )
        circuit = self.task.prio3.circuit
        first, second = circuit.furthest_measurements()
        self._data_sets = (self._sum_up(first, first), self._sum_up(second, first))
        self.neighbours = Neighbours(*(data_set.sums for data_set in self._data_sets))
        if self.neighbours.distance == 0:
            raise ParameterError(
                f"no measurement of Prio3{circuit.name} changes its sums: there is nothing to audit"
            )
        stated = l1_sensitivity(circuit)
        if self.neighbours.distance != stated:
            raise ParameterError(
                f"the furthest measurements of Prio3{circuit.name} move its sums by "
                f"{self.neighbours.distance}, not by {stated} as its circuit says"
            )

    def observe(self, pairs: int) -> dict[str, Leans]:
        """Collect each data set `2 * pairs` times, and return what was seen, by vantage.

        Both collections of a pair follow each other and are of the same data set.
        """
        observations: dict[str, Leans] = {}

        def note(vantage: str, index: int, outcome: list[int]) -> None:
            leans = observations.setdefault(vantage, (Counter(), Counter()))
            leans[index][self.neighbours.lean(outcome)] += 1

        for _ in range(pairs):
            for index, data_set in enumerate(self._data_sets):
                pair = self._collect(data_set), self._collect(data_set)
                for honest, peer in (ROLES, ROLES[::-1]):
                    name = f"{honest.name.lower()}'s noise"
                    outcomes = [_minus(each.values, each.noise[peer]) for each in pair]
                    for collection, outcome in zip(pair, outcomes, strict=True):
                        note(name, index, outcome)
                        twice = _minus(outcome, collection.noise[peer])
                        note(f"{name}, less the peer's", index, twice)
                        note(f"{name}, with the peer's", index, collection.values)
                    # Whoever filled the last batch knows its true sums, and so its noise.
                    last = _minus(outcomes[0], data_set.sums)
                    note(f"{name}, less its last", index, _minus(outcomes[1], last))
        return observations

    def _collect(self, data_set: DataSet) -> OpenedBatch:
        """Release both shares, open them, and add them up as the collector does."""
        task = self.task
        opened: list[Vector] = []
        noise: dict[Role, list[int]] = {}
        for role in ROLES:
            share = data_set.agg_shares[role]
            sealed = release(task, role, share, self._request, self._entropy)
            opened.append(self._open(role, sealed))
            noise[role] = lift(opened[-1] - share)
        result = task.prio3.unshard_signed(opened, _OTHERS + 1)
        return OpenedBatch([result] if isinstance(result, int) else result, noise)

    def _open(self, role: Role, sealed: HpkeCiphertext) -> Vector:
        plaintext = open_(
            self._keypair, aggregate_share_info(self.task.profile.tag, role), self._aad, sealed
        )
        return self.task.prio3.decode_agg_share(plaintext)

    def _sum_up(self, measurement: Measurement, others: Measurement) -> DataSet:
        """Shard, verify and sum one report of `measurement` and some of `others`."""
        prio3, ctx, rows = self.task.prio3, self.task.ctx, _OTHERS + 1
        nonces = [self._entropy.bytes(prio3.nonce_size) for _ in range(rows)]
        rands = [self._entropy.bytes(prio3.rand_size) for _ in range(rows)]
        shards = prio3.shard(ctx, [measurement] + [others] * _OTHERS, nonces, rands)
        verify_key = self._entropy.bytes(prio3.verify_key_size)
        inits = [
            prio3.verify_init(
                verify_key, ctx, agg_id, nonces, shards.public_shares, shards.input_shares[agg_id]
            )
            for agg_id in range(len(ROLES))
        ]
        messages = prio3.verifier_shares_to_message(
            ctx, [init.verifier_share_rows for init in inits]
        )
        agg_shares = {}
        for role, init in zip(ROLES, inits, strict=True):
            out_shares = prio3.verify_next(init.state, messages)
            for error in out_shares.errors:
                if error is not None:
                    raise error
            agg_shares[role] = prio3.agg_update(prio3.agg_init(), out_shares.shares)
        result = prio3.unshard(list(agg_shares.values()), rows)
        return DataSet((result,) if isinstance(result, int) else tuple(result), agg_shares)


def _make_task(audited: AuditedTask, keypair: HpkeKeypair, entropy: Entropy) -> Task:
    prio3 = vdaf_from_parameters(audited.vdaf_type, audited.parameters)
    configuration = TaskConfiguration(
        task_info=b"audit",
        leader_aggregator_endpoint="http://leader.invalid/",
        helper_aggregator_endpoint="http://helper.invalid/",
        time_precision=1,
        min_batch_size=1,
        batch_mode=BatchMode.TIME_INTERVAL,
        vdaf_type=prio3.algorithm_id,
        vdaf_configuration=configuration_bytes(prio3),
        extensions=task_extensions(privacy=encode_policy(policy_from_mapping(audited.privacy))),
    )
    return Task.create(
        task_id=TaskId(entropy.bytes(TaskId.size)),
        configuration=configuration,
        collector_hpke_config=keypair.config,
        max_reports=_OTHERS + 1,
    )


def _minus(left: Sequence[int], right: Sequence[int]) -> list[int]:
    return [a - b for a, b in zip(left, right, strict=True)]
