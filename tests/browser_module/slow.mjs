/** Browsers that answer late or never: nothing waits for them without an end, or is done twice. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { readFileSync } from 'node:fs';

import { BrowserOutbox, Client, MemoryOutbox, Task } from '../../aggregator/client/browser/index.js';

const [{ task: document }] = JSON.parse(readFileSync(process.env.CLIENT_VECTORS, 'utf8'));
const task = new Task(document);
const DEADLINE = 10_000, SECOND = 1000;

/** The timers of what is tested; time passes only in `pass`. */
let time = 0;
const timers = new Map();
globalThis.setTimeout = (work, wait, ...given) => {
  const timer = Symbol('timer');
  timers.set(timer, { due: time + wait, work: () => work(...given) });
  return timer;
};
globalThis.clearTimeout = (timer) => timers.delete(timer);
/** Let everything happen that needs no time. */
const settled = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
};
async function pass(milliseconds) {
  await settled();
  time += milliseconds;
  for (const [timer, { due, work }] of timers) if (due <= time && timers.delete(timer)) work();
  await settled();
}

/** What became of a promise until now. */
function watched(promise) {
  const seen = { state: 'waits' };
  promise.then((value) => Object.assign(seen, { state: 'done', value }),
    (error) => Object.assign(seen, { state: 'failed', error: error.name }));
  return seen;
}

/** IndexedDB as far as an outbox uses it; what `holds` names is done only when a test says so. */
class Storage {
  constructor() {
    this.records = new Map();
    this.claims = new Map();
    this.connections = [];
    this.holds = new Set();
    this.held = [];
    this.fault = null; // of what writes
  }

  /** Do something now, or when a test calls what is held. */
  turn(kind, work) {
    if (this.holds.has(kind)) this.held.push(work);
    else queueMicrotask(work);
  }

  answer() {
    this.holds.clear();
    for (const work of this.held.splice(0)) work();
  }

  open() {
    const request = {};
    this.turn('open', () => {
      request.result = new Connection(this);
      this.connections.push(request.result);
      request.onsuccess();
    });
    return request;
  }
}

class Connection {
  constructor(storage) {
    this.storage = storage;
  }

  close() {
    this.isClosed = true;
  }

  transaction() {
    assert.ok(!this.isClosed);
    return new Transaction(this.storage);
  }
}

class Transaction {
  constructor(storage) {
    Object.assign(this, { storage, writes: [], open: 0, state: 'active', error: null });
    setImmediate(() => this.finish());
  }

  objectStore(name) {
    const kept = this.storage[name];
    const request = (work) => {
      assert.equal(this.state, 'active');
      const asked = {};
      this.open++;
      this.storage.turn('request', () => {
        if (this.state !== 'active') return;
        asked.result = work();
        asked.onsuccess?.();
        this.open--;
        setImmediate(() => this.finish()); // after whoever waited for it has asked for more
      });
      return asked;
    };
    const write = (value, key = value.key) =>
      request(() => this.writes.push(() => kept.set(key, value)));
    return {
      get: (key) => request(() => kept.get(key)),
      add: write,
      put: write,
      delete: (key) => request(() => this.writes.push(() => kept.delete(key))),
      index: () => ({ getAll: () => request(() => [...kept.values()]) }),
    };
  }

  finish() {
    if (this.state !== 'active' || this.open) return;
    this.state = 'committing';
    this.storage.turn('complete', () => {
      this.state = 'done';
      this.error = this.storage.fault;
      if (this.error) return this.onabort();
      for (const write of this.writes) write();
      return this.oncomplete();
    });
  }

  abort() {
    if (this.state !== 'active') throw new DOMException('it is over', 'InvalidStateError');
    this.state = 'aborted';
    this.onabort();
  }
}

function world() {
  const storage = new Storage();
  globalThis.indexedDB = storage;
  timers.clear();
  return { storage, outbox: new BrowserOutbox() };
}
const record = (key) => ({ key, task: task.id, claim: `claim of ${key}`, created: 0 });

