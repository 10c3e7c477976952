/**
 * The client of one task: takes measurements at once, and sends their reports until each is settled.
 *
 *     put      the report is made and stored in the outbox
 *     flush    sealed, STORED, and only then sent: the same bytes until there is an answer
 *     settled  deleted from the outbox; its claim says what became of it
 *
 * Only `outdated_config` may change the bytes, and only if the aggregators' keys have changed: then
 * the same shares are sealed again, under the same id.
 */

import { toBase64Url } from './bytes.js';
import { isUsable, webCrypto } from './hpke.js';
import { MemoryOutbox, OutboxFull } from './outbox.js';
import { joined } from './prio3.js';
import { prepare, preferredConfig, random, sealReport, uploadErrors } from './report.js';
import { resource } from './task.js';

const URN = /^urn:ietf:params:ppm:dap:error:(\w+)$/;
const REPORTS_TYPE = 'application/ppm-dap;message=upload-req';
const ERRORS_TYPE = 'application/ppm-dap;message=upload-errors';
const CONFIGS_TYPE = 'application/ppm-dap;message=hpke-config-list';
const MOST_CONFIG_BYTES = 65537;
const DAY = 86_400_000; // how long keys are used, too
const LONGEST_WAIT = 3_600_000; // a timer of more than 2^31 goes off at once

const NOTHING = { counted: 0, late: 0, refused: 0, reason: null };

/** The network, or something in its place, has no usable answer now; it may later. */
class Later extends Error {
  constructor(reason, wait = 0) {
    super(reason);
    Object.assign(this, { reason, wait });
  }
}

/** The leader refuses the whole request, by a name of the draft. */
class Refused extends Later {}

/** Both configurations, to be compared. */
const textOf = (configs) => `${configs.map(({ id, publicKey }) => [id, publicKey])}`;

/**
 * How many reports go in one request, of the 1 MB that proxies accept by default. All reports of a
 * task have this size; sealing adds 200 bytes at most.
 */
const groupOf = ({ publicShare, leaderShare, helperShare }) => {
  const size = publicShare.length + leaderShare.length + helperShare.length + 200;
  return Math.max(1, Math.floor(1_000_000 / size));
};

export class Client extends EventTarget {
  /**
   * What a leader's word on a report means, as in `verdicts.py`. Any other word settles nothing
   * before it was said on several days: a leader with another task file, or a broken proxy, says so
   * of all.
   */
  static verdicts = {
    report_replayed: 'counted', '': 'counted', // there was none
    batch_collected: 'late', report_dropped: 'late', task_expired: 'late',
    report_too_early: 'early', task_not_started: 'early', unrecognizedTask: 'early',
    outdated_config: 'outdated', hpke_unknown_config_id: 'outdated',
  };

  /**
   * @param {import('./task.js').Task} task
   * @param {object} options see index.d.ts
   */
  constructor(task, {
    outbox = new MemoryOutbox(), fetch = (...request) => globalThis.fetch(...request),
    now = Date.now, entropy = random, x25519 = webCrypto, maxReports = 10000,
    maxAgeSeconds = 14 * 86400, reportsPerRequest = 100, timeoutSeconds = 30, keepsPlaces,
  } = {}) {
    super();
    // Ledgers count one place of a group: with reports in several, people pay more than is counted.
    const group = task.policy?.group;
    if (group && !keepsPlaces) {
      const name = JSON.stringify(group.name);
      throw new Error(`group: the task has place ${group.place} in ${name}, and nobody is kept to one`);
    }
    Object.assign(this, {
      task, outbox, fetch, now, entropy, x25519, maxReports, maxAgeSeconds, timeoutSeconds,
      group: reportsPerRequest,
      configs: null, sending: null, timer: null, fetched: 0, isOpen: false,
      /** Seconds by which this clock is ahead of the leader's, by the last answer that told. */
      clockAhead: null,
    });
  }

  /** Make three reports and drop them while a person reads: the first one is slow. */
  warm(measurement) {
    for (let i = 0; i < 3; i++) prepare(this.task, measurement, 0n, this.entropy);
  }

