/** Bad days of a client, over an outbox in memory and one in a folder: nothing is lost or doubled. */

import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { readFileSync } from 'node:fs';

import { AlreadyAnswered, Client, DecodeError, MemoryOutbox, OutboxFull, Task } from
  '../../aggregator/client/browser/index.js';
import { Reader } from '../../aggregator/client/browser/bytes.js';
import '../../aggregator/client/browser/permits.js';
import { FolderOutbox } from '../../aggregator/client/browser/node.js';

const [{ task: document, report_errors: reportErrors }] = JSON.parse(readFileSync(process.env.CLIENT_VECTORS, 'utf8'));
const task = new Task(document);
// Also what a leader says of permits.
Task.readers[0xff51](new Reader(Uint8Array.from([1, 1, ...new Uint8Array(32)])), task);
const DAY = 86_400_000;
const SEVERAL_DAYS = Number(process.env.SEVERAL_DAYS);
const hex = (bytes) => Buffer.from(bytes).toString('hex');

/** A leader and a helper that note what they get; a test says how a request ends. */
class Pair {
  constructor() {
    this.stored = new Map(); // the bytes of a report by its id
    this.posts = [];
    this.asked = []; // how keys were asked for
    this.next = []; // what happens to the next uploads: a function of the answer
    this.config = 1;
    this.sizes = null;
  }

  async keys() {
    const { publicKey } = await webcrypto.subtle.generateKey('X25519', false, ['deriveBits']);
    this.key = new Uint8Array(await webcrypto.subtle.exportKey('raw', publicKey));
    this.config++;
  }

  fetch = async (url, options) => {
    assert.equal(options.credentials, 'omit');
    assert.equal(options.redirect, 'error');
    if (url.endsWith('/hpke_config')) {
      this.asked.push(options.cache);
      await (this.first ??= this.keys());
      const config = [this.config, 0, 0x20, 0, 1, 0, 1, 0, 32, ...(this.bad ?? this.key)];
      const type = 'application/ppm-dap;message=hpke-config-list';
      return answer(200, [0, config.length, ...config], { 'content-type': type });
    }
    assert.equal(url, task.uploads);
    this.posts.push(hex(options.body));
    const turn = this.next.shift() ?? ((store) => store());
    return turn(() => this.store(options.body), options.body);
  };

  /** Reports of one task have one size. */
  store(body) {
    const size = this.sizes ?? body.length;
    this.sizes = size;
    for (let at = 0; at < body.length; at += size) {
      const report = hex(body.subarray(at, at + size));
      const id = report.slice(0, 32);
      assert.ok((this.stored.get(id) ?? report) === report, 'other bytes under an id');
      this.stored.set(id, report);
    }
    return answer(200, []);
  }
}

const answer = (status, body, headers = {}) => new Response(new Uint8Array(body), { status, headers });
const ERRORS = 'application/ppm-dap;message=upload-errors';
/** The leader's word on the first report of a request. */
const says = (code, headers = {}) => (_, body) =>
  answer(200, [...body.subarray(0, 16), code], { 'content-type': ERRORS, ...headers });
const problem = (status, name) => () =>
  new Response(JSON.stringify({ type: `urn:ietf:params:ppm:dap:error:${name}` }),
    { status, headers: { 'content-type': 'application/problem+json' } });
const cut = () => { throw new TypeError('Failed to fetch'); };
const cutAfter = (store) => { store(); throw new TypeError('Failed to fetch'); };

