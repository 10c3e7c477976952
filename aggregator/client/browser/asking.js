/**
 * The client of a survey whose sheet is known: all answers of a person are made into reports at once.
 *
 * In each window a person has one report of the survey's own task and one of each text question,
 * stored together or not at all. Their clients send them.
 */

import { Client } from './client.js';
import { Clock } from './clock.js';
import { webCrypto } from './hpke.js';
import { MemoryOutbox } from './outbox.js';
import { Sheet } from './sheet.js';

export class Asking {
  /**
   * @param {object} asked `task`, or null if all questions are text; `texts`: each text question
   *   with its `name`, `question` and `spelled`; the `sheet`; the `window`, in seconds; and the
   *   `name` by which the outbox knows the survey through its changes
   * @param {object} options see survey.d.ts
   */
  constructor({ task, texts = [], sheet, window, name }, options = {}) {
    const { outbox = new MemoryOutbox(), now = Date.now, x25519 = webCrypto, fetch, patience = 5000 } = options;
    const every = { ...options, outbox, now, x25519, sheet };
    const first = task ?? texts[0]?.question.tasks[0] ?? null;
    Object.assign(this, { texts, window, name, outbox, now, x25519, options: every, first });
    this.sheet = new Sheet(sheet);
    /** The client of the survey's own report, if there is one. */
    this.own = task ? [new Client(task, every)] : [];
    /** The clients of all tasks that reports were made for; each sends its task's. */
    this.clients = [...this.own];
    this.clock = first && new Clock(first, { now, patience, fetch });
    const unit = first && 1000 * Number(first.timePrecision);
    const { start, end } = first?.interval ?? {};
    /** When the questions are asked, in milliseconds. */
    [this.opens, this.closes] = start === undefined ? [0, Infinity] : [Number(start) * unit, Number(end) * unit];
  }

  /** The window of a moment, of which a person has one report: a page may stay open beyond it. */
  windowOf(moment) {
    return Math.floor((moment / 1000 - this.window.offset) / this.window.seconds);
  }

  /** When the window after that of a moment begins; null if none does. */
  nextAfter(moment) {
    const { seconds, offset } = this.window;
    const start = 1000 * ((this.windowOf(moment) + 1) * seconds + offset);
    return start < this.closes ? start : null;
  }

  /** What a person's own report claims. */
  claimOf(person, moment) {
    const window = `window ${this.windowOf(moment)}`;
    return person ? `${window}: ${person}` : window;
  }

  /** The same by the survey's name and not its task: a changed survey has another one. */
  answeredIn(person, moment) {
    const { seconds, offset } = this.window;
    return `${this.name} answered in ${this.claimOf(person, moment)} of ${seconds} from ${offset}`;
  }

  /**
   * A person's part in each text question: its task is tossed for, and that kept, before there is
   * an answer.
   */
  async openTexts(person = '') {
    const open = ({ question, spelled }) => question.open({ ...this.options, person, spelled });
    const opened = await Promise.all(this.texts.map(open));
    for (const each of opened.flatMap(({ clients }) => clients)) this.adopt(each);
    return opened;
  }

  /** Send the reports of one more task. */
  adopt(client) {
    if (this.clients.some(({ task }) => task.id === client.task.id)) return;
    this.clients.push(client);
    if (this.isStarted) client.start();
  }

  /** Why nobody can answer at a moment; null if they can. `word` is the leader's, if it said any. */
  closedAt(moment, word = null) {
    if (moment < this.opens) return { reason: 'task_not_started', at: this.opens };
    if (moment >= this.closes) return { reason: 'task_expired', at: this.closes };
    return word && { reason: word, at: this.nextAfter(moment) };
  }

  /**
   * Make the reports of answers that were read, and say what they claim.
   *
   * @param {Array} read as the sheet reads them
   * @param {string[]} written of each text question; null for none
   * @param {object} of the parts of the person in them, the person, the moment, and where tasks
   *   need a permit the person's link, or what has signed ones
   */
  async make(read, written, { texts, person, moment, link = null }) {
    // Without X25519 they would be stored, and never sent.
    await (await this.x25519.ephemeral()).exchange(new Uint8Array(32).fill(9));
    const isNamed = person !== null;
    const claim = isNamed ? this.claimOf(person, moment) : null;
    // As many reports where every answer is none: whoever sees them learns that they took part.
    const measurement = this.sheet.measurement(read);
    const make = async (each) =>
      each.make(measurement, { claim, at: moment, permit: await link?.permit(each.task, moment) });
    const records = await Promise.all([
      ...this.own.map(make), ...texts.map((text, i) => text.make(written[i], moment, link, read)),
    ]);
    return [records, isNamed ? [this.answeredIn(person, moment)] : []];
  }
}
