/**
 * Prio3's sharding: a measurement becomes a public share and an input share per aggregator.
 *
 * Source: VDAF, "Sharding" of Prio3 and "Generating the Proof".
 */

import { betweenPowers } from './transform.js';
import { Xof } from './xof.js';

const VERSION = 18; // of every domain separation tag, in VDAF drafts 18 to 20
const SEED = 32;
const [MEAS_SHARE, PROOF_SHARE, JOINT_RAND, PROVE_RAND, , JOINT_RAND_SEED, JOINT_RAND_PART] = [
  1, 2, 3, 4, 5, 6, 7,
];

export class Prio3 {
  /**
   * @param {number} algorithmId the code point
   * @param {object} circuit of `CIRCUITS`
   * @param {number} shares how many aggregators there are
   * @param {number} proofs how many proofs a report carries
   */
  constructor(algorithmId, circuit, shares = 2, proofs = 1) {
    const { field, arity, calls, length } = circuit;
    let points = 1;
    while (points < 1 + calls) points *= 2;
    const seeds = circuit.jointRand ? 2 : 1;
    const proof = arity + 2 * points - 1;
    Object.assign(this, { algorithmId, circuit, shares, proofs, points, proof });
    /** Random bytes that one report takes. */
    this.randSize = shares * seeds * SEED;
    /** Bytes of the first aggregator's input share. */
    this.leaderShareSize = (length + proof * proofs) * field.bytes + (seeds - 1) * SEED;
  }

  /** The stream of one use of one seed. */
  stream(ctx, usage, seed, ...binder) {
    const tag = new Uint8Array(8 + ctx.length);
    const view = new DataView(tag.buffer);
    tag[0] = VERSION;
    view.setUint32(2, this.algorithmId);
    view.setUint16(6, usage);
    tag.set(ctx, 8);
    return new Xof(seed, tag, ...binder);
  }

  /** Residues out of one use of one seed. */
  residues(length, ...use) {
    const stream = this.stream(...use);
    const vector = this.circuit.field.sample(stream, length);
    stream.erase();
    return vector;
  }

  /** The first bytes of one use of one seed: themselves a seed. */
  seed(...use) {
    const stream = this.stream(...use);
    const bytes = stream.next(SEED);
    stream.erase();
    return bytes;
  }

  /**
   * @param {Uint8Array} ctx the application context
   * @param measurement as the circuit takes it
   * @param {Uint8Array} nonce 16 bytes
   * @param {Uint8Array} rand `randSize` bytes
   * @returns {{publicShare: Uint8Array, inputShares: Uint8Array[]}}
   */
  shard(ctx, measurement, nonce, rand) {
    const { circuit, proofs, shares } = this;
    const { field, length } = circuit;
    if (rand.length !== this.randSize) throw new RangeError(`rand must be ${this.randSize} bytes`);
    const bits = circuit.encode(measurement);
    const blinded = circuit.jointRand > 0;
    const seedAt = (i) => rand.subarray(i * SEED, (i + 1) * SEED);
    const helpers = [];
    for (let id = 1; id < shares; id++) {
      const at = (id - 1) * (blinded ? 2 : 1);
      helpers.push({ id, seed: seedAt(at), blind: blinded ? seedAt(at + 1) : new Uint8Array(0) });
    }
    const proveSeed = rand.subarray(rand.length - SEED);
    const blind = blinded ? rand.subarray(rand.length - 2 * SEED, rand.length - SEED) : [];

    const own = field.vector(length);
    for (let i = 0; i < length; i++) own[i * field.limbs] = bits[i];
    const parts = [];
    for (const helper of helpers) {
      const share = this.residues(length, ctx, MEAS_SHARE, helper.seed, [helper.id]);
      for (let i = 0; i < own.length; i++) own[i] -= share[i];
      if (blinded) {
        const encoded = field.encode(share);
        const binder = [[helper.id], nonce, encoded];
        parts.push(this.seed(ctx, JOINT_RAND_PART, helper.blind, ...binder));
        encoded.fill(0);
      }
      share.fill(0);
    }
    const measShare = field.encode(own);
    own.fill(0);
    if (blinded) parts.unshift(this.seed(ctx, JOINT_RAND_PART, blind, [0], nonce, measShare));
    const publicShare = joined(parts);

    const proof = this.prove(ctx, bits, proveSeed, publicShare);
    bits.fill(0);
    for (const { id, seed } of helpers) {
      const share = this.residues(this.proof * proofs, ctx, PROOF_SHARE, seed, [proofs, id]);
      for (let i = 0; i < proof.length; i++) proof[i] -= share[i];
      share.fill(0);
    }
    const proofShare = field.encode(proof);
    proof.fill(0);
    const inputShares = [
      joined([measShare, proofShare, blind]),
      ...helpers.map((helper) => joined([helper.seed, helper.blind])),
    ];
    measShare.fill(0);
    proofShare.fill(0);
    return { publicShare, inputShares };
  }

