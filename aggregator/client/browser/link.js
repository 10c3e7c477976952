/**
 * Permits made of the secret in a person's link.
 *
 * Source: "Permits" of our protocol document, whose vectors these functions give.
 */

import { hexOf, refuse, sha256 } from './digest.js';
import { EXTENSION, SIZE, numbers, windowOf } from './permits.js';

const LETTERS = '0123456789abcdefghjkmnpqrstvwxyz', COUNT = 28;

/** A person's link, by the code in it, of which no request has any part. */
export class Link {
  #secret;

  constructor(secret, name) {
    this.#secret = secret;
    /** By which a device remembers whose answers it has sent; nobody gets the code back from it. */
    this.name = name;
  }

  /**
   * Read a code, or a link that ends with one: in any case, o for 0, i or l for 1, any signs between.
   *
   * @throws {DecodeError} it is none
   */
  static async read(text) {
    const [code] = text.toLowerCase().split('#p=').slice(-1);
    const letters = code.replaceAll('o', '0').replaceAll(/[il]/g, '1').replaceAll(/[^\p{L}\p{N}]/gu, '');
    const values = [...letters].map((letter) => LETTERS.indexOf(letter));
    if (values.length !== COUNT || values.includes(-1)) refuse('a code has 28 letters and digits');
    const value = values.reduce((all, each) => (all << 5n) | BigInt(each), 0n);
    const secret = Uint8Array.from({ length: SIZE }, (_, i) => Number((value >> BigInt(132 - 8 * i)) & 255n));
    const [high, low] = await sha256('prio permit code', secret);
    if (Number(value & 4095n) !== ((high << 4) | (low >> 4))) refuse('the code has a slip in it');
    return new Link(secret, hexOf((await sha256('prio permit name', secret)).slice(0, 8)));
  }

  /** What a report of a task needs at a moment: its id, and what the helper alone gets to see. */
  async permit(task, moment, number = 0) {
    const { domain } = task.permits ?? refuse('permits: the task counts everybody\'s reports');
    const algorithm = { name: 'HMAC', hash: 'SHA-256' };
    const tag = [...new TextEncoder().encode('prio permit opening')];
    const { subtle } = globalThis.crypto;
    const key = await subtle.importKey('raw', this.#secret, algorithm, false, ['sign']);
    const message = Uint8Array.from([...tag, ...domain, ...numbers(windowOf(task, moment), number)]);
    const opening = new Uint8Array(await subtle.sign('HMAC', key, message)).slice(0, SIZE);
    const id = (await sha256('prio permit id', domain, opening)).slice(0, SIZE);
    return { id, extensions: Uint8Array.from([EXTENSION >> 8, EXTENSION & 255, 0, SIZE, ...opening]) };
  }
}
