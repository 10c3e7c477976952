/**
 * The client of a survey in an application: answers by the names of questions.
 *
 *     const survey = new Survey(taskJson, { outbox: new BrowserOutbox() });
 *     await survey.put({ education: 'degree', hours: 40 });
 */

import { readAnswers, writtenIn } from './answers.js';
import { Asking } from './asking.js';
import { Client } from './client.js';
import { hexOf, isBoundTo, refuse, sha256 } from './digest.js';
import { meaningOf } from './meaning.js';
import { OutboxFull } from './outbox.js';
import { Task } from './task.js';

const OF_FILE = 'a survey is made of what its task.json has, or its survey.json';
const LEAVING = ['visibilitychange', 'pagehide'];

/** Nobody is asked at this time: `reason` is a name of the draft, `at` see `closed`. */
export class NotAsked extends Error {
  name = 'NotAsked';

  constructor({ reason, at }) {
    const said = { task_not_started: 'the survey begins', task_expired: 'the survey ended' }[reason];
    const when = at === null ? '' : ` at ${new Date(at).toISOString()}`;
    super((said ?? `no answer is taken now (${reason})`) + when);
    Object.assign(this, { reason, at });
  }
}

/** This clock differs from an aggregator's, and the two do not agree on the time. */
export class TimeUnknown extends Error {
  name = 'TimeUnknown';
}

/** The task in a survey's public file, if it has one, and the survey's meaning. */
function documentOf(file) {
  let read = file;
  try {
    if (typeof file === 'string') read = JSON.parse(file);
  } catch {
    throw new TypeError(`${OF_FILE}: this is not JSON`);
  }
  if (typeof read?.survey === 'string') {
    return { task: null, meaning: typeof file === 'string' ? file.trim() : JSON.stringify(read) };
  }
  const tasks = read?.task ?? [read];
  if (!Array.isArray(tasks) || tasks.length !== 1) throw new TypeError(`${OF_FILE}: it has one task`);
  const [task] = tasks;
  if (typeof task?.meaning !== 'string') {
    throw new TypeError(`${OF_FILE}: its task has id, configuration and meaning`);
  }
  return { task: new Task(task), meaning: task.meaning };
}

/** What all tasks of a survey share. */
const sharedBy = ({ leader, helper, timePrecision, profile, policy, interval }) =>
  Object.entries({
    leader, helper, time_precision: timePrecision, profile, window: Object.values(policy?.window ?? {}),
    population: policy?.population, max_releases: policy?.maxReleases, interval: Object.values(interval ?? {}),
  });

/** Refuse text questions that are not the survey's, or have other settings than its task. */
function checkTexts(task, meaning, named, given) {
  for (const name of new Set([...Object.keys(named), ...Object.keys(given)])) {
    const about = `text question ${name}`;
    if (!Object.hasOwn(given, name)) refuse(`${about}: the survey has it, and it is not given`);
    if (!Object.hasOwn(named, name)) refuse(`${about}: the survey has no such question`);
    const { tasks, meaning: own, survey } = given[name];
    if (hexOf(own) !== named[name] || survey !== (task ? '' : meaning)) {
      refuse(`${about}: is another one than the survey's`);
    }
    const first = task ?? Object.values(given)[0].tasks[0], ours = sharedBy(tasks[0]);
    sharedBy(first).forEach(([setting, value], i) => {
      if (String(value) !== String(ours[i][1])) refuse(`${about}: its tasks have another ${setting} than the survey's`);
    });
    const least = task ? task.minBatchSize / BigInt(2 * tasks.length) : 1n;
    if (tasks[0].minBatchSize < least) refuse(`${about}: its tasks have a smaller min_batch_size than is right`);
  }
}

/** One survey, over an outbox that outlives it. */
export class Survey extends Asking {
  /**
   * @param {object | string} file what `task.json` has or, with text questions only, `survey.json`
   * @param {object} options see survey.d.ts
   * @throws {TypeError | DecodeError} it is not of one survey
   */
  constructor(file, { texts = {}, spelled = [], ...options } = {}) {
    const { task, meaning } = documentOf(file);
    const sections = task?.prio3.circuit.sections ?? [];
    const read = meaningOf(meaning, sections.reduce((all, { entries }) => all + entries, 0));
    const has = sections.map(({ kind, entries, bound, of, by }) => [kind, entries, bound, of, by]);
    if (String(has) !== String(read.sections)) refuse('the task has other sections than its questions');
    checkTexts(task, meaning, read.texts, texts);
    const asked = Object.keys(read.texts).map((name) => {
      const question = texts[name];
      return { name, question, spelled: spelled.filter((each) => each.question === question) };
    });
    super({ task, texts: asked, sheet: read.sheet, window: read.window, name: '' }, options);
    /** Of each text question the numbers that are possible beside a string; null if there are none. */
    this.grids = asked.map(({ question }) => question.grid);
    this.title = read.title;
    /** What is asked, as the survey's file has it, for a form. */
    this.questions = read.questions;
    this.meaning = meaning;
    this.called = read.called;
  }

  /** Check, once, that the task was made for these questions; all that follows needs it. */
  open() {
    return (this.opening ??= this.check());
  }

  async check() {
    const { task } = this.own[0] ?? {};
    if (task && !(await isBoundTo(task, this.meaning))) {
      refuse('meaning: is not the one that the task was made for');
    }
    this.name = hexOf(await sha256(`survey ${this.called}`));
  }

