/**
 * A task as everybody must agree on it: its configuration and privacy policy, read and checked.
 *
 * The bytes of the configuration are bound into every report, so a client that decodes those very
 * bytes cannot be told one thing and seal another.
 *
 * Source: DAP, "Task Configuration" and "Task Extensions"; the policy is ours.
 */

import { Reader, fault, fromBase64Url, text, toBase64Url } from './bytes.js';
import { CIRCUITS, TYPES } from './circuits.js';
import { Prio3, joined } from './prio3.js';

const INTERVAL = 1;
const PRIVACY = 0xff50;
const BATCH_MODES = { 1: 'time_interval', 2: 'leader_selected' };
const PLAINEST = 3, BY_SECTION = 1, IN_GROUP = 2; // versions of policies: the first, and what is added
const MAX_SHARES = 2 ** 16 - 1;
const MECHANISMS = {
  0: ['None'],
  1: ['PureDpDiscreteLaplace', 'epsilon'],
  2: ['TruncatedGeometric', 'epsilon', 'delta'],
  3: ['DiscreteGaussian', 'delta', 'rho'],
};
const SPLIT = ['PureDpDiscreteLaplace', 'DiscreteGaussian'];
const RATIONAL = /^[1-9]\d*(\/[1-9]\d*)?$/;
const MAX_SHARE = 2 ** 26; // 64 MiB: what a browser holds several of
const MAX_POINTS = 2 ** 13; // see `betweenPowers`

/**
 * What differs between the drafts that we speak: the tag of all domain separation, how short
 * `task_info` may be, and the names of report errors by number, from 1 on.
 */
const DAP_18 = ['dap-18', 1, [
  'batch_collected', 'report_replayed', 'report_dropped', 'hpke_unknown_config_id',
  'hpke_decrypt_error', 'vdaf_verify_error', 'task_expired', 'invalid_message',
  'report_too_early', 'task_not_started', 'outdated_config',
]];
const PROFILES = {
  'dap-18': DAP_18,
  'dap-19': ['dap-19', 0, [
    ...DAP_18[2].slice(0, 6), 'invalid_message', 'report_too_early', 'unknown_verification_key_id',
    'unsupported_extension',
  ]],
  janus: DAP_18,
  'janus-2026-08-20': DAP_18,
};

export class Task {
  /** What reads further task extensions, by type: a file that few pages need adds its own. */
  static readers = {};

  /**
   * @param {{id: string, configuration: string, profile?: string}} task the first two in base64url;
   *   `profile` is the draft that the aggregators speak
   * @throws {TypeError} it is another thing
   * @throws {DecodeError} naming the field
   */
  constructor(task) {
    const { id, configuration, profile = 'dap-18' } = task ?? {};
    if (typeof id !== 'string' || typeof configuration !== 'string') {
      throw new TypeError('a task must have the texts id and configuration');
    }
    if (!Object.hasOwn(PROFILES, profile)) fault(`profile must be ${Object.keys(PROFILES)}`);
    const [tag, least, errors] = PROFILES[profile];
    Object.assign(this, { id, profile, tag, reportErrors: errors });
    this.idBytes = fromBase64Url(id);
    if (this.idBytes.length !== 32 || toBase64Url(this.idBytes) !== id) {
      fault('id must be 32 bytes in base64url');
    }
    this.configuration = fromBase64Url(configuration);
    const reader = new Reader(this.configuration);
    this.info = reader.opaque(1, least);
    this.leader = endpoint(reader, 'leader_aggregator_endpoint');
    this.helper = endpoint(reader, 'helper_aggregator_endpoint');
    this.timePrecision = reader.number(8);
    if (this.timePrecision === 0n) fault('time_precision must be at least 1');
    this.minBatchSize = reader.number(8);
    this.batchMode = BATCH_MODES[reader.number(1)] ?? fault('batch_mode is not known');
    if (reader.opaque(2).length) fault('batch_config must be empty');
    const type = reader.number(4);
    const parameters = reader.opaque(2);
    const extensions = reader.opaque(2);
    reader.finish();
    /** When reports may be made, in units of time: `[start, end)`; null for always. */
    this.interval = null;
    /** What is promised to a person; null if the configuration does not say. */
    this.policy = null;
    /** Where in the configuration the four bytes of the place in a group are; null if in none. */
    this.placeAt = null;
    this.prio3 = prio3Of(type, parameters);
    this.readExtensions(new Reader(extensions));
    this.type = `Prio3${this.prio3.circuit.name}`;
    this.ctx = joined([text(tag), this.idBytes]);
  }

  readExtensions(reader) {
    for (let last = -1; !reader.isDone; ) {
      const type = reader.number(2);
      const data = new Reader(reader.opaque(2));
      if (type <= last) fault('task extension types must strictly increase');
      last = type;
      if (type === INTERVAL) {
        const start = data.number(8), end = start + data.number(8);
        if (end >= 2n ** 64n) fault('task_interval must end before 2^64');
        data.finish();
        this.interval = { start, end };
      } else if (type === PRIVACY) {
        const before = this.configuration.length - reader.bytes.length + reader.at - data.bytes.length;
        const [policy, placeAt] = policyOf(data, this.prio3.circuit.sections?.length ?? 1);
        this.policy = policy;
        if (policy.group) this.placeAt = before + placeAt;
      } else {
        (Task.readers[type] ?? fault(`task extension ${type} is not known`))(data, this);
      }
    }
  }

  /** The unit of time that a moment is in. */
  time(milliseconds) {
    return BigInt(Math.floor(milliseconds / 1000)) / this.timePrecision;
  }

  /** Where reports go. */
  get uploads() {
    return resource(this.leader, `tasks/${this.id}/reports`);
  }
}

