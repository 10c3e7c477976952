/**
 * Whole numbers as zeros and ones, checked against their limits.
 *
 * No branch and no address depends on a measurement once it is known to be in its range: entries
 * are compared with every index, digits are computed and multiplied in.
 */

const WORD = 2 ** 32;

/** A measurement that its type does not allow; the message names the entry and the limit. */
export class MeasurementError extends RangeError {
  name = 'MeasurementError';
}

/** Throw one. */
export const misfit = (message) => {
  throw new MeasurementError(message);
};

export const bitLength = (value) => value.toString(2).length;
const halves = (value) => [Number(value >> 32n), Number(value & 0xffffffffn)];

/** High and low word of a whole number from 0 to `largest`; true is 1, false is 0. */
export function checked(given, largest, what) {
  const value = typeof given === 'boolean' ? Number(given) : given;
  const isWhole = typeof value === 'bigint' || Number.isSafeInteger(value);
  if (!isWhole || value < 0 || value > largest) {
    misfit(`${what} must be a whole number from 0 to ${largest}`);
  }
  if (typeof value === 'bigint') return halves(value);
  const low = value >>> 0;
  return [(value - low) / WORD, low];
}

/** The entries of a vector, each as a high and a low word. */
export function entriesOf(measurement, length, largest) {
  const isList = Array.isArray(measurement) || ArrayBuffer.isView(measurement);
  if (!isList || measurement.length !== length) misfit(`the measurement must have ${length} entries`);
  return Array.from(measurement, (each, i) => checked(each, largest, `entry ${i}`));
}

/** What entries add up to, at most `largest`. */
export function totalOf(entries, largest, what) {
  let high = 0, low = 0;
  for (const [h, l] of entries) {
    high += h;
    low += l;
  }
  const carry = Math.floor(low / WORD);
  high += carry;
  low -= carry * WORD;
  const total = BigInt(high) * BigInt(WORD) + BigInt(low);
  if (total > largest) misfit(`the ${what} must be at most ${largest}`);
  return [high, low];
}

/**
 * Write a number from 0 to `largest` in digits that cannot add up to more.
 *
 * The last digit's weight makes all of them add up to `largest`. Source: VDAF, "Prio3Sum".
 */
export function writeDigits(bits, at, [high, low], largest) {
  const count = bitLength(largest);
  const reach = 2n ** BigInt(count - 1) - 1n;
  const [reachHigh, reachLow] = halves(reach);
  const [stepHigh, stepLow] = halves(largest - reach);
  const last = +(high > reachHigh) | (+(high === reachHigh) & +(low > reachLow));
  const difference = low - last * stepLow;
  const borrow = +(difference < 0);
  const restLow = difference + borrow * WORD, restHigh = high - last * stepHigh - borrow;
  for (let k = 0; k < count - 1; k++) {
    bits[at + k] = (k < 32 ? restLow >>> k : restHigh >>> (k - 32)) & 1;
  }
  bits[at + count - 1] = last;
}

/** The digits of entries from 0 to `largest`, one entry after the other. */
export function digitsOf(entries, largest) {
  const size = bitLength(largest), bits = new Uint8Array(entries.length * size);
  entries.forEach((each, i) => writeDigits(bits, i * size, each, largest));
  return bits;
}