test('an outbox keeps, settles and leaves no timer behind', async () => {
  const { storage, outbox } = world();
  await outbox.add([record('a')], ['b']);
  assert.deepEqual(await outbox.claimed('claim of a'), { state: 'waiting' });
  await assert.rejects(outbox.add([record('a')]), { name: 'AlreadyAnswered' });
  await outbox.save({ ...record('a'), body: 1 });
  assert.equal((await outbox.list(task.id))[0].body, 1);
  await outbox.settle(record('a'), { state: 'counted' });
  assert.deepEqual(await outbox.claimed('claim of a'), { state: 'counted' });
  assert.deepEqual([await outbox.keep('toss', 3), await outbox.keep('toss', 4)], [3, 3]);
  assert.equal(storage.records.size, 0);
  assert.equal(timers.size, 0);
});

test('a connection that comes a second late is closed, and the next call opens another', async () => {
  const { storage, outbox } = world();
  storage.holds.add('open');
  const calls = [watched(outbox.claimed('a')), watched(outbox.add([record('a')]))];
  await pass(DEADLINE - 1);
  assert.deepEqual(calls.map(({ state }) => state), ['waits', 'waits']);
  await pass(1);
  assert.deepEqual(calls.map(({ error }) => error), ['TimeoutError', 'TimeoutError']);
  await pass(SECOND);
  storage.answer();
  await settled();
  assert.deepEqual(storage.connections.map(({ isClosed }) => isClosed), [true]);
  await outbox.add([record('a')]);
  assert.equal(storage.records.size, 1);
});

for (const kind of ['request', 'complete']) {
  const calls = {
    keep: (outbox) => outbox.keep('toss', 3), claimed: (outbox) => outbox.claimed('a'),
    list: (outbox) => outbox.list(task.id), save: (outbox) => outbox.save(record('a')),
    settle: (outbox) => outbox.settle(record('a'), { state: 'counted' }),
  };
  for (const [name, call] of Object.entries(calls)) {
    test(`${name} does not wait for a ${kind} that comes a second late`, async () => {
      const { storage, outbox } = world();
      await outbox.add([record('a')]);
      storage.holds.add(kind);
      const seen = watched(call(outbox));
      await pass(DEADLINE);
      assert.equal(seen.error, 'TimeoutError');
      await pass(SECOND);
      storage.answer();
      await settled();
      // What the browser was not storing already is not done any more.
      if (kind === 'request') assert.deepEqual([storage.records.size, storage.claims.size], [1, 1]);
      assert.equal(await outbox.keep('toss', 4), kind === 'complete' && name === 'keep' ? 3 : 4);
    });
  }

  test(`reports are stored once, however late a ${kind} comes`, async () => {
    const { storage, outbox } = world();
    storage.holds.add(kind);
    const seen = watched(outbox.add([record('a')]));
    await pass(DEADLINE + SECOND);
    await pass(1000 * SECOND);
    assert.equal(seen.state, 'waits');
    storage.answer();
    await settled();
    assert.equal(seen.state, 'done');
    assert.equal(storage.records.size, 1);
  });
}

test('a disk that is full is told apart, and has stored nothing', async () => {
  const { storage, outbox } = world();
  storage.fault = new DOMException('no room', 'QuotaExceededError');
  await assert.rejects(outbox.add([record('a')]), { name: 'OutboxFull' });
  await assert.rejects(outbox.keep('toss', 3), { name: 'OutboxFull' });
  storage.fault = null;
  assert.equal(await outbox.keep('toss', 4), 4);
  assert.equal(storage.records.size, 0);
});

/** A client that has one report, and what became of a pass over it. */
async function sending(outbox, locks) {
  Object.defineProperty(globalThis, 'navigator', { value: { locks }, configurable: true });
  const client = new Client(task, { outbox, fetch: () => assert.fail('something was sent') });
  await client.put(1);
  return watched(client.flush());
}

test('who never gets the lock sends nothing, says so, and leaves a late lock at once', async () => {
  const { outbox } = world();
  let grant;
  const locks = {
    request: (_, __, begin) => new Promise((resolve) => {
      grant = () => resolve(begin({}));
    }),
  };
  const seen = await sending(outbox, locks);
  await pass(DEADLINE - 1);
  assert.equal(seen.state, 'waits');
  await pass(1);
  assert.deepEqual([seen.value.reason, seen.value.waiting], ['another_tab', 1]);
  await pass(SECOND);
  grant();
  await settled();
  assert.equal((await outbox.list(task.id)).length, 1);
});

test('what only this page has needs no lock', async () => {
  const seen = await sending(new MemoryOutbox(), { request: () => assert.fail('a lock') });
  await settled();
  assert.equal(seen.value.reason, 'unreachable');
});
