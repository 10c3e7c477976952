/**
 * Numbers as answers, exact, and what answers add to the entries of their question.
 *
 * Source: our documentation of the sheet.
 */

const BLANK = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/** An answer that a question does not take, before it is known which: `limits` if it is beyond them. */
export class Unfit extends Error {
  constructor(problem, limits = null) {
    super(problem);
    this.limits = limits;
  }
}

export const unfit = (problem, limits) => {
  throw new Unfit(problem, limits);
};

/** A text without the blanks at its ends, of which no pattern is: it would try each of a million. */
export function stripped(given) {
  let start = 0, end = given.length;
  while (start < end && BLANK.test(given[start])) start++;
  while (start < end && BLANK.test(given[end - 1])) end--;
  return given.slice(start, end);
}

const writtenWith = (digits) => new RegExp(
  `^([+-]?)(?=\\.?\\d)(\\d{0,30})(?:\\.(\\d{0,30}))?(?:[eE]([+-]?\\d{1,${digits}}))?$`,
);
const WRITTEN = { string: writtenWith(2), number: writtenWith(3) };

/** The number that an answer is, as a fraction; a double is the shortest that it is read back from. */
export function fractionOf(answer) {
  if (typeof answer === 'bigint') return [answer, 1n];
  const written = typeof answer === 'string' ? stripped(answer) : String(answer);
  const match = WRITTEN[typeof answer]?.exec(written) ?? unfit('must be a number');
  const [, sign, whole, decimals = '', exponent = '0'] = match;
  const size = BigInt(whole + decimals) * (sign === '-' ? -1n : 1n);
  const power = BigInt(Number(exponent) - decimals.length);
  return power < 0n ? [size, 10n ** -power] : [size * 10n ** power, 1n];
}

const whole = (pair) => pair.map(BigInt);

/** How many steps above the least a number is: the nearest, ties to even. */
export function stepsOf(answer, grid) {
  const [low, step] = [grid.low, grid.step].map(whole), steps = BigInt(grid.steps);
  const [given, part] = fractionOf(answer);
  // (given / part - low) / step
  const top = (given * low[1] - low[0] * part) * step[1];
  const bottom = part * low[1] * step[0];
  if (top < 0n || top > steps * bottom) {
    if (grid.clip) return top < 0n ? 0n : steps;
    unfit('', [low, [low[0] * step[1] + steps * step[0] * low[1], low[1] * step[1]]]);
  }
  const down = top / bottom, twice = 2n * (top - down * bottom);
  return twice > bottom || twice === bottom && down % 2n ? down + 1n : down;
}

/** The place of the range that a number is in; each has its lower edge, and the last its upper. */
export function rangeOf(answer, edges, clip) {
  const [given, part] = fractionOf(answer);
  const isBelow = ([top, bottom]) => given * bottom < top * part;
  const all = edges.map(whole), last = all.at(-1);
  const reached = all.filter((edge) => !isBelow(edge)).length;
  if (!clip && (!reached || given * last[1] > last[0] * part)) unfit('', [all[0], last]);
  return Math.min(Math.max(reached - 1, 0), all.length - 2);
}

/** Ones among zeros. */
export const onesAt = (places, length) => Array.from({ length }, (_, at) => +places.includes(at));

/** What an answer that was read adds to the entries of its question. */
export function addedBy({ kind, nothing, ones, powers }, read) {
  if (read === null) return nothing;
  const { length } = nothing;
  if (kind === 'one') return onesAt(ones[read[0]], length);
  if (kind === 'some') return onesAt(read, length);
  if (kind === 'numbers') return [1, 0, ...read];
  if (!powers) return onesAt([Number(read[0])], length);
  return [1, 0, ...Array.from({ length: powers }, (_, at) => read[0] ** BigInt(at + 1))];
}
