/** Text questions: each step gives what Python gives, and nobody is in two tasks. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

import { FolderOutbox } from '../../aggregator/client/browser/node.js';

// The files as they lie there, or each joined into one.
const { Client, DecodeError, MemoryOutbox, Task } = await import(process.env.MODULE);
const { Spelling, TextClient, TextQuestion, fingerprint, normalForm, siphash, tossed } =
  await import(process.env.TEXT_MODULE);

const { vectors, points, strings, made } = JSON.parse(readFileSync(process.env.TEXT_VECTORS, 'utf8'));
const bytes = (text) => Uint8Array.from(Buffer.from(text, 'hex'));
const NOW = 1_700_000_000_000;

const read = (description = made.description, tasks = made.tasks) =>
  TextQuestion.read(description, tasks.map((each) => new Task(each)));

test('the vectors of each step are what this module gives', async () => {
  const meaning = bytes(vectors.meaning);
  assert.ok(vectors.cases.length > 4);
  for (const { answer, normal, fingerprint: print, length, buckets } of vectors.cases) {
    assert.equal(normalForm(answer), normal);
    const given = await fingerprint(normal, meaning);
    assert.equal(Buffer.from(given).readUInt32BE(), print);
    const question = Object.assign(new TextQuestion(), { meaning, length });
    for (const [place, bucket] of buckets.entries()) {
      assert.equal(await question.bucket(place, answer), bucket);
    }
  }
  assert.equal(await Object.assign(new TextQuestion(), { meaning, length: 16 }).bucket(0, null), 0);
});

test('hashes are SipHash-2-4', () => {
  for (const { key, message, hash } of vectors.hashes) {
    assert.equal(siphash(bytes(key), bytes(message)), BigInt(hash));
  }
});

test('every code point, among marks that may change places, has the form of Unicode 14.0', () => {
  const hash = createHash('sha256');
  for (const first of points.firsts) {
    const all = Array.from({ length: 0x1000 }, (_, i) => String.fromCodePoint(first + i));
    hash.update(normalForm(all.map((each) => `e\u0301${each}\u0323\u0301\n`).join('')));
  }
  assert.equal(hash.digest('hex'), points.digest);
});

test('random strings have the normal form that Python gives them', () => {
  assert.ok(strings.length > 1000);
  for (const [answer, normal] of strings) assert.equal(normalForm(answer), normal, escape(answer));
});

test('marks in disorder do not hold a server that takes answers', (context) => {
  // Engines move each past those before it: a megabyte of them from one person took hours.
  const { normalize } = String.prototype;
  const given = [];
  context.mock.method(String.prototype, 'normalize', function (form) {
    given.push(String(this));
    return normalize.call(this, form);
  });
  const marks = '\u0301\u0316\u0323\u0345\u0327';
  assert.ok(normalForm(`a${marks.repeat(200)}`).length > 100 * marks.length);
  const isInOrder = (pair) => normalize.call(pair, 'NFD') === pair;
  const long = given.filter((text) => text.length > 2);
  assert.ok(long.length);
  for (const text of long) {
    // Nothing is composed between two marks, so a pair that changes is one that changes places.
    for (let at = 1; at + 1 < text.length; at++) assert.ok(isInOrder(text.slice(at, at + 2)));
  }
});

test('a question and its tasks agree, and none is read that was swapped or changed', async () => {
  const question = await read();
  assert.deepEqual([question.title, question.tasks.length], [made.description.title, made.tasks.length]);
  assert.equal(Buffer.from(question.meaning).toString('hex'), made.description.meaning);
  const [first, second, ...others] = made.tasks;
  const swapped = [second, first, ...others];
  const ids = swapped.map(({ id }) => id);
  const refusals = [
    [{ ...made.description, task_ids: ids }, swapped, /task 1 of 8: was not made for this question/],
    [{ ...made.description, title: 'Another?' }, made.tasks, /task 1 of 8: was not made/],
    [{ ...made.description, epsilon: '1/8' }, made.tasks, /task 1 of 8: was not made/],
    [{ ...made.description, buckets: 64 }, made.tasks, /task 1 of 8: was not made/],
    [{ ...made.description, meaning: '00'.repeat(32) }, made.tasks, /meaning/],
    [{ ...made.description, task_ids: ids }, made.tasks, /task_ids/],
    [made.description, made.tasks.slice(1), /it has 8 tasks, and 7 are given/],
    [{ ...made.description, normalisation: 2 }, made.tasks, /normal form 1/],
    [null, made.tasks, /text.json/],
    ...made.bad.map(({ tasks, says }) =>
      [{ ...made.description, task_ids: tasks.map(({ id }) => id) }, tasks, new RegExp(says)]),
  ];
  for (const [description, tasks, says] of refusals) {
    await assert.rejects(read(description, tasks), (error) => {
      assert.ok(error instanceof DecodeError, String(error));
      assert.match(error.message, says);
      return true;
    });
  }
});

test('of a survey of text questions alone, each task binds what it asks', async () => {
  const { description, tasks } = made.alone;
  const question = await read(description, tasks);
  assert.equal(Buffer.from(question.meaning).toString('hex'), made.description.meaning);
  for (const survey of [undefined, '', 'another']) {
    await assert.rejects(read({ ...description, survey }, tasks), /task 1 of 8: was not made/);
  }
  await assert.rejects(
    read({ ...made.description, survey: description.survey }), /task 1 of 8: was not made/);
});

const spellingOf = (question, { description, tasks } = made.spelling) =>
  Spelling.read(description, tasks.map((each) => new Task(each)), question);

test('letters are those that Python tells, of what is asked and in each place', async () => {
  const spelling = await spellingOf(await read());
  assert.ok(made.spelling.buckets.length > 8);
  for (const [answer, buckets] of made.spelling.buckets) {
    for (const [place, bucket] of buckets.entries()) {
      assert.equal(await spelling.bucket(place, answer), bucket, `${escape(answer)} ${place}`);
    }
  }
  assert.equal(await spelling.bucket(0, null), 0);
});

test('a spelling that was changed, or does not fit its question, is not read', async () => {
  // One with shorter windows would get several reports of a person in one window.
  const question = await read();
  const { description, tasks, bad } = made.spelling;
  const refusals = [
    [{ ...description, letters: 4 }, tasks, /task 1 of 8: was not made for this spelling/],
    [{ ...description, alphabet: 'abd' }, tasks, /task 1 of 8: was not made for this spelling/],
    [{ ...description, fingerprints: description.fingerprints.slice(1) }, tasks, /was not made/],
    [{ ...description, fingerprints: description.fingerprints.toReversed() }, tasks, /do not fit/],
    [{ ...description, letters: 9 }, tasks, /do not fit/],
    [{ ...description, version: 2 }, tasks, /only version 1/],
    [{ ...description, task_ids: [] }, tasks, /task_ids/],
    [null, tasks, /only version 1/],
    ...bad.map(({ tasks: others, says }) =>
      [{ ...description, task_ids: others.map(({ id }) => id) }, others, new RegExp(says)]),
  ];
  for (const [changed, others, says] of refusals) {
    await assert.rejects(spellingOf(question, { description: changed, tasks: others }), (error) => {
      assert.ok(error instanceof DecodeError, String(error));
      assert.match(error.message, says);
      return true;
    });
  }
  await assert.rejects(
    TextClient.open(await read(), { outbox: new MemoryOutbox(), spelled: [await spellingOf(question)] }),
    TypeError,
  );
});

const readAmounts = () => read(made.amounts.description, made.amounts.tasks);

test('a string and a number are the entry that Python reports, given the draw', async () => {
  const question = await readAmounts();
  assert.equal(question.entries, made.amounts.size);
  assert.ok(made.amounts.entries.length > 30);
  for (const [place, text, steps, drawn, entry] of made.amounts.entries) {
    const given = [];
    const found = await question.entry(place, [text, BigInt(steps)], (size) => {
      given.push(size);
      return bytes(drawn);
    });
    assert.equal(found, entry, `${text} ${steps}`);
    assert.deepEqual(given, [8]);
  }
  const levels = made.amounts.entries.map(([, , , , entry]) => entry >= question.length);
  assert.ok(levels.includes(true) && levels.includes(false));
});

test('half an answer is none, and what is no answer at all is an error', async () => {
  const question = await readAmounts();
  for (const answer of [null, 'plum', ['plum'], ['plum', null], [null, 3], ['', 3], [' ', 0n]]) {
    assert.equal(await question.entry(1, answer), 0);
  }
  const wrong = [7, {}, ['plum', 8], ['plum', -1], ['plum', 0.5], [7, 3], ['plum', 'x']];
  for (const answer of wrong) await assert.rejects(question.entry(1, answer), TypeError);
  await assert.rejects((await read()).entry(1, ['plum', 3]), TypeError);
});

test('an amount that was changed is not that of the tasks', async () => {
  const { description, tasks } = made.amounts;
  const changes = [
    { unit: '$' }, { text: 'What?' }, { low: '0' }, { high: '7/3' }, { step: '1/6' }, { clip: true },
    { clip: 0 }, { high: '-1/2' }, { step: '1/7' }, { high: 2 }, { step: '1/9999999999' },
  ];
  for (const change of changes) {
    const amount = { ...description.amount, ...change };
    await assert.rejects(read({ ...description, amount }, tasks), DecodeError, JSON.stringify(change));
  }
  for (const change of [{ version: 1 }, { version: 3 }, { version: 4 }, { amount: null }, { amount: undefined }]) {
    await assert.rejects(read({ ...description, ...change }, tasks), DecodeError, JSON.stringify(change));
  }
});

test('a report of a string and a number is of the kept task, and letters have no number', async () => {
  const question = await readAmounts(), outbox = new MemoryOutbox();
  const spelling = await spellingOf(question, made.amounts.spelling);
  const clock = { now: NOW }, now = () => clock.now;
  const text = await TextClient.open(question, { outbox, now, spelled: [spelling] });
  await text.put(['plum', 3]);
  assert.equal(await text.client.waiting(), 1);
  await assert.rejects(text.put(['plum', 4]), { name: 'AlreadyAnswered' });
  clock.now = 1000 * made.spelling.start;
  await text.put(['caf\u00e9', 7]);
  assert.equal((await outbox.list(spelling.tasks[text.place].id)).length, 1);
});

test('a string and a label are the entry that Python reports, and nothing is drawn', async () => {
  const { description, tasks, entries, size, spelling } = made.labels;
  const question = await read(description, tasks);
  assert.deepEqual(question.by, description.by);
  assert.equal(question.entries, size);
  const draw = () => assert.fail('drawn');
  for (const [place, text, label, entry] of entries) {
    assert.equal(await question.entry(place, [text, label], draw), entry, `${text} ${label}`);
  }
  for (const answer of [null, 'plum', ['plum'], ['plum', null], [null, 1], ['', 1]]) {
    assert.equal(await question.entry(1, answer), 0);
  }
  for (const answer of [['plum', 3], ['plum', -1], ['plum', 0.5], [7, 1]]) {
    await assert.rejects(question.entry(1, answer), TypeError);
  }
  const { labels } = description.by;
  const others = [
    { question: 'sex', labels }, { question: 'age', labels: labels.slice(1) }, { question: 'age', labels: labels.toReversed?.() ?? [] },
    { question: 'age', labels: ['a'] }, { question: 'age', labels: [1, 2] }, { question: 1, labels }, { labels }, labels, null, 'age',
  ];
  for (const by of others) await assert.rejects(read({ ...description, by }, tasks), DecodeError);
  for (const version of [1, 2, 4]) await assert.rejects(read({ ...description, version }, tasks), DecodeError);
  await spellingOf(question, spelling);
});

test('in a window of letters a report goes to the spelling, in the place of the toss, and to no other task',
  async () => {
    const question = await read(), outbox = new MemoryOutbox();
    const spelling = await spellingOf(question);
    const clock = { now: 0 }, now = () => clock.now;
    const before = await TextClient.open(question, { outbox, now });
    const text = await TextClient.open(question, { outbox, now, spelled: [spelling] });
    assert.equal(text.place, before.place);
    const [asked, letters] = [question, spelling].map(({ tasks }) => tasks[text.place].id);
    const { start, end } = made.spelling;
    const moments = [[1000 * start - 1, asked], [1000 * start, letters], [1000 * end - 1, letters], [1000 * end, asked]];
    for (const [moment, task] of moments) {
      clock.now = moment;
      assert.equal(await text.answered(), null);
      const key = await text.put('Caf\u00e9');
      assert.equal((await outbox.list(task)).at(-1).key, key);
      // Nor does a page that does not know of the letters send a second report.
      await assert.rejects(before.put('a'), { name: 'AlreadyAnswered' });
      assert.deepEqual(await text.answered(), { state: 'waiting' });
    }
    for (const client of text.clients) assert.equal(await client.waiting(), 2);
  });

test('a question asked again by other tasks has one report of a person in a window of the first ones',
  async () => {
    const outbox = new MemoryOutbox(), clock = { now: NOW }, now = () => clock.now;
    const opened = async ({ description, tasks }) =>
      TextClient.open(await read(description, tasks), { outbox, now });
    const text = await opened(made), [same, shorter] = await Promise.all(made.again.map(opened));
    const task = text.client.task, { length, start } = task.policy.window;
    const time = task.time(NOW), end = time - ((time - start) % length) + length;
    const moments = [end - length, end - 1n].map((each) => 1000 * Number(each * task.timePrecision));
    for (const [first, others] of [[text, [same, shorter]], [shorter, [text, same]]]) {
      clock.now = moments[0];
      await first.put('a word');
      for (clock.now of moments) {
        for (const other of others) await assert.rejects(other.put(null), { name: 'AlreadyAnswered' });
      }
      for (const other of others) assert.equal(other.place, first.place);
      // And so in the next window.
      moments.forEach((each, i) => (moments[i] = each + 1000 * Number(length * task.timePrecision)));
    }
    assert.equal(await text.client.waiting() + await shorter.client.waiting(), 2);
  });

test('a client that knows people by task takes no task of a group', async () => {
  const [, second] = (await read()).tasks;
  assert.throws(() => new Client(second), /group: the task has place 1 in .* nobody is kept to one/);
  assert.equal(new Client(second, { keepsPlaces: true }).task, second);
});

test('every task is as likely, and draws that would favour some are made again', () => {
  const given = [new Uint8Array(8).fill(255), bytes('0000000000000014')];
  assert.equal(tossed(9, () => given.shift()), 2);
  const counts = new Array(9).fill(0);
  for (let i = 0; i < 9000; i++) counts[tossed(9)]++;
  // Six standard deviations: once in a hundred million runs by chance.
  for (const count of counts) assert.ok(Math.abs(count - 1000) < 180, String(counts));
});

const folder = (context) => {
  const made = mkdtempSync(join(tmpdir(), 'text-'));
  context.after(() => rmSync(made, { recursive: true }));
  return made;
};

for (const kind of ['memory', 'folder']) {
  const it = (sentence, work) => test(`${kind}: ${sentence}`, (context) => {
    if (kind === 'memory') {
      const outbox = new MemoryOutbox();
      return work(() => outbox);
    }
    const place = folder(context);
    return work(() => new FolderOutbox(place));
  });

  it('a person tosses once, whatever a later toss would be, and however many do at once',
    async (outbox) => {
      const question = await read();
      const open = (draw, person) => TextClient.open(question, {
        outbox: outbox(), person, entropy: (size) => new Uint8Array(size).fill(draw),
      });
      const before = (await open(3)).place;
      const after = await Promise.all([1, 2, 4, 5].map((draw) => open(draw)));
      assert.deepEqual(after.map(({ place }) => place), Array(4).fill(before));
      const together = await Promise.all([1, 2, 4, 5].map((draw) => open(draw, 'somebody else')));
      assert.equal(new Set(together.map(({ place }) => place)).size, 1);
      const places = new Set();
      for (let draw = 0; draw < 8; draw++) places.add((await open(draw, `person ${draw}`)).place);
      assert.ok(places.size > 2);
    });

  it('one report of a window is taken, of any answer and of none, and all go to one task',
    async (outbox) => {
      const question = await read();
      const clock = { now: NOW };
      const text = await TextClient.open(question, { outbox: outbox(), now: () => clock.now });
      assert.equal(await text.answered(), null);
      await text.put('  a word\ud800');
      assert.deepEqual(await text.answered(), { state: 'waiting' });
      for (const again of [null, '', 'a word']) await assert.rejects(text.put(again), { name: 'AlreadyAnswered' });
      const { length, start } = text.client.task.policy.window;
      const second = 1000 * Number(text.client.task.timePrecision);
      // To the last moment before the next window, and into it.
      const time = text.client.task.time(clock.now);
      clock.now = second * Number(time - ((time - start) % length) + length) - 1;
      await assert.rejects(text.put('a word'), { name: 'AlreadyAnswered' });
      clock.now += 1;
      assert.equal(await text.answered(), null);
      await text.put(null);
      assert.equal((await outbox().list(question.tasks[text.place].id)).length, 2);
      for (const [place, task] of question.tasks.entries()) {
        if (place !== text.place) assert.equal((await outbox().list(task.id)).length, 0);
      }
      await assert.rejects(text.put(7), TypeError);
    });
}

test('a toss that cannot be read is an error and no reason to toss again', async (context) => {
  const place = folder(context), question = await read();
  const open = () => TextClient.open(question, { outbox: new FolderOutbox(place) });
  await open();
  const content = (name) => readFileSync(join(place, 'claims', name), 'utf8');
  const [name] = readdirSync(join(place, 'claims')).filter((each) => /:\s*\d/.test(content(each)));
  for (const broken of ['', '{"kept": 8}', '{"kept": -1}', '{"kept": "1"}', '{}']) {
    writeFileSync(join(place, 'claims', name), broken);
    await assert.rejects(open());
    assert.equal(readFileSync(join(place, 'claims', name), 'utf8'), broken);
  }
});

test('a toss that another process has linked is on the disk before it is used', async (context) => {
  const place = folder(context);
  const kept = await new FolderOutbox(place).keep('toss', 3);
  const handle = await openFile(place);
  const synced = [], { sync } = Object.getPrototypeOf(handle);
  context.mock.method(Object.getPrototypeOf(handle), 'sync', async function () {
    synced.push((await this.stat()).ino);
    return sync.call(this);
  });
  await handle.close();
  assert.equal(await new FolderOutbox(place).keep('toss', 5), kept);
  assert.deepEqual(synced, [statSync(join(place, 'claims')).ino]);
});

test('an outbox that cannot keep a toss is refused before anything is tossed', async () => {
  const question = await read();
  await assert.rejects(TextClient.open(question, {}), TypeError);
  await assert.rejects(TextClient.open(question, { outbox: { add() {} } }), TypeError);
});

test('an engine whose Unicode is too old is refused before anybody is asked', async (context) => {
  context.mock.method(String.prototype, 'normalize', function () { return String(this); });
  await assert.rejects(read(), { name: 'Unsupported' });
});
