import type { Client, ClientOptions, Outcome, Pass, Task } from './index.js';
import type { Link } from './links.js';
import type { Permits } from './signed.js';
import type { Spelling, TextQuestion } from './text.js';

/** What one person answered, by the names of questions; what is left out is no answer. */
export type Answers = Record<string, Answer>;

/**
 * A label or a list of labels, a truth value, a number, numbers by the names of columns, or what a
 * person wrote, or that and a number, as the question asks. Nothing, NaN and blank text are no
 * answer, and neither is text without the number that is asked for beside it, or a number alone, or
 * text without an answer to the question by which it is counted.
 */
export type Answer =
  | string | number | bigint | boolean | null | undefined
  | string[] | Set<string> | [string | null, string | number | bigint | null]
  | Record<string, string | number | bigint | null | undefined>;

export interface SurveyOptions extends ClientOptions {
  /** Each text question of the survey by its name, as its folder in `text` has it. */
  texts?: Record<string, TextQuestion>;
  /** Windows in which letters are asked for instead. */
  spelled?: Spelling[];
  /** How long an aggregator may take to say what time it is, in milliseconds; 5,000. */
  patience?: number;
}

/** Why nobody can answer. */
export interface Closed {
  /** `task_not_started`, `task_expired`, or what the leader says of a report of now. */
  reason: string;
  /**
   * In milliseconds since 1970: when the survey begins, when it ended, or when the next window
   * begins; null if none does.
   */
  at: number | null;
}

/** What a survey asks, as its file has it; what each kind has is in the documents. */
export interface Question {
  name: string;
  kind: string;
  text: string;
  [member: string]: unknown;
}

/**
 * The client of one survey, over an outbox that outlives it.
 *
 * In each window a person has one report of the survey and one more of each text question.
 */
export class Survey {
  /**
   * @param file what `task.json` of `prio survey new` has, as text or parsed; or, if the survey has
   *   text questions only, `survey.json`
   * @throws {TypeError} this is no such file
   * @throws {DecodeError} it was changed since it was made, or belongs to other text questions
   */
  constructor(file: object | string, options?: SurveyOptions);
  readonly title: string;
  /** What is asked, in order, without text questions. */
  readonly questions: Question[];
  /** All of its tasks, for `Permits`. */
  readonly tasks: Task[];
  /**
   * The time that an answer of now gets, in milliseconds since 1970: this clock's or, where it is
   * wrong, the aggregators' if both agree.
   */
  time(): Promise<number>;
  /** The clients of its tasks; each has `settled` and `fault` as events. */
  readonly clients: Client[];
  /** @throws {DecodeError} the task was not made for these questions; `put` refuses likewise */
  open(): Promise<void>;
  /**
   * Make a report of one person's answers and store it; with `start` it is sent.
   *
   * @param options `claim`: who, if several people share the outbox, which takes one report of each
   *   in a window; null if nobody knows who it is, and the application holds people to one report.
   *   `at`: when the answers were given, by this clock; now by default. `link`: the person's, of a
   *   survey by invitation; `permits`: the person's, of a survey by application; who it is is then
   *   remembered by their name
   * @returns the key of the report in the outbox
   * @throws {AnswerError | AlreadyAnswered | NotAsked | TimeUnknown | OutboxFull | Unsupported}
   */
  put(answers: Answers, options?: { claim?: string | null; at?: number; link?: Link | null; permits?: Permits | null }): Promise<string>;
  /** Everything that is wrong with answers, for a form. */
  faults(answers: Answers): AnswerError[];
  /** The names of the questions that a person who gives these answers is asked. */
  asked(answers: Answers): string[];
  /** What answers add to each entry of the survey's own report. @throws {AnswerError} */
  entries(answers: Answers): (number | bigint)[];
  /** What became of a person's report in this window; null if there is none. */
  answered(claim?: string): Promise<Outcome | null>;
  /** Ask the aggregators, before the first question, why nobody can answer now; null if one can. */
  closed(): Promise<Closed | null>;
  /** Send all that waits. */
  flush(): Promise<Pass>;
  /** Send from now on, and at once while a page is hidden or left. */
  start(): void;
  stop(): void;
}

/** The message names the question and what it takes, never what was given. */
export class AnswerError extends Error {
  /** '' if the survey has no question of the given name. */
  readonly question: string;
}

/** The survey has not begun, or it is over. */
export class NotAsked extends Error {
  readonly reason: string;
  readonly at: number;
}

/** This clock differs from an aggregator's, and the two do not agree on the time. */
export class TimeUnknown extends Error {}
