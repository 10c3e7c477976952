/** Signed permits in JavaScript: RFC 9474's vectors, and the bytes that Python asks and sends. */

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

import { blind, unblind } from '../../aggregator/client/browser/blind.js';
import { Client, MemoryOutbox, Task, sealReport } from '../../aggregator/client/browser/index.js';
import { FolderOutbox } from '../../aggregator/client/browser/node.js';
import { Permits } from '../../aggregator/client/browser/signed.js';
import { signedId, signedText } from '../../aggregator/client/browser/signed_permits.js';
import { Survey } from '../../aggregator/client/browser/survey.js';
import { TextQuestion } from '../../aggregator/client/browser/text.js';

const given = JSON.parse(readFileSync(process.env.SIGNED_VECTORS, 'utf8'));
const { rfc, ours, task: made, keys, drawn, now, answers, survey: file, texts: documents, later } = given;
const hex = (bytes) => Buffer.from(bytes).toString('hex');
const bytes = (text) => Uint8Array.from(Buffer.from(text, 'hex'));

/** Gives out what was drawn before. */
const drawing = (all) => {
  const left = [...all];
  return (size) => {
    const next = bytes(left.shift());
    assert.equal(next.length, size);
    return next;
  };
};

/** The one place of an issuer that answers requests which Python has answered. */
const issuerOf = (seen = []) => async (request) => {
  seen.push(hex(request));
  return bytes(answers[hex(request)]);
};

const textsOf = async () => Object.fromEntries(await Promise.all(
  Object.entries(documents).map(async ([name, { description, tasks }]) =>
    [name, await TextQuestion.read(description, tasks.map((each) => new Task(each)))])));

const opened = (outbox = new MemoryOutbox(), options = {}) =>
  new Permits([new Task(made)], keys, { outbox, now: () => now, entropy: drawing(drawn), ...options });

test('a message is blinded and unblinded as in the RFC', async () => {
  const modulus = bytes(rfc.n), message = bytes(rfc.msg);
  const { sent, inverse } = await blind(modulus, message, drawing([rfc.salt, rfc.factor]));
  assert.equal(hex(sent), rfc.blinded_msg);
  assert.equal(hex(inverse), rfc.inv.padStart(1024, '0'));
  assert.equal(hex(await unblind(modulus, message, bytes(rfc.blind_sig), inverse)), rfc.sig);
  const other = message.slice();
  other[0] ^= 1;
  assert.equal(await unblind(modulus, other, bytes(rfc.blind_sig), inverse), null);
  const wrong = bytes(rfc.blind_sig);
  wrong[9] ^= 1;
  assert.equal(await unblind(modulus, message, wrong, inverse), null);
});

test('a factor that is no unit below the modulus is drawn again', async () => {
  const modulus = bytes(rfc.n), zeros = '00'.repeat(512), large = 'ff'.repeat(512);
  const draws = drawing([rfc.salt, zeros, large, rfc.factor]);
  assert.equal(hex((await blind(modulus, bytes(rfc.msg), draws)).sent), rfc.blinded_msg);
});

test('a key that shares a factor with a message is refused', async () => {
  const even = Uint8Array.of(128, ...new Uint8Array(510), 2); // as is every encoding of a message
  await assert.rejects(blind(even, bytes(rfc.msg)), /factor in common/);
});

test('ids and what is signed of them are ours', async () => {
  for (const { domain, opening, window, report_id: id, text } of ours) {
    const found = await signedId(bytes(domain), bytes(opening), BigInt(window));
    assert.equal(hex(found), id);
    assert.equal(hex(signedText(bytes(domain), BigInt(window), found)), text);
  }
});

