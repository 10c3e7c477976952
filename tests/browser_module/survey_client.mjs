/** The client of a survey: whose reports are made, of which moment, and what is refused. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { MemoryOutbox, Task } from '../../aggregator/client/browser/index.js';
import { Survey } from '../../aggregator/client/browser/survey.js';
import { TextQuestion } from '../../aggregator/client/browser/text.js';

const {
  file, swapped, texts: given, alone, texts_alone: givenAlone, beside, texts_beside: givenBeside,
  labels: byLabels, texts_labels: givenLabels, opens, closes,
} =
  JSON.parse(readFileSync(process.env.SURVEY_VECTORS, 'utf8'));
const MINUTE = 60_000, WEEK = 7 * 24 * 60 * MINUTE;
const KEYS = 'application/ppm-dap;message=hpke-config-list';
const OPENS = 1000 * opens, CLOSES = 1000 * closes;

const read = async (texts) => Object.fromEntries(await Promise.all(
  Object.entries(texts).map(async ([name, { description, tasks }]) =>
    [name, await TextQuestion.read(description, tasks.map((each) => new Task(each)))]),
));
const texts = await read(given);

/** A survey on a device whose clock says `now`, and by how much each aggregator says it is off. */
async function begin({ now = OPENS + MINUTE, leader = 0, helper = 0, ...options } = {}) {
  const device = { now, off: { leader, helper } };
  const fetch = async (url) => {
    const off = device.off[url.startsWith('https://leader') ? 'leader' : 'helper'];
    if (off === null) throw new TypeError('Failed to fetch');
    const headers = { 'content-type': KEYS, date: new Date(device.now + off).toUTCString() };
    return new Response(new Uint8Array(), { headers });
  };
  const outbox = new MemoryOutbox();
  const survey = new Survey(file, { texts, outbox, fetch, now: () => device.now, ...options });
  return { survey, outbox, device };
}
const fails = (promise, name, says = /./) => assert.rejects(promise, (error) => {
  assert.equal(error.name, name);
  assert.match(error.message, says);
  return true;
});

test('a person has one report of each question in a window, and another person as well', async () => {
  const { survey, outbox, device } = await begin();
  await survey.put({ department: 'surgery', word: 'knee' }, { claim: '17' });
  assert.equal(outbox.records.size, 2);
  await fails(survey.put({}, { claim: '17' }), 'AlreadyAnswered');
  await survey.put({}, { claim: '18' });
  await survey.put({}); // a browser's own person
  assert.equal(outbox.records.size, 6);
  assert.deepEqual(await survey.answered('17'), { state: 'waiting' });
  assert.equal(await survey.answered('19'), null);
  device.now += WEEK;
  assert.equal(await survey.answered('17'), null);
  await survey.put({}, { claim: '17' });
});

test('a person is in one task of a text question, which is kept before an answer is read', async () => {
  const { survey, outbox } = await begin();
  await fails(survey.put({ department: 'x' }, { claim: '17' }), 'AnswerError', /^department: must be one of/);
  await fails(survey.put({ word: 3 }, { claim: '17' }), 'AnswerError', /^word: must be text/);
  assert.equal(outbox.records.size, 0);
  assert.ok([...outbox.claims.keys()].some((each) => each.startsWith('toss ')));
  await fails(survey.put({}, { claim: null }), 'TypeError', /must name a person/);
  await fails(survey.put({}, { claim: 17 }), 'TypeError', /must be text/);
});

test('reports that another process has made are sent, in whichever task they are', async () => {
  const { survey, outbox } = await begin();
  for (let person = 0; person < 20; person++) await survey.put({}, { claim: `${person}` });
  const made = new Set([...outbox.records.values()].map(({ task }) => task));
  assert.ok(made.size > 2);
  const { fetch, now } = survey.options;
  const other = new Survey(file, { texts, outbox, fetch, now });
  assert.equal((await other.flush()).waiting, 40);
  assert.deepEqual(new Set(other.clients.map(({ task }) => task.id)), made);
});

