/**
 * Signed permits of a person: asked of the application's issuer ahead of time, kept in the outbox,
 * and each used with one report.
 *
 *     const permits = new Permits(survey.tasks, issuerKeys, { outbox, now: () => survey.time() });
 *     await permits.refresh('/permits');  // at login, and never because somebody wants to answer
 *     await survey.put(answers, { permits });
 *
 * The issuer sees who gets permits and when, so the moment must not be that of an answer.
 *
 * Source: "Permits" of our protocol document, whose vectors these functions give.
 */

import { blind, unblind } from './blind.js';
import { DecodeError, toBase64Url } from './bytes.js';
import { hexOf, refuse, sha256 } from './digest.js';
import { AlreadyAnswered } from './outbox.js';
import { EXTENSION, KINDS, SIZE, numbers, windowOf } from './permits.js';
import { random } from './report.js';

const SIGNATURE_SIZE = 256, WINDOWS_TOLD = 256n;
const BEFORE_SIGNATURE = [1, 4, 255, 82, 1, 0]; // one public extension, of type 0xff52
const SIGNED = 258; // version 1, kind 2
const [HELD, ELSEWHERE, USED, OVER] = ['waiting', 'elsewhere', 'used', 'over'];

KINDS[SIGNED] = (data) => ({ keys: data.take(32) });

/** Eight bytes of a whole number. */
const eight = (value) => numbers(value, 0).slice(0, 8);

/** There is no permit of this window on this device: permits have to be asked for first. */
export class NoPermit extends Error {
  name = 'NoPermit';

  constructor() {
    super('permits: there is none of this window on this device: ask the issuer first (refresh)');
  }
}

/** The keys of an issuer, as its public file has them. */
class IssuerKeys {
  constructor(file) {
    let read = file;
    try {
      if (typeof file === 'string') read = JSON.parse(file);
    } catch {} // it is refused below
    if (!Number.isSafeInteger(read?.first_window) || typeof read.keys !== 'string') {
      throw new TypeError('issuer-keys.json: has first_window and keys');
    }
    this.first = BigInt(read.first_window);
    this.moduli = read.keys.split(' ').map((each) => {
      const coded = atob(each.replaceAll('-', '+').replaceAll('_', '/'));
      return Uint8Array.from(coded, (character) => character.charCodeAt(0));
    });
    if (this.moduli.some(({ length }) => length !== SIGNATURE_SIZE)) {
      throw new TypeError(`issuer-keys.json: a key must have ${SIGNATURE_SIZE} bytes`);
    }
  }

  /** What tasks are bound to: so nobody is given keys of their own. */
  get digest() {
    return sha256('prio permit keys', eight(this.first), this.moduli.flatMap((each) => [...each]));
  }

  of(window) {
    return this.moduli[Number(window - this.first)];
  }
}

export class Permits {
  /**
   * @param {import('./task.js').Task[]} tasks all of a survey
   * @param {object | string} keys what `issuer-keys.json` has
   * @param {object} options see signed.d.ts
   */
  constructor(tasks, keys, { outbox, person = '', ahead = 4, now = Date.now, entropy = random }) {
    this.tasks = new Map();
    for (const task of tasks) {
      if (!task.permits?.keys) refuse('permits: no issuer signs those of the task');
      const domain = hexOf(task.permits.domain);
      if (!this.tasks.has(domain)) this.tasks.set(domain, task);
    }
    /** Whose they are, by which a device remembers who has answered. */
    this.name = person;
    Object.assign(this, { outbox, ahead, now, entropy, shelf: `permits ${person}` });
    this.keys = new IssuerKeys(keys);
  }

  /** Refuse keys that are not those of the tasks, once. */
  check() {
    return (this.checking ??= this.keys.digest.then((digest) => {
      for (const { permits } of this.tasks.values()) {
        if (hexOf(permits.keys) !== hexOf(digest)) refuse('issuer-keys.json: the task has other keys');
      }
    }));
  }

  /**
   * Ask for the permits of now and the next windows that are missing.
   *
   * If the answer is lost, the same bytes are asked for again next time. Nothing is sent if nothing
   * is missing.
   *
   * @param ask sends bytes to the issuer, as whoever is logged in: the address to which they are
   *   posted, or a function that returns the answer's, or null for a 409, with which the issuer says
   *   that all of it was given to another device of the person
   * @returns {Promise<number>} how many came
   */
  async refresh(ask) {
    await this.check();
    const moment = await this.now();
    await this.tidy(moment);
    for (const place of this.places(moment)) await this.want(place);
    const waiting = (await this.records()).filter(({ sent }) => sent !== null);
    if (!waiting.length) return 0;
    const answer = await (typeof ask === 'string' ? posted : ask)(requestOf(waiting), ask);
    if (answer !== null && answer.length !== waiting.length * SIGNATURE_SIZE) {
      throw new DecodeError('permits: the issuer answered something else than was asked');
    }
    let came = 0, isFalse = false;
    for (const [i, record] of waiting.entries()) {
      const blinded = answer?.slice(i * SIGNATURE_SIZE, (i + 1) * SIGNATURE_SIZE);
      if (!blinded?.some(Boolean)) {
        await this.outbox.settle(record, { state: ELSEWHERE });
        continue;
      }
      const [modulus, text] = await this.signed(record);
      const signature = await unblind(modulus, text, blinded, record.inverse);
      isFalse ||= signature === null;
      if (signature === null) continue;
      await this.outbox.save({ ...record, signature, sent: null, inverse: null });
      came++;
    }
    if (isFalse) throw new DecodeError('permits: the issuer\'s signature is not of what it was asked for');
    return came;
  }