for (const kind of ['memory', 'folder']) {
  const world = (context, options = {}) => {
    let outbox = new MemoryOutbox();
    if (kind === 'folder') {
      const folder = mkdtempSync(join(tmpdir(), 'outbox-'));
      context.after(() => rmSync(folder, { recursive: true }));
      outbox = new FolderOutbox(folder);
    }
    const pair = new Pair();
    const clock = { now: 1_700_000_000_000 };
    const settled = [];
    const begin = () => {
      const again = kind === 'folder' ? new FolderOutbox(outbox.folder) : outbox;
      const client = new Client(task, { outbox: again, fetch: pair.fetch, now: () => clock.now, ...options });
      client.addEventListener('settled', (event) => settled.push(event.detail));
      return client;
    };
    return { pair, clock, settled, begin, client: begin(), outbox };
  };
  const it = (sentence, work, options) => test(`${kind}: ${sentence}`, (context) => work(world(context, options)));

  it('a report is stored, sent, counted and forgotten', async ({ client, pair, settled }) => {
    const key = await client.put(1, { claim: 'this week' });
    assert.deepEqual(await client.claimed('this week'), { state: 'waiting' });
    assert.equal(pair.posts.length, 0);
    assert.deepEqual(await client.flush(), { counted: 1, late: 0, refused: 0, waiting: 0, reason: null });
    assert.equal(pair.stored.size, 1);
    assert.deepEqual(await client.claimed('this week'), { state: 'counted', reason: null });
    assert.deepEqual(settled, [{ state: 'counted', reason: null, key, claim: 'this week' }]);
  });

  it('one report is taken of a claim, also of two at once', async ({ client, pair }) => {
    const both = await Promise.allSettled([client.put(1, { claim: 'a b' }), client.put(1, { claim: 'a b' })]);
    assert.deepEqual(both.map((each) => each.status).sort(), ['fulfilled', 'rejected']);
    await client.flush();
    await assert.rejects(client.put(0, { claim: 'a b' }), AlreadyAnswered);
    await client.put(0, { claim: 'c' });
    await client.flush();
    assert.equal(pair.stored.size, 2);
  });

  it('a lost answer is asked for again with the same bytes, by the next process too',
    async ({ client, pair, begin, clock }) => {
      await client.put(1);
      await client.put(0);
      pair.sizes = 0;
      pair.next = [() => cut(), (store, body) => { pair.sizes = body.length / 2; return cutAfter(store); }];
      assert.equal((await client.flush()).reason, 'unreachable');
      clock.now += 3_600_000;
      assert.equal((await client.flush()).waiting, 2);
      const last = await begin().flush({ now: true });
      assert.equal(last.counted, 2);
      assert.equal(pair.posts.length, 3);
      assert.equal(new Set(pair.posts).size, 1);
      assert.equal(pair.stored.size, 2);
    });

  it('what the leader has already is counted, not refused', async ({ client, pair }) => {
    await client.put(1);
    pair.next = [says(2)];
    assert.equal((await client.flush()).counted, 1);
  });

  it('a busy leader is left alone for as long as it says', async ({ client, pair, clock }) => {
    await client.put(1);
    pair.next = [() => answer(503, [], { 'retry-after': '120' })];
    assert.equal((await client.flush()).reason, 'busy');
    clock.now += 119_000;
    await client.flush();
    assert.equal(pair.posts.length, 1);
    clock.now += 2_000;
    assert.equal((await client.flush()).counted, 1);
  });

  it('what is no aggregator settles nothing', async ({ client, pair }) => {
    await client.put(1);
    const html = { 'content-type': 'text/html' };
    const portal = [...Buffer.from('<h1>Welcome to our hotel</h1>')];
    const json = { 'content-type': 'application/problem+json' };
    pair.next = [
      () => answer(200, portal, html), () => answer(404, portal, html), () => answer(403, [], {}),
      () => answer(400, [...Buffer.from('{"type":"about:blank"}')], json),
      problem(400, ''), problem(400, 'not a name'),
      () => answer(400, [...Buffer.from('no JSON')], json),
      () => answer(200, [1, 2, 3], { 'content-type': ERRORS }),
      () => new Response(null, { status: 204 }), () => answer(202, []), () => answer(200, [], html),
    ];
    for (let turn = 0; turn < 11; turn++) {
      const { waiting, reason } = await client.flush({ now: true });
      assert.deepEqual([waiting, reason], [1, 'not_an_aggregator']);
    }
    assert.equal((await client.flush({ now: true })).counted, 1);
    assert.equal(new Set(pair.posts).size, 1);
  });

  it('keys that changed are asked for past the cache, and the report keeps its id and its time',
    async ({ client, pair, clock }) => {
      await client.put(1);
      pair.next = [async (_, body) => {
        await pair.keys();
        clock.now += 3 * 86_400_000;
        return says(11)(_, body);
      }];
      assert.equal((await client.flush()).counted, 1);
      assert.deepEqual(pair.asked, ['default', 'default', 'reload', 'reload']);
      const [first, second] = pair.posts;
      assert.equal(first.slice(0, 52), second.slice(0, 52));
      assert.notEqual(first, second);
    });

  it('a leader that calls it an unknown key means the same', async ({ client, pair }) => {
    await client.put(1);
    pair.next = [async (_, body) => { await pair.keys(); return says(4)(_, body); }];
    assert.equal((await client.flush()).counted, 1);
    assert.equal(pair.posts.length, 2);
  });

  it('a leader that calls good keys outdated gets no other bytes', async ({ client, pair, clock }) => {
    await client.put(1);
    pair.next = [says(11), says(11), says(11)];
    for (let turn = 0; turn < 3; turn++) {
      assert.equal((await client.flush()).reason, 'outdated_config');
      clock.now += 3_600_000;
    }
    assert.equal(new Set(pair.posts).size, 1);
    assert.equal((await client.flush()).counted, 1);
  });

  it('a clock that is ahead is told of, and the report waits for its time', async ({ client, pair, clock }) => {
    await client.put(1);
    pair.next = [says(9, { date: new Date(clock.now - 7_200_000).toUTCString() })];
    const { waiting, reason } = await client.flush();
    assert.deepEqual([waiting, reason, client.clockAhead], [1, 'report_too_early', 7200]);
    clock.now += 7_200_000;
    assert.equal((await client.flush()).counted, 1);
    assert.equal(new Set(pair.posts).size, 1);
  });

  it('each word of a leader means what it means to the client in Python', async ({ client, pair, settled, clock }) => {
    for (const { code, name, verdict } of [...reportErrors, { code: 99, name: 'report_error_99', verdict: 'doubted' }]) {
      const key = await client.put(1, { claim: name });
      pair.next = [says(code)];
      const { reason } = await client.flush({ now: true });
      const { state, reason: why } = await client.claimed(name);
      if (['counted', 'late', 'refused'].includes(verdict)) {
        assert.deepEqual([state, why, reason], [verdict, verdict === 'counted' ? null : name, null]);
        assert.equal(settled.at(-1).key, key);
        continue;
      }
      assert.deepEqual([state, reason], ['waiting', verdict === 'outdated' ? 'outdated_config' : name]);
      const [{ due }] = await client.outbox.list(task.id);
      assert.equal(due - clock.now, verdict === 'early' ? 60_000 : 3_600_000);
      assert.equal((await client.flush({ now: true })).counted, 1);
    }
    assert.equal(new Set(reportErrors.map(({ verdict }) => verdict)).size, 6);
  });

  for (const [turn, reason] of [
    [says(8), 'invalid_message'], [says(99), 'report_error_99'],
    [problem(400, 'invalidMessage'), 'invalidMessage'], [problem(400, 'batchInvalid'), 'batchInvalid'],
  ]) {
    it(`who says ${reason} has to say so on several days`, async ({ client, begin, pair, clock, settled }) => {
      await client.put(1, { claim: 'it' });
      clock.now = Math.ceil(clock.now / DAY) * DAY;
      for (let hour = 0; hour < 24 * (SEVERAL_DAYS - 1); hour++) {
        pair.next = [turn];
        const done = await begin().flush({ now: true });
        assert.deepEqual([done.waiting, done.reason], [1, reason]);
        clock.now += 3_600_000;
      }
      pair.next = [turn];
      assert.equal((await begin().flush()).refused, 1);
      assert.deepEqual(settled.map(({ claim, ...outcome }) => [claim, outcome.state, outcome.reason]), [['it', 'refused', reason]]);
    });
  }

  it('a leader that refuses everybody is asked about one group an hour', async ({ client, pair, clock }) => {
    for (let i = 0; i < 7; i++) await client.put(1);
    pair.next = Array(20).fill(problem(400, 'invalidMessage'));
    const { waiting, reason } = await client.flush();
    assert.deepEqual([waiting, reason, pair.posts.length], [7, 'invalidMessage', 4]);
    pair.next = [];
    clock.now += 3_599_000;
    assert.equal((await client.flush()).counted, 0);
    clock.now += 1_000;
    pair.sizes = pair.posts.at(-1).length / 2;
    assert.equal((await client.flush()).counted, 7);
  }, { reportsPerRequest: 3 });

  it('a clock that jumps for one pass gives nothing up, whatever the leader says', async ({ client, pair, clock, settled }) => {
    for (let i = 0; i < 3; i++) await client.put(1);
    for (const turn of [cut, says(9), problem(404, 'unrecognizedTask')]) {
      const date = new Date(clock.now).toUTCString();
      clock.now += 15 * DAY;
      pair.next = [(store, body) => {
        const said = turn(store, body);
        said.headers.set('date', date);
        return said;
      }];
      const { waiting } = await client.flush({ now: true });
      assert.equal(waiting + settled.length, 3);
      clock.now -= 15 * DAY;
    }
    await client.flush({ now: true });
    assert.deepEqual(settled.map(({ state }) => state), ['counted', 'counted', 'counted']);
  }, { reportsPerRequest: 3 });

  for (const ahead of [null, -DAY, DAY]) {
    it(`a report is too old only by a clock that agrees with the leader's: ${ahead}`, async ({ client, pair, clock, settled }) => {
      await client.put(1);
      const early = (by) => [says(9, by === null ? {} : { date: new Date(clock.now - by).toUTCString() })];
      for (let day = 0; day < 20; day++) {
        pair.next = early(ahead);
        assert.equal((await client.flush({ now: true })).waiting, 1);
        clock.now += DAY;
      }
      pair.next = early(DAY - 1000);
      assert.equal((await client.flush({ now: true })).late, 1);
      assert.equal(settled[0].reason, 'too_old');
    });
  }

  it('one bad report of a request does not take the others with it', async ({ client, pair }) => {
    for (let i = 0; i < 3; i++) await client.put(1);
    const refuse = problem(400, 'invalidMessage');
    pair.next = [refuse, (store) => store(), refuse, (store) => store()];
    const { counted, waiting } = await client.flush();
    assert.deepEqual([counted, waiting], [2, 1]);
  });

  it('a leader that does not know the task yet gets the answers when it does',
    async ({ client, pair, clock }) => {
      await client.put(1);
      await client.put(0);
      pair.next = [problem(404, 'unrecognizedTask')];
      const { waiting, reason } = await client.flush();
      assert.deepEqual([waiting, reason, pair.posts.length], [2, 'unrecognizedTask', 1]);
      clock.now += 61_000;
      assert.equal((await client.flush()).counted, 2);
    });

  it('what is too large for somebody on the way goes in halves, and one alone waits',
    async ({ client, pair }) => {
      for (let i = 0; i < 5; i++) await client.put(1);
      const tooLarge = () => answer(413, [...Buffer.from('<h1>nginx</h1>')], { 'content-type': 'text/html' });
      let size;
      const first = (store, body) => { size = body.length / 5; pair.sizes = size; return tooLarge(); };
      const most = (reports) => (store, body) => (body.length > reports * size ? tooLarge() : store());
      pair.next = [first, ...Array(20).fill(most(2))];
      const { counted, waiting } = await client.flush();
      assert.deepEqual([counted, waiting, pair.stored.size], [5, 0, 5]);
      await client.put(1);
      pair.next = [tooLarge];
      assert.equal((await client.flush()).reason, 'too_large');
    });

  it('what was answered before the network went is settled', async ({ client, pair, settled }) => {
    for (let i = 0; i < 3; i++) await client.put(1);
    const refuse = problem(400, 'invalidMessage');
    pair.next = [refuse, refuse, (store) => store(), cut];
    const { counted, refused, waiting } = await client.flush();
    assert.deepEqual([counted, refused, waiting, settled.length], [1, 0, 2, 1]);
  });

  it('old keys that cannot be asked for again do not unsettle the others', async ({ client, pair }) => {
    await client.put(1);
    await client.put(1);
    pair.next = [(store, body) => { pair.bad = new Uint8Array(32); return says(11)(store, body); }];
    const { counted, waiting } = await client.flush();
    assert.deepEqual([counted, waiting], [1, 1]);
  });

  it('keys are those of the day on which a report is sent', async ({ client, pair, clock }) => {
    await client.put(1);
    await client.flush();
    await client.put(1);
    clock.now += 86_400_001;
    await pair.keys();
    await client.flush();
    assert.deepEqual(pair.asked, ['default', 'default', 'reload', 'reload']);
    assert.equal(Number.parseInt(pair.posts[1].slice(60, 62), 16), pair.config);
  });

  it('a key that leads to no secret is not kept', async ({ client, pair }) => {
    pair.bad = new Uint8Array(32);
    await client.put(1);
    assert.equal((await client.flush()).reason, 'not_an_aggregator');
    pair.bad = null;
    assert.equal((await client.flush({ now: true })).counted, 1);
  });

  it('what is counted is never late', async ({ client, outbox }) => {
    await client.put(1, { claim: 'it' });
    const [record] = await outbox.list(task.id);
    await client.flush();
    await outbox.settle(record, { state: 'late', reason: 'too_old' });
    assert.equal((await client.claimed('it')).state, 'counted');
  });

  it('two reports of one claim are not stored together', async ({ client, outbox }) => {
    const twice = [client.make(1, { claim: 'it' }), client.make(0, { claim: 'it' })];
    await assert.rejects(outbox.add(twice), AlreadyAnswered);
    assert.equal(await client.waiting(), 0);
  });

  it('what is put after start goes by itself, from an outbox that was empty', async ({ client, pair }) => {
    const gone = new Promise((resolve) => client.addEventListener('settled', resolve));
    client.start();
    await client.flush();
    await client.put(1);
    await gone;
    client.stop();
    assert.equal(pair.stored.size, 1);
  });

  it('there is always a timer between start and stop, and none waits for longer than an hour',
    async ({ client, pair, clock }) => {
      client.start();
      await client.flush();
      assert.notEqual(client.timer, null);
      pair.next = [() => answer(503, [], { 'retry-after': '86400' })];
      await client.put(1);
      await client.flush();
      const [{ due }] = await client.outbox.list(task.id);
      assert.equal(due - clock.now, 86_400_000);
      clearTimeout(client.timer);
      client.timer = null;
      await client.rearm();
      assert.ok(client.wakes - performance.now() <= 3_600_000);
      client.stop();
      assert.equal(client.timer, null);
    });

  it('there is room for so many reports, and what never reached the leader is not too old',
    async ({ client, pair, clock }) => {
      await client.put(1);
      await client.put(1);
      await assert.rejects(client.put(1), OutboxFull);
      for (let turn = 0; turn < 8; turn++) {
        pair.next = [cut];
        assert.equal((await client.flush()).waiting, 2);
        clock.now += 30 * DAY;
      }
      pair.sizes = pair.posts[0].length / 4;
      assert.equal((await client.flush()).counted, 2);
    }, { maxReports: 2, maxAgeSeconds: 60 });

  it('what the leader left waiting for too long is given up by name', async ({ client, pair, clock, settled }) => {
    await client.put(1);
    for (let day = 0; day < SEVERAL_DAYS; day++) {
      assert.deepEqual(settled, []);
      clock.now += DAY;
      const unknown = problem(404, 'unrecognizedTask')();
      unknown.headers.set('date', new Date(clock.now).toUTCString());
      pair.next = [() => unknown];
      await client.flush();
    }
    assert.deepEqual(settled.map(({ state, reason }) => [state, reason]), [['late', 'too_old']]);
  }, { maxAgeSeconds: 60 });

  it('two passes at once are one', async ({ client, pair }) => {
    await client.put(1);
    await Promise.all([client.flush(), client.flush()]);
    assert.equal(pair.posts.length, 1);
  });

  it('after start reports go by themselves, and after stop no more', async ({ client, pair }) => {
    await client.put(1);
    const gone = new Promise((resolve) => client.addEventListener('settled', resolve));
    client.start();
    await gone;
    client.stop();
    assert.equal(pair.stored.size, 1);
  });
}

