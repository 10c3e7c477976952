// What a page asks the aggregators before anybody answers: what time it is, and whether they take
// an answer now.

import { toBase64Url } from '../../../client/browser/bytes.js';
import { uploadErrors } from '../../../client/browser/report.js';
import { resource } from '../../../client/browser/task.js';

/** How far two clocks may differ and agree, in milliseconds, as aggregators let them. */
const SKEW = 300_000;
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
class Clock {
  constructor(task, { fetch = (...request) => globalThis.fetch(...request), now = Date.now,
    elapsed = () => performance.now(), patience = 10_000 } = {}) {
    Object.assign(this, { task, fetch, now, elapsed, patience, heard: [null, null], base: 0 });
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
    const base = this.now() - this.elapsed();
    const isSet = Math.abs(base - this.base) > SKEW;
    this.heard = aheads.map((each, at) => each ?? (isSet ? null : this.heard[at]));
    this.base = base;
    if (this.heard.includes(null)) return null;
    const [one, other] = [...this.heard].sort((some, more) => Math.abs(some) - Math.abs(more));
    if (Math.abs(one - other) > SKEW) return null;
    return Math.abs(one) > SKEW ? one : 0;
  }

  /** How far this clock is ahead of an aggregator's; null if it does not say, or a cache did. */
  async aheadOf(base) {
    try {
      const { headers, status } = await this.ask(resource(base, 'hpke_config'), {});
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

export { Clock };
