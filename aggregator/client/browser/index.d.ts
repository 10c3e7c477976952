/** A task, as the list `task` of a `task.json` has it; both texts are base64url. */
export interface TaskDocument {
  id: string;
  configuration: string;
  /** What its aggregators speak; dap-18 if it is left out. */
  profile?: 'dap-18' | 'dap-19' | 'janus' | 'janus-2026-08-20';
}

/** What a task promises a person; rationals are exact, as text: "1/2". */
export interface Policy {
  mechanism: 'None' | 'PureDpDiscreteLaplace' | 'TruncatedGeometric' | 'DiscreteGaussian';
  epsilon: string | null;
  delta: string | null;
  rho: string | null;
  /**
   * If epsilon or rho is split over sections: how many sections in a row have which share of it;
   * null if all entries have noise of one scale.
   */
  shares: [number, string][] | null;
  maxReportsPerPerson: number;
  /** In units of the task's time precision. */
  window: { length: bigint; start: bigint } | null;
  maxBatchesPerPerson: number | null;
  budget: string | null;
  maxReleases: number | null;
  population: string;
  /** The task's place in a group; the sender of reports keeps each person to one place. */
  group: { name: string; place: number } | null;
  privateThreshold?: string;
  suppressAtOrBelow?: bigint;
}

/** Bytes as a task's id and configuration are written. */
export function toBase64Url(bytes: Uint8Array): string;

/** A task whose configuration is read and checked. Everything in it is public. */
export class Task {
  /**
   * @throws {TypeError} this is no task's document
   * @throws {DecodeError} something is unknown, out of its range or too long; it is named
   */
  constructor(task: TaskDocument);
  readonly id: string;
  readonly idBytes: Uint8Array;
  readonly configuration: Uint8Array;
  readonly profile: string;
  /** What all domain separation begins with. */
  readonly tag: string;
  readonly info: Uint8Array;
  readonly leader: string;
  readonly helper: string;
  readonly timePrecision: bigint;
  readonly minBatchSize: bigint;
  readonly batchMode: 'time_interval' | 'leader_selected';
  /** When reports may be made, in units of time, the end excluded; null for always. */
  readonly interval: { start: bigint; end: bigint } | null;
  /** null if the configuration does not say: then nothing is promised that a client can check. */
  readonly policy: Policy | null;
  /** "Prio3Histogram" and so on. */
  readonly type: string;
  readonly prio3: Prio3;
  readonly ctx: Uint8Array;
  readonly uploads: string;
  /** The unit of time that a moment, in milliseconds since 1970, is in. */
  time(milliseconds: number): bigint;
}

/** A whole number from 0 on; larger ones than a double holds exactly, as a BigInt. */
export type Whole = number | bigint | boolean;

/**
 * Count and Sum: a number. Histogram: the index of a bucket, from 0 on. SumVec, MultihotCountVec
 * and L1BoundSum: a list of numbers. Sections: a list of what is added to each entry, section after
 * section.
 */
export type Measurement = Whole | ArrayLike<Whole>;

/** Sharding alone, for other protocols than DAP. */
export class Prio3 {
  readonly randSize: number;
  readonly leaderShareSize: number;
  shard(ctx: Uint8Array, measurement: Measurement, nonce: Uint8Array, rand: Uint8Array): {
    publicShare: Uint8Array;
    inputShares: Uint8Array[];
  };
}

/** A report that is sharded and not sealed. It reveals the measurement: it stays on the device. */
export interface PreparedReport {
  id: Uint8Array;
  time: bigint;
  publicShare: Uint8Array;
  leaderShare: Uint8Array;
  helperShare: Uint8Array;
}

export interface HpkeConfig {
  id: number;
  kem: number;
  kdf: number;
  aead: number;
  publicKey: Uint8Array;
}

/** Where X25519 comes from: `webCrypto`, or a library where WebCrypto lacks it. */
export interface X25519 {
  ephemeral(): Promise<{
    enc: Uint8Array;
    exchange(publicKey: Uint8Array): Promise<Uint8Array>;
  }>;
}
export const webCrypto: X25519;

/** Gives `size` bytes that nobody can guess. */
export type Entropy = (size: number) => Uint8Array;

/** The system's: there is no other source. */
export const random: Entropy;

/** @throws {MeasurementError} it is not what the task measures; the message names the limit */
export function prepare(
  task: Task, measurement: Measurement, time: bigint, entropy?: Entropy,
): PreparedReport;
export function sealReport(
  task: Task, prepared: PreparedReport, configs: [HpkeConfig, HpkeConfig], x25519?: X25519,
): Promise<Uint8Array>;
export function seal(
  config: HpkeConfig, info: Uint8Array, aad: Uint8Array, plaintext: Uint8Array, x25519?: X25519,
): Promise<{ enc: Uint8Array; payload: Uint8Array }>;
/** The configuration to seal to, from an aggregator's list. */
export function preferredConfig(list: Uint8Array): HpkeConfig;
/** Why reports were refused, from a leader's answer to an upload, by id in base64url. */
export function uploadErrors(task: Task, answer: Uint8Array): Map<string, string>;

/** What a task that counts only reports with a permit needs of each: see `Link` and `Permits`. */
export interface Permit {
  id: Uint8Array;
  extensions: Uint8Array;
  /** Of a signed one: what the report shows in public, behind its length. */
  shown?: Uint8Array;
  /** What may be in one report only. */
  also?: string[];
}

export type State = 'waiting' | 'counted' | 'late' | 'refused';