test('a process that died between a record and its claim has left a claim', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'outbox-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const pair = new Pair();
  const client = () => new Client(task, { outbox: new FolderOutbox(folder), fetch: pair.fetch });
  await client().put(1, { claim: 'once' });
  const [claim] = readdirSync(join(folder, 'claims'));
  rmSync(join(folder, 'claims', claim));
  const drafts = [join(folder, 'records', `half.${process.pid}.new`), join(folder, 'claims', 'half.1.new')];
  for (const draft of drafts) {
    writeFileSync(draft, '{"key": "ha');
    utimesSync(draft, Date.now() / 1000 - 86_460, Date.now() / 1000 - 86_460);
  }
  const young = join(folder, 'records', 'of-another-process.new');
  writeFileSync(young, '{"key": "ha');
  await assert.rejects(client().put(1, { claim: 'once' }), AlreadyAnswered);
  const left = ['records', 'claims'].flatMap((name) => readdirSync(join(folder, name)));
  assert.deepEqual(left.filter((name) => name.endsWith('.new')), ['of-another-process.new']);
  assert.equal((await client().flush()).counted, 1);
});

test('a group is bounded by bytes', async () => {
  const pair = new Pair();
  const client = new Client(task, { fetch: pair.fetch });
  await client.put(1);
  for (const record of await client.outbox.list(task.id)) record.leaderShare = new Uint8Array(400_000);
  await client.flush();
  assert.equal(client.group, 2);
});

test('a client of a task that it cannot read is not made', () => {
  assert.throws(() => new Task({ ...document, id: 'AA' }), DecodeError);
  assert.throws(() => new Task({ ...document, profile: 'dap-99' }), DecodeError);
});