  /**
   * Make a report and store it.
   *
   * @param measurement as the task's type takes it
   * @param {object} options `claim`: what may have only one report, such as a survey; `permit`
   * @returns {Promise<string>} the report's key in the outbox
   */
  async put(measurement, options) {
    if ((await this.waiting()) >= this.maxReports) {
      throw new OutboxFull(`${this.maxReports} reports wait already`);
    }
    const record = this.make(measurement, options);
    await this.outbox.add([record]);
    this.arm(0);
    return record.key;
  }

  /** Make a report for the outbox's `add`, which stores those of several tasks at once. */
  make(measurement, { claim = null, at: now = this.now(), permit } = {}) {
    const prepared = prepare(this.task, measurement, this.task.time(now), this.entropy, permit?.id);
    return {
      ...prepared, ...permit, key: toBase64Url(prepared.id), task: this.task.id, created: now,
      claim: claim === null ? null : `${this.task.id} ${claim}`,
      configs: null, body: null, attempts: 0, due: 0,
    };
  }

  /** What became of a claim: null, or `{state, reason}`. */
  claimed(claim) {
    return this.outbox.claimed(`${this.task.id} ${claim}`);
  }

  /** How many reports wait. */
  async waiting() {
    return (await this.outbox.list(this.task.id)).length;
  }

  /**
   * Send what is due.
   *
   * @param {{now?: boolean}} options `now`: also send what is not due yet
   * @returns {Promise<{counted: number, late: number, refused: number, waiting: number,
   *   reason: string | null}>} the reason why some still wait
   */
  flush({ now = false } = {}) {
    this.sending ??= this.exclusively(() => this.pass(now)).finally(() => {
      this.sending = null;
      return this.rearm();
    });
    return this.sending;
  }

  /** Send from now on, and whenever there is a chance; returns at once. */
  start() {
    this.isOpen = true;
    globalThis.addEventListener?.('online', (this.online ??= () => this.run(true)));
    this.run(false);
  }

  /** Stop sending; reports that wait stay in the outbox. */
  stop() {
    this.isOpen = false;
    clearTimeout(this.timer);
    this.timer = null;
    if (this.online) globalThis.removeEventListener?.('online', this.online);
  }

  async run(now) {
    clearTimeout(this.timer);
    this.timer = null;
    try {
      await this.flush({ now });
    } catch (error) {
      this.dispatchEvent(new CustomEvent('fault', { detail: error }));
    }
  }

  /** Come back when the next is due, and after a minute anyway: other tabs put reports too. */
  async rearm() {
    if (!this.isOpen) return;
    let wait = 60_000;
    try {
      const left = await this.outbox.list(this.task.id);
      if (left.length) wait = Math.min(...left.map(({ due }) => due)) - this.now();
    } catch {
      // Callers of `flush` get the error; the disk may come back.
    }
    this.arm(wait);
  }

  /** While started there is always a timer; a later one never replaces an earlier one. */
  arm(wait) {
    if (!this.isOpen) return;
    const patience = Math.min(Math.max(1000, wait), LONGEST_WAIT);
    const wakes = performance.now() + patience;
    if (this.timer !== null && this.wakes <= wakes) return;
    clearTimeout(this.timer);
    this.wakes = wakes;
    this.timer = setTimeout(() => this.run(false), patience);
  }

