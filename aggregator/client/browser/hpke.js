/**
 * HPKE in base mode, single shot, to seal: X25519, HKDF-SHA256, AES-128-GCM, all of WebCrypto.
 *
 * Source: RFC 9180, "DH-Based KEM (DHKEM)", "Creating the Encryption Context" and "Single-Shot
 * APIs"; DAP, "Compliance Requirements".
 */

import { text } from './bytes.js';
import { joined } from './prio3.js';

const KEY = 32;
const u16 = (value) => [value >> 8, value & 255];
const KEM = joined([text('HPKE-v1KEM'), u16(0x20)]);
const SUITE = joined([text('HPKE-v1HPKE'), u16(0x20), u16(1), u16(1)]);

/** This place has no X25519, or no WebCrypto at all, as on pages without https. */
export class Unsupported extends Error {
  name = 'Unsupported';
}

function subtleCrypto() {
  const { subtle } = globalThis.crypto ?? {};
  if (!subtle) throw new Unsupported('no WebCrypto here: a page must come by https');
  return subtle;
}

/** Whether a report can be sealed to a configuration. */
export const isSupported = ({ kem, kdf, aead, publicKey }) =>
  kem === 0x20 && kdf === 1 && aead === 1 && publicKey.length === KEY;

/**
 * WebCrypto's X25519. Where it is missing, another object with this method can be passed, for
 * instance of a library; see the documentation.
 */
export const webCrypto = {
  /** A fresh key pair: the public key, and its secrets with others' public keys. */
  async ephemeral() {
    const subtle = subtleCrypto();
    let pair;
    try {
      pair = await subtle.generateKey('X25519', false, ['deriveBits']);
    } catch {
      throw new Unsupported('no X25519 here: this browser is too old');
    }
    return {
      enc: new Uint8Array(await subtle.exportKey('raw', pair.publicKey)),
      async exchange(publicKey) {
        const other = await subtle.importKey('raw', publicKey, 'X25519', false, []);
        const algorithm = { name: 'X25519', public: other };
        return new Uint8Array(await subtle.deriveBits(algorithm, pair.privateKey, 8 * KEY));
      },
    };
  },
};

/** The secret of `exchange` with a public key; null if there is none: not every 32 bytes are one. */
async function secretWith(exchange, publicKey) {
  try {
    const secret = await exchange(publicKey);
    return secret.reduce((all, byte) => all | byte, 0) ? secret : null;
  } catch {
    return null;
  }
}

/** Whether a public key leads to a secret. */
export async function isUsable({ publicKey }, x25519 = webCrypto) {
  const { exchange } = await x25519.ephemeral();
  return (await secretWith(exchange, publicKey)) !== null;
}

/** One HMAC: HKDF's extraction, and its expansion to one block. */
async function hmac(key, ...parts) {
  const subtle = subtleCrypto();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  // An empty key is refused by some engines; zeros are the same key.
  const bytes = key.length ? key : new Uint8Array(KEY);
  const imported = await subtle.importKey('raw', bytes, algorithm, false, ['sign']);
  return new Uint8Array(await subtle.sign('HMAC', imported, joined(parts)));
}

/**
 * Seal `plaintext` to a configuration.
 *
 * @returns {Promise<{enc: Uint8Array, payload: Uint8Array}>}
 */
export async function seal(config, info, aad, plaintext, x25519 = webCrypto) {
  if (!isSupported(config)) throw new Unsupported(`HPKE configuration ${config.id}: its suite`);
  const subtle = subtleCrypto();
  const { enc, exchange } = await x25519.ephemeral();
  const secret = await secretWith(exchange, config.publicKey);
  if (!secret) throw new Unsupported(`HPKE configuration ${config.id}: its public key`);
  let prk = await hmac([], KEM, text('eae_prk'), secret);
  const label = joined([u16(KEY), KEM, text('shared_secret')]);
  const shared = await hmac(prk, label, enc, config.publicKey, [1]);
  const context = joined([
    [0], // base mode
    await hmac([], SUITE, text('psk_id_hash')),
    await hmac([], SUITE, text('info_hash'), info),
  ]);
  prk = await hmac(shared, SUITE, text('secret'));
  const expanded = async (name, size) =>
    (await hmac(prk, u16(size), SUITE, text(name), context, [1])).subarray(0, size);
  const raw = await expanded('key', 16);
  const iv = await expanded('base_nonce', 12);
  const key = await subtle.importKey('raw', raw, 'AES-GCM', false, ['encrypt']);
  const algorithm = { name: 'AES-GCM', iv, additionalData: aad };
  const payload = new Uint8Array(await subtle.encrypt(algorithm, key, plaintext));
  for (const each of [secret, prk, shared, raw, iv]) each.fill(0);
  return { enc, payload };
}
