/**
 * Blind signatures: whoever signs a message sees neither it nor, later, which one it was.
 *
 * The times of BigInt depend on its values; a client blinds on its own machine, for nobody who can
 * measure that so finely.
 *
 * Source: RFC 9474, "Blind" and "Finalize", variant RSABSSA-SHA384-PSS-Deterministic; RFC 8017,
 * "EMSA-PSS-ENCODE" and "MGF1".
 */

import { toBase64Url } from './bytes.js';
import { hexOf, refuse } from './digest.js';
import { random } from './report.js';

const HASH = 'SHA-384', HASH_SIZE = 48, SALT_SIZE = 48;
const SCHEME = { name: 'RSA-PSS', saltLength: SALT_SIZE };

const integerOf = (bytes) => BigInt(`0x${hexOf(bytes)}`);

/** A whole number in `size` bytes, quicker than byte by byte. */
function bytesOf(value, size) {
  const digits = value.toString(16).padStart(2 * size, '0');
  return Uint8Array.from({ length: size }, (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16));
}

async function hash(...parts) {
  const bytes = Uint8Array.from(parts.flatMap((part) => [...part]));
  return new Uint8Array(await globalThis.crypto.subtle.digest(HASH, bytes));
}

/** To the power of 65537, the exponent of all keys. */
function raised(base, modulus) {
  let power = base;
  for (let i = 0; i < 16; i++) power = (power * power) % modulus;
  return (power * base) % modulus;
}

/** What a number gives 1 with; null if it has a factor in common with the modulus. */
function inverseOf(value, modulus) {
  let [a, b, x, y] = [value, modulus, 1n, 0n];
  while (b) {
    const times = a / b;
    [a, b, x, y] = [b, a - times * b, y, x - times * y];
  }
  return a === 1n ? (x + modulus) % modulus : null;
}

/** MGF1 of a seed. */
async function maskOf(seed, size) {
  const counts = Array.from({ length: Math.ceil(size / HASH_SIZE) }, (_, i) => [0, 0, 0, i]);
  const hashes = await Promise.all(counts.map((count) => hash(seed, count)));
  return hashes.flatMap((each) => [...each]).slice(0, size);
}

/** The number that a signature of a message is a root of; a modulus has 8 bits in its first byte. */
async function encodedOf(message, salt, size) {
  const digest = await hash(new Uint8Array(8), await hash(message), salt);
  const room = size - HASH_SIZE - 1;
  const data = Uint8Array.of(...new Uint8Array(room - SALT_SIZE - 1), 1, ...salt);
  const mask = await maskOf(digest, room);
  const masked = data.map((byte, i) => byte ^ mask[i]);
  masked[0] &= 127;
  return integerOf([...masked, ...digest, 0xbc]);
}

/**
 * Blind a message for the key of a modulus.
 *
 * @returns `sent`, which the issuer signs, and `inverse`, which unblinds its answer
 */
export async function blind(modulus, message, entropy = random) {
  const n = integerOf(modulus), size = modulus.length;
  const encoded = await encodedOf(message, entropy(SALT_SIZE), size);
  if (inverseOf(encoded, n) === null) refuse('keys: a key has a factor in common with a message');
  for (;;) {
    const factor = integerOf(entropy(size));
    const inverse = factor > 1n && factor < n ? inverseOf(factor, n) : null;
    if (inverse === null) continue;
    const sent = (encoded * raised(factor, n)) % n;
    return { sent: bytesOf(sent, size), inverse: bytesOf(inverse, size) };
  }
}

/** The signature of a message that an issuer's answer hides; null if it is of anything else. */
export async function unblind(modulus, message, answer, inverse) {
  const n = integerOf(modulus);
  const signature = bytesOf((integerOf(answer) * integerOf(inverse)) % n, modulus.length);
  const jwk = { kty: 'RSA', alg: 'PS384', n: toBase64Url(modulus), e: 'AQAB' };
  const { subtle } = globalThis.crypto;
  const key = await subtle.importKey('jwk', jwk, { name: SCHEME.name, hash: HASH }, false, ['verify']);
  return (await subtle.verify(SCHEME, key, signature, message)) ? signature : null;
}