test('the issuer is asked the bytes that Python asks, and again if the answer is lost', async () => {
  for (const outbox of [new MemoryOutbox(), new FolderOutbox(mkdtempSync(join(tmpdir(), 'permits-')))]) {
    const seen = [], lost = async (request) => {
      seen.push(hex(request));
      throw new TypeError('Failed to fetch');
    };
    const permits = opened(outbox);
    await assert.rejects(permits.refresh(lost), /Failed to fetch/);
    const task = new Task(made);
    await assert.rejects(permits.permit(task, now), { name: 'NoPermit' });
    assert.equal(await permits.isThere(task, now), false);
    // In another visit, too.
    assert.equal(await opened(outbox, { entropy: drawing([]) }).refresh(issuerOf(seen)), 3);
    assert.deepEqual([seen.length, new Set(seen).size], [2, 1]);
    assert.deepEqual(seen[0], Object.keys(answers)[0]);
    assert.equal(await permits.refresh(issuerOf(seen)), 0); // nothing is missing
    assert.equal(seen.length, 2);
    assert.equal(await permits.isThere(task, now), true);
  }
});

test('a report shows the signature, the helper\'s share has the opening, and a permit is in one report', async () => {
  const outbox = new MemoryOutbox(), permits = opened(outbox);
  await permits.refresh(issuerOf());
  const task = new Task(made), client = new Client(task, { outbox, now: () => now });
  const permit = await permits.permit(task, now);
  assert.equal(hex(permit.id), given.report.id);
  assert.equal(hex(permit.extensions), `ff510010${drawn[0]}`);
  assert.equal(hex(permit.shown), `0104ff520100${given.report.signature}`);
  const keyPair = await crypto.subtle.generateKey({ name: 'X25519' }, true, ['deriveBits']);
  const publicKey = new Uint8Array(await crypto.subtle.exportKey('raw', keyPair.publicKey));
  const config = (id) => ({ id, kem: 32, kdf: 1, aead: 1, publicKey });
  const body = await sealReport(task, client.make(1, { permit }), [config(1), config(2)]);
  assert.equal(hex(body).slice(0, 48 + 524 - 2), `${hex(permit.id)}${hex(body.slice(16, 24))}${hex(permit.shown)}`.slice(0, 570));
  assert.ok(!hex(body).includes(drawn[0]));
  const key = await permits.put(client, 1);
  assert.equal(outbox.records.get(key).also.length, 1);
  // The device forgets the opening with the report, and knows for ever that it was used.
  assert.equal((await permits.records()).length, 2);
  await assert.rejects(permits.put(client, 1), { name: 'AlreadyAnswered' });
  assert.equal(await permits.isThere(task, now), true);
  // A permit that was looked up twice is stored in one report.
  const second = await permits.permit(task, now + later);
  await client.put(1, { permit: second });
  await assert.rejects(client.put(1, { permit: second }), { name: 'AlreadyAnswered' });
});

test('a device that gets no permits since another has them says so', async () => {
  const permits = opened(), task = new Task(made);
  assert.equal(await permits.refresh(async () => null), 0); // 409
  await assert.rejects(permits.permit(task, now), { name: 'AlreadyAnswered', message: /another device/ });
  const some = opened();
  assert.equal(await some.refresh(async (request) => {
    const answer = bytes(answers[hex(request)]);
    answer.fill(0, 0, 256); // the first is another device's
    return answer;
  }), 2);
  await assert.rejects(some.permit(task, now), { name: 'AlreadyAnswered' });
  assert.equal(await some.isThere(task, now + later), true);
});

test('what a lying issuer answers is not kept', async () => {
  for (const [lie, reason, kept] of [
    [(answer) => answer.fill(1, 256, 512), /not of what it was asked for/, 2],
    [(answer) => answer.slice(256), /something else than was asked/, 0],
  ]) {
    const permits = opened();
    const lying = async (request) => lie(bytes(answers[hex(request)]));
    await assert.rejects(permits.refresh(lying), reason);
    assert.equal((await permits.records()).filter(({ signature }) => signature).length, kept);
  }
});

test('keys are those of the task, and permits of windows that are over are forgotten', async () => {
  const { keys: moduli } = keys, [first, ...others] = moduli.split(' ');
  const other = new Permits([new Task(made)], { ...keys, keys: [...others, first].join(' ') }, { outbox: new MemoryOutbox() });
  await assert.rejects(other.refresh(issuerOf()), /the task has other keys/);
  for (const bad of ['{', {}, { first_window: 1.5, keys: moduli }, { first_window: 1, keys: 'AAAA' }]) {
    assert.throws(() => new Permits([new Task(made)], bad, { outbox: new MemoryOutbox() }), TypeError);
  }
  const outbox = new MemoryOutbox();
  await opened(outbox).refresh(issuerOf());
  const after = opened(outbox, { now: () => now + later });
  await after.tidy();
  assert.equal((await after.records()).length, 2);
});

