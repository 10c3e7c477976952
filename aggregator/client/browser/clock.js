/**
 * What the aggregators are asked before anybody answers: what time it is, and whether they take an
 * answer now.
 */

import { toBase64Url } from './bytes.js';
import { uploadErrors } from './report.js';

/** How far two clocks may differ and agree, in milliseconds, as aggregators let them. */
const SKEW = 300_000;
/** How long an answer of both is relied on, and how long one that lacks, in milliseconds. */
const RELIED = 3_600_000, DOUBTED = 60_000;
const KEYS = 'application/ppm-dap;message=hpke-config-list';
const REPORTS = 'application/ppm-dap;message=upload-req';

const uncached = {
  cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer', redirect: 'error',
};

/**
 * The time, by this device's clock or, where that is wrong, by both aggregators'.
 *
 * One of them alone is not believed: it could move a person into another window. The answers come
 * past every cache, since an old one has an old time.
 */
export class Clock {
  constructor(task, { fetch = (...request) => globalThis.fetch(...request), now = Date.now,
    elapsed = () => performance.now(), patience = 10_000 } = {}) {
    Object.assign(this, { task, fetch, now, elapsed, patience, heard: [null, null], base: 0 });
    Object.assign(this, { ahead: null, until: 0, looking: null });
  }

  /**
   * Ask both aggregators, and return how many milliseconds this clock is ahead; 0 within the skew.
   *
   * If one does not say, its last answer holds for as long as this clock was not set since; null if
   * it never said, or if the two disagree.
   */
  async look() {
    const { leader, helper } = this.task;
    const aheads = await Promise.all([leader, helper].map((base) => this.aheadOf(base)));
    const { isSet } = this;
    this.isAgainst = aheads.some((each) => Math.abs(each) > SKEW);
    this.heard = aheads.map((each, at) => each ?? (isSet ? null : this.heard[at]));
    this.base = this.now() - this.elapsed();
    if (this.heard.includes(null)) return null;
    const [one, other] = [...this.heard].sort((some, more) => Math.abs(some) - Math.abs(more));
    if (Math.abs(one - other) > SKEW) return null;
    return Math.abs(one) > SKEW ? one : 0;
  }

  /** Whether nobody was asked yet, or this clock was set since. */
  get isSet() {
    return Math.abs(this.now() - this.elapsed() - this.base) > SKEW;
  }

  /**
   * The same for an application, which answers for many: relied on for an hour, and 0 as well if no
   * aggregator differs by more than the skew, since none may be reached. Null if one differs and
   * the other does not say the same.
   */
  async known() {
    if (this.ahead === null || this.isSet || this.elapsed() >= this.until) {
      await (this.looking ??= this.relook().finally(() => (this.looking = null)));
    }
    return this.ahead;
  }

  async relook() {
    const ahead = await this.look();
    this.ahead = ahead ?? (this.isAgainst ? null : 0);
    this.until = this.elapsed() + (ahead === null ? DOUBTED : RELIED);
  }

  /** How far this clock is ahead of an aggregator's; null if it does not say, or a cache did. */
  async aheadOf(base) {
    try {
      const { headers, status } = await this.ask(`${base.replace(/\/$/, '')}/hpke_config`, {});
      const type = headers.get('content-type')?.toLowerCase().replaceAll(/[\s"]/g, '');
      if (status !== 200 || type !== KEYS || headers.get('age') !== null) return null;
      const date = Date.parse(headers.get('date'));
      return date ? this.now() - date : null;
    } catch {
      return null;
    }
  }

  /** Why the leader takes no report now, by a name of the draft; null if it does, or is silent. */
  async refusal() {
    try {
      const body = new Uint8Array();
      const answer = await this.ask(this.task.uploads, {
        method: 'POST', headers: { 'content-type': REPORTS }, body,
      });
      if (answer.status !== 200) return null;
      const errors = uploadErrors(this.task, new Uint8Array(await answer.arrayBuffer()));
      return errors.get(toBase64Url(new Uint8Array(16))) ?? null;
    } catch {
      return null;
    }
  }

  ask(url, options) {
    return this.fetch(url, { ...uncached, signal: AbortSignal.timeout(this.patience), ...options });
  }
}
