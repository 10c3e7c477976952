/**
 * Everything that a survey asks, in the order in which it is in a report: answers become entries.
 *
 * Source: our documentation of the sheet.
 */

import { addedBy, onesAt } from './numbers.js';

/** What the answers to two questions add to a table; the last group is of nobody who answered. */
function crossed({ of, by, is_number: isNumber }, added) {
  const [answer, groups] = [added[of], added[by]];
  if (!isNumber) return answer.flatMap((one) => groups.map((other) => one * other));
  const [isAnswered, , ...powers] = answer;
  const size = groups.length - 1;
  const place = isAnswered ? groups.indexOf(1) : size;
  const sums = powers.flatMap((power) => onesAt([place], size).map((one) => (one ? power : 0)));
  return [...onesAt([place], size + 1), ...sums];
}

/** Whether one label of each needed question was chosen, by the answers so far that count. */
export const areMet = (needs, counted) =>
  needs.every(([place, labels]) => labels.some((label) => counted[place]?.includes(label)));

export class Sheet {
  /** @param {object} described as `prio survey show --json` prints it */
  constructor({ questions, tables, texts = [] }) {
    Object.assign(this, { questions, tables, texts });
  }

  /** Of each question, and then each text question, whether a person with these answers is asked. */
  asked(read) {
    const counted = [];
    return [...this.questions, ...this.texts].map(({ needs }, i) => {
      const isAsked = areMet(needs, counted);
      counted.push(isAsked ? (read[i] ?? null) : null);
      return isAsked;
    });
  }

  /** The measurement of answers that were read: as many entries whatever they are. */
  measurement(read) {
    const added = this.questions.map((question, i) => addedBy(question, read[i]));
    return [...added, ...this.tables.map((table) => crossed(table, added))].flat();
  }
}