  /** What a report of a task needs at a moment; `tidy` lets go of it once the report is stored. */
  async permit(task, moment, number = 0) {
    const domain = hexOf((task.permits ?? refuse('permits: the task counts everybody\'s reports')).domain);
    const window = windowOf(task, moment), claim = this.claimOf(domain, window, number);
    const record = (await this.records()).find((each) => each.claim === claim);
    if (!record?.signature) {
      const { state = HELD } = (await this.outbox.claimed(claim)) ?? {};
      throw state === HELD ? new NoPermit() : new AlreadyAnswered('the permit of this window was used, or is another device\'s: it');
    }
    const { opening, signature } = record;
    return {
      id: await this.idOf(record),
      extensions: Uint8Array.of(EXTENSION >> 8, EXTENSION & 255, 0, SIZE, ...opening),
      shown: Uint8Array.of(...BEFORE_SIGNATURE, ...signature),
      also: [usedOf(claim)], // so that it is in one report, whatever else the device forgets
    };
  }

  /** Whether a report of a task could be made at a moment, or was. */
  async isThere(task, moment, number = 0) {
    const claim = this.claimOf(hexOf(task.permits.domain), windowOf(task, moment), number);
    const record = (await this.records()).find((each) => each.claim === claim);
    return Boolean(record?.signature) || (await this.outbox.claimed(claim))?.state === USED;
  }

  /** Make a report of a task by itself with a permit, and store it; return its key. */
  async put(client, measurement, { number = 0, claim = null } = {}) {
    const permit = await this.permit(client.task, client.now(), number);
    const key = await client.put(measurement, { claim, permit });
    await this.tidy();
    return key;
  }

  /** Forget permits that are in a report, and those of windows that are over. */
  async tidy(now) {
    const moment = now ?? (await this.now());
    for (const record of await this.records()) {
      const isOver = record.window < windowOf(this.tasks.get(record.domain), moment);
      const isUsed = (await this.outbox.claimed(usedOf(record.claim))) !== null;
      if (isUsed || isOver) await this.outbox.settle(record, { state: isUsed ? USED : OVER });
    }
  }

  /** What the outbox holds for these tasks, in the order in which it is asked. */
  async records() {
    const own = (await this.outbox.list(this.shelf)).filter(({ domain }) => this.tasks.has(domain));
    return own.sort((a, b) =>
      a.domain.localeCompare(b.domain) || Number(a.window - b.window) || a.number - b.number);
  }

  *places(moment) {
    for (const [domain, task] of this.tasks) {
      const now = windowOf(task, moment), last = task.policy.window ? now + BigInt(this.ahead) : now;
      for (let window = now; window <= last; window++) {
        if (!this.keys.of(window)) continue;
        for (let number = 0; number < task.policy.maxReportsPerPerson; number++) yield { domain, window, number };
      }
    }
  }

  /** Draw the permit of a place, and store what will be asked, unless that was done before. */
  async want({ domain, window, number }) {
    const claim = this.claimOf(domain, window, number);
    if (await this.outbox.claimed(claim)) return;
    const record = {
      key: toBase64Url(await sha256(claim)), task: this.shelf, claim, created: 0, domain, window, number,
      opening: this.entropy(SIZE), signature: null,
    };
    const [modulus, text] = await this.signed(record);
    try {
      await this.outbox.add([{ ...record, ...(await blind(modulus, text, this.entropy)) }]);
    } catch (error) {
      if (!(error instanceof AlreadyAnswered)) throw error; // another tab was quicker
    }
  }

  /** The modulus that signs a permit, and what it signs. */
  async signed(record) {
    const { domain } = this.tasks.get(record.domain).permits;
    return [this.keys.of(record.window), signedText(domain, record.window, await this.idOf(record))];
  }

  idOf({ domain, opening, window }) {
    return signedId(this.tasks.get(domain).permits.domain, opening, window);
  }

  claimOf(domain, window, number) {
    return `permit ${domain} ${window} ${number} ${this.name}`;
  }
}

const usedOf = (claim) => `used ${claim}`;

/** The id of the report that a signed permit lets count, whose last byte says for which window. */
export async function signedId(domain, opening, window) {
  const id = (await sha256('prio permit id', domain, opening)).slice(0, SIZE);
  id[SIZE - 1] = Number(window % WINDOWS_TOLD);
  return id;
}

/** What a permit's signature is of. */
export const signedText = (domain, window, id) =>
  Uint8Array.of(...new TextEncoder().encode('prio permit signed'), ...domain, ...eight(window), ...id);

/** What an issuer is asked. */
function requestOf(records) {
  const parts = records.map(({ domain, window, number, sent }) =>
    [...domain.match(/../g).map((each) => parseInt(each, 16)), ...eight(window), number, ...sent]);
  return Uint8Array.from([1, records.length >> 8, records.length & 255, ...parts.flat()]);
}

/** Send bytes to an address of this page's own server, with its cookies. */
async function posted(body, address) {
  const headers = { 'content-type': 'application/octet-stream' };
  const answer = await fetch(address, { method: 'POST', body, headers, credentials: 'same-origin', cache: 'no-store' });
  if (answer.status === 409) return null;
  if (!answer.ok) throw new Error(`permits: the application answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}