test('no answer holds a server that takes answers', async () => {
  const { survey } = await begin();
  const accents = `a${'\u0301\u0323'.repeat(500_000)}`, blanks = `a${' '.repeat(10 ** 6)}b`;
  for (const answer of [accents, blanks, '1'.repeat(10 ** 6), ' '.repeat(10 ** 6) + 'x']) {
    const [{ message }] = survey.faults({ department: answer });
    assert.ok(message.length < 100);
  }
});

test('text of who is not asked for it is not reported, and no errors tell of a hidden field', async () => {
  const { survey } = await begin();
  assert.deepEqual(survey.asked({ department: 'surgery' }), ['department', 'word']);
  assert.deepEqual(survey.asked({ department: 'medicine' }), ['department']);
  assert.deepEqual(survey.faults({ department: 3 }).map(({ question }) => question), ['department']);
  assert.deepEqual(survey.entries({ department: 'medicine' }), [0, 1, 0]);
});

test('a survey that has not begun, or is over, says so before the first question and at put', async () => {
  for (const [now, reason, at] of [
    [OPENS - MINUTE, 'task_not_started', OPENS], [CLOSES, 'task_expired', CLOSES],
  ]) {
    const { survey, outbox } = await begin({ now });
    assert.deepEqual(await survey.closed(), { reason, at });
    await fails(survey.put({}), 'NotAsked', /^the survey (begins|ended) at 20/);
    assert.equal(outbox.records.size, 0);
  }
  assert.equal(await (await begin()).survey.closed(), null);
});

test('the time is both aggregators\', or this device\'s if they say nothing else', async () => {
  const records = async (world) => {
    const { survey, outbox } = await begin(world);
    await survey.put({});
    return [...outbox.records.values()].map(({ created }) => created - OPENS);
  };
  const year = 365 * 24 * 60 * MINUTE;
  assert.deepEqual(await records({ now: OPENS + MINUTE - year, leader: year, helper: year }), [MINUTE, MINUTE]);
  assert.deepEqual(await records({ leader: null, helper: null }), [MINUTE, MINUTE]);
  assert.deepEqual(await records({ leader: null }), [MINUTE, MINUTE]);
  for (const world of [{ leader: year }, { leader: year, helper: null }, { leader: year, helper: -year }]) {
    await fails(records(world), 'TimeUnknown');
  }
  const { survey, device } = await begin();
  await survey.put({}, { claim: '1' });
  device.off.leader = year; // which is not asked again within the hour
  await survey.put({}, { claim: '2' });
});

test('a file that is none, or another one, is refused in words', async () => {
  for (const none of [undefined, null, 3, 'x', '{}', {}, { task: [] }, { task: [...file.task, ...file.task] }]) {
    assert.throws(() => new Survey(none), { name: 'TypeError', message: /task\.json/ });
  }
  for (const none of [undefined, null, 'x', {}, file]) {
    assert.throws(() => new Task(none), { name: 'TypeError', message: /the texts id and configuration/ });
  }
  new Task(file.task[0]);
  const other = await begin();
  const survey = new Survey(swapped, { texts, fetch: other.survey.options.fetch });
  await fails(survey.open(), 'DecodeError', /^meaning: is not the one/);
  await fails(survey.put({}), 'DecodeError', /^meaning: is not the one/);
  const says = (message) => ({ name: 'DecodeError', message });
  assert.throws(() => new Survey(file), says(/word: the survey has it, and it is not given/));
  assert.throws(() => new Survey(file, { texts: { ...texts, more: texts.word } }), says(/more: the survey has no such/));
  const ofOther = (await read(givenAlone)).word;
  assert.throws(() => new Survey(file, { texts: { word: ofOther } }), says(/word: is another one/));
});

