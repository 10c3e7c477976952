/**
 * The two fields of Prio3, on doubles, in time that does not depend on a value.
 *
 * An element is a few signed limbs of 22 bits, side by side in a Float64Array. A limb may be
 * larger: additions do not carry, multiplications do. Both moduli fold on limb boundaries, since
 * 66 = 3 * 22:
 *
 *     p128 = 2^128 - 7 * 2^66 + 1      so   2^132 = 112 * 2^66 - 16
 *     p64  = 2^64 - 2^32 + 1           so   2^66  = 4096 * 2^22 - 4
 *
 * Bounds. A double is exact up to 2^53. "Normal" limbs are within 2^21 + 2^12 of 0; a product is
 * normal if limbs of one factor, times those of the other, stay within 2^50. So two factors up to
 * 2^25 may be multiplied, or one up to 2^28 by a normal one; and by ONE, anything up to 2^52. Limbs
 * of a residue read from bytes are within 0 to 2^22 - 1.
 *
 * BigInt is not used on secrets: its time depends on them, and it cannot be overwritten.
 *
 * Source: VDAF, "Field" and "Finite Field".
 */

const WIDTH = 2 ** 22;
const ROUND = 1.5 * 2 ** 52; // what is added to it and subtracted again becomes a whole number
const MASK = 0x3fffff;

/** How many whole units of the next limb are in this one. */
const carried = (limb) => limb / WIDTH + ROUND - ROUND;

/** Set out[k..] to a[i..] * b[j..] in Field128. */
function multiply128(a, i, b, j, out, k) {
  const a0 = a[i], a1 = a[i + 1], a2 = a[i + 2], a3 = a[i + 3], a4 = a[i + 4], a5 = a[i + 5];
  const b0 = b[j], b1 = b[j + 1], b2 = b[j + 2], b3 = b[j + 3], b4 = b[j + 4], b5 = b[j + 5];
  let c0 = a0 * b0;
  let c1 = a0 * b1 + a1 * b0;
  let c2 = a0 * b2 + a1 * b1 + a2 * b0;
  let c3 = a0 * b3 + a1 * b2 + a2 * b1 + a3 * b0;
  let c4 = a0 * b4 + a1 * b3 + a2 * b2 + a3 * b1 + a4 * b0;
  let c5 = a0 * b5 + a1 * b4 + a2 * b3 + a3 * b2 + a4 * b1 + a5 * b0;
  let c6 = a1 * b5 + a2 * b4 + a3 * b3 + a4 * b2 + a5 * b1;
  let c7 = a2 * b5 + a3 * b4 + a4 * b3 + a5 * b2;
  let c8 = a3 * b5 + a4 * b4 + a5 * b3;
  let c9 = a4 * b5 + a5 * b4;
  let c10 = a5 * b5;
  // First all limbs to +-2^21, the eleventh to 2^31, and the upper six folded from the top.
  let t = carried(c0); c0 -= t * WIDTH; c1 += t;
  t = carried(c1); c1 -= t * WIDTH; c2 += t;
  t = carried(c2); c2 -= t * WIDTH; c3 += t;
  t = carried(c3); c3 -= t * WIDTH; c4 += t;
  t = carried(c4); c4 -= t * WIDTH; c5 += t;
  t = carried(c5); c5 -= t * WIDTH; c6 += t;
  t = carried(c6); c6 -= t * WIDTH; c7 += t;
  t = carried(c7); c7 -= t * WIDTH; c8 += t;
  t = carried(c8); c8 -= t * WIDTH; c9 += t;
  t = carried(c9); c9 -= t * WIDTH; c10 += t;
  t = carried(c10); c10 -= t * WIDTH;
  c8 += 112 * t; c5 -= 16 * t;
  c7 += 112 * c10; c4 -= 16 * c10;
  c6 += 112 * c9; c3 -= 16 * c9;
  c5 += 112 * c8; c2 -= 16 * c8; // c8 is up to 2^38 here
  c4 += 112 * c7; c1 -= 16 * c7;
  c3 += 112 * c6; c0 -= 16 * c6;
  // From up to 2^45; what is left over is up to 2^23, and then -1, 0 or 1.
  for (let pass = 0; pass < 2; pass++) {
    t = carried(c0); c0 -= t * WIDTH; c1 += t;
    t = carried(c1); c1 -= t * WIDTH; c2 += t;
    t = carried(c2); c2 -= t * WIDTH; c3 += t;
    t = carried(c3); c3 -= t * WIDTH; c4 += t;
    t = carried(c4); c4 -= t * WIDTH; c5 += t;
    t = carried(c5); c5 -= t * WIDTH;
    c3 += 112 * t; c0 -= 16 * t;
  }
  out[k] = c0; out[k + 1] = c1; out[k + 2] = c2; out[k + 3] = c3; out[k + 4] = c4; out[k + 5] = c5;
}