/** A resource of an aggregator, whose address may end with a slash or without. */
export const resource = (base, path) => base.replace(/\/?$/, '/') + path;

/** A URL of what the aggregators' `urls.py` allows, whose host browsers do not read as another. */
function endpoint(reader, name) {
  const url = reader.text(2, 1);
  let host = null;
  try {
    host = new URL(url).hostname;
  } catch {} // such as for a port above 65535
  const found = /^https?:\/\/((?![\w.-]{254})[\w-]{1,63}(\.[\w-]{1,63})*\.?|\[[\da-f:]+\])(:[1-9]\d*)?(\/(?!\.\.?(\/|$))[\w.~-]+)*\/?$/.exec(url);
  // A browser reads 0x7f.1 as 127.0.0.1.
  if (host !== found?.[1].toLowerCase()) fault(`${name} must be http(s)://host:port/path`);
  return url;
}

function prio3Of(code, configuration) {
  const row = TYPES.get(code);
  if (!row) fault(`vdaf_type ${code} is not known`);
  const [name, ...fields] = row;
  const reader = new Reader(configuration);
  const parameters = {};
  for (const [field, size] of fields) {
    const value = typeof size === 'function' ? size(reader) : reader.number(size);
    parameters[field] = value;
    if (Number(value) === 0) fault(`${field} must be at least 1`);
  }
  reader.finish();
  const { length, max_weight: weight, max_measurement: largest } = parameters;
  if (weight > length) fault('max_weight must be at most length');
  // Before anything is made of that size.
  if (length > MAX_SHARE || parameters.chunk_length > MAX_SHARE) fault('the task is too large');
  const prio3 = new Prio3(code, CIRCUITS[name](parameters));
  if (
    prio3.leaderShareSize > MAX_SHARE || prio3.points > MAX_POINTS ||
    largest >= prio3.circuit.field.modulus
  ) {
    fault('the task is too large');
  }
  return prio3;
}

/** The greatest common divisor. */
function commonOf(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

function rational(reader, name) {
  const text = reader.text(1);
  if (text === '') return null;
  const [a, b] = RATIONAL.test(text) ? text.split('/').map(BigInt) : [0n, 1n];
  if (b < 2n || b && commonOf(a, b) > 1n) fault(`${name} must be a positive rational`);
  return text;
}

/** Shares of sections of epsilon or rho, run by run: `[sections, share]`; together they are 1. */
function sharesOf(reader) {
  const runs = [];
  let sections = 0, top = 0n, bottom = 1n;
  for (let left = reader.number(2); left > 0; left--) {
    const count = reader.number(2), share = rational(reader, 'shares') ?? fault('shares must add up to 1');
    sections += count;
    if (count === 0 || sections > MAX_SHARES) fault(`shares must be 1 to ${MAX_SHARES}`);
    if (runs.at(-1)?.[1] === share) fault('shares: neighbouring runs must differ');
    const [a, b = 1n] = share.split('/').map(BigInt);
    top = top * b + BigInt(count) * a * bottom;
    bottom *= b;
    runs.push([count, share]);
  }
  if (top !== bottom) fault('shares must add up to 1');
  return { runs, sections };
}

/**
 * A privacy policy, and where in its bytes the place in a group is; every policy has a single
 * encoding, and no other is taken.
 */
function policyOf(reader, sectionCount) {
  const version = reader.number(1);
  const more = version - PLAINEST;
  if (more < 0 || more > BY_SECTION + IN_GROUP) {
    fault('the privacy policy is not known');
  }
  const row = MECHANISMS[reader.number(1)] ?? fault('the privacy policy is not known');
  if (reader.number(1) !== 1) fault('the privacy policy is not known');
  const [mechanism, ...needed] = row;
  const policy = { mechanism };
  for (const name of ['epsilon', 'delta', 'rho']) {
    policy[name] = rational(reader, name);
    if ((policy[name] !== null) !== needed.includes(name)) fault(`${mechanism}: ${name}`);
  }
  if (policy.delta !== null) {
    const [a, b = 1n] = policy.delta.split('/').map(BigInt);
    if (a >= b) fault('delta must be below 1');
  }
  policy.shares = null;
  if (more & BY_SECTION) {
    if (!SPLIT.includes(mechanism)) fault(`${mechanism}: its noise is not split over sections`);
    const { runs, sections } = sharesOf(reader);
    policy.shares = runs;
    if (sections !== sectionCount) {
      fault(`shares must be one for each of the ${sectionCount} sections, not ${sections}`);
    }
  }
  policy.maxReportsPerPerson = reader.number(4);
  if (policy.maxReportsPerPerson === 0) fault('max_reports_per_person must be at least 1');
  const length = reader.number(8), start = reader.number(8);
  if (start && start >= length) fault('window_start must be below the window');
  policy.window = length ? { length, start } : null;
  policy.maxBatchesPerPerson = reader.number(4) || null;
  policy.budget = rational(reader, 'budget');
  policy.maxReleases = reader.number(4) || null;
  policy.population = reader.text(1);
  policy.group = null;
  let placeAt = null;
  if (more & IN_GROUP) {
    const name = reader.text(1);
    placeAt = reader.at;
    policy.group = { name, place: reader.number(4) };
    if (!policy.group.name) fault('group must not be empty');
  }
  const shown = reader.number(1);
  if (shown === 1) {
    policy.privateThreshold = reader.text(1);
    reader.number(8);
    if (reader.opaque(2).length % 4) fault('public_buckets must be whole');
  } else if (shown === 2) {
    policy.suppressAtOrBelow = reader.number(8);
    rational(reader, 'assumed_probability');
  } else if (shown !== 0) {
    fault('the privacy policy is not known');
  }
  reader.finish();
  return [policy, placeAt];
}
