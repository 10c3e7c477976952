/** The clock of a page: which time an answer of now is of, on devices whose clocks are wrong. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { Task } from '../../aggregator/client/browser/index.js';
import { Clock } from '../../aggregator/client/browser/clock.js';

const [{ task: document }] = JSON.parse(readFileSync(process.env.CLIENT_VECTORS, 'utf8'));
const task = new Task(document);
const MINUTE = 60_000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const KEYS = 'application/ppm-dap;message=hpke-config-list';
const TRUE = Date.UTC(2026, 10, 25, 12);

/** A device whose clock is off, and two aggregators: by how much each lies, or what it answers. */
function world(off, { leader = 0, helper = 0 } = {}) {
  const device = { off, since: 0, asked: [] };
  const says = { leader, helper };
  const fetch = async (url, options) => {
    device.asked.push(options.cache);
    const said = says[url.startsWith(task.leader) ? 'leader' : 'helper'];
    if (typeof said === 'function') return said();
    const date = new Date(TRUE + device.since + said).toUTCString();
    return new Response(new Uint8Array(), { headers: { date, 'content-type': KEYS } });
  };
  const now = () => TRUE + device.since + device.off;
  const clock = new Clock(task, { fetch, now, elapsed: () => device.since });
  return { clock, device, says, now };
}

const away = () => { throw new TypeError('Failed to fetch'); };
const cached = (headers) => () => new Response(new Uint8Array(), {
  headers: { date: new Date(TRUE - DAY).toUTCString(), 'content-type': KEYS, age: '86400', ...headers },
});
const window = (milliseconds, length) => Math.floor(milliseconds / length);

for (const [name, off] of Object.entries({
  '30 days behind': -30 * DAY, '12 days behind': -12 * DAY, '13 hours behind': -13 * HOUR,
  'an hour behind': -HOUR, 'two hours ahead': 2 * HOUR, 'two days ahead': 48 * HOUR,
})) {
  test(`a device that is ${name} answers in the true day and week`, async () => {
    const { clock, device, now } = world(off);
    const ahead = await clock.look();
    for (const length of [DAY, 7 * DAY]) assert.equal(window(now() - ahead, length), window(TRUE, length));
    assert.deepEqual(device.asked, ['no-store', 'no-store']);
  });

  test(`of a device that is ${name} nobody knows the time if one aggregator is away, or lies`, async () => {
    for (const said of [away, off, -off, cached(), () => new Response('', { status: 502 })]) {
      assert.equal(await world(off, { leader: said }).clock.look(), null);
      assert.equal(await world(off, { helper: said }).clock.look(), null);
    }
  });
}

test('a clock within the skew is left as it is, and so are those of two that agree within it', async () => {
  assert.equal(await world(4 * MINUTE).clock.look(), 0);
  assert.equal(await world(-4 * MINUTE).clock.look(), 0);
  assert.equal(await world(0, { leader: 4 * MINUTE }).clock.look(), 0);
  assert.equal(await world(0, { leader: 6 * MINUTE }).clock.look(), null);
});

test('a date that a cache has kept is not the time, whatever it says', async () => {
  assert.equal(await world(0, { leader: cached({ age: '0' }) }).clock.look(), null);
});

test('what both have said holds offline, until the clock is set', async () => {
  const { clock, device, says } = world(-13 * HOUR);
  assert.equal(await clock.look(), -13 * HOUR);
  says.leader = says.helper = away;
  device.since += 3 * HOUR;
  assert.equal(await clock.look(), -13 * HOUR);
  device.off = 0;
  assert.equal(await clock.look(), null);
  says.leader = says.helper = 0;
  assert.equal(await clock.look(), 0);
  says.helper = DAY;
  assert.equal(await clock.look(), null);
  says.helper = away;
  assert.equal(await clock.look(), null); // what was disputed since is not believed
});
