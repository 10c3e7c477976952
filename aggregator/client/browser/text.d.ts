import type {
  Client, ClientOptions, Entropy, Outbox, OutboxRecord, Outcome, Task,
} from './index.js';
import type { Link } from './links.js';

/** What `text.json` of a text question of a survey holds. */
export interface TextDescription {
  version: number;
  normalisation: number;
  title: string;
  epsilon: string;
  tasks: number;
  buckets: number;
  /** In version 2: the number that is asked for beside a string. */
  amount?: TextAmount;
  /** In version 3: by whose answers strings are counted. */
  by?: TextChoice;
  /** What a survey asks that has text questions only. */
  survey?: string;
  /** Hexadecimal. */
  meaning: string;
  task_ids: string[];
}

/** A number that is asked for beside a string; low, high and step are exact, as "1/2" is. */
export interface TextAmount {
  text: string;
  low: string;
  high: string;
  step: string;
  unit: string;
  /** Whether a number out of range counts as the nearest. */
  clip: boolean;
}

/** A question of the same survey by whose answers strings are counted. */
export interface TextChoice {
  question: string;
  labels: string[];
}

/**
 * A string; with an amount, a string and how many steps above the least the number is; or, where
 * strings are counted by another answer, a string and the place of its label, from 0.
 */
export type Written = string | [string | null, number | bigint | null] | null;

/** A question whose description and tasks agree. Everything in it is public. */
export class TextQuestion {
  /**
   * @param tasks as `tasks.json` has them, in its order
   * @throws {DecodeError | Unsupported} they do not belong together, or this engine is too old
   */
  static read(description: TextDescription, tasks: Task[]): Promise<TextQuestion>;
  readonly title: string;
  readonly epsilon: string;
  /** What number is asked for beside a string; null if none is. */
  readonly amount: TextAmount | null;
  /** By whose answers strings are counted; null if by nobody's. */
  readonly by: TextChoice | null;
  /** Entries of each report. */
  readonly entries: number;
  /** Buckets of one level: of each task, if nothing is told beside a string. */
  readonly length: number;
  readonly tasks: Task[];
  readonly meaning: Uint8Array;
  /** The entry of an answer in a task, for which a level is drawn; 0 is for no answer. */
  entry(place: number, answer: Written, entropy?: Entropy): Promise<number>;
  /** The bucket of a string in a task; 0 is for none. */
  bucket(place: number, answer: string | null): Promise<number>;
  /** One person's part in it, see `TextClient.open`. */
  open(
    options: ClientOptions & { outbox: Outbox; person?: string; spelled?: Spelling[] },
  ): Promise<TextClient>;
  /** What the survey asks, if it has text questions only; '' else. */
  readonly survey: string;
}

/** What `spelling.json` of `prio survey spell` holds. */
export interface SpellingDescription {
  version: number;
  /** Its description, without the tasks. */
  question: object;
  /** Hexadecimal, ascending. */
  fingerprints: string[];
  alphabet: string;
  letters: number;
  task_ids: string[];
}

/** What is asked instead of a question in some windows: letters of what no list has. */
export class Spelling {
  /**
   * @param tasks as `tasks.json` has them, in its order; made with `--window`
   * @throws {DecodeError} they do not belong together, or have other windows than the question
   */
  static read(
    description: SpellingDescription, tasks: Task[], question: TextQuestion,
  ): Promise<Spelling>;
  readonly question: TextQuestion;
  readonly tasks: Task[];
  /** Whether reports of a unit of time are for the spelling. */
  holds(time: bigint): boolean;
  /** The bucket of an answer in a task; 0 is also for what is not asked. */
  bucket(place: number, answer: string | null): Promise<number>;
}

/** One person's part in a question: in one of its tasks, once and for ever. */
export class TextClient {
  /**
   * Toss for the person's task, if that has not been done, and keep the toss. Call it before there
   * is an answer.
   *
   * @param options `outbox`: where the toss is kept; `person`: who it is, if several share it;
   *   `spelled`: spellings of the question, which are asked instead in their windows
   */
  static open(
    question: TextQuestion,
    options: ClientOptions & { outbox: Outbox; person?: string; spelled?: Spelling[] },
  ): Promise<TextClient>;
  readonly question: TextQuestion;
  /** The task's, from 0. */
  readonly place: number;
  /** The client of the person's task, with `start`, `flush` and `waiting`. */
  readonly client: Client;
  /** The same, and then those of the person's task of each spelling. */
  readonly clients: Client[];
  /**
   * What became of the answer in a window, or of the only answer if there are no windows.
   *
   * @param moment in the window, in milliseconds since 1970; now, if there is none
   */
  answered(moment?: number): Promise<Outcome | null>;
  /** Make a report of any string, or of no answer, for `add` of the outbox, beside others. */
  make(answer: Written, moment?: number, link?: Link | null): Promise<OutboxRecord>;
  /**
   * Make a report of any string, or of no answer, and store it.
   *
   * @throws {AlreadyAnswered | OutboxFull}
   */
  put(answer: Written): Promise<string>;
}

export function normalForm(answer: string): string;
/** Four bytes, of a string in its normal form. */
export function fingerprint(normal: string, meaning: Uint8Array): Promise<Uint8Array>;
export function siphash(key: Uint8Array, message: Uint8Array): bigint;
/** A number below `count`, all equally likely. */
export function tossed(count: number, entropy?: Entropy): number;
