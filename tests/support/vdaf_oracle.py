"""Prio3 a second time, for tests only: Python integers, one report, no cleverness.

It is written from the draft's text and shares nothing with the product: residues are integers,
polynomials are evaluated by Lagrange's formula, TurboSHAKE128 is pycryptodome's. The published
vectors check it, and then it checks the batched code on circuits for which there is no vector.

`shard_encoded` takes any residues: a client that proves what is false.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from Crypto.Hash import TurboSHAKE128

Ints = list[int]
Call = Callable[[Ints], int]

P64 = 2**64 - 2**32 + 1
P128 = 2**128 - 28 * 2**64 + 1


class Rejected(Exception):
    """The report is not valid."""


def root_of_unity(p: int, order: int) -> int:
    return pow(7, (p - 1) // order, p)


def roots(p: int, order: int) -> Ints:
    w = root_of_unity(p, order)
    return [pow(w, k, p) for k in range(order)]


@functools.lru_cache(maxsize=2048)
def basis(p: int, order: int, t: int) -> Ints:
    """The value at t of each Lagrange polynomial over the `order`-th roots of unity."""
    nodes = roots(p, order)
    if t in nodes:
        return [int(x == t) for x in nodes]
    factor = (pow(t, order, p) - 1) * pow(order, -1, p)
    return [factor * x * pow(t - x, -1, p) % p for x in nodes]


def evaluate(p: int, values: Ints, t: int) -> int:
    """The polynomial of degree below n with these values at the n-th roots of unity, at t."""
    return sum(x * y for x, y in zip(values, basis(p, len(values), t), strict=True)) % p


def extend(p: int, values: Ints, size: int) -> Ints:
    """The values at all `size`-th roots of unity, from those at the first few, by interpolation."""
    nodes = roots(p, size)
    known, extended = nodes[: len(values)], list(values)
    for t in nodes[len(values) :]:
        total = 0
        for value, x in zip(values, known, strict=True):
            above, below = value, 1
            for other in known:
                if other != x:
                    above, below = above * (t - other) % p, below * (x - other) % p
            total += above * pow(below, -1, p)
        extended.append(total % p)
    return extended


def power_of_two(n: int) -> int:
    size = 1
    while size < n:
        size *= 2
    return size


def digits(value: int, largest: int) -> Ints:
    bits = largest.bit_length()
    reach = 2 ** (bits - 1) - 1
    is_beyond = value > reach
    rest = value - (largest - reach) if is_beyond else value
    return [(rest >> place) & 1 for place in range(bits - 1)] + [int(is_beyond)]


def undigits(encoded: Ints, largest: int) -> int:
    bits = largest.bit_length()
    weights = [2**place for place in range(bits - 1)] + [largest - (2 ** (bits - 1) - 1)]
    return sum(weight * digit for weight, digit in zip(weights, encoded, strict=True))


@dataclass(frozen=True)
class OracleCircuit:
    """Numbers and functions that define a circuit.

    `evaluate(call, meas, joint_rand, num_shares)` gives the outputs, not reduced modulo p.
    """

    p: int
    encoded_size: int
    arity: int
    degree: int
    gadget: Call
    num_calls: int
    meas_len: int
    joint_rand_len: int
    num_outputs: int
    encode: Callable[[object], Ints]
    evaluate: Callable[[Call, Ints, Ints, int], Ints]
    truncate: Callable[[Ints], Ints]

    @property
    def wire_poly_len(self) -> int:
        return power_of_two(1 + self.num_calls)

    @property
    def gadget_poly_len(self) -> int:
        return self.degree * (self.wire_poly_len - 1) + 1

    @property
    def proof_len(self) -> int:
        return self.arity + self.gadget_poly_len

    @property
    def query_rand_len(self) -> int:
        return 1 + (self.num_outputs if self.num_outputs > 1 else 0)

    @property
    def verifier_len(self) -> int:
        return 2 + self.arity


def count() -> OracleCircuit:
    return OracleCircuit(
        p=P64,
        encoded_size=8,
        arity=2,
        degree=2,
        gadget=lambda wires: wires[0] * wires[1],
        num_calls=1,
        meas_len=1,
        joint_rand_len=0,
        num_outputs=1,
        encode=lambda measurement: [int(measurement)],
        evaluate=lambda call, meas, _rand, _shares: [call([meas[0], meas[0]]) - meas[0]],
        truncate=lambda meas: meas,
    )


def sum_(max_measurement: int) -> OracleCircuit:
    bits = max_measurement.bit_length()
    return OracleCircuit(
        p=P64,
        encoded_size=8,
        arity=1,
        degree=2,
        gadget=lambda wires: wires[0] ** 2 - wires[0],
        num_calls=bits,
        meas_len=bits,
        joint_rand_len=0,
        num_outputs=bits,
        encode=lambda measurement: digits(int(measurement), max_measurement),
        evaluate=lambda call, meas, _rand, _shares: [call([digit]) for digit in meas],
        truncate=lambda meas: [undigits(meas, max_measurement)],
    )


def higher_degree() -> OracleCircuit:
    return OracleCircuit(
        p=P64,
        encoded_size=8,
        arity=1,
        degree=3,
        gadget=lambda wires: wires[0] * (wires[0] - 1) * (wires[0] - 2),
        num_calls=1,
        meas_len=1,
        joint_rand_len=0,
        num_outputs=1,
        encode=lambda measurement: [int(measurement)],
        evaluate=lambda call, meas, _rand, _shares: [call(meas)],
        truncate=lambda meas: meas,
    )


def bit_vector(
    p: int,
    meas_len: int,
    chunk_length: int,
    encode: Callable[[object], Ints],
    truncate: Callable[[Ints], Ints],
    extra_checks: Callable[[Ints, int], Ints] = lambda _meas, _one: [],
) -> OracleCircuit:
    """A circuit of bits; `extra_checks(meas, 1 / num_shares)` are the outputs after the first."""
    num_calls = -(-meas_len // chunk_length)

    def evaluate_bits(call: Call, meas: Ints, joint_rand: Ints, num_shares: int) -> Ints:
        one = pow(num_shares, -1, p)
        padded = meas + [0] * (num_calls * chunk_length - meas_len)
        range_check = 0
        for i, r in enumerate(joint_rand):
            wires = []
            for j, m in enumerate(padded[i * chunk_length : (i + 1) * chunk_length]):
                wires += [pow(r, j + 1, p) * m % p, (m - one) % p]
            range_check += call(wires)
        return [range_check, *extra_checks(meas, one)]

    return OracleCircuit(
        p=p,
        encoded_size=8 if p == P64 else 16,
        arity=2 * chunk_length,
        degree=2,
        gadget=lambda wires: sum(x * y for x, y in zip(wires[::2], wires[1::2], strict=True)),
        num_calls=num_calls,
        meas_len=meas_len,
        joint_rand_len=num_calls,
        num_outputs=1 + len(extra_checks([0] * meas_len, 1)),
        encode=encode,
        evaluate=evaluate_bits,
        truncate=truncate,
    )


def groups(meas: Ints, size: int) -> list[Ints]:
    return [meas[start : start + size] for start in range(0, len(meas), size)]


def sum_vec(length: int, max_measurement: int, chunk_length: int, p: int = P128) -> OracleCircuit:
    bits = max_measurement.bit_length()
    return bit_vector(
        p,
        length * bits,
        chunk_length,
        lambda values: [digit for value in values for digit in digits(value, max_measurement)],
        lambda meas: [undigits(group, max_measurement) for group in groups(meas, bits)],
    )


def histogram(length: int, chunk_length: int) -> OracleCircuit:
    return bit_vector(
        P128,
        length,
        chunk_length,
        lambda bucket: [int(index == bucket) for index in range(length)],
        lambda meas: meas,
        lambda meas, one: [sum(meas) - one],
    )


def multihot_count_vec(length: int, max_weight: int, chunk_length: int) -> OracleCircuit:
    return bit_vector(
        P128,
        length + max_weight.bit_length(),
        chunk_length,
        lambda values: [int(value) for value in values] + digits(sum(values), max_weight),
        lambda meas: meas[:length],
        lambda meas, _one: [sum(meas[:length]) - undigits(meas[length:], max_weight)],
    )


def l1_bound_sum(length: int, max_value: int, chunk_length: int) -> OracleCircuit:
    bits = max_value.bit_length()

    def values_of(meas: Ints) -> Ints:
        return [undigits(group, max_value) for group in groups(meas, bits)]

    return bit_vector(
        P128,
        (length + 1) * bits,
        chunk_length,
        lambda values: [
            digit for value in [*values, sum(values)] for digit in digits(value, max_value)
        ],
        lambda meas: values_of(meas)[:-1],
        lambda meas, _one: [sum(values_of(meas)[:-1]) - values_of(meas)[-1]],
    )


def prove(circuit: OracleCircuit, meas: Ints, prove_rand: Ints, joint_rand: Ints) -> Ints:
    p = circuit.p
    calls: list[Ints] = []

    def call(wires: Ints) -> int:
        calls.append(wires)
        return circuit.gadget(wires)

    circuit.evaluate(call, meas, joint_rand, 1)
    polys = wire_polys(circuit, prove_rand, calls)
    points = roots(p, power_of_two(circuit.gadget_poly_len))[: circuit.gadget_poly_len]
    return prove_rand + [
        circuit.gadget([evaluate(p, poly, point) for poly in polys]) % p for point in points
    ]


def query(
    circuit: OracleCircuit,
    meas: Ints,
    proof: Ints,
    query_rand: Ints,
    joint_rand: Ints,
    num_shares: int,
) -> Ints:
    p, n = circuit.p, circuit.wire_poly_len
    seeds = proof[: circuit.arity]
    size = power_of_two(circuit.gadget_poly_len)
    gadget_poly = extend(p, proof[circuit.arity :], size)
    calls: list[Ints] = []

    def call(wires: Ints) -> int:
        calls.append(wires)
        return gadget_poly[len(calls) * (size // n)]

    outputs = circuit.evaluate(call, meas, joint_rand, num_shares)
    if len(outputs) > 1:
        reduced = sum(r * out for r, out in zip(query_rand, outputs, strict=False))
    else:
        [reduced] = outputs
    t = query_rand[-1]
    if pow(t, n, p) == 1:
        raise Rejected("root of unity")
    checks = [evaluate(p, poly, t) for poly in wire_polys(circuit, seeds, calls)]
    return [reduced % p, *checks, evaluate(p, gadget_poly, t)]


def decide(circuit: OracleCircuit, verifier: Ints) -> bool:
    reduced, *wires, gadget = verifier
    return reduced == 0 and (circuit.gadget(wires) - gadget) % circuit.p == 0


def wire_polys(circuit: OracleCircuit, seeds: Ints, calls: list[Ints]) -> list[Ints]:
    padding = [0] * (circuit.wire_poly_len - 1 - len(calls))
    return [[seed, *(wires[j] for wires in calls), *padding] for j, seed in enumerate(seeds)]


@dataclass(frozen=True)
class OraclePrio3:
    """Prio3 over an oracle's circuit."""

    algorithm_id: int
    circuit: OracleCircuit
    num_shares: int = 2
    num_proofs: int = 1

    @property
    def rand_size(self) -> int:
        """Bytes that a client draws: a seed for each helper and for the proof, and blinds."""
        num_blinds = self.num_shares if self.circuit.joint_rand_len else 0
        return 32 * (self.num_shares + num_blinds)

    def stream(
        self, seed: bytes, usage: int, ctx: bytes, binder: bytes
    ) -> TurboSHAKE128.TurboSHAKE:
        dst = bytes([18, 0]) + self.algorithm_id.to_bytes(4, "big") + usage.to_bytes(2, "big") + ctx
        message = len(dst).to_bytes(2, "little") + dst + bytes([len(seed)]) + seed + binder
        return TurboSHAKE128.new(domain=1, data=message)

    def seed(self, seed: bytes, usage: int, ctx: bytes, binder: bytes) -> bytes:
        return self.stream(seed, usage, ctx, binder).read(32)

    def vector(self, length: int, seed: bytes, usage: int, ctx: bytes, binder: bytes) -> Ints:
        stream, vector = self.stream(seed, usage, ctx, binder), []
        while len(vector) < length:
            number = int.from_bytes(stream.read(self.circuit.encoded_size), "little")
            if number < self.circuit.p:
                vector.append(number)
        return vector

    def encode_vector(self, vector: Ints) -> bytes:
        return b"".join(x.to_bytes(self.circuit.encoded_size, "little") for x in vector)

    def decode_vector(self, data: bytes) -> Ints:
        size = self.circuit.encoded_size
        vector = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
        if any(x >= self.circuit.p for x in vector):
            raise Rejected("not a residue")
        return vector

    def helper_shares(self, ctx: bytes, agg_id: int, seed: bytes) -> tuple[Ints, Ints]:
        proofs_len = self.circuit.proof_len * self.num_proofs
        return (
            self.vector(self.circuit.meas_len, seed, 1, ctx, bytes([agg_id])),
            self.vector(proofs_len, seed, 2, ctx, bytes([self.num_proofs, agg_id])),
        )

    def joint_rands(self, ctx: bytes, seed: bytes) -> list[Ints]:
        length = self.circuit.joint_rand_len
        if not length:
            return [[]] * self.num_proofs
        binder = bytes([self.num_proofs])
        return groups(self.vector(length * self.num_proofs, seed, 3, ctx, binder), length)

    def shard(
        self, ctx: bytes, measurement: object, nonce: bytes, rand: bytes
    ) -> tuple[bytes, list[bytes]]:
        return self.shard_encoded(ctx, self.circuit.encode(measurement), nonce, rand)

    def shard_encoded(
        self, ctx: bytes, meas: Ints, nonce: bytes, rand: bytes
    ) -> tuple[bytes, list[bytes]]:
        p, circuit = self.circuit.p, self.circuit
        seeds = [rand[i : i + 32] for i in range(0, len(rand), 32)]
        helpers = range(self.num_shares - 1)
        has_joint_rand = circuit.joint_rand_len > 0
        if has_joint_rand:
            helper_seeds = [seeds[2 * i] for i in helpers]
            blinds = [seeds[-2], *(seeds[2 * i + 1] for i in helpers)]
        else:
            helper_seeds = seeds[:-1]
            blinds = [b""] * self.num_shares
        expanded = [self.helper_shares(ctx, i + 1, helper_seeds[i]) for i in helpers]
        leader = [
            (m - sum(shares)) % p
            for m, *shares in zip(meas, *(share for share, _ in expanded), strict=True)
        ]
        parts = b""
        if has_joint_rand:
            for agg_id, share in enumerate([leader, *(share for share, _ in expanded)]):
                binder = bytes([agg_id]) + nonce + self.encode_vector(share)
                parts += self.seed(blinds[agg_id], 7, ctx, binder)
        joint_rands = self.joint_rands(ctx, self.seed(bytes(32), 6, ctx, parts))
        binder = bytes([self.num_proofs])
        prove_rand = self.vector(circuit.arity * self.num_proofs, seeds[-1], 4, ctx, binder)
        proofs = []
        for rand_of_proof, joint_rand in zip(
            groups(prove_rand, circuit.arity), joint_rands, strict=True
        ):
            proofs += prove(circuit, meas, rand_of_proof, joint_rand)
        leader_proofs = [
            (x - sum(shares)) % p
            for x, *shares in zip(proofs, *(share for _, share in expanded), strict=True)
        ]
        first = self.encode_vector(leader) + self.encode_vector(leader_proofs) + blinds[0]
        return parts, [first, *(helper_seeds[i] + blinds[i + 1] for i in helpers)]

    def verify_init(
        self,
        verify_key: bytes,
        ctx: bytes,
        agg_id: int,
        nonce: bytes,
        public_share: bytes,
        input_share: bytes,
    ) -> tuple[Ints, bytes, bytes]:
        """Return the out share, the joint randomness seed and the verifier share."""
        circuit = self.circuit
        blind_size = 32 if circuit.joint_rand_len else 0
        end = len(input_share) - blind_size
        share, blind = input_share[:end], input_share[end:]
        residues_len = circuit.meas_len + circuit.proof_len * self.num_proofs
        share_size = 32 if agg_id else residues_len * circuit.encoded_size
        if len(share) != share_size or len(public_share) != blind_size * self.num_shares:
            raise Rejected("length")
        if agg_id:
            meas, proofs = self.helper_shares(ctx, agg_id, share)
        else:
            residues = self.decode_vector(share)
            meas, proofs = residues[: circuit.meas_len], residues[circuit.meas_len :]
        part, seed = b"", b""
        if blind_size:
            binder = bytes([agg_id]) + nonce + self.encode_vector(meas)
            part = self.seed(blind, 7, ctx, binder)
            parts = public_share[: 32 * agg_id] + part + public_share[32 * (agg_id + 1) :]
            seed = self.seed(bytes(32), 6, ctx, parts)
        query_rand = self.vector(
            circuit.query_rand_len * self.num_proofs,
            verify_key,
            5,
            ctx,
            bytes([self.num_proofs]) + nonce,
        )
        verifiers = []
        for proof, rand_of_query, joint_rand in zip(
            groups(proofs, circuit.proof_len),
            groups(query_rand, circuit.query_rand_len),
            self.joint_rands(ctx, seed),
            strict=True,
        ):
            verifiers += query(circuit, meas, proof, rand_of_query, joint_rand, self.num_shares)
        out_share = [x % circuit.p for x in circuit.truncate(meas)]
        return out_share, seed, self.encode_vector(verifiers) + part

    def verifier_shares_to_message(self, ctx: bytes, verifier_shares: Sequence[bytes]) -> bytes:
        circuit = self.circuit
        end = circuit.verifier_len * self.num_proofs * circuit.encoded_size
        residues = [self.decode_vector(share[:end]) for share in verifier_shares]
        verifiers = [sum(column) % circuit.p for column in zip(*residues, strict=True)]
        if not all(
            decide(circuit, verifier) for verifier in groups(verifiers, circuit.verifier_len)
        ):
            raise Rejected("proof")
        if not circuit.joint_rand_len:
            return b""
        return self.seed(bytes(32), 6, ctx, b"".join(share[end:] for share in verifier_shares))
