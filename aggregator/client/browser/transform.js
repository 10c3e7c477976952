/**
 * From a polynomial's values at the powers of a root of unity to those halfway between.
 *
 * The gadget polynomial has twice the degree of the wires, so its proof needs the wires at twice
 * the points. An inverse transform that halves first, then one that doubles, needs no reordering
 * between them: the factors in the middle are kept in the order that the first one leaves.
 */

const GENERATOR = 7n; // of both fields' multiplicative groups

/** Between how many doublings sums are brought back to normal limbs; see below. */
const STAGES_BETWEEN = 6;

function power(base, exponent, modulus) {
  let result = 1n;
  for (let square = base; exponent > 0n; exponent >>= 1n, square = (square * square) % modulus) {
    if (exponent & 1n) result = (result * square) % modulus;
  }
  return result;
}

/** Public factors for transforms of `n` values, computed once. */
function factors(field, n) {
  const known = field.order.get(n);
  if (known) return known;
  const p = field.modulus;
  const between = power(GENERATOR, (p - 1n) / BigInt(2 * n), p);
  const root = (between * between) % p;
  const inverse = power(root, p - 2n, p);
  const made = { forward: field.vector(n), backward: field.vector(n), shift: field.vector(n) };
  let forward = 1n, backward = 1n, shift = power(BigInt(n), p - 2n, p);
  for (let i = 0; i < n; i++) {
    let reversed = 0;
    for (let bit = 1, from = n / 2; bit < n; bit *= 2, from /= 2) if (i & bit) reversed |= from;
    field.set(made.forward, i, forward);
    field.set(made.backward, i, backward);
    field.set(made.shift, reversed, shift);
    forward = (forward * root) % p;
    backward = (backward * inverse) % p;
    shift = (shift * between) % p;
  }
  field.order.set(n, made);
  return made;
}

/**
 * Replace values at w^0 .. w^(n-1) by those at s * w^0 .. s * w^(n-1), where s * s = w.
 *
 * Limbs may be up to 2^22 in size before, and are up to (1 + log2 n) * 2^21.1 afterwards, so that n
 * may be up to 2^13 where results are multiplied with each other.
 */
export function betweenPowers(field, values, n) {
  const { forward, backward, shift } = factors(field, n);
  const size = field.limbs;
  let stage = 0;
  for (let half = n / 2; half >= 1; half /= 2) {
    stage++;
    for (let start = 0; start < n; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const low = (start + k) * size, high = low + half * size;
        for (let limb = 0; limb < size; limb++) {
          const x = values[low + limb], y = values[high + limb];
          values[low + limb] = x + y; // doubles at each stage: 2^22 to 2^28 in six
          values[high + limb] = x - y;
        }
        field.multiply(values, high, backward, k * (n / (2 * half)) * size, values, high);
        if (stage % STAGES_BETWEEN === 0) field.multiply(values, low, field.one, 0, values, low);
      }
    }
  }
  for (let i = 0; i < n * size; i += size) field.multiply(values, i, shift, i, values, i);
  const turned = field.vector(1);
  for (let half = 1; half < n; half *= 2) {
    for (let start = 0; start < n; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const low = (start + k) * size, high = low + half * size;
        field.multiply(values, high, forward, k * (n / (2 * half)) * size, turned, 0);
        for (let limb = 0; limb < size; limb++) {
          const x = values[low + limb];
          values[low + limb] = x + turned[limb];
          values[high + limb] = x - turned[limb];
        }
      }
    }
  }
}