test('an address is posted to, a 409 is an answer, and anything else is none', async (context) => {
  const asked = [];
  let status = 200;
  context.mock.method(globalThis, 'fetch', async (url, { method, body, credentials }) => {
    asked.push([url, method, credentials]);
    return new Response(status === 200 ? bytes(answers[hex(body)]) : 'no', { status });
  });
  assert.equal(await opened().refresh('/permits'), 3);
  assert.deepEqual(asked, [['/permits', 'POST', 'same-origin']]);
  status = 409;
  assert.equal(await opened().refresh('/permits'), 0);
  status = 401;
  await assert.rejects(opened().refresh('/permits'), /answered 401/);
});

test('a survey by application takes its permits, one for the survey and one for each text question', async () => {
  const texts = await textsOf(), outbox = new MemoryOutbox();
  const fetch = async () => { throw new TypeError('Failed to fetch'); };
  const survey = new Survey(file, { texts, outbox, fetch, now: () => given.survey_now });
  assert.equal(survey.tasks.length, 9);
  const permits = new Permits(survey.tasks, given.survey_keys, { outbox, now: () => given.survey_now, person: 'ada' });
  await assert.rejects(survey.put({ department: 'surgery' }), /permits: the survey counts only answers with one/);
  await assert.rejects(survey.put({ department: 'surgery' }, { permits }), { name: 'NoPermit' });
  // Signatures are another test's: here each is taken for good.
  await permits.check();
  for (const place of permits.places(given.survey_now)) await permits.want(place);
  const asked = await permits.records();
  assert.equal(new Set(asked.map(({ domain }) => domain)).size, 2);
  for (const each of asked) await outbox.save({ ...each, sent: null, signature: new Uint8Array(256).fill(7) });
  await survey.put({ department: 'surgery', word: 'knee' }, { permits });
  const reports = [...outbox.records.values()].filter(({ shown }) => shown);
  assert.equal(reports.length, 2);
  assert.equal(new Set(reports.map(({ id }) => hex(id))).size, 2);
  assert.ok(reports.every(({ also }) => also.some((claim) => claim.startsWith('used permit'))));
  assert.equal((await permits.records()).length, asked.length - 2);
  await assert.rejects(survey.put({}, { permits }), { name: 'AlreadyAnswered' });
});

test('permits are of the right window where the device\'s clock is wrong', async () => {
  const task = new Task(made);
  const permits = opened(new MemoryOutbox(), { now: async () => now });
  assert.equal(await permits.refresh(issuerOf()), 3);
  assert.equal(await permits.isThere(task, now), true);
  const wrong = given.survey_now + 90 * 86_400_000;
  const headers = { date: new Date(given.survey_now).toUTCString(), 'content-type': 'application/ppm-dap;message=hpke-config-list' };
  const fetch = async () => new Response(new Uint8Array(), { headers });
  const survey = new Survey(file, { texts: await textsOf(), fetch, now: () => wrong });
  assert.ok(Math.abs((await survey.time()) - given.survey_now) < 2000);
});

test('a folder knows again which permit a report took, if the process died before it was noted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'permits-'));
  const permits = opened(new FolderOutbox(folder));
  await permits.refresh(issuerOf());
  const client = new Client(new Task(made), { outbox: permits.outbox, now: () => now });
  const permit = await permits.permit(client.task, now);
  await client.put(1, { permit });
  // What a process leaves that dies right after it has written the record.
  rmSync(join(folder, 'claims'), { recursive: true });
  const again = opened(new FolderOutbox(folder));
  await assert.rejects(again.put(new Client(client.task, { outbox: again.outbox, now: () => now }), 1), { name: 'AlreadyAnswered' });
});