/** Set out[k..] to a[i..] * b[j..] in Field64. */
function multiply64(a, i, b, j, out, k) {
  const a0 = a[i], a1 = a[i + 1], a2 = a[i + 2];
  const b0 = b[j], b1 = b[j + 1], b2 = b[j + 2];
  let c0 = a0 * b0;
  let c1 = a0 * b1 + a1 * b0;
  let c2 = a0 * b2 + a1 * b1 + a2 * b0;
  let c3 = a1 * b2 + a2 * b1;
  let c4 = a2 * b2;
  let t = carried(c0); c0 -= t * WIDTH; c1 += t;
  t = carried(c1); c1 -= t * WIDTH; c2 += t;
  t = carried(c2); c2 -= t * WIDTH; c3 += t;
  t = carried(c3); c3 -= t * WIDTH; c4 += t;
  t = carried(c4); c4 -= t * WIDTH; // t is up to 2^29
  c3 += 4096 * t; c2 -= 4 * t;
  c2 += 4096 * c4; c1 -= 4 * c4;
  c1 += 4096 * c3; c0 -= 4 * c3; // c3 up to 2^41 if both factors are; with normal ones, far less
  for (let pass = 0; pass < 2; pass++) {
    t = carried(c0); c0 -= t * WIDTH; c1 += t;
    t = carried(c1); c1 -= t * WIDTH; c2 += t;
    t = carried(c2); c2 -= t * WIDTH;
    c1 += 4096 * t; c0 -= 4 * t;
  }
  out[k] = c0; out[k + 1] = c1; out[k + 2] = c2;
}

/** Carry between limbs of 22 bits that are 32-bit integers; the last keeps what is left. */
function ripple(limbs) {
  for (let i = 0; i + 1 < limbs.length; i++) {
    limbs[i + 1] += limbs[i] >> 22;
    limbs[i] &= MASK;
  }
}

class Field {
  /**
   * @param {object} shape
   *   limbs and bytes of an element, its modulus, its product; `multiple`, a multiple of the
   *   modulus above each normal element; `top` bits of the last limb; `excess`, what 2^(8 * bytes)
   *   is modulo p; both in limbs
   */
  constructor(shape) {
    Object.assign(this, shape);
    this.one = this.vector(1);
    this.one[0] = 1;
    this.spare = this.vector(1);
    this.words = new Int32Array(this.limbs);
    this.other = new Int32Array(this.limbs);
    this.order = new Map(); // transforms by their length
  }

  /** Room for `length` elements, all 0. */
  vector(length) {
    return new Float64Array(length * this.limbs);
  }

  /** Write one element's residue, wherever its limbs (up to 2^52) are, in little endian. */
  write(a, i, view, at) {
    const { spare, words, other, limbs, top, excess, multiple } = this;
    this.multiply(a, i * limbs, this.one, 0, spare, 0);
    for (let k = 0; k < limbs; k++) words[k] = spare[k] + multiple[k];
    ripple(words);
    // 0 to 2^133 or 2^67 now: fold what is above the top bit, then subtract p if it can be.
    const over = words[limbs - 1] >> top;
    words[limbs - 1] &= (1 << top) - 1;
    for (let k = 0; k < limbs; k++) words[k] += over * excess[k];
    ripple(words);
    for (let k = 0; k < limbs; k++) other[k] = words[k] + excess[k];
    other[limbs - 1] -= 1 << top;
    ripple(other);
    const isLess = other[limbs - 1] >> 31; // all ones if the element is below p
    for (let k = 0; k < limbs; k++) words[k] = other[k] ^ ((other[k] ^ words[k]) & isLess);
    this.pack(words, view, at);
    spare.fill(0);
    words.fill(0);
    other.fill(0);
  }

