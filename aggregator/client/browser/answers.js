/**
 * What a question takes as an answer, read exactly, and what the answer adds to its entries.
 *
 * Questions are as a survey's sheet has them, and what is taken, and said, is what the client in
 * Python takes and says. No error has the answer in it: an application may log errors anywhere.
 *
 * Source: our documentation of the sheet.
 */

import { Unfit, fractionOf, rangeOf, stepsOf, stripped, unfit } from './numbers.js';
import { areMet } from './sheet.js';

const SHOWN = 8;
const YES_NO = { yes: 0, true: 0, no: 1, false: 1 };

/** An answer that a question does not take; `question` is '' if the survey has none of that name. */
export class AnswerError extends Error {
  name = 'AnswerError';

  constructor(question, problem) {
    super(`${question || 'answers'}: ${problem}`);
    this.question = question;
  }
}

/** Whether this is a way to write that there is no answer. */
const isNothing = (answer) =>
  (answer ?? null) === null || Number.isNaN(answer)
  || typeof answer === 'string' && stripped(answer) === '';

/** Whether this has its values by name; a form's data and a map have none that are seen here. */
const isTable = (given) => Object.prototype.toString.call(given) === '[object Object]';

export const comparable = (label) => stripped(label).normalize('NFC');

/** A fraction for a reader. */
export function shortText([top, bottom], digits) {
  if (top % bottom === 0n) return String(top / bottom);
  const value = Number(top) / Number(bottom);
  const [size, exponent] = value.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  if (power >= -4 && power < digits) return value.toFixed(digits - 1 - power).replace(/\.?0+$/, '');
  return `${size.replace(/\.?0+$/, '')}e${exponent.replace(/^(.)(.)$/, '$10$2')}`;
}

/** A label in quotes, as Python writes it. */
function quoted(label) {
  const mark = label.includes("'") && !label.includes('"') ? '"' : "'";
  const shown = label.replace(/[\\\p{C}\p{Z}]|'/gu, (each) => {
    if (each === ' ' || each === "'" && mark === '"') return each;
    if (each === '\\' || each === "'") return `\\${each}`;
    const code = each.codePointAt(0), size = code < 256 ? 2 : code < 65536 ? 4 : 8;
    const named = { 9: 't', 10: 'n', 13: 'r' }[code];
    return `\\${named ?? { 2: 'x', 4: 'u', 8: 'U' }[size] + code.toString(16).padStart(size, '0')}`;
  });
  return mark + shown + mark;
}

function sayingOneOf(labels) {
  const more = labels.length > SHOWN ? ` and ${labels.length - SHOWN} more` : '';
  return `one of ${labels.slice(0, SHOWN).map(quoted).join(', ')}${more}`;
}

const PLACES = new WeakMap(); // of labels, by their lists

/** The place of an answer among labels, however its accents are encoded; -1 if it is none. */
function labelOf(answer, labels) {
  if (typeof answer !== 'string') return -1;
  if (!PLACES.has(labels)) PLACES.set(labels, new Map(labels.map((label, i) => [comparable(label), i])));
  const places = PLACES.get(labels), given = stripped(answer);
  // No text is longer than four times its NFC, and to compose a million accents takes hours.
  const longest = labels.reduce((most, { length }) => Math.max(most, length), 0);
  return given.length > 4 * longest ? -1 : (places.get(given.normalize('NFC')) ?? -1);
}

function oneOf(answer, labels) {
  const place = labelOf(answer, labels);
  return place < 0 ? unfit(`must be ${sayingOneOf(labels)}`) : place;
}

/** A whole number that an answer is; null if it is another thing. */
function wholeOf(answer) {
  try {
    const [top, bottom] = fractionOf(answer);
    return top % bottom ? null : top / bottom;
  } catch {
    return null;
  }
}

function truthOf(answer) {
  const written = typeof answer === 'string' ? stripped(answer).toLowerCase() : '';
  if (Object.hasOwn(YES_NO, written)) return YES_NO[written];
  const value = typeof answer === 'boolean' ? BigInt(answer) : wholeOf(answer);
  return value === 0n || value === 1n ? 1 - Number(value) : unfit('must be yes or no, or true or false');
}

function pointOf(answer, [low, high], labels) {
  const place = labels ? labelOf(answer, labels) : -1;
  if (place >= 0) return place;
  const value = wholeOf(answer);
  if (value !== null && value >= low && value <= high) return Number(value) - low;
  const named = labels ? `, or ${sayingOneOf(labels)}` : '';
  return unfit(`must be a whole number from ${low} to ${high}${named}`);
}

/** What an answer must be. */
const saidBy = ({ message, limits }) =>
  (limits ? `must be from ${limits.map((each) => shortText(each, 12)).join(' to ')}` : message);