  /**
   * One tab of a browser sends at a time, and no other has what is in memory. A browser that does
   * not say in ten seconds whether this one may begin has not let it.
   */
  exclusively(work) {
    const locks = globalThis.navigator?.locks;
    if (!locks || this.outbox instanceof MemoryOutbox) return work();
    const other = () => this.summary({ reason: 'another_tab' });
    let begin = (lock) => lock ? work() : other();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve((begin = other)()), 10_000);
      locks.request(`prio-outbox ${this.task.id}`, { ifAvailable: true }, (lock) => {
        clearTimeout(timer);
        return begin(lock);
      }).then(resolve, reject);
    });
  }

  async summary(known) {
    return { ...NOTHING, ...known, waiting: await this.waiting() };
  }

  async pass(isAll) {
    const known = { ...NOTHING };
    const all = await this.outbox.list(this.task.id);
    const due = all.filter((each) => isAll || each.due <= this.now());
    const left = new Set(due); // what has no answer in this pass
    if (due.length) this.group = Math.min(this.group, groupOf(due[0]));
    try {
      for (let start = 0, part; start < due.length; start += part.length) {
        part = due.slice(start, start + this.group);
        await this.send(part, known, left);
      }
    } catch (error) {
      if (!(error instanceof Later)) throw error;
      // The rest would fare no better.
      for (const record of left) await this.postpone(record, error.wait);
      known.reason = error.reason;
    }
    return this.summary(known);
  }

  /** Send some reports, reseal those whose keys have gone, and settle. */
  async send(records, known, left) {
    // Reports are sealed only when they are sent: to today's keys, however long they waited.
    for (const record of records) {
      if (record.body === null) await this.sealRecord(record, await this.keys());
    }
    const outdated = await this.concludeAll(records, known, left);
    if (!outdated.length) return;
    this.fetched = -Infinity;
    const configs = await this.keys();
    const again = [], stuck = [];
    for (const record of outdated) {
      // The leader contradicts itself. Another report could be counted twice: wait.
      if (textOf(configs) === textOf(record.configs)) stuck.push(record);
      else {
        await this.sealRecord(record, configs);
        again.push(record);
      }
    }
    stuck.push(...(await this.concludeAll(again, known, left)));
    for (const record of stuck) {
      left.delete(record);
      await this.conclude(record, 'outdated_config', known);
    }
  }

  /** Send reports, conclude each answer before the next request; return those with old keys. */
  async concludeAll(records, known, left) {
    const outdated = [];
    for await (const [record, error] of this.post(records)) {
      if (Client.verdicts[error] === 'outdated') {
        outdated.push(record);
      } else {
        left.delete(record);
        await this.conclude(record, error, known);
      }
    }
    return outdated;
  }

  /** Bytes are stored before they are sent, so that they never change. */
  async sealRecord(record, configs) {
    record.body = await sealReport(this.task, record, configs, this.x25519);
    record.configs = configs;
    await this.outbox.save(record);
  }

  /**
   * Send reports. If a request is refused as a whole, the fault may be in one report, so each is
   * sent alone; a request that is too large is sent in halves. Returns whether any was taken.
   */
  async *post(records) {
    if (!records.length) return true;
    let errors, size = 1, reason;
    try {
      errors = await this.request(joined(records.map((record) => record.body)));
    } catch (error) {
      if (error instanceof Refused) {
        reason = error.reason;
      } else if (error.reason === 'too_large' && records.length > 1) {
        this.group = Math.min(this.group, records.length >> 1);
        size = Math.ceil(records.length / 2);
      } else {
        throw error;
      }
    }
    const isUnknown = reason === 'unrecognizedTask';
    if (isUnknown || errors || records.length === 1) {
      yield* records.map((record) => [record, reason ?? errors.get(record.key) ?? '']);
      if (isUnknown) throw new Later(reason, 60);
      return !reason;
    }
    let taken = false;
    for (let at = 0; at < records.length; at += size) {
      if (yield* this.post(records.slice(at, at + size))) taken = true;
    }
    // The fault is in none of them, and the rest would fare no better.
    if (reason && !taken) throw new Later(reason, 3600);
    return taken;
  }

  /** Settle a report that the leader has decided, or declined on several days; or let it wait. */
  async conclude(record, error, known) {
    const verdict = Client.verdicts[error];
    if (verdict in known) return this.settle(record, verdict, verdict === 'counted' ? null : error, known);
    record.declined = [...new Set(record.declined).add(Math.floor(this.now() / DAY))];
    if (record.declined.length > 4) { // more days than a long weekend has
      if (!verdict) return this.settle(record, 'refused', error, known);
      // Age is told only by a clock that agrees with the leader's.
      if (Math.abs(this.clockAhead ?? DAY) < 86400 && this.now() - record.created > 1000 * this.maxAgeSeconds) {
        return this.settle(record, 'late', 'too_old', known);
      }
    }
    known.reason = error;
    return this.postpone(record, verdict === 'early' ? 60 : 3600);
  }

  async settle(record, state, reason, known) {
    const outcome = { state, reason };
    await this.outbox.settle(record, outcome);
    known[state]++;
    const detail = { ...outcome, key: record.key, claim: record.claim?.slice(this.task.id.length + 1) ?? null };
    this.dispatchEvent(new CustomEvent('settled', { detail }));
  }

  /** Try again in 2, 4, 8 ... seconds, an hour at most, or when the leader says. */
  postpone(record, wait) {
    record.attempts++;
    const patience = Math.max(Math.min(2 ** record.attempts, 3600), Math.min(wait, 86400));
    record.due = this.now() + 1000 * patience;
    return this.outbox.save(record);
  }

  /**
   * Both aggregators' current configurations; past the browser's cache the second time, and if
   * the leader calls outdated what an earlier visit has sealed.
   */
  async keys() {
    const age = this.now() - this.fetched;
    if (this.configs && age >= 0 && age < DAY) return this.configs;
    const cache = this.fetched ? 'reload' : 'default';
    const fetched = await Promise.all([this.task.leader, this.task.helper].map(async (base) => {
      const url = resource(base, 'hpke_config');
      let config;
      try {
        const answer = await this.ask(url, { cache }, CONFIGS_TYPE);
        if (answer.length > MOST_CONFIG_BYTES) throw new Later('not_an_aggregator');
        config = preferredConfig(answer);
      } catch (error) {
        throw error instanceof Later ? error : new Later('not_an_aggregator');
      }
      if (!(await isUsable(config, this.x25519))) throw new Later('not_an_aggregator');
      return config;
    }));
    this.fetched = this.now();
    return (this.configs = fetched);
  }

  async request(body) {
    const options = {
      method: 'POST', headers: { 'content-type': REPORTS_TYPE }, body, cache: 'no-store',
      keepalive: body.length < 60_000, // a request that outlives the page may have 64 KiB
    };
    try {
      return uploadErrors(this.task, await this.ask(this.task.uploads, options, ERRORS_TYPE));
    } catch (error) {
      if (error.name === 'DecodeError') throw new Later('not_an_aggregator');
      throw error;
    }
  }

  /** The bytes of an answer. One that is not an aggregator's counts as a network failure. */
  async ask(url, options, type) {
    const signal = AbortSignal.timeout(1000 * this.timeoutSeconds);
    const always = { credentials: 'omit', referrerPolicy: 'no-referrer', redirect: 'error', signal };
    let answer, bytes;
    try {
      answer = await this.fetch(url, { ...always, ...options });
      bytes = new Uint8Array(await answer.arrayBuffer());
    } catch {
      throw new Later('unreachable');
    }
    const date = Date.parse(answer.headers.get('date'));
    if (date) this.clockAhead = Math.round((this.now() - date) / 1000);
    const given = (answer.headers.get('content-type') ?? '').toLowerCase().replaceAll(/[\s"]/g, '');
    if (answer.status === 200) {
      if ((bytes.length || given) && given !== type) throw new Later('not_an_aggregator');
      return bytes;
    }
    if (answer.status === 413) throw new Later('too_large', 3600);
    const wait = Number(answer.headers.get('retry-after')) || 0;
    if (answer.status === 429 || answer.status >= 500) throw new Later('busy', wait);
    let problem = null;
    if (given.startsWith('application/problem+json')) {
      try {
        problem = URN.exec(JSON.parse(new TextDecoder().decode(bytes)).type);
      } catch {
        // Not an aggregator's.
      }
    }
    // A proxy, or the sign-in page of a hotel, must not settle anything.
    if (!problem) throw new Later('not_an_aggregator', wait);
    throw new Refused(problem[1]);
  }
}