  /** The encoding of a vector. */
  encode(vector) {
    const bytes = new Uint8Array((vector.length / this.limbs) * this.bytes);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i * this.bytes < bytes.length; i++) this.write(vector, i, view, i * this.bytes);
    return bytes;
  }

  /** Set one element to a public whole number. */
  set(vector, i, value) {
    let rest = ((value % this.modulus) + this.modulus) % this.modulus;
    for (let k = 0; k < this.limbs; k++) {
      vector[i * this.limbs + k] = Number(rest & BigInt(MASK));
      rest >>= 22n;
    }
  }

  /**
   * Residues out of a stream of random bytes, words at or above the modulus left out.
   *
   * Source: VDAF, "Extendable Output Functions (XOFs)".
   */
  sample(stream, length) {
    const vector = this.vector(length);
    for (let i = 0; i < length; ) {
      const drawn = stream.next((length - i) * this.bytes);
      const view = new DataView(drawn.buffer, drawn.byteOffset, drawn.length);
      for (let at = 0; at < drawn.length; at += this.bytes) {
        if (this.read(view, at, vector, i * this.limbs)) i++;
      }
      drawn.fill(0);
    }
    return vector;
  }
}

export const FIELD128 = new Field({
  name: 'Field128',
  limbs: 6,
  bytes: 16,
  modulus: 2n ** 128n - 7n * 2n ** 66n + 1n,
  multiply: multiply128,
  multiple: [16, 0, 0, -112, 0, WIDTH], // 16 p = 2^132 - 112 * 2^66 + 16
  top: 18,
  excess: [-1, 0, 0, 7, 0, 0],
  pack(limbs, view, at) {
    const [l0, l1, l2, l3, l4, l5] = limbs;
    view.setInt32(at, l0 | (l1 << 22), true);
    view.setInt32(at + 4, (l1 >>> 10) | (l2 << 12), true);
    view.setInt32(at + 8, (l2 >>> 20) | (l3 << 2) | (l4 << 24), true);
    view.setInt32(at + 12, (l4 >>> 8) | (l5 << 14), true);
  },
  read(view, at, out, k) {
    const w0 = view.getUint32(at, true), w1 = view.getUint32(at + 4, true);
    const w2 = view.getUint32(at + 8, true), w3 = view.getUint32(at + 12, true);
    out[k] = w0 & MASK;
    out[k + 1] = ((w0 >>> 22) | (w1 << 10)) & MASK;
    out[k + 2] = ((w1 >>> 12) | (w2 << 20)) & MASK;
    out[k + 3] = (w2 >>> 2) & MASK;
    out[k + 4] = ((w2 >>> 24) | (w3 << 8)) & MASK;
    out[k + 5] = w3 >>> 14;
    const isBelow = w2 < 0xffffffe4 || (w2 === 0xffffffe4 && w1 === 0 && w0 === 0);
    return w3 < 0xffffffff || isBelow;
  },
});

export const FIELD64 = new Field({
  name: 'Field64',
  limbs: 3,
  bytes: 8,
  modulus: 2n ** 64n - 2n ** 32n + 1n,
  multiply: multiply64,
  multiple: [4, -4096, WIDTH], // 4 p = 2^66 - 2^34 + 4
  top: 20,
  excess: [-1, 1024, 0],
  pack(limbs, view, at) {
    const [l0, l1, l2] = limbs;
    view.setInt32(at, l0 | (l1 << 22), true);
    view.setInt32(at + 4, (l1 >>> 10) | (l2 << 12), true);
  },
  read(view, at, out, k) {
    const w0 = view.getUint32(at, true), w1 = view.getUint32(at + 4, true);
    out[k] = w0 & MASK;
    out[k + 1] = ((w0 >>> 22) | (w1 << 10)) & MASK;
    out[k + 2] = w1 >>> 12;
    return w1 < 0xffffffff || w0 === 0;
  },
});