test('a survey of text questions alone is asked by its meaning', async () => {
  const { survey, outbox } = await begin();
  const { fetch, now } = survey.options;
  const only = new Survey(alone, { texts: await read(givenAlone), outbox, fetch, now });
  await only.put({ word: 'knee' }, { claim: '17' });
  assert.equal(outbox.records.size, 1);
  assert.deepEqual(await only.answered('17'), { state: 'waiting' });
  assert.throws(() => new Survey(alone, { texts }), { message: /word: is another one/ });
});

test('text and a number are given together, and half of it is no answer', async () => {
  const { outbox, survey: { options: { fetch, now } } } = await begin();
  const survey = new Survey(beside, { texts: await read(givenBeside), outbox, fetch, now });
  const [{ question }] = survey.texts, entries = [];
  question.entry = async function (...given) {
    entries.push(given[1]);
    return Object.getPrototypeOf(this).entry.apply(this, given);
  };
  const given = [
    [['Knee', 3], ['Knee', 16n]], [['Knee', '-4.75'], ['Knee', 0n]], ['Knee', null], [['Knee', null], null],
    [[null, 3], null], [['Knee', NaN], null], [['', 3], null], [null, null],
  ];
  for (const [i, [answer]] of given.entries()) await survey.put({ word: answer }, { claim: `${i}` });
  assert.deepEqual(entries, given.map(([, read]) => read));
  assert.equal(outbox.records.size, given.length);
  for (const wrong of [7, ['Knee'], ['Knee', 3, 4], [7, 3], { Knee: 3 }]) {
    await fails(survey.put({ word: wrong }), 'AnswerError', /^word: must be text and a number/);
  }
  await fails(survey.put({ word: ['Knee', 15.5] }), 'AnswerError', /^word: must be from -5 to 15$/);
  await fails(survey.put({ word: ['Knee', 'x'] }), 'AnswerError', /^word: must be a number$/);
  assert.deepEqual(survey.faults({ word: ['Knee', 16] }).map(({ question: name }) => name), ['word']);
  assert.deepEqual(survey.faults({ word: ['Knee', 15] }), []);
});

test('text is counted by the answer to another question, and without that it is no answer', async () => {
  const { outbox, survey: { options: { fetch, now } } } = await begin();
  const survey = new Survey(byLabels, { texts: await read(givenLabels), outbox, fetch, now });
  const [{ question }] = survey.texts, parts = [], { questions } = survey.sheet;
  question.partsOf = function (answer) {
    const read = Object.getPrototypeOf(this).partsOf.call(this, answer);
    parts.push(read);
    return read;
  };
  const given = [
    [{ word: 'Knee', department: 'surgery' }, ['Knee', 0]], [{ word: 'Knee', department: 'medicine' }, ['Knee', 1]],
    [{ word: 'Knee' }, [null, 0]], [{ department: 'medicine' }, [null, 0]], [{}, [null, 0]],
    [{ word: '', department: 'medicine' }, [null, 0]],
  ];
  for (const [i, [answers, expected]] of given.entries()) {
    parts.length = 0;
    await survey.put(answers, { claim: `${i}` });
    assert.deepEqual(parts, [expected, expected]);
  }
  await fails(survey.put({ word: ['Knee', 1], department: 'medicine' }), 'AnswerError', /^word: must be text/);
  // Who hands out files cannot count by another question, or by swapped labels.
  assert.equal(question.placeIn(survey.sheet), 0);
  for (const change of [{ name: 'ward' }, { kind: 'some' }, { labels: ['medicine', 'surgery'] }, { labels: undefined }]) {
    const changed = { questions: [{ ...questions[0], ...change }] };
    assert.throws(() => question.placeIn(changed), /by: the survey has no choice department of these labels/);
    const open = question.open({ outbox, fetch, now, sheet: changed });
    await assert.rejects(open, /by: the survey has no choice/);
  }
});