  /** All tasks: the survey's own, if it has one, and those of its text questions. */
  get tasks() {
    return [...this.own.map(({ task }) => task), ...this.texts.flatMap(({ question }) => question.tasks)];
  }

  /** The time that an answer of now gets: this clock's or, where that is wrong, the aggregators'. */
  async time() {
    return this.now() - ((await this.clock.known()) ?? 0);
  }

  /** What answers add to each entry of the survey's own report. */
  entries(answers) {
    return this.sheet.measurement(readAnswers(this.sheet, answers));
  }

  /** What is wrong with answers, all of it, for a form: an `AnswerError` for each question. */
  faults(answers) {
    const faults = [], read = readAnswers(this.sheet, answers, faults);
    writtenIn(this.sheet, answers, read, this.grids, faults);
    return faults;
  }

  /** The names of the questions that a person who gives these answers is asked. */
  asked(answers) {
    const { sheet } = this, asked = sheet.asked(readAnswers(sheet, answers, []));
    return [...sheet.questions, ...sheet.texts].filter((_, i) => asked[i]).map(({ name }) => name);
  }

  /** @see survey.d.ts */
  async put(answers, { claim: named, at = this.now(), link = null, permits = link } = {}) {
    const claim = named === undefined ? permits?.name ?? '' : named;
    if (this.first.permits && !permits) {
      throw new TypeError(`${this.first.permits.keys ? 'permits' : 'link'}: the survey counts only answers with one`);
    }
    if (claim !== null && typeof claim !== 'string') {
      throw new TypeError('claim must be text that names a person, or null for an unknown one');
    }
    if (claim === null && this.texts.length) {
      throw new TypeError('claim must name a person, who stays in one task of each text question');
    }
    await this.open();
    // Before any answer is read: the tasks that a person is in must not depend on answers.
    const texts = await this.openTexts(claim ?? undefined);
    const read = readAnswers(this.sheet, answers), written = writtenIn(this.sheet, answers, read, this.grids);
    const ahead = await this.clock.known();
    if (ahead === null) {
      throw new TimeUnknown('this clock differs from an aggregator\'s, and the two do not agree');
    }
    const moment = at - ahead, closed = this.closedAt(moment);
    if (closed) throw new NotAsked(closed);
    const [client] = this.clients;
    if ((await client.waiting()) >= client.maxReports) {
      throw new OutboxFull(`${client.maxReports} reports wait already`);
    }
    const [records, claims] = await this.make(read, written, { texts, person: claim, moment, link: permits });
    await this.outbox.add(records, claims);
    await permits?.tidy?.().catch(() => {}); // it is done with the next ones
    // A page may be left at once, and what has begun to be sent outlives it.
    if (this.isStarted && globalThis.document) this.leave();
    else for (const each of this.clients) each.arm(0);
    return records[0].key;
  }

  /** What became of a person's report in this window, or null. */
  async answered(claim = '') {
    const moment = this.now() - (this.clock.ahead ?? 0);
    if (this.own.length) return this.own[0].claimed(this.claimOf(claim, moment));
    const [text] = await this.openTexts(claim);
    return text.answered(moment);
  }

  /** Why nobody can answer now: null, or a `reason` and when they could, or can again. */
  async closed() {
    const [ahead, word] = await Promise.all([this.clock.known(), this.clock.refusal()]);
    return this.closedAt(this.now() - (ahead ?? 0), word);
  }

  /** Find the tasks of which reports wait that another process or visit has made. */
  async find() {
    for (const { question, spelled } of this.texts) {
      for (const task of [question, ...spelled].flatMap(({ tasks }) => tasks)) {
        if (!(await this.outbox.list(task.id)).length) continue;
        this.adopt(new Client(task, { ...this.options, keepsPlaces: true }));
      }
    }
  }

  /** Send all that waits; what is counted, and why some still waits. */
  async flush() {
    await (this.finding ??= this.find());
    const passes = await Promise.all(this.clients.map((each) => each.flush({ now: true })));
    const sum = (name) => passes.reduce((all, each) => all + each[name], 0);
    const reason = passes.map((each) => each.reason).find(Boolean) ?? null;
    const [counted, late, refused, waiting] = ['counted', 'late', 'refused', 'waiting'].map(sum);
    return { counted, late, refused, waiting, reason };
  }

  /** Send what waits now: a request that has begun outlives the page. */
  leave() {
    this.flush().catch(() => {}); // it is sent later
  }

  /** Send from now on, and when the page is hidden or left; make what the first report needs. */
  start() {
    this.isStarted = true;
    for (const each of this.clients) each.start();
    this.leaving ??= ({ type }) => {
      if (type === 'pagehide' || globalThis.document?.visibilityState === 'hidden') this.leave();
    };
    for (const event of LEAVING) globalThis.addEventListener?.(event, this.leaving);
    (this.finding ??= this.find()).catch(() => {});
    this.clock.known();
    const nothing = this.sheet.measurement(this.sheet.questions.map(() => null));
    const idle = globalThis.requestIdleCallback ?? setTimeout;
    for (const each of this.own) idle(() => each.warm(nothing));
  }

  /** Stop sending; what waits stays in the outbox. */
  stop() {
    this.isStarted = false;
    for (const each of this.clients) each.stop();
    for (const event of LEAVING) globalThis.removeEventListener?.(event, this.leaving);
  }
}
