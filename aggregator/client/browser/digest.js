/** What is asked is refused unless tasks are bound to its digest. */

import { DecodeError, toBase64Url } from './bytes.js';
import { Unsupported } from './hpke.js';

export const refuse = (message) => {
  throw new DecodeError(message);
};

export async function sha256(...parts) {
  const { subtle } = globalThis.crypto ?? {};
  if (!subtle) throw new Unsupported('no WebCrypto here: a page must come by https');
  const bytes = parts.flatMap((part) =>
    Array.from(typeof part === 'string' ? new TextEncoder().encode(part) : part));
  return new Uint8Array(await subtle.digest('SHA-256', Uint8Array.from(bytes)));
}

export const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Whether a task's name ends with the digest of a text, which is bound into every report. */
export async function isBoundTo({ info }, text) {
  const ending = ` meaning:${toBase64Url(await sha256(text))}`;
  return new TextDecoder().decode(info).endsWith(ending);
}