/** By the kind of a question: its answer in whole numbers; null if parts of it are missing. */
const READ = {
  one(answer, { labels, points, edges, clip, is_truth: isTruth }) {
    if (edges) return [rangeOf(answer, edges, clip)];
    if (points) return [pointOf(answer, points, labels)];
    return [isTruth ? truthOf(answer) : oneOf(answer, labels)];
  },

  some(answer, { labels, at_most: most }) {
    if (!Array.isArray(answer) && !(answer instanceof Set)) {
      unfit(`must be a list of labels, each of them ${sayingOneOf(labels)}`);
    }
    const given = [...answer], places = new Set(given.map((each) => oneOf(each, labels)));
    if (places.size < given.length) unfit('must have no label twice');
    if (places.size > most) unfit(`must be at most ${most} labels`);
    return [...places].sort((a, b) => a - b);
  },

  number: (answer, { grid }) => [stepsOf(answer, grid)],

  numbers(answer, { columns }) {
    const names = columns.map(({ name }) => name);
    const given = isTable(answer) ? Object.entries(answer) : [];
    const named = new Map(given.map(([name, each]) => [comparable(name), each]));
    const known = names.map(comparable);
    if (!isTable(answer) || named.size < given.length || [...named.keys()].some((each) => !known.includes(each))) {
      unfit(`must be a table of numbers by these names: ${names.join(', ')}`);
    }
    if (known.some((name) => isNothing(named.get(name)))) return null;
    return columns.map(({ name, grid }, at) => {
      try {
        return stepsOf(named.get(known[at]), grid);
      } catch (error) {
        throw error instanceof Unfit ? new Unfit(`${name}: ${saidBy(error)}`) : error;
      }
    });
  },
};

/** An answer in whole numbers, places of labels or steps above the least number; null for none. */
function readAnswer(question, answer) {
  if (isNothing(answer)) return null;
  try {
    return READ[question.kind](answer, question);
  } catch (error) {
    throw error instanceof Unfit ? new AnswerError(question.name, saidBy(error)) : error;
  }
}

/** Answers by the names of questions, of which no other is known. */
function namedIn({ questions, texts }, answers) {
  const names = [...questions, ...texts].map(({ name }) => name);
  if (!isTable(answers)) {
    throw new AnswerError('', `must be a table by the names of questions: ${names.join(', ')}`);
  }
  const given = new Map(Object.entries(answers));
  for (const name of given.keys()) {
    if (names.includes(name)) continue;
    const said = `there is no question ${quoted(name.slice(0, 40))}: it asks ${names.join(', ')}`;
    throw new AnswerError('', said);
  }
  return given;
}

/**
 * The answers to a sheet in whole numbers; null for a question that is not asked, whatever is given.
 *
 * @param {object} answers by the names of questions
 * @param {AnswerError[]} [faults] takes all that are found; without it, the first is thrown
 */
export function readAnswers(sheet, answers, faults = null) {
  const given = namedIn(sheet, answers), counted = [];
  for (const question of sheet.questions) {
    let read = null;
    try {
      // A field that was hidden may still hold what was written: an error would tell of it.
      if (areMet(question.needs, counted)) read = readAnswer(question, given.get(question.name));
    } catch (error) {
      if (!faults || !(error instanceof AnswerError)) throw error;
      faults.push(error);
    }
    counted.push(read);
  }
  return counted;
}

/** A string and the steps of a number; null for no answer, which each of them alone is, too. */
function writtenBeside(name, answer, grid) {
  if (typeof answer === 'string') return null;
  const isPair = Array.isArray(answer) && answer.length === 2, [text, number] = isPair ? answer : [0];
  if (isPair && (isNothing(text) || isNothing(number))) return null;
  if (typeof text !== 'string') throw new AnswerError(name, 'must be text and a number; left out, it is no answer');
  return [text, ...readAnswer({ kind: 'number', name, grid }, number)];
}

/** What was written in answer to a text question; null for none, or if it is not asked. */
function writtenAs(name, answer, isAsked, grid) {
  if (isNothing(answer)) return null;
  if (grid) return isAsked ? writtenBeside(name, answer, grid) : null;
  if (typeof answer !== 'string') throw new AnswerError(name, 'must be text; left out, it is no answer');
  return isAsked ? answer : null;
}

/**
 * The same of each text question.
 *
 * @param {Array} grids of each, that of its number; null if none is asked for
 * @param {AnswerError[]} [faults] takes all that are found; without it, the first is thrown
 */
export function writtenIn(sheet, answers, read, grids, faults = null) {
  const asked = sheet.asked(read).slice(read.length);
  return sheet.texts.map(({ name }, i) => {
    try {
      return writtenAs(name, Object.hasOwn(answers, name) ? answers[name] : null, asked[i], grids[i]);
    } catch (error) {
      if (!faults) throw error;
      faults.push(error);
      return null;
    }
  });
}
