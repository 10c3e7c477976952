/**
 * A question that nobody lists answers for: one report a person, to one of its tasks.
 *
 * The promise is one task's epsilon, and it is the client who keeps to it: the task is tossed for
 * before there is an answer, and the toss is kept for ever. Which task it is depends on no answer,
 * and neither must whether a report is sent: who is silent sends one too.
 *
 * Source: our documentation of text questions, with vectors for each step.
 */

import { DecodeError, toBase64Url } from './bytes.js';
import { Client } from './client.js';
import { Unsupported } from './hpke.js';
import { NORMALISATION, checkUnicode, normalForm } from './normal.js';
import { random } from './report.js';

const DESCRIBED = 1; // the version of descriptions
const FEWEST_BUCKETS = 16;
const FEWEST_TASKS = 8;
const MECHANISM = 'PureDpDiscreteLaplace';
const ONES = 2n ** 64n - 1n;

const refuse = (message) => {
  throw new DecodeError(message);
};

async function sha256(...parts) {
  const { subtle } = globalThis.crypto ?? {};
  if (!subtle) throw new Unsupported('no WebCrypto here: a page must come by https');
  const bytes = parts.flatMap((part) =>
    Array.from(typeof part === 'string' ? new TextEncoder().encode(part) : part));
  return new Uint8Array(await subtle.digest('SHA-256', Uint8Array.from(bytes)));
}

const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

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
    const { version, normalisation, title, epsilon, buckets } = description ?? {};
    if (version !== DESCRIBED || normalisation !== NORMALISATION) {
      refuse(`text.json: only version ${DESCRIBED} and normal form ${NORMALISATION} are known`);
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
    const text = JSON.stringify({ buckets, epsilon, normalisation, tasks: tasks.length, title, version });
    const question = new TextQuestion();
    Object.assign(question, { title, epsilon, tasks, length: buckets });
    question.meaning = await sha256('prio text question', text);
    for (const [place, task] of tasks.entries()) await question.checkTask(task, place, text);
    if (description.meaning !== hexOf(question.meaning)) refuse('text.json: its meaning is not its own');
    if (String(description.task_ids) !== String(tasks.map(({ id }) => id))) {
      refuse('text.json: its task_ids are not those of its tasks');
    }
    return question;
  }

  async checkTask(task, place, text) {
    const about = `task ${place + 1} of ${this.tasks.length}`;
    const ending = ` meaning:${toBase64Url(await sha256(`${text}\n${place}`))}`;
    if (!new TextDecoder().decode(task.info).endsWith(ending)) {
      refuse(`${about}: was not made for this question and this place in it`);
    }
    if (task.type !== 'Prio3Histogram' || task.prio3.circuit.length !== this.length) {
      refuse(`${about}: is no histogram of ${this.length} buckets`);
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

  /**
   * The bucket of an answer in a task; 0 is for no answer, which null is and what has no visible
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
}

/** Draw a number below `count`; the largest draws are drawn again, so that each is as likely. */
export function tossed(count, entropy = random) {
  const fair = (2n ** 64n / BigInt(count)) * BigInt(count);
  for (;;) {
    const drawn = new DataView(entropy(8).buffer).getBigUint64(0);
    if (drawn < fair) return Number(drawn % BigInt(count));
  }
}

/** One person's part in a question. */
export class TextClient {
  /**
   * Toss for the task, unless it was, and keep that in the outbox before anything else happens.
   *
   * @param {TextQuestion} question
   * @param {object} options of the client; and `person`, where one outbox is several people's
   */
  static async open(question, { person = '', ...options }) {
    const { outbox, entropy = random } = options;
    if (typeof outbox?.keep !== 'function') throw new TypeError('outbox must have the method keep');
    const name = hexOf(await sha256(question.meaning, person));
    const place = await outbox.keep(`toss ${name}`, tossed(question.tasks.length, entropy));
    if (!(Number.isInteger(place) && place >= 0 && place < question.tasks.length)) {
      throw new Error('the toss that was kept is not of this question; nobody tosses twice');
    }
    return new TextClient(
      question, place, name, new Client(question.tasks[place], { ...options, keepsPlaces: true }),
    );
  }

  constructor(question, place, name, client) {
    this.question = question;
    this.place = place;
    this.name = name;
    /** Of the person's task: it sends what waits. */
    this.client = client;
  }

  /** Of which only one report is taken: the window that a moment is in, or all time. */
  claimOf(time) {
    const { window } = this.client.task.policy;
    // A window starts below its length, so this is a whole number from 0 on.
    return `${this.name} ${window ? (time + window.length - window.start) / window.length : 'once'}`;
  }

  /** What became of the answer of a moment's window, this one's if none is named. */
  answered(moment = this.client.now()) {
    return this.client.claimed(this.claimOf(this.client.task.time(moment)));
  }

  /** Make a report of an answer, null being none, for `add` of the outbox, with others or alone. */
  async make(answer) {
    if (answer !== null && typeof answer !== 'string') {
      throw new TypeError('answer must be a string, or null');
    }
    const record = this.client.make(await this.question.bucket(this.place, answer));
    record.claim = `${this.client.task.id} ${this.claimOf(record.time)}`;
    return record;
  }

  /**
   * Make a report of an answer and store it; one is taken in a window.
   *
   * @returns {Promise<string>} the report's key in the outbox
   */
  async put(answer) {
    const record = await this.make(answer);
    await this.client.outbox.add([record]);
    this.client.arm(0);
    return record.key;
  }
}