  /** All proofs of a report, one after another. */
  prove(ctx, bits, seed, publicShare) {
    const { circuit, proofs, proof } = this;
    const { field, arity, jointRand } = circuit;
    const seeds = this.residues(arity * proofs, ctx, PROVE_RAND, seed, [proofs]);
    let random = field.vector(0);
    if (jointRand) {
      const joint = this.seed(ctx, JOINT_RAND_SEED, new Uint8Array(SEED), publicShare);
      random = this.residues(jointRand * proofs, ctx, JOINT_RAND, joint, [proofs]);
    }
    const all = field.vector(proof * proofs);
    for (let i = 0; i < proofs; i++) {
      const at = i * proof * field.limbs;
      const own = seeds.subarray(i * arity * field.limbs, (i + 1) * arity * field.limbs);
      const r = random.subarray(i * jointRand * field.limbs, (i + 1) * jointRand * field.limbs);
      all.set(own, at);
      this.gadget(bits, own, r, all.subarray(at + arity * field.limbs, at + proof * field.limbs));
    }
    seeds.fill(0);
    return all;
  }

  /**
   * Write the gadget polynomial's values at the first powers of a root of order 2 * points.
   *
   * Every gadget here is a sum of products of two wires. A pair of wires is made, multiplied at the
   * even powers, moved to the odd ones, multiplied there, and forgotten.
   */
  gadget(bits, seeds, random, out) {
    const { circuit, points } = this;
    const { field, gadget, calls, chunk } = circuit;
    const { limbs, one, multiply } = field;
    const first = field.vector(points), second = field.vector(points), product = field.vector(1);
    const sums = field.vector(2 * points);
    const add = (odd) => {
      for (let i = 0; i < points; i++) {
        multiply(first, i * limbs, second, i * limbs, product, 0);
        const at = (2 * i + odd) * limbs;
        for (let limb = 0; limb < limbs; limb++) sums[at + limb] += product[limb];
      }
    };
    const seeded = (wire, index) => {
      wire.fill(0);
      wire.set(seeds.subarray(index * limbs, (index + 1) * limbs));
    };
    if (gadget === 'chunks') {
      const powers = random.slice(); // r, r^2, ... of each call
      for (let j = 0; j < chunk; j++) {
        seeded(first, 2 * j);
        seeded(second, 2 * j + 1);
        for (let call = 0; call < calls; call++) {
          const index = call * chunk + j;
          const bit = index < bits.length ? bits[index] : 0;
          const at = (call + 1) * limbs, r = call * limbs;
          for (let limb = 0; limb < limbs; limb++) first[at + limb] = powers[r + limb] * bit;
          second[at] = bit - 1;
          multiply(powers, r, random, r, powers, r);
        }
        add(0);
        betweenPowers(field, first, points);
        betweenPowers(field, second, points);
        add(1);
      }
    } else {
      // x * x for Count; x * (x - 1), of one wire, for Sum.
      const isSquare = gadget === 'square';
      const follow = () => {
        second.set(first);
        for (let i = 0; i < points; i++) second[i * limbs] -= one[0];
      };
      seeded(first, 0);
      if (!isSquare) seeded(second, 1);
      for (let call = 0; call < calls; call++) {
        first[(call + 1) * limbs] = bits[call];
        if (!isSquare) second[(call + 1) * limbs] = bits[call];
      }
      if (isSquare) follow();
      add(0);
      betweenPowers(field, first, points);
      if (isSquare) follow();
      else betweenPowers(field, second, points);
      add(1);
    }
    out.set(sums.subarray(0, out.length));
    first.fill(0);
    second.fill(0);
    sums.fill(0);
  }
}

export function joined(parts) {
  const bytes = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
