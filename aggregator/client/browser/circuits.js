/**
 * What each type of measurement is: its parameters, and a measurement as zeros and ones.
 *
 * No branch and no address depends on a measurement once it is known to be in its range: entries
 * are compared with every index, digits are computed and multiplied in.
 *
 * Source: VDAF, "Variants"; DAP, "VDAF Configuration Encodings"; draft-ietf-ppm-l1-bound-sum.
 */

import { FIELD128, FIELD64 } from './field.js';

const WORD = 2 ** 32;

/** A measurement that its type does not allow; the message names the entry and the limit. */
export class MeasurementError extends RangeError {
  constructor(message) {
    super(message);
    this.name = 'MeasurementError';
  }
}

const bitLength = (value) => value.toString(2).length;
const halves = (value) => [Number(value >> 32n), Number(value & 0xffffffffn)];

/** High and low word of a whole number from 0 to `largest`; true is 1, false is 0. */
function checked(given, largest, what) {
  const value = typeof given === 'boolean' ? Number(given) : given;
  const isWhole = typeof value === 'bigint' || Number.isSafeInteger(value);
  if (!isWhole || value < 0 || value > largest) {
    throw new MeasurementError(`${what} must be a whole number from 0 to ${largest}`);
  }
  if (typeof value === 'bigint') return halves(value);
  const low = value >>> 0;
  return [(value - low) / WORD, low];
}

/** The entries of a vector, each as a high and a low word. */
function entriesOf(measurement, length, largest) {
  if (!Array.isArray(measurement) && !ArrayBuffer.isView(measurement)) {
    throw new MeasurementError(`the measurement must be a list of ${length} whole numbers`);
  }
  if (measurement.length !== length) {
    throw new MeasurementError(`the measurement must have ${length} entries`);
  }
  return Array.from(measurement, (each, i) => checked(each, largest, `entry ${i}`));
}

/** What entries add up to, at most `largest`. */
function totalOf(entries, largest, what) {
  let high = 0, low = 0;
  for (const [h, l] of entries) {
    high += h;
    low += l;
  }
  const carry = Math.floor(low / WORD);
  high += carry;
  low -= carry * WORD;
  if (BigInt(high) * BigInt(WORD) + BigInt(low) > largest) {
    throw new MeasurementError(`the ${what} must be at most ${largest}`);
  }
  return [high, low];
}

/**
 * Write a number from 0 to `largest` in digits that cannot add up to more.
 *
 * The last digit's weight makes all of them add up to `largest`. Source: VDAF, "Prio3Sum".
 */
function writeDigits(bits, at, [high, low], largest) {
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
  return at + count;
}

/** A circuit whose residues are all bits, checked in chunks of `chunk`. */
function chunked(name, chunk, length, encode, sized) {
  const calls = Math.ceil(length / chunk);
  return {
    name, field: FIELD128, gadget: 'chunks', chunk, calls, arity: 2 * chunk, jointRand: calls,
    length, encode, ...sized,
  };
}

/** @see index.d.ts for what a measurement of each is. */
export const CIRCUITS = {
  Count() {
    return {
      name: 'Count', field: FIELD64, gadget: 'product', calls: 1, arity: 2, jointRand: 0, length: 1,
      encode: (measurement) => Uint8Array.of(checked(measurement, 1n, 'the measurement')[1]),
    };
  },

  Sum({ max_measurement: largest }) {
    const length = bitLength(largest);
    return {
      name: 'Sum', field: FIELD64, gadget: 'square', calls: length, arity: 1, jointRand: 0, length,
      encode(measurement) {
        const bits = new Uint8Array(length);
        writeDigits(bits, 0, checked(measurement, largest, 'the measurement'), largest);
        return bits;
      },
    };
  },

  SumVec({ length, max_measurement: largest, chunk_length: chunk }) {
    const digits = bitLength(largest);
    return chunked('SumVec', chunk, length * digits, (measurement) => {
      const bits = new Uint8Array(length * digits);
      entriesOf(measurement, length, largest).forEach((each, i) =>
        writeDigits(bits, i * digits, each, largest));
      return bits;
    });
  },

  Histogram({ length, chunk_length: chunk }) {
    return chunked('Histogram', chunk, length, (measurement) => {
      const [, index] = checked(measurement, BigInt(length) - 1n, 'the bucket');
      return Uint8Array.from({ length }, (_, i) => +(i === index));
    });
  },

  MultihotCountVec({ length, chunk_length: chunk, max_weight: largest }) {
    const total = length + bitLength(largest);
    return chunked('MultihotCountVec', chunk, total, (measurement) => {
      const bits = new Uint8Array(total);
      const entries = entriesOf(measurement, length, 1n);
      entries.forEach(([, bit], i) => (bits[i] = bit));
      writeDigits(bits, length, totalOf(entries, largest, 'number of ones'), largest);
      return bits;
    });
  },

  L1BoundSum({ length, max_value: largest, chunk_length: chunk }) {
    const digits = bitLength(largest);
    return chunked('L1BoundSum', chunk, (length + 1) * digits, (measurement) => {
      const bits = new Uint8Array((length + 1) * digits);
      const entries = entriesOf(measurement, length, largest);
      [...entries, totalOf(entries, largest, 'sum of the entries')].forEach((each, i) =>
        writeDigits(bits, i * digits, each, largest));
      return bits;
    });
  },
};

/** A row per code point: the circuit, and its parameters with their bytes in a configuration. */
export const TYPES = new Map([
  [1, ['Count']],
  [2, ['Sum', ['max_measurement', 8]]],
  [3, ['SumVec', ['length', 4], ['max_measurement', 8], ['chunk_length', 4]]],
  [4, ['Histogram', ['length', 4], ['chunk_length', 4]]],
  [5, ['MultihotCountVec', ['length', 4], ['chunk_length', 4], ['max_weight', 8]]],
  [7, ['L1BoundSum', ['length', 4], ['max_value', 8], ['chunk_length', 4]]],
]);
