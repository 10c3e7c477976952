/**
 * A measurement becomes a report: sharded once, sealed to both aggregators as often as needed.
 *
 * Source: DAP, "Uploading Reports".
 */

import { Reader, fault, number, text, toBase64Url } from './bytes.js';
import { isSupported, seal, webCrypto } from './hpke.js';
import { joined } from './prio3.js';

const CLIENT = 1, LEADER = 2, HELPER = 3;

/** Bytes behind their length. */
const opaque = (bytes, size = 4) => joined([number(bytes.length, size), bytes]);

/** Random bytes of the system; there is no other source and nothing to fall back to. */
export const random = (size) => {
  const bytes = new Uint8Array(size);
  // A call gives 65,536 bytes at most.
  for (let at = 0; at < size; at += 65536) {
    globalThis.crypto.getRandomValues(bytes.subarray(at, at + 65536));
  }
  return bytes;
};

/**
 * Shard a measurement into a report of its own.
 *
 * What is returned reveals the measurement: it stays on this device. It is kept until there is an
 * answer, since a second report of the same measurement could be counted a second time.
 *
 * @param {bigint} time in the task's units
 * @param {Uint8Array} id that of a permit, if the task needs one
 */
export function prepare(task, measurement, time, entropy = random, id = entropy(16)) {
  const rand = entropy(task.prio3.randSize);
  const { publicShare, inputShares } = task.prio3.shard(task.ctx, measurement, id, rand);
  rand.fill(0);
  const [leaderShare, helperShare] = inputShares;
  return { id, time, publicShare, leaderShare, helperShare };
}

/**
 * Seal a prepared report: the bytes that the leader gets.
 *
 * @param {[object, object]} configs the leader's and the helper's
 */
export async function sealReport(task, prepared, configs, x25519 = webCrypto) {
  const { id, time, publicShare, leaderShare, helperShare, extensions = [], shown = [0, 0] } = prepared;
  const open = joined([id, number(time, 8), shown, opaque(publicShare)]);
  const aad = joined([task.idBytes, task.configuration, open]);
  const sealed = async (role, config, share, more = []) => {
    const plaintext = joined([opaque(more, 2), opaque(share)]);
    const info = joined([text(`${task.tag} input share`), [CLIENT, role]]);
    const { enc, payload } = await seal(config, info, aad, plaintext, x25519);
    plaintext.fill(0);
    return joined([[config.id], opaque(enc, 2), opaque(payload)]);
  };
  return joined([
    open,
    await sealed(LEADER, configs[0], leaderShare),
    await sealed(HELPER, configs[1], helperShare, extensions),
  ]);
}

/** The HPKE configuration that an aggregator prefers, of those that can be sealed to. */
export function preferredConfig(bytes) {
  const whole = new Reader(bytes);
  const list = new Reader(whole.opaque(2, 10));
  whole.finish();
  const configs = [];
  while (!list.isDone) {
    configs.push({
      id: list.number(1), kem: list.number(2), kdf: list.number(2), aead: list.number(2),
      publicKey: list.opaque(2, 1),
    });
  }
  if (new Set(configs.map(({ id }) => id)).size < configs.length) {
    fault('two HPKE configurations have the same id');
  }
  return configs.find(isSupported) ?? fault('no HPKE configuration has a suite that is known');
}

/** Why reports of a task were refused, by id; all others were accepted. */
export function uploadErrors(task, bytes) {
  const reader = new Reader(bytes);
  const errors = new Map();
  while (!reader.isDone) {
    const id = toBase64Url(reader.take(16)), code = reader.number(1);
    errors.set(id, task.reportErrors[code - 1] ?? `report_error_${code}`);
  }
  return errors;
}
