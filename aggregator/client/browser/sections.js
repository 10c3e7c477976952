/**
 * Prio3Sections: everything that a person is asked, section after section, in one measurement.
 *
 * The aggregators do its linear checks, and a proof is only about bits, so this file only turns
 * sections into bits. All summed digits come first, then the digits of what the client claims, so
 * that one section alone is encoded as the draft's type of that kind.
 */

import { fault } from './bytes.js';
import { MeasurementError, bitLength, entriesOf, misfit, totalOf, writeDigits } from './digits.js';

const ONE_HOT = 1, AT_MOST = 2, NUMBER = 3, BY_GROUP = 4, GIVEN = 5, TABLE = 6;
const MOST_ENTRIES = 2 ** 16 - 1;
const MOST_RESIDUES = 2 ** 18;

/** Whether an entry is a number and not a bit. */
const isNumber = ({ kind }) => [NUMBER, BY_GROUP, GIVEN].includes(kind);
const largestOf = (section) => (isNumber(section) ? section.bound : 1n);

/** How many numbers a section claims, and the most that each may be; null if none. */
function claimOf(section) {
  const { kind, entries, bound } = section;
  if (kind === AT_MOST || kind === BY_GROUP) return { count: 1, largest: bound };
  if (kind === GIVEN) return { count: entries, largest: BigInt(bitLength(bound)) };
  return null;
}

/** Where sections stand, and how many bits and entries all have. */
export function layoutOf(sections) {
  let entries = 0, summed = 0;
  const places = sections.map((section) => {
    const place = { entries, summed };
    entries += section.entries;
    summed += section.entries * bitLength(largestOf(section));
    return place;
  });
  let length = summed;
  for (const [i, section] of sections.entries()) {
    const claim = claimOf(section);
    places[i].claimed = length;
    if (claim) length += claim.count * bitLength(claim.largest);
  }
  return { places, entries, length };
}

/**
 * Read sections as a configuration has them; only one encoding of each is taken.
 *
 * @throws {DecodeError} naming the section
 */
export function readSections(reader) {
  const sections = [];
  let length = 0;
  for (let count = reader.number(2); sections.length < count; ) {
    const section = {
      kind: reader.number(1), entries: reader.number(4), bound: reader.number(8),
      of: reader.number(2), by: reader.number(2),
    };
    if (!isRight(section, sections)) fault(`section ${sections.length} is none`);
    sections.push(section);
    length += layoutOf([section]).length;
    if (length > MOST_RESIDUES) fault('the task is too large');
  }
  if (!length) fault('there must be at least one section');
  return sections;
}

function isRight({ kind, entries, bound, of, by }, earlier) {
  const oneHot = (number) => (earlier[number]?.kind === ONE_HOT ? earlier[number].entries : 0);
  const refersTo = (first, second) => of === first && by === second;
  if (entries < 1 || entries > MOST_ENTRIES || bound < 1n) return false;
  switch (kind) {
    case ONE_HOT: return entries > 1 && bound === 1n && refersTo(0, 0);
    case AT_MOST: return bound <= entries && refersTo(0, 0);
    case NUMBER: return entries === 1 && refersTo(0, 0);
    case BY_GROUP: return refersTo(0, 0);
    case GIVEN: return entries <= oneHot(of) && by === 0;
    case TABLE: return of !== by && bound === 1n && entries === oneHot(of) * oneHot(by);
    default: return false;
  }
}

/** The bits of a measurement: what it adds to each entry, section after section. */
export function encodeSections(sections, { places, entries, length }, measurement) {
  const bits = new Uint8Array(length);
  if (measurement?.length !== entries) misfit(`the measurement must have ${entries} entries`);
  const parts = sections.map((section, i) => {
    const from = places[i].entries;
    return measurement.slice(from, from + section.entries);
  });
  const values = sections.map((section, i) => within(i, () =>
    entriesOf(parts[i], section.entries, largestOf(section))));
  for (const [i, section] of sections.entries()) {
    const largest = largestOf(section), size = bitLength(largest);
    values[i].forEach((each, entry) =>
      writeDigits(bits, places[i].summed + entry * size, each, largest));
    const claims = within(i, () => claimsOf(section, i, values, bits, places));
    const claim = claimOf(section);
    claims.forEach((each, number) =>
      writeDigits(bits, places[i].claimed + number * bitLength(claim.largest), each, claim.largest));
  }
  return bits;
}

/** Check that entries fit each other; return what is claimed of them. */
function claimsOf({ kind, entries, bound, of, by }, i, values, bits, places) {
  const sum = (from, size) => bits.subarray(from, from + size).reduce((all, bit) => all + bit, 0);
  const { summed } = places[i];
  if (kind === ONE_HOT && sum(summed, entries) !== 1) misfit('exactly one entry must be 1');
  if (kind === AT_MOST) return [totalOf(values[i], bound, 'number of ones')];
  if (kind === BY_GROUP) return [totalOf(values[i], bound, 'sum of the entries')];
  if (kind === GIVEN) {
    const size = bitLength(bound);
    let misplaced = 0;
    const claims = values[i].map((_, entry) => {
      const answer = values[of][entry][1], ones = sum(summed + entry * size, size);
      misplaced |= +(ones > 0) & (1 - answer);
      return [0, answer * (size - ones)];
    });
    if (misplaced) misfit(`an entry must be 0 unless that of section ${of} is 1`);
    return claims;
  }
  if (kind === TABLE) {
    const columns = values[by].length;
    let wrong = 0;
    values[of].forEach(([, row], a) => values[by].forEach(([, column], b) => {
      wrong |= (row & column) ^ values[i][a * columns + b][1];
    }));
    if (wrong) misfit(`each entry must be the product of those of sections ${of} and ${by}`);
  }
  return [];
}

/** Run a step for a section; its errors name the section. */
function within(i, work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof MeasurementError) error.message = `section ${i}: ${error.message}`;
    throw error;
  }
}
