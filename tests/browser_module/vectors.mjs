/** Shares equal the vectors of the folders that are given, and the XOF's stream does. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import { CIRCUITS, TYPES } from '../../aggregator/client/browser/circuits.js';
import { FIELD128, FIELD64 } from '../../aggregator/client/browser/field.js';
import { Prio3 } from '../../aggregator/client/browser/prio3.js';
import { Xof } from '../../aggregator/client/browser/xof.js';

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const bytes = (text) => Uint8Array.from(Buffer.from(text, 'hex'));

/** JSON whose whole numbers may be larger than a double holds exactly. */
const exact = (text) =>
  JSON.parse(text.replaceAll(/(?<=[\s:[])(\d{16,})(?=[\s,\]}])/g, '"$1n"'), (_, value) =>
    typeof value === 'string' && /^\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value);

/** Sections as their text in a vector says. */
function sectionsOf(text) {
  const sections = [];
  for (const word of text.split(' ')) {
    const [kind, numbers] = word.split(':');
    const [first, second, third] = numbers.split(',').map(Number);
    const none = { of: 0, by: 0, bound: 1n };
    sections.push({
      onehot: () => ({ ...none, kind: 1, entries: first }),
      atmost: () => ({ ...none, kind: 2, entries: first, bound: BigInt(second) }),
      number: () => ({ ...none, kind: 3, entries: 1, bound: BigInt(numbers) }),
      bygroup: () => ({ ...none, kind: 4, entries: first, bound: BigInt(second) }),
      given: () => ({ ...none, kind: 5, of: first, entries: second, bound: BigInt(third) }),
      table: () => ({
        ...none, kind: 6, of: first, by: second,
        entries: sections[first].entries * sections[second].entries,
      }),
    }[kind]());
  }
  return sections;
}

function prio3Of(name, vector) {
  if (name === 'SumVecWithMultiproof') {
    // The one published type with several proofs: SumVec over the small field.
    const circuit = CIRCUITS.SumVec({ ...vector, max_measurement: BigInt(vector.max_measurement) });
    return new Prio3(0xffffffff, { ...circuit, field: FIELD64 }, vector.shares, 3);
  }
  for (const [code, [circuit, ...fields]] of TYPES) {
    if (circuit !== name) continue;
    const parameters = fields.map(([field, size]) => {
      if (field === 'sections') return [field, sectionsOf(vector.sections)];
      return [field, size === 8 ? BigInt(vector[field]) : vector[field]];
    });
    return new Prio3(code, CIRCUITS[name](Object.fromEntries(parameters)), vector.shares);
  }
  return null; // HigherDegree, a type for tests of the draft
}

let compared = 0;
const untested = new Set([...TYPES.values()].map(([name]) => name));
untested.delete('Sections'); // no draft's: where there are vectors of it, they are compared too

for (const folder of process.env.VECTORS.split(':')) {
  for (const file of readdirSync(folder).filter((name) => /^(Prio3|XofTurbo).*json$/.test(name))) {
    const vector = exact(readFileSync(join(folder, file), 'utf8'));
    if (file.startsWith('Xof')) {
      test(`${file} is the stream`, () => {
        const stream = () => new Xof(bytes(vector.seed), bytes(vector.dst), bytes(vector.binder));
        assert.equal(hex(stream().next(32)), vector.derived_seed);
        const sampled = FIELD128.sample(stream(), vector.length);
        assert.equal(hex(FIELD128.encode(sampled)), vector.expanded_vec_field128);
      });
      continue;
    }
    const name = file.slice('Prio3'.length).split('_')[0];
    const prio3 = prio3Of(name, vector);
    if (prio3 === null) continue;
    test(`${file} has the shares that the module makes`, () => {
      for (const report of vector.reports.filter((each) => each.measurement !== null)) {
        const [ctx, nonce, rand] = [vector.ctx, report.nonce, report.rand].map(bytes);
        const { publicShare, inputShares } = prio3.shard(ctx, report.measurement, nonce, rand);
        assert.equal(hex(publicShare), report.public_share);
        assert.deepEqual(inputShares.map(hex), report.input_shares);
        compared++;
        untested.delete(name);
      }
    });
  }
}

test('reports of every type were compared', () => {
  assert.ok(compared > 0);
  assert.deepEqual([...untested], []);
});
