"""Replays test vectors in the published format.

A file for a Prio3 has parameters, reports with every intermediate value, and the steps in order.
A step that should succeed must give the published bytes; a step that should fail must fail. Each
step takes what the file publishes, not what the step before it gave, so one wrong step does not
hide another.

The caller reads the files: this module gets their names and texts.

Source:
    VDAF, "Test Vectors".
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Final, TypeAlias

from aggregator.errors import ParameterError, ReportRejected
from aggregator.vdaf import xof
from aggregator.vdaf.experimental import EXPERIMENTAL
from aggregator.vdaf.instances import TYPES, Value, VdafType
from aggregator.vdaf.prio3 import Prio3, VerifierMessages, VerifyState
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.shares import checked_rows
from aggregator.vdaf.vector_files import JsonObject, VectorFailure, nth
from field import FIELD128, encode, stack

Comparison: TypeAlias = Callable[[], None]
"""Compares a step's results with the published ones; raises `VectorFailure` if they differ."""

Step: TypeAlias = Callable[[JsonObject], Comparison]

XOF_TYPE: Final = "XofTurboShake128"

MAX_XOF_LENGTH: Final = 2**20
"""How many residues a file may ask of the XOF: a wrong length must not exhaust memory."""


def type_name(file_name: str) -> str:
    """Return the type that a file tests: its name up to the first underscore."""
    return file_name.removesuffix(".json").split("_", maxsplit=1)[0]


def run_vector_file(file_name: str, text: str) -> None:
    """Replay one file.

    Args:
        file_name: The last component of its path.
        text: Its contents.

    Raises:
        VectorFailure: The type is unknown, the file is malformed, or a step did not do what the
            file says.
    """
    name, types = type_name(file_name), {**TYPES, **EXPERIMENTAL}
    if name != XOF_TYPE and name not in types:
        raise VectorFailure(f"unknown type {name!r}")
    try:
        vector = JsonObject(json.loads(text), "the file")
    except (ValueError, RecursionError) as error:
        raise VectorFailure(f"not JSON: {error}") from error
    if name == XOF_TYPE:
        _check_xof(vector)
    else:
        _replay(_prio3(types[name], vector), vector)


def _check_xof(vector: JsonObject) -> None:
    """Check the seed derived from one seed, and its expansion into Field128."""
    seed, dst, binder = (vector.byte_string(name) for name in ("seed", "dst", "binder"))
    if len(seed) != SEED_SIZE:
        raise VectorFailure(f"seed must have {SEED_SIZE} bytes, not {len(seed)}")
    derived = xof.derive_seeds(1, seed, dst, binder).tobytes()
    _same("derived_seed", derived, vector.byte_string("derived_seed"))
    length = vector.integer("length")
    if not 0 <= length <= MAX_XOF_LENGTH:
        raise VectorFailure(f"length must be from 0 to {MAX_XOF_LENGTH}, not {length}")
    expanded = xof.expand_into_vectors(FIELD128, length, 1, seed, dst, binder)
    _same("expanded_vec_field128", encode(expanded[0]), vector.byte_string("expanded_vec_field128"))


def _prio3(vdaf_type: VdafType, vector: JsonObject) -> Prio3:
    """Return the Prio3 that a file tests."""
    parameters: dict[str, Value] = {
        each.name: vector.text(each.name) if each.kind is str else vector.integer(each.name)
        for each in vdaf_type.parameters
    }
    try:
        return vdaf_type.prio3(parameters, vector.integer("shares"))
    except ParameterError as error:
        raise VectorFailure(f"no such instance: {error}") from error


def _replay(prio3: Prio3, vector: JsonObject) -> None:
    """Replay all steps of a file."""
    replay = _Replay(prio3, vector)
    steps: dict[str, Step] = {
        "shard": replay.shard,
        "verify_init": replay.verify_init,
        "verifier_shares_to_message": replay.verifier_shares_to_message,
        "verify_next": replay.verify_next,
        "aggregate": replay.aggregate,
        "unshard": replay.unshard,
    }
    operations = vector.objects("operations")
    if not operations:
        raise VectorFailure("no operations")
    for index, operation in enumerate(operations):
        try:
            _do(steps, operation)
        except VectorFailure as failure:
            raise VectorFailure(failure.what, index) from failure


def _do(steps: dict[str, Step], operation: JsonObject) -> None:
    """Replay one step and compare its outcome with the published one."""
    name, should_succeed = operation.text("operation"), operation.boolean("success")
    if name not in steps:
        raise VectorFailure(f"unknown step {name!r}")
    try:
        compare = steps[name](operation)
    except (ReportRejected, ParameterError) as error:
        if should_succeed:
            raise VectorFailure(f"{name} failed: {error}") from error
        return
    if not should_succeed:
        raise VectorFailure(f"{name} succeeded where it should fail")
    compare()


