/** Limbs at the corners of what each function promises, against whole numbers of any size. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { FIELD128, FIELD64 } from '../../aggregator/client/browser/field.js';
import { betweenPowers } from '../../aggregator/client/browser/transform.js';

let state = 1n;
/** The same numbers in each run: 0 to limit - 1. */
const draw = (limit) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) % 2n ** 64n;
  return Number((state >> 16n) % BigInt(limit));
};

const power = (base, exponent, p) => {
  let result = 1n;
  for (; exponent > 0n; exponent >>= 1n, base = (base * base) % p) {
    if (exponent & 1n) result = (result * base) % p;
  }
  return result;
};

const residue = (x, p) => ((x % p) + p) % p;

function valueOf(field, vector, i) {
  let value = 0n;
  for (let k = field.limbs - 1; k >= 0; k--) {
    value = (value << 22n) + BigInt(vector[i * field.limbs + k]);
  }
  return residue(value, field.modulus);
}

function encoded(field, vector, i) {
  const view = new DataView(new ArrayBuffer(field.bytes));
  field.write(vector, i, view, 0);
  let value = 0n;
  for (let at = field.bytes - 1; at >= 0; at--) value = (value << 8n) + BigInt(view.getUint8(at));
  return value;
}

for (const field of [FIELD64, FIELD128]) {
  const p = field.modulus;

  test(`${field.name}: a product is right and normal at every corner of its factors`, () => {
    const out = field.vector(1);
    for (const [first, second] of [[2 ** 25, 2 ** 25], [2 ** 28, 2 ** 22], [2 ** 52, 0]]) {
      const corners = (limit) => () => [limit, -limit, limit - 1, 0, draw(2 * limit) - limit][draw(5)];
      for (let trial = 0; trial < 3000; trial++) {
        const all = trial < 4; // first both factors with all limbs at one corner
        const a = field.vector(1).map(all ? () => (trial & 1 ? -first : first) : corners(first));
        const b = second === 0
          ? field.one
          : field.vector(1).map(all ? () => (trial & 2 ? -second : second) : corners(second));
        field.multiply(a, 0, b, 0, out, 0);
        assert.equal(valueOf(field, out, 0), (valueOf(field, a, 0) * valueOf(field, b, 0)) % p);
        for (const limb of out) assert.ok(Math.abs(limb) <= 2 ** 21 + 2 ** 12);
      }
    }
  });

  test(`${field.name}: every element has one encoding, however it is written in limbs`, () => {
    for (const base of [0n, p, 2n * p, -p, 2n ** BigInt(8 * field.bytes)]) {
      for (let off = -3n; off <= 3n; off++) {
        const value = base + off, size = value < 0n ? -value : value;
        const vector = field.vector(1);
        for (let k = 0, rest = size; k < field.limbs; k++, rest >>= 22n) {
          const limb = Number(k === field.limbs - 1 ? rest : rest & 0x3fffffn);
          vector[k] = value < 0n ? -limb : limb;
        }
        assert.equal(encoded(field, vector, 0), residue(value, p));
      }
    }
    for (const limit of [2 ** 21, 2 ** 31, 2 ** 51]) {
      for (let trial = 0; trial < 1000; trial++) {
        const vector = field.vector(1).map(() => draw(2 * limit) - limit);
        assert.equal(encoded(field, vector, 0), valueOf(field, vector, 0));
      }
    }
  });

  test(`${field.name}: only words below the modulus are residues`, () => {
    const view = new DataView(new ArrayBuffer(field.bytes));
    const out = field.vector(1);
    for (const [value, isResidue] of [[0n, true], [p - 1n, true], [p, false], [p + 1n, false]]) {
      for (let at = 0, rest = value; at < field.bytes; at++, rest >>= 8n) {
        view.setUint8(at, Number(rest & 255n));
      }
      assert.equal(field.read(view, 0, out, 0), isResidue);
      assert.equal(valueOf(field, out, 0), value % p);
    }
  });

  for (const n of [1, 2, 8, 64, 128, 1024, 4096]) {
    test(`${field.name}: ${n} values move between the powers, all limbs at a corner or not`, () => {
      const between = power(7n, (p - 1n) / BigInt(2 * n), p), root = (between * between) % p;
      for (const limb of [() => 2 ** 22, () => (draw(2) ? 2 ** 22 : -(2 ** 22)), () => draw(2 ** 22)]) {
        const vector = field.vector(n).map(limb);
        const before = Array.from({ length: n }, (_, i) => valueOf(field, vector, i));
        betweenPowers(field, vector, n);
        const after = Array.from({ length: n }, (_, i) => valueOf(field, vector, i));
        // Both sets of values are those of one polynomial at a point that neither has: by the
        // formula of Lagrange for powers of a root, times powers of an offset whose n-th power is c.
        const at = 123456789123n;
        const interpolated = (values, offset) => {
          const c = power(offset, BigInt(n), p);
          let point = offset, sum = 0n;
          for (const value of values) {
            const distance = power(residue(at - point, p), p - 2n, p);
            sum = (sum + ((value * point) % p) * distance) % p;
            point = (point * root) % p;
          }
          const rest = residue(power(at, BigInt(n), p) - c, p);
          return (((sum * rest) % p) * power((BigInt(n) * c) % p, p - 2n, p)) % p;
        };
        assert.equal(interpolated(before, 1n), interpolated(after, between));
        for (const size of vector) {
          assert.ok(Math.abs(size) <= (1 + Math.log2(n)) * (2 ** 21 + 2 ** 12));
        }
      }
    });
  }
}