export interface Outcome {
  state: State;
  /** A name of the draft (`batch_collected` and so on), `too_old`, or null. */
  reason?: string | null;
}

/** What an outbox keeps of a report until it is settled. */
export interface OutboxRecord extends PreparedReport {
  key: string;
  task: string;
  claim: string | null;
  /** What else may have only one report, whatever its task. */
  also?: string[];
  created: number;
  /** The days since 1970 on which the leader would not take the report, or not yet. */
  declined?: number[];
  configs: [HpkeConfig, HpkeConfig] | null;
  body: Uint8Array | null;
  attempts: number;
  due: number;
}

export interface Outbox {
  /**
   * Store records, their claims and others, all or none.
   *
   * @throws {AlreadyAnswered | OutboxFull}
   */
  add(records: OutboxRecord[], claims?: string[]): Promise<void>;
  save(record: OutboxRecord): Promise<void>;
  /** Delete a record and, only if it was there, say in its claim what became of it. */
  settle(record: OutboxRecord, outcome: Outcome): Promise<void>;
  list(task: string): Promise<OutboxRecord[]>;
  claimed(claim: string): Promise<Outcome | null>;
  /**
   * Keep a value under a name for ever, unless one is kept already, and return the kept one: all
   * other and later callers get the same. Text questions need it.
   */
  keep?<T extends number | string>(name: string, value: T): Promise<T>;
}

/**
 * In IndexedDB: what it keeps survives the page and the browser. All that the browser does not do
 * within ten seconds fails with a `TimeoutError`; only `add` waits on, once its transaction has begun.
 */
export class BrowserOutbox implements Outbox {
  constructor(name?: string);
  add(records: OutboxRecord[], claims?: string[]): Promise<void>;
  save(record: OutboxRecord): Promise<void>;
  settle(record: OutboxRecord, outcome: Outcome): Promise<void>;
  list(task: string): Promise<OutboxRecord[]>;
  claimed(claim: string): Promise<Outcome | null>;
  keep<T extends number | string>(name: string, value: T): Promise<T>;
}

/** In memory, for as long as the page or the process lives; fit for shared devices. */
export class MemoryOutbox implements Outbox {
  add(records: OutboxRecord[], claims?: string[]): Promise<void>;
  save(record: OutboxRecord): Promise<void>;
  settle(record: OutboxRecord, outcome: Outcome): Promise<void>;
  list(task: string): Promise<OutboxRecord[]>;
  claimed(claim: string): Promise<Outcome | null>;
  keep<T extends number | string>(name: string, value: T): Promise<T>;
}

export interface ClientOptions {
  /** In memory by default. */
  outbox?: Outbox;
  fetch?: typeof fetch;
  /** Milliseconds since 1970. */
  now?: () => number;
  entropy?: Entropy;
  x25519?: X25519;
  /** How many reports may wait; 10,000. */
  maxReports?: number;
  /**
   * How long one may wait; 14 days. If the leader declines it after that, and on several days, it is
   * given up as `late` with the reason `too_old`; not by a clock that is a day off the leader's.
   */
  maxAgeSeconds?: number;
  reportsPerRequest?: number;
  /** How long one request may take; 30. */
  timeoutSeconds?: number;
  /** Whether the caller keeps each person to one place of the task's group, as `TextClient` does. */
  keepsPlaces?: boolean;
}

export interface Pass {
  counted: number;
  late: number;
  refused: number;
  waiting: number;
  /**
   * Why some still wait: `unreachable`, `busy`, `not_an_aggregator`, `report_too_early` (this
   * clock is ahead, see `clockAhead`, or their batch is being collected, which may fail), `task_not_started`, `unrecognizedTask`, `too_large` (one
   * report alone), `outdated_config` (the leader contradicts itself), `another_tab` (which is sending,
   * or the browser does not say that none is), or what else
   * the leader says of them, such as `invalid_message`; null if they are only not due yet.
   */
  reason: string | null;
}

/** Events: `settled` with `{key, claim, state, reason}`, `fault` with the error of an outbox. */
export class Client extends EventTarget {
  /** @throws {Error} the task is in a group, and the caller does not say `keepsPlaces` */
  constructor(task: Task, options?: ClientOptions);
  readonly task: Task;
  /** Seconds, by the last answer that said; null before. */
  readonly clockAhead: number | null;
  /** Make some reports and drop them, so that the first real one is quick. */
  warm(measurement: Measurement): void;
  /**
   * Make a report and store it; send it with `flush` or `start`.
   *
   * @param options `claim`: what may have only one report, such as a survey and a week
   * @throws {MeasurementError | AlreadyAnswered | OutboxFull}
   */
  put(measurement: Measurement, options?: { claim?: string | null; permit?: Permit }): Promise<string>;
  /**
   * Make a report without storing it: the outbox's `add` stores those of several tasks at once.
   *
   * @param options `at`: its moment, in milliseconds since 1970; now by default
   */
  make(measurement: Measurement, options?: { claim?: string | null; at?: number }): OutboxRecord;
  claimed(claim: string): Promise<Outcome | null>;
  waiting(): Promise<number>;
  /** Send what is due; with `now`, all that waits. */
  flush(options?: { now?: boolean }): Promise<Pass>;
  /** Send from now on, until `stop`: what waits, and what is put within a second. */
  start(): void;
  stop(): void;
}

export class MeasurementError extends RangeError {}
export class DecodeError extends Error {}
/** No X25519, no WebCrypto, or a key that cannot be used. */
export class Unsupported extends Error {}
export class AlreadyAnswered extends Error {}
export class OutboxFull extends Error {}
