/** The presentation language of TLS, as far as a client reads and writes it. */

/** Bytes that are not what they should be. */
export class DecodeError extends Error {
  name = 'DecodeError';
}

export const fault = (message) => {
  throw new DecodeError(message);
};

/** A text in UTF-8. */
export const text = (string) => new TextEncoder().encode(string);

export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.at = 0;
  }

  get isDone() {
    return this.at === this.bytes.length;
  }

  take(size) {
    if (size > this.bytes.length - this.at) fault(`byte ${this.at}: ${size} bytes expected`);
    this.at += size;
    return this.bytes.slice(this.at - size, this.at);
  }

  /** A whole number of 1, 2 or 4 bytes; of 8, as a BigInt. */
  number(size) {
    const at = this.at;
    this.take(size);
    return this.view[size === 8 ? 'getBigUint64' : `getUint${8 * size}`](at);
  }

  /** Bytes behind their length, which takes `size` bytes. */
  opaque(size, least = 0) {
    const length = this.number(size);
    if (length < least) fault(`byte ${this.at}: at least ${least} bytes expected`);
    return this.take(length);
  }

  text(size, least = 0) {
    const bytes = this.opaque(size, least);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return fault(`byte ${this.at}: text is not UTF-8`);
    }
  }

  finish() {
    if (!this.isDone) fault(`${this.bytes.length - this.at} bytes left over`);
  }
}

/** A whole number in `size` bytes. */
export function number(value, size) {
  const bytes = new Uint8Array(size);
  let rest = BigInt(value);
  for (let i = size - 1; i >= 0; i--, rest >>= 8n) bytes[i] = Number(rest & 255n);
  return bytes;
}

export function toBase64Url(bytes) {
  const coded = btoa(String.fromCharCode(...bytes));
  return coded.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

export function fromBase64Url(coded) {
  try {
    if (/^[\w-]*$/.test(coded)) {
      const decoded = atob(coded.replaceAll('-', '+').replaceAll('_', '/'));
      return Uint8Array.from(decoded, (character) => character.charCodeAt(0));
    }
  } catch {} // of a length that no bytes have
  return fault('not in base64url');
}
