/** Permits in JavaScript: the vectors that Python has, and what a task that needs them makes. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { Client, MemoryOutbox, Task, sealReport } from '../../aggregator/client/browser/index.js';
import { Link } from '../../aggregator/client/browser/links.js';
import { Survey } from '../../aggregator/client/browser/survey.js';
import { TextQuestion } from '../../aggregator/client/browser/text.js';

const { vectors, others, second, survey: file, texts: given, now } = JSON.parse(readFileSync(process.env.PERMIT_VECTORS, 'utf8'));
const hex = (bytes) => Buffer.from(bytes).toString('hex');
const domain = Uint8Array.from(Buffer.from(vectors.domain, 'hex'));
const made = file.task[0];

const textsOf = async () => Object.fromEntries(await Promise.all(
  Object.entries(given).map(async ([name, { description, tasks }]) =>
    [name, await TextQuestion.read(description, tasks.map((each) => new Task(each)))])));

/** A task of which this is moment 0 of a window of a number. */
const taskOf = () => ({ permits: { domain }, policy: { window: { length: 1n, start: 0n } }, time: (window) => BigInt(window - 1) });

test('a code gives the permits of its windows, byte for byte', async () => {
  const link = await Link.read(vectors.code);
  assert.equal(link.name, vectors.name);
  for (const { window, number, opening, report_id: id } of vectors.permits) {
    const task = window ? taskOf() : { ...taskOf(), policy: { window: null } };
    const permit = await link.permit(task, window, number);
    assert.equal(hex(permit.id), id);
    assert.equal(hex(permit.extensions), `ff510010${opening}`);
  }
});

test('a code is read in any case, with any signs, or at the end of a link', async () => {
  for (const text of [
    vectors.code.toUpperCase(), vectors.code.replaceAll('-', ' '), vectors.code.replaceAll('1', 'l').replaceAll('0', 'O'),
    `https://hospital.example/form.html#p=${vectors.code}`, `  ${vectors.code}.`,
  ]) {
    assert.equal((await Link.read(text)).name, vectors.name);
  }
});

test('each slip is found, as in Python, and a code is in no message', async () => {
  for (const text of others) {
    await assert.rejects(Link.read(text), ({ name, message }) =>
      name === 'DecodeError' && !(text.length > 4 && message.includes(text)));
  }
  assert.ok(!JSON.stringify(await Link.read(vectors.code)).includes('secret'));
});

test('the helper\'s share alone has the opening, and the id is the permit', async () => {
  const task = new Task(made), link = await Link.read(vectors.code);
  const client = new Client(task, { now: () => now });
  const permit = await link.permit(task, now);
  const record = client.make(new Survey(file, { texts: await textsOf() }).entries({}), { permit });
  assert.equal(hex(record.id), hex(permit.id));
  // What is sealed is told by its length: the helper's is 20 bytes longer than without.
  const keys = await crypto.subtle.generateKey({ name: 'X25519' }, true, ['deriveBits']);
  const publicKey = new Uint8Array(await crypto.subtle.exportKey('raw', keys.publicKey));
  const config = (id) => ({ id, kem: 32, kdf: 1, aead: 1, publicKey });
  const configs = [config(1), config(2)];
  const body = await sealReport(task, record, configs);
  const without = await sealReport(task, { ...record, extensions: undefined }, configs);
  assert.equal(body.length - without.length, 20);
  assert.ok(!hex(body).includes(hex(permit.extensions).slice(8)));
});

test('a survey by invitation takes a link from each person, and remembers it by its name', async () => {
  const texts = await textsOf();
  const outbox = new MemoryOutbox();
  const fetch = async () => { throw new TypeError('Failed to fetch'); };
  const survey = new Survey(file, { texts, outbox, fetch, now: () => now });
  await assert.rejects(survey.put({ department: 'surgery' }), /link: the survey counts only answers with one/);
  const key = await survey.put({ department: 'surgery', word: 'knee' }, { link: await Link.read(vectors.code) });
  const records = [...outbox.records.values()];
  assert.equal(records.length, 2);
  const link = await Link.read(vectors.code);
  for (const each of records) {
    const task = [survey.own[0].task, ...texts.word.tasks].find(({ id }) => id === each.task);
    const permit = await link.permit(task, now);
    assert.equal(hex(each.id), hex(permit.id));
    assert.equal(hex(each.extensions), hex(permit.extensions));
  }
  assert.equal(records[0].key, key);
  await assert.rejects(survey.put({}, { link: await Link.read(vectors.code.toUpperCase()) }), { name: 'AlreadyAnswered' });
  await survey.put({}, { link: await Link.read(second) }); // another person
  assert.equal(outbox.records.size, 4);
});

test('a task that needs none takes none', async () => {
  const link = await Link.read(vectors.code);
  await assert.rejects(link.permit({ permits: undefined }, now), /counts everybody's reports/);
});

test('what a leader says of permits has its names', () => {
  const { reportErrors } = new Task(made);
  assert.deepEqual(reportErrors.slice(239), ['permit_missing', 'permit_unknown', 'permit_of_another_window', 'permit_spent']);
  assert.equal(Client.verdicts.permit_spent, 'refused');
  assert.equal(Client.verdicts.permit_unknown, undefined);
});