@dataclasses.dataclass(frozen=True, slots=True)
class _Replay:
    """The steps of one file.

    Each raises what the VDAF raises, or returns the comparison of its results with the file's. A
    report's error is a value in a batch; here, where each batch has one report, it is raised.
    """

    prio3: Prio3
    vector: JsonObject
    states: dict[tuple[int, int], VerifyState] = dataclasses.field(default_factory=dict)

    def shard(self, operation: JsonObject) -> Comparison:
        _, report = self._report(operation)
        measurement = report.member("measurement")
        nonce, rand = report.byte_string("nonce"), report.byte_string("rand")
        shards = self.prio3.shard(
            self._ctx,
            [measurement],  # type: ignore[list-item]  # anything but a measurement is refused
            [nonce],
            [rand],
        )

        def compare() -> None:
            _same("public_share", shards.public_shares[0], report.byte_string("public_share"))
            published = report.byte_strings("input_shares")
            if len(published) != self.prio3.num_shares:
                num_shares = self.prio3.num_shares
                raise VectorFailure(f"{len(published)} input_shares, not {num_shares}")
            for agg_id, share in enumerate(published):
                _same(f"input_shares[{agg_id}]", shards.input_shares[agg_id][0], share)

        return compare

    def verify_init(self, operation: JsonObject) -> Comparison:
        self._check_agg_param()
        index, report = self._report(operation)
        agg_id = operation.integer("aggregator_id")
        init = self.prio3.verify_init(
            self.vector.byte_string("verify_key"),
            self._ctx,
            agg_id,
            [report.byte_string("nonce")],
            [report.byte_string("public_share")],
            [nth(report.byte_strings("input_shares"), agg_id, "input_shares")],
        )
        _raise_error(init.state.errors[0])
        self.states[index, agg_id] = init.state

        def compare() -> None:
            published = nth(report.byte_string_lists("verifier_shares"), 0, "verifier_shares")
            share = nth(published, agg_id, "verifier_shares")
            _same(f"verifier_shares[{agg_id}]", init.verifier_share_rows.tobytes(), share)

        return compare

    def verifier_shares_to_message(self, operation: JsonObject) -> Comparison:
        self._check_agg_param()
        _, report = self._report(operation)
        turn = operation.integer("round")
        shares = nth(report.byte_string_lists("verifier_shares"), turn, "verifier_shares")
        size = self.prio3.verifier_share_size
        rows = [checked_rows("verifier share", [share], 1, size) for share in shares]
        messages = self.prio3.verifier_shares_to_message(self._ctx, rows)
        _raise_error(messages.errors[0])

        def compare() -> None:
            published = nth(report.byte_strings("verifier_messages"), turn, "verifier_messages")
            _same("verifier_message", messages.rows.tobytes(), published)

        return compare

    def verify_next(self, operation: JsonObject) -> Comparison:
        index, report = self._report(operation)
        agg_id, turn = operation.integer("aggregator_id"), operation.integer("round")
        if turn != 1:
            raise VectorFailure(f"verify_next has round 1 only, not {turn}")
        if (index, agg_id) not in self.states:
            raise VectorFailure("verify_next without a verify_init that succeeded")
        message = nth(report.byte_strings("verifier_messages"), turn - 1, "verifier_messages")
        rows = checked_rows("verifier message", [message], 1, self.prio3.verifier_message_size)
        messages = VerifierMessages(rows, {})
        out_shares = self.prio3.verify_next(self.states[index, agg_id], messages)
        _raise_error(out_shares.errors[0])

        def compare() -> None:
            published = nth(report.byte_strings("out_shares"), agg_id, "out_shares")
            _same(f"out_shares[{agg_id}]", encode(out_shares.shares[0]), published)

        return compare

    def aggregate(self, operation: JsonObject) -> Comparison:
        self._check_agg_param()
        agg_id = operation.integer("aggregator_id")
        # A report that failed verification has no out shares.
        verified = filter(None, (report.byte_strings("out_shares") for report in self._reports))
        out_shares = [
            self.prio3.decode_agg_share(nth(shares, agg_id, "out_shares")) for shares in verified
        ]
        agg_share = self.prio3.agg_init()
        if out_shares:
            agg_share = self.prio3.agg_update(agg_share, stack(out_shares))

        def compare() -> None:
            published = nth(self.vector.byte_strings("agg_shares"), agg_id, "agg_shares")
            encoded = self.prio3.encode_agg_share(agg_share)
            _same(f"agg_shares[{agg_id}]", encoded, published)

        return compare

    def unshard(self, operation: JsonObject) -> Comparison:  # noqa: ARG002  like the other steps
        self._check_agg_param()
        agg_shares = [
            self.prio3.decode_agg_share(share) for share in self.vector.byte_strings("agg_shares")
        ]
        result = self.prio3.unshard(agg_shares, len(self._reports))

        def compare() -> None:
            published = self.vector.member("agg_result")
            if result != published:
                raise VectorFailure(f"agg_result is {result}, published {published}")

        return compare

    @property
    def _ctx(self) -> bytes:
        return self.vector.byte_string("ctx")

    @property
    def _reports(self) -> list[JsonObject]:
        return self.vector.objects("reports")

    def _report(self, operation: JsonObject) -> tuple[int, JsonObject]:
        index = operation.integer("report_index")
        return index, nth(self._reports, index, "reports")

    def _check_agg_param(self) -> None:
        if self.vector.byte_string("agg_param"):
            raise ParameterError("agg_param must be empty")


def _same(what: str, computed: bytes, published: bytes) -> None:
    """Refuse a result that is not the published one."""
    if computed != published:
        raise VectorFailure(f"{what} is not the published one")


def _raise_error(error: ReportRejected | None) -> None:
    """Raise the error of a batch's only report, if any."""
    if error is not None:
        raise error
