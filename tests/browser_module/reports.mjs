/** Whole sealed reports equal those of `prio client-vectors`, and bad input is refused by name. */

import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey, diffieHellman } from 'node:crypto';
import { readFileSync } from 'node:fs';
import test from 'node:test';

// The files as they lie there, or joined into one.
const { DecodeError, MeasurementError, Task, Unsupported, prepare, preferredConfig, seal, sealReport,
  uploadErrors } = await import(process.env.MODULE);

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const bytes = (text) => Uint8Array.from(Buffer.from(text, 'hex'));

/** X25519 with private keys that are given, one after another. */
function x25519(...privateKeys) {
  const head = Buffer.from('302e020100300506032b656e04220420', 'hex');
  return {
    async ephemeral() {
      const der = Buffer.concat([head, bytes(privateKeys.shift())]);
      const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
      const raw = (key) => key.export({ format: 'jwk' }).x;
      return {
        enc: Uint8Array.from(Buffer.from(raw(createPublicKey(privateKey)), 'base64url')),
        async exchange(publicKey) {
          const x = Buffer.from(publicKey).toString('base64url');
          const jwk = { kty: 'OKP', crv: 'X25519', x };
          const publicKeyObject = createPublicKey({ key: jwk, format: 'jwk' });
          return Uint8Array.from(diffieHellman({ privateKey, publicKey: publicKeyObject }));
        },
      };
    },
  };
}

const files = JSON.parse(readFileSync(process.env.CLIENT_VECTORS, 'utf8'));

for (const file of files) {
  const task = new Task(file.task);
  test(`reports of ${task.type} ${JSON.stringify(file.read.parameters)} are the same bytes`, async () => {
    assert.equal(task.leader, file.read.leader);
    assert.equal(task.helper, file.read.helper);
    assert.equal(task.timePrecision, BigInt(file.read.time_precision));
    assert.equal(hex(task.ctx), file.ctx);
    const configs = ['leader', 'helper'].map((role) =>
      preferredConfig(bytes(file.hpke[role].hpke_config_list)));
    for (const report of file.reports) {
      const given = [report.report_id, report.rand];
      const prepared = prepare(task, report.measurement, BigInt(report.time), () => bytes(given.shift()));
      assert.equal(hex(prepared.publicShare), report.public_share);
      assert.equal(hex(prepared.leaderShare), report.leader_input_share);
      assert.equal(hex(prepared.helperShare), report.helper_input_share);
      const keys = [report.leader_seal, report.helper_seal].map((each) => each.ephemeral_private_key);
      const sealed = await sealReport(task, prepared, configs, x25519(...keys));
      assert.equal(hex(sealed), report.report);
      // With keys of WebCrypto, of the same size and other bytes.
      const own = await sealReport(task, prepared, configs);
      assert.equal(own.length, sealed.length);
      assert.notEqual(hex(own), report.report);
    }
  });

  test(`a configuration of ${task.type} is refused if it is cut at any byte, or longer`, () => {
    const whole = Buffer.from(file.task.configuration, 'base64url');
    for (let size = 0; size < whole.length; size++) {
      const configuration = whole.subarray(0, size).toString('base64url');
      assert.throws(() => new Task({ ...file.task, configuration }), DecodeError);
    }
    const configuration = Buffer.concat([whole, Buffer.from([0])]).toString('base64url');
    assert.throws(() => new Task({ ...file.task, configuration }), DecodeError);
  });
}

test('a number of an error is what the draft of the task calls so', () => {
  const said = (profile) => [...uploadErrors(new Task({ ...files[0].task, profile }),
    Uint8Array.from([...Array(16).fill(1), 8, ...Array(16).fill(2), 200])).values()];
  assert.deepEqual(said('dap-18'), ['invalid_message', 'report_error_200']);
  assert.deepEqual(said('dap-19'), ['report_too_early', 'report_error_200']);
  assert.throws(() => said('dap-17'), DecodeError);
  assert.throws(() => said('toString'), DecodeError);
});

test('a task that differs in one byte is another, or refused', () => {
  const [file] = files;
  const whole = Buffer.from(file.task.configuration, 'base64url');
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole);
    changed[at] ^= 1;
    const configuration = changed.toString('base64url');
    try {
      assert.deepEqual(new Task({ ...file.task, configuration }).configuration, Uint8Array.from(changed));
    } catch (error) {
      assert.ok(error instanceof DecodeError, error);
    }
  }
});

test('the numbers of a sum reach to the largest residue of its field', () => {
  const sum = files.find((each) => new Task(each.task).type === 'Prio3Sum');
  const whole = Buffer.from(sum.task.configuration, 'base64url');
  const at = whole.indexOf(Buffer.from('000000020008', 'hex')) + 6;
  const ofLargest = (largest) => {
    whole.writeBigUInt64BE(largest, at);
    return new Task({ ...sum.task, configuration: whole.toString('base64url') });
  };
  const most = 2n ** 64n - 2n ** 32n;
  assert.equal(ofLargest(most).type, 'Prio3Sum');
  assert.throws(() => ofLargest(most + 1n), { name: 'DecodeError', message: /too large/ });
});

