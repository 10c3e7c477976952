/**
 * A question without a list of answers: each person sends one report, to one of its tasks.
 *
 * The promise is one task's epsilon, and only the client can keep it: it tosses for the task before
 * there is an answer, and keeps the toss for ever. The task does not depend on the answer, and
 * whether a report is sent must not either: silent people send one too.
 *
 * Source: our documentation of text questions, with vectors for each step.
 */

import { Client } from './client.js';
import { hexOf, isBoundTo, refuse, sha256 } from './digest.js';
import { gridOf } from './grid.js';
import { NORMALISATION, checkUnicode, normalForm } from './normal.js';
import { random } from './report.js';

const DESCRIBED = 1, WITH_AMOUNT = 2, BY_CHOICE = 3; // the versions of descriptions
const MOST_STEPS = 2n ** 32n;
const FEWEST_BUCKETS = 16;
const FEWEST_TASKS = 8;
const MECHANISM = 'PureDpDiscreteLaplace';
const ONES = 2n ** 64n - 1n;

/** The four bytes that stand for a string in its normal form, in one question. */
export async function fingerprint(normal, meaning) {
  return (await sha256('prio text', [NORMALISATION], meaning, normal)).slice(0, 4);
}

/** SipHash-2-4 of four bytes. */
export function siphash(key, message) {
  const halves = new DataView(key.buffer, key.byteOffset);
  const [k0, k1] = [halves.getBigUint64(0, true), halves.getBigUint64(8, true)];
  let v0 = k0 ^ 0x736f6d6570736575n, v1 = k1 ^ 0x646f72616e646f6dn;
  let v2 = k0 ^ 0x6c7967656e657261n, v3 = k1 ^ 0x7465646279746573n;
  const turned = (word, by) => ((word << by) | (word >> (64n - by))) & ONES;
  const rounds = (count) => {
    for (; count > 0; count--) {
      v0 = (v0 + v1) & ONES; v1 = turned(v1, 13n) ^ v0; v0 = turned(v0, 32n);
      v2 = (v2 + v3) & ONES; v3 = turned(v3, 16n) ^ v2;
      v0 = (v0 + v3) & ONES; v3 = turned(v3, 21n) ^ v0;
      v2 = (v2 + v1) & ONES; v1 = turned(v1, 17n) ^ v2; v2 = turned(v2, 32n);
    }
  };
  const word = BigInt(new DataView(message.buffer, message.byteOffset).getUint32(0, true)) | (4n << 56n);
  v3 ^= word;
  rounds(2);
  v0 ^= word;
  v2 ^= 0xffn;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

/** A question and its tasks, each checked against the other. */
export class TextQuestion {
  /**
   * @param {object} description what `text.json` holds
   * @param {import('./task.js').Task[]} tasks in its order
   * @throws {DecodeError | Unsupported} before anybody is asked anything
   */
  static async read(description, tasks) {
    checkUnicode();
    const { version, normalisation, title, epsilon, buckets, survey, amount, by } = description ?? {};
    if (![DESCRIBED, WITH_AMOUNT, BY_CHOICE].includes(version) || normalisation !== NORMALISATION) {
      refuse(`text.json: only versions ${DESCRIBED} to ${BY_CHOICE} and normal form ${NORMALISATION} are known`);
    }
    if (typeof title !== 'string' || typeof epsilon !== 'string') {
      refuse('text.json: not the description of a text question');
    }
    if (!(tasks.length >= FEWEST_TASKS && description.tasks === tasks.length)) {
      refuse(`text.json: it has ${description.tasks} tasks, and ${tasks.length} are given`);
    }
    if (!(Number.isInteger(buckets) && buckets >= FEWEST_BUCKETS)) {
      refuse(`text.json: buckets must be at least ${FEWEST_BUCKETS}`);
    }
    // Names sorted, no spaces: the bytes that everybody hashes.
    const table = {
      amount: version === WITH_AMOUNT ? amountOf(amount) : undefined, buckets,
      by: version === BY_CHOICE ? choiceOf(by) : undefined, epsilon, normalisation, tasks: tasks.length, title, version,
    };
    const text = JSON.stringify(table), question = new TextQuestion();
    Object.assign(question, { title, epsilon, tasks, length: buckets, survey: survey ?? '', table });
    question.amount = table.amount ?? null;
    question.by = table.by ?? null;
    /** The possible numbers, as a sheet has them; null if none is asked for. */
    question.grid = table.amount ? gridOf(table.amount) : null;
    if (table.amount && BigInt(question.grid.steps) > MOST_STEPS) refuse('text.json: amount: has too many steps');
    /** The most steps of a number, or the last label's place; 0 if only strings are asked for. */
    question.most = question.grid ? Number(question.grid.steps) : question.by ? by.labels.length - 1 : 0;
    question.meaning = await sha256('prio text question', text);
    for (const [place, task] of tasks.entries()) await question.checkTask(task, place, text, survey);
    if (description.meaning !== hexOf(question.meaning)) refuse('text.json: its meaning is not its own');
    if (String(description.task_ids) !== String(tasks.map(({ id }) => id))) {
      refuse('text.json: its task_ids are not those of its tasks');
    }
    return question;
  }

  async checkTask(task, place, text, survey) {
    const about = `task ${place + 1} of ${this.tasks.length}`;
    // Where a survey has text questions only, their tasks bind what it asks.
    if (!(await isBoundTo(task, [text, place, ...(survey ? [survey] : [])].join('\n')))) {
      refuse(`${about}: was not made for this question and this place in it`);
    }
    if (task.type !== 'Prio3Histogram' || task.prio3.circuit.length !== this.entries) {
      refuse(`${about}: is no histogram of ${this.entries} buckets`);
    }
    if (task.policy?.mechanism !== MECHANISM || task.policy.epsilon !== this.epsilon) {
      refuse(`${about}: its noise is not ${MECHANISM} of epsilon ${this.epsilon}`);
    }
    const { group } = task.policy;
    if (group?.name !== hexOf(this.meaning) || group.place !== place) {
      refuse(`${about}: is not in place ${place} of the group ${hexOf(this.meaning)}`);
    }
    const shared = ({ configuration, info, placeAt, profile }) => {
      const bytes = configuration.slice();
      bytes.fill(0, placeAt, placeAt + 4);
      return profile + hexOf(bytes.slice(1 + info.length));
    };
    if (shared(task) !== shared(this.tasks[0])) refuse(`${about}: has other settings than the first`);
  }

  /** How many entries a report has: each string has one for each level of a number, or label. */
  get entries() {
    return 1 + (this.amount ? 2 : this.most + 1) * (this.length - 1);
  }

  /**
   * The string of an answer, and the steps of a number or a label's place; no string if it has only
   * one of what is asked for.
   */
  partsOf(answer) {
    const { most } = this, said = most ? `a list of a string and steps, from 0 to ${most}` : 'a string';
    const fail = () => {
      throw new TypeError(`answer must be ${said}, or null`);
    };
    if (answer !== null && typeof answer !== 'string' && !(most && Array.isArray(answer))) fail();
    if (!most) return [answer, 0];
    const [text, steps] = typeof answer === 'string' ? [] : (answer ?? []);
    if ((text ?? null) === null || (steps ?? null) === null) return [null, 0];
    const count = Number(steps);
    if (typeof text !== 'string' || !(Number.isInteger(count) && count >= 0 && count <= most)) fail();
    return [text, count];
  }

  /**
   * The entry of an answer in a task. A number of `steps` above the least of N has the upper level
   * with a chance of steps / N, which is drawn here: once for each report.
   */
  async entry(place, answer, entropy = random) {
    const [text, steps] = this.partsOf(answer), bucket = await this.bucket(place, text);
    const level = this.amount ? tossed(this.most, entropy) < steps : steps;
    return bucket && bucket + level * (this.length - 1);
  }

  /** The place in a survey of the question by whose answers this one is counted. */
  placeIn({ questions }) {
    const { question, labels } = this.by;
    const at = questions.findIndex((each) =>
      each.name === question && each.kind === 'one' && String(each.labels) === String(labels));
    return at < 0 ? refuse(`by: the survey has no choice ${question} of these labels`) : at;
  }

  /**
   * The bucket of a string in a task; 0 is for no answer: null, or a text of no visible
   * character.
   */
  async bucket(place, answer) {
    const normal = normalForm(answer ?? '');
    const print = await fingerprint(normal, this.meaning);
    const number = [0, 0, place >> 8, place & 255];
    const key = (await sha256('prio text key', number, this.meaning)).slice(0, 16);
    const bucket = 1 + Number(siphash(key, print) % BigInt(this.length - 1));
    return normal === '' ? 0 : bucket;
  }

  /** One person's part in it: see `TextClient.open`. */
  open(options) {
    return TextClient.open(this, options);
  }
}

/** Draw a number below `count`; the largest draws are repeated, so that all are equally likely. */
export function tossed(count, entropy = random) {
  const fair = (2n ** 64n / BigInt(count)) * BigInt(count);
  for (;;) {
    const drawn = new DataView(entropy(8).buffer).getBigUint64(0);
    if (drawn < fair) return Number(drawn % BigInt(count));
  }
}

/** What a description has of its amount, names sorted. */
function amountOf(amount) {
  const { clip, high, low, step, text, unit } = amount ?? {};
  if (typeof clip !== 'boolean' || typeof text !== 'string' || typeof unit !== 'string') {
    refuse('text.json: not the description of a text question');
  }
  return { clip, high, low, step, text, unit };
}

/** The same of the question by which it is counted. */
function choiceOf(by) {
  const { labels, question } = by ?? {};
  if (typeof question !== 'string' || !(labels?.length > 1) || labels.some((each) => typeof each !== 'string')) {
    refuse('text.json: not the description of a text question');
  }
  return { labels, question };
}

/** The windows of a task in seconds, as text: `LENGTH START`; no length is all time. */
const windowsOf = ({ policy: { window }, timePrecision }) =>
  window ? [window.length, window.start].map((each) => each * timePrecision).join(' ') : '0 0';

/** One person's part in a question. */
export class TextClient {
  /**
   * Toss for the task, unless that was done, and keep the toss in the outbox before anything else.
   *
   * @param {TextQuestion} question
   * @param {object} options the client's, `person` if several people share the outbox, and
   *   `spelled`, the spellings of the question, which are asked instead in their windows; of a
   *   survey its `sheet`
   */
  static async open(question, { person = '', spelled = [], sheet, ...options }) {
    const { outbox, entropy = random } = options, group = sheet && question.by ? question.placeIn(sheet) : null;
    if (typeof outbox?.keep !== 'function') throw new TypeError('outbox must have the method keep');
    const name = hexOf(await sha256(question.meaning, person));
    const place = await outbox.keep(`toss ${name}`, tossed(question.tasks.length, entropy));
    if (!(Number.isInteger(place) && place >= 0 && place < question.tasks.length)) {
      throw new Error('the toss that was kept is not of this question; nobody tosses twice');
    }
    if (spelled.some((each) => each.question !== question)) {
      throw new TypeError('spelled must be spellings of the question');
    }
    const clients = [question, ...spelled].map(({ tasks }) =>
      new Client(tasks[place], { ...options, keepsPlaces: true }));
    const own = windowsOf(question.tasks[place]);
    const first = await outbox.keep(`windows ${name}`, own);
    const text = new TextClient(question, place, name, spelled, clients, new Set([first, own]));
    return Object.assign(text, { entropy, group });
  }

  constructor(question, place, name, spelled, clients, windows) {
    this.question = question;
    this.place = place;
    this.name = name;
    this.spelled = spelled;
    /** Those of the task, and those with which the question was first asked here. */
    this.windows = [...windows];
    /** The clients of the person's tasks, the question's first, which send reports that wait. */
    this.clients = clients;
    [this.client] = clients;
  }

  /** Which client has the reports of a time: that of a spelling whose window it is in, if any. */
  at(time) {
    return 1 + this.spelled.findIndex((each) => each.holds(time));
  }

  /** What may have only one report: the window that a moment is in, or all time. */
  claimOf(time) {
    const { window } = this.client.task.policy;
    // A window starts below its length, so this is a whole number from 0 on.
    return `${this.name} ${window ? (time + window.length - window.start) / window.length : 'once'}`;
  }

  /**
   * What a moment's report claims of the question, which may be asked again by other tasks while
   * these still run. Otherwise the maker of those tasks would get two reports of a person in one
   * window.
   */
  claimsBeside(moment) {
    const seconds = BigInt(Math.floor(moment / 1000));
    return this.windows.map((each) => {
      const [length, start] = each.split(' ').map(BigInt);
      return `${this.name} in ${each} ${length ? (seconds + length - start) / length : 'once'}`;
    });
  }

  /** What became of the answer in a moment's window, by default the current one. */
  answered(moment = this.client.now()) {
    return this.client.claimed(this.claimOf(this.client.task.time(moment)));
  }

  /**
   * Make a report of an answer of a moment, or of null for none, for the outbox's `add`; of now,
   * unless one is given. With an amount or labels, an answer is `[string, steps]`; of a survey, whose
   * answers are `read`, it is a string where that has the label. The tasks may need a permit: of the
   * person's `link`, or what has signed ones.
   */
  async make(written, moment = this.client.now(), link = null, read = []) {
    const answer = this.group === null ? written : [written, read[this.group]?.[0]];
    const [text] = this.question.partsOf(answer);
    const place = this.at(this.client.task.time(moment)), client = this.clients[place];
    const bucket = await (place ? this.spelled[place - 1].bucket(this.place, text)
      : this.question.entry(this.place, answer, this.entropy));
    const permit = await link?.permit(client.task, moment);
    const record = client.make(bucket, { at: moment, permit });
    // One claim for the question and its spellings: a person pays for one report of a window.
    record.claim = `${this.client.task.id} ${this.claimOf(record.time)}`;
    record.also = [...this.claimsBeside(record.created), ...(record.also ?? [])];
    return record;
  }

  /**
   * Make a report of an answer and store it; each window has one.
   *
   * @returns {Promise<string>} the report's key in the outbox
   */
  async put(answer) {
    const record = await this.make(answer);
    await this.client.outbox.add([record]);
    this.clients.find(({ task }) => task.id === record.task).arm(0);
    return record.key;
  }
}
