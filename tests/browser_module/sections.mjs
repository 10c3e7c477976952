/** Sections become the bits of the draft's types, and what does not fit its section is refused. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { DecodeError, Reader, number } from '../../aggregator/client/browser/bytes.js';
import { CIRCUITS } from '../../aggregator/client/browser/circuits.js';
import { MeasurementError } from '../../aggregator/client/browser/digits.js';
import { joined } from '../../aggregator/client/browser/prio3.js';
import { layoutOf, readSections } from '../../aggregator/client/browser/sections.js';

const row = (kind, entries, bound = 1, of = 0, by = 0) => [kind, entries, bound, of, by];
const [oneHot, atMost, amount, byGroup, given, table] = [
  (n) => row(1, n), (n, most) => row(2, n, most), (largest) => row(3, 1, largest),
  (n, largest) => row(4, n, largest), (of, n, largest) => row(5, n, largest, of),
  (of, by, entries) => row(6, entries, 1, of, by),
];

const written = (...rows) => joined([number(rows.length, 2), ...rows.map((each) =>
  joined(each.map((value, i) => number(value, [1, 4, 8, 2, 2][i]))))]);

const read = (...rows) => readSections(new Reader(written(...rows)));
const circuit = (...rows) => CIRCUITS.Sections({ chunk_length: 4, sections: read(...rows) });

test('a section alone is encoded as the type of its kind', () => {
  const same = (rows, measurement, name, parameters, other = measurement) => assert.deepEqual(
    circuit(rows).encode(measurement), CIRCUITS[name]({ ...parameters, chunk_length: 4 }).encode(other));
  same(oneHot(5), [0, 0, 1, 0, 0], 'Histogram', { length: 5 }, 2);
  for (const entries of [[1, 0, 1, 1], [0, 0, 0, 0]]) {
    same(atMost(4, 3), entries, 'MultihotCountVec', { length: 4, max_weight: 3n });
  }
  for (const value of [0, 1, 99, 100]) {
    same(amount(100), [value], 'SumVec', { length: 1, max_measurement: 100n });
  }
  for (const entries of [[9, 0, 0], [2, 3, 4], [0, 0, 0]]) {
    same(byGroup(3, 9), entries, 'L1BoundSum', { length: 3, max_value: 9n });
  }
});

test('as many residues as are meant', () => {
  const sizes = [
    [[oneHot(5)], 5],
    [Array(10).fill(oneHot(5)), 50],
    [[oneHot(6), given(0, 5, 100)], 6 + 5 * (7 + 3)],
    [[oneHot(5), oneHot(5), table(0, 1, 25)], 35],
  ];
  for (const [rows, length] of sizes) assert.equal(layoutOf(read(...rows)).length, length);
});

test('summed digits come first, claims after all of them', () => {
  const bits = circuit(atMost(2, 2), oneHot(2), given(1, 1, 3)).encode([1, 1, 1, 0, 2]);
  // 2 of 0 to 3 is the digit of weight 2 alone; of its two digits one more could be 1.
  assert.deepEqual([...bits], [1, 1, 1, 0, 0, 1, 1, 1, 1, 0]);
});

test('what does not fit a section is refused with its number and limit', () => {
  const refused = (rows, measurement, message) => assert.throws(
    () => circuit(...rows).encode(measurement),
    (error) => error instanceof MeasurementError && message.test(error.message));
  refused([oneHot(3)], [1, 1, 0], /section 0: exactly one/);
  refused([oneHot(3)], [0, 0, 0], /section 0: exactly one/);
  refused([oneHot(3)], [2, 0, 0], /section 0: entry 0 .* 0 to 1/);
  refused([oneHot(3)], [1, 0], /3 entries/);
  refused([oneHot(3)], 1, /3 entries/);
  refused([oneHot(2), atMost(3, 1)], [1, 0, 1, 1, 0], /section 1: the number of ones .* 1/);
  refused([amount(9)], [10], /section 0: entry 0 .* 0 to 9/);
  refused([byGroup(2, 9)], [5, 5], /section 0: the sum .* 9/);
  refused([oneHot(2), given(0, 1, 9)], [0, 1, 3], /section 1: .* unless that of section 0/);
  refused([oneHot(2), oneHot(2), table(0, 1, 4)], [1, 0, 1, 0, 0, 1, 0, 0], /section 2: .* product/);
  circuit(oneHot(2), given(0, 1, 9)).encode([1, 0, 9]);
  circuit(oneHot(2), oneHot(2), table(0, 1, 4)).encode([1, 0, 0, 1, 0, 1, 0, 0]);
});

test('sections have one encoding, and no other is taken', () => {
  const bad = [
    [], [oneHot(1)], [row(1, 5, 2)], [row(1, 5, 1, 1)], [atMost(3, 4)], [row(2, 3, 0)], [row(3, 2, 9)],
    [byGroup(0, 9)], [given(0, 1, 9)], [oneHot(2), given(0, 3, 9)], [oneHot(2), given(1, 1, 9)],
    [oneHot(2), table(0, 0, 4)], [oneHot(2), oneHot(3), table(0, 1, 5)], [row(7, 1)], [row(1, 70000)],
    [byGroup(65535, 2 ** 40)], [oneHot(2), row(5, 1, 9, 0, 1)],
  ];
  for (const rows of bad) assert.throws(() => read(...rows), DecodeError, JSON.stringify(rows));
  const whole = written(oneHot(2), given(0, 1, 9));
  for (let size = 0; size < whole.length; size++) {
    assert.throws(() => readSections(new Reader(whole.subarray(0, size))), DecodeError);
  }
});
