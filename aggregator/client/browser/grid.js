/**
 * Grids of possible numbers, as a meaning or a description writes them: exact, as text.
 *
 * Source: our documentation of the sheet.
 */

import { refuse } from './digest.js';

const EXACT = /^-?\d{1,60}(\/[1-9]\d{0,59})?$/;

/** A number that is written as text: a fraction in lowest terms. */
export function exact(written) {
  if (typeof written !== 'string' || !EXACT.test(written)) refuse('not an exact number');
  const [top, bottom = 1n] = written.split('/').map(BigInt);
  return lowest(top, bottom);
}

/** A fraction in lowest terms. */
export function lowest(top, bottom) {
  let [a, b] = [top < 0n ? -top : top, bottom];
  while (b) [a, b] = [b, a % b];
  return [top / a, bottom / a];
}

/** A fraction as a sheet has it. */
export const asPair = (pair) => pair.map(String);

/** A grid as a sheet has it. */
export function gridOf({ low, high, step, clip }) {
  const [[a, b], [c, d], [e, f]] = [low, high, step].map(exact);
  const top = (c * b - a * d) * f, bottom = d * b * e;
  if (e <= 0n || top <= 0n || top % bottom) refuse('not a grid');
  return { low: asPair([a, b]), step: asPair([e, f]), steps: String(top / bottom), clip: Boolean(clip) };
}