test('an extension that nobody knows makes a task unusable: its rules could not be kept', () => {
  const [file] = files.filter((each) => new Task(each.task).policy !== null);
  const whole = Buffer.from(file.task.configuration, 'base64url');
  const at = whole.indexOf(Buffer.from('ff50', 'hex'));
  whole[at + 1] ^= 1;
  assert.throws(() => new Task({ ...file.task, configuration: whole.toString('base64url') }),
    { name: 'DecodeError', message: /extension 65361/ });
});

test('a policy is read from the bytes that reports are bound to', () => {
  const policies = files.map((file) => new Task(file.task).policy).filter((policy) => policy !== null);
  assert.ok(policies.some((policy) =>
    policy.mechanism === 'PureDpDiscreteLaplace' && policy.epsilon === '1/2'));
  assert.ok(policies.some((policy) =>
    policy.mechanism === 'DiscreteGaussian' && policy.rho === '1/8' && policy.delta !== null));
  const shares = policies.map((policy) => policy.shares).filter((each) => each !== null);
  assert.deepEqual(shares, [[[2, '1/4'], [1, '1/2']], [[1, '1/2'], [2, '1/4']], [[1, '1']]]);
  const groups = policies.map((policy) => policy.group).filter((each) => each !== null);
  assert.deepEqual(groups, [{ name: 'a', place: 0 }, { name: 'ein Wort für alles', place: 7 }]);
});

test('shares that are not one of each section, or not together 1, are refused', () => {
  const file = files.find((each) => new Task(each.task).policy?.shares?.length === 2);
  const whole = Buffer.from(file.task.configuration, 'base64url').toString('latin1');
  const runs = '\x00\x02\x00\x02\x031/4\x00\x01\x031/2';
  assert.ok(whole.includes(runs));
  for (const others of ['\x00\x02\x00\x01\x031/4\x00\x01\x031/2', '\x00\x02\x00\x01\x031/2\x00\x01\x031/2',
    '\x00\x02\x00\x00\x031/4\x00\x01\x031/2', '\x00\x02\x00\x02\x032/4\x00\x01\x031/2',
    '\x00\x02\x00\x01\x031/4\x00\x01\x033/4', '\x00\x02\x00\x02\x031/3\x00\x01\x031/2']) {
    const configuration = Buffer.from(whole.replace(runs, others), 'latin1').toString('base64url');
    assert.throws(() => new Task({ ...file.task, configuration }), { name: 'DecodeError', message: /shares/ });
  }
});

test('a measurement out of its range is refused with the limit and without the answer', () => {
  const of = (type) => new Task(files.find((file) => new Task(file.task).type === type).task);
  const refused = (type, measurement, message) => assert.throws(
    () => prepare(of(type), measurement, 0n),
    (error) => error instanceof MeasurementError && message.test(error.message)
      && !error.message.includes('98765'));
  refused('Prio3Count', 2, /0 to 1/);
  refused('Prio3Sum', 98765, /0 to 255/);
  refused('Prio3Sum', 1.5, /whole/);
  refused('Prio3Sum', '3', /whole/);
  refused('Prio3Sum', -1, /0 to/);
  refused('Prio3Histogram', 4, /bucket .* 0 to 3/);
  refused('Prio3SumVec', [1, 2], /3 entries/);
  refused('Prio3SumVec', [1, 98765, 2], /entry 1 .* 0 to 7/);
  refused('Prio3MultihotCountVec', [1, 1, 1, 1], /number of ones .* 2/);
  refused('Prio3L1BoundSum', [5, 5, 0], /sum of the entries .* 7/);
});

test('a public key of small order seals nothing', async () => {
  const config = { id: 1, kem: 0x20, kdf: 1, aead: 1, publicKey: new Uint8Array(32) };
  await assert.rejects(seal(config, new Uint8Array(1), new Uint8Array(1), new Uint8Array(1)), Unsupported);
  const zeros = { ephemeral: async () => ({ enc: new Uint8Array(32), exchange: async () => new Uint8Array(32) }) };
  await assert.rejects(seal(config, new Uint8Array(1), new Uint8Array(1), new Uint8Array(1), zeros), Unsupported);
});

test('of several configurations the first is taken that is known', () => {
  const known = bytes(files[0].hpke.leader.hpke_config_list).slice(2);
  const p256 = [known[0] ^ 1, 0, 0x10, 0, 1, 0, 2, 0, 65, 4, ...new Uint8Array(64)];
  const aes256 = [known[0] ^ 2, 0, 0x20, 0, 1, 0, 2, ...known.slice(7)];
  const list = [...p256, ...aes256, ...known];
  const found = preferredConfig(new Uint8Array([list.length >> 8, list.length & 255, ...list]));
  assert.equal(found.id, known[0]);
});

test('lists of keys and of errors are refused if they are cut', () => {
  const list = bytes(files[0].hpke.leader.hpke_config_list);
  for (let size = 0; size < list.length; size++) {
    assert.throws(() => preferredConfig(list.subarray(0, size)), DecodeError);
  }
  const other = list.slice();
  other[4] ^= 1; // another KEM
  assert.throws(() => preferredConfig(other), /suite/);
  const task = new Task(files[0].task);
  assert.throws(() => uploadErrors(task, new Uint8Array(16)), DecodeError);
  assert.equal(uploadErrors(task, new Uint8Array(0)).size, 0);
});
