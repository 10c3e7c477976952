import type { Client, Measurement, Outbox, Permit, Task } from './index.js';

/** Sends bytes to the application's issuer; null if it answered 409. */
export type AskIssuer = (request: Uint8Array) => Promise<Uint8Array | null>;

export interface PermitsOptions {
  /** The survey's: in it permits wait, and reports take them. */
  outbox: Outbox;
  /** Whose they are, if several people share the device: as `claim` of `put` names the person. */
  person?: string;
  /** For how many windows after that of now they are asked: 4 unless given, as the issuer has it. */
  ahead?: number;
  /** The time, in milliseconds: this clock's, or `() => survey.time()`, which may be right where that is wrong. */
  now?: () => number | Promise<number>;
  entropy?: (size: number) => Uint8Array;
}

/** The signed permits of one person, in the outbox that their reports wait in. */
export class Permits {
  /**
   * @param tasks all of a survey: `survey.tasks`
   * @param keys what `issuer-keys.json` has, as text or parsed
   * @throws {TypeError} these are no keys
   * @throws {DecodeError} no issuer signs the permits of a task
   */
  constructor(tasks: Task[], keys: object | string, options: PermitsOptions);
  readonly name: string;
  /**
   * Ask the issuer for those of now and the next windows that are missing: at login, and never
   * because somebody wants to answer. A request whose answer was lost is repeated.
   *
   * @param ask a path of the page's own server, or a function
   * @returns how many came
   * @throws {DecodeError} the tasks have other keys, or the issuer signed something else
   */
  refresh(ask: string | AskIssuer): Promise<number>;
  /**
   * What `Client.put` needs for a moment, in milliseconds since 1970. `put` does both.
   *
   * @throws {NoPermit | AlreadyAnswered}
   */
  permit(task: Task, moment: number, number?: number): Promise<Permit>;
  /** Make a report of a task that is no survey's, and store it. */
  put(client: Client, measurement: Measurement, options?: { number?: number; claim?: string | null }): Promise<string>;
  /** Whether there is one for a moment, or a report took it. */
  isThere(task: Task, moment: number, number?: number): Promise<boolean>;
  /** Forget those that are in reports, and those of windows that are over; `put` does so. */
  tidy(): Promise<void>;
}

/** This device has no permit of the window: ask the issuer first. */
export class NoPermit extends Error {}
