/**
 * What each type of measurement is: its parameters, and a measurement as zeros and ones.
 *
 * Source: VDAF, "Variants"; DAP, "VDAF Configuration Encodings"; draft-ietf-ppm-l1-bound-sum.
 */

import { bitLength, checked, digitsOf, entriesOf, totalOf, writeDigits } from './digits.js';
import { FIELD128, FIELD64 } from './field.js';
import { encodeSections, layoutOf, readSections } from './sections.js';

/** A circuit whose residues are all bits, checked in chunks of `chunk`. */
function chunked(name, chunk, length, encode) {
  const calls = Math.ceil(length / chunk);
  return {
    name, field: FIELD128, gadget: 'chunks', chunk, calls, arity: 2 * chunk, jointRand: calls,
    length, encode,
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
      encode: (measurement) =>
        digitsOf([checked(measurement, largest, 'the measurement')], largest),
    };
  },

  SumVec({ length, max_measurement: largest, chunk_length: chunk }) {
    return chunked('SumVec', chunk, length * bitLength(largest), (measurement) =>
      digitsOf(entriesOf(measurement, length, largest), largest));
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
    return chunked('L1BoundSum', chunk, (length + 1) * bitLength(largest), (measurement) => {
      const entries = entriesOf(measurement, length, largest);
      return digitsOf([...entries, totalOf(entries, largest, 'sum of the entries')], largest);
    });
  },

  Sections({ chunk_length: chunk, sections }) {
    const layout = layoutOf(sections);
    const encode = (measurement) => encodeSections(sections, layout, measurement);
    return { ...chunked('Sections', chunk, layout.length, encode), sections };
  },
};

/**
 * A row per code point: the circuit, and its parameters with their bytes in a configuration, or a
 * function that reads them.
 */
export const TYPES = new Map([
  [1, ['Count']],
  [2, ['Sum', ['max_measurement', 8]]],
  [3, ['SumVec', ['length', 4], ['max_measurement', 8], ['chunk_length', 4]]],
  [4, ['Histogram', ['length', 4], ['chunk_length', 4]]],
  [5, ['MultihotCountVec', ['length', 4], ['chunk_length', 4], ['max_weight', 8]]],
  [7, ['L1BoundSum', ['length', 4], ['max_value', 8], ['chunk_length', 4]]],
  [0xffff0053, ['Sections', ['chunk_length', 4], ['sections', readSections]]],
]);
