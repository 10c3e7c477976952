/**
 * Spelling: in some windows, people tell letters of frequent answers that no list has.
 *
 * The places of the question have other tasks then. Who is in place g tells, in a report of the
 * same size, the letter at position g mod `letters` of an answer whose fingerprint is asked for;
 * all others report bucket 0. So the task of a report is the kept toss's, whatever was written.
 *
 * Source: our documentation of spelling.
 */

import { hexOf, isBoundTo, refuse } from './digest.js';
import { normalForm } from './normal.js';
import { fingerprint } from './question.js';

const SPELLED = 1; // the version of descriptions
const PRINT = /^[0-9a-f]{8}$/;

/** What a spelling has as its question: all of a task but its id, name and interval. */
const settingsOf = ({ leader, helper, timePrecision, minBatchSize, batchMode, profile, type, prio3, policy }) =>
  JSON.stringify(
    [leader, helper, timePrecision, minBatchSize, batchMode, profile, type, prio3.circuit.length,
      prio3.circuit.arity, policy],
    (_, value) => (typeof value === 'bigint' ? String(value) : value),
  );

/** What is asked instead of a question in the windows of its tasks' interval. */
export class Spelling {
  /**
   * @param {object} description what `spelling.json` holds
   * @param {import('./task.js').Task[]} tasks in its order
   * @param {import('./question.js').TextQuestion} question
   * @throws {DecodeError} they do not belong together, or the question has other windows
   */
  static async read(description, tasks, question) {
    const { version, alphabet, letters, fingerprints, task_ids: ids } = description ?? {};
    if (version !== SPELLED) refuse(`spelling.json: only version ${SPELLED} is known`);
    if (typeof alphabet !== 'string' || !Array.isArray(fingerprints)) {
      refuse('spelling.json: not the description of a spelling');
    }
    const spelling = Object.assign(new Spelling(), { question, tasks, fingerprints, letters });
    spelling.alphabet = Array.from(alphabet);
    const isRising = fingerprints.every((each, i) =>
      PRINT.test(each) && (i === 0 || fingerprints[i - 1] < each));
    const places = question.tasks.length;
    if (
      !isRising || !fingerprints.length || fingerprints.length * spelling.size >= question.entries
      || !(Number.isInteger(letters) && letters >= 1 && letters <= places)
    ) {
      refuse('spelling.json: its fingerprints or its letters do not fit the question');
    }
    if (tasks.length !== places || String(ids) !== String(tasks.map(({ id }) => id))) {
      refuse('spelling.json: its task_ids are not those of its tasks');
    }
    const asked = Object.fromEntries(Object.entries({ ...question.table, meaning: hexOf(question.meaning) }).sort());
    // Names sorted, no spaces: the bytes that everybody hashes.
    const text = JSON.stringify({ alphabet, fingerprints, letters, question: asked, version });
    for (const [place, task] of tasks.entries()) {
      const about = `task ${place + 1} of ${places}`;
      if (!(await isBoundTo(task, `spelling\n${text}\n${place}`))) {
        refuse(`${about}: was not made for this spelling and this place in it`);
      }
      if (settingsOf(task) !== settingsOf(question.tasks[place])) {
        refuse(`${about}: has other settings than the question's`);
      }
      if (!spelling.isForWholeWindows(task)) {
        refuse(`${about}: must take reports of whole windows of the question only`);
      }
      const { start, end } = question.tasks[place].interval ?? task.interval;
      if (task.interval.start < start || end < task.interval.end) {
        refuse(`${about}: must take reports of a window in which the question is asked`);
      }
    }
    return spelling;
  }

  /** Buckets of each fingerprint: the letters, one for all others, and one for the end. */
  get size() {
    return this.alphabet.length + 2;
  }

  isForWholeWindows({ interval, policy: { window } }) {
    const { start, end } = this.tasks[0].interval ?? {};
    return window && interval?.start === start && interval.end === end
      && [start, end].every((each) => (each - window.start) % window.length === 0n);
  }

  /** Whether reports of a unit of time are for the spelling. */
  holds(time) {
    const { start, end } = this.tasks[0].interval;
    return start <= time && time < end;
  }

  /** The bucket of an answer in a task; 0 is also for no answer, and for all that is not asked. */
  async bucket(place, answer) {
    const normal = normalForm(answer ?? '');
    const print = hexOf(await fingerprint(normal, this.question.meaning));
    const letter = Array.from(normal)[place % this.letters];
    const known = this.alphabet.indexOf(letter);
    const code = letter === undefined ? this.size - 1 : known < 0 ? this.size - 2 : known;
    const number = this.fingerprints.indexOf(print);
    return normal === '' || number < 0 ? 0 : 1 + number * this.size + code;
  }
}
