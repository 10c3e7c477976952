/**
 * The sheet of a survey, made from the meaning that its task is bound to.
 *
 * Whoever hands out a file with labels in another order has another task, in which no report opens.
 *
 * Source: our documentation of the sheet.
 */

import { comparable, shortText } from './answers.js';
import { DecodeError } from './bytes.js';
import { refuse } from './digest.js';
import { asPair, exact, gridOf, lowest } from './grid.js';
import { onesAt } from './numbers.js';

const MEANING = 2; // the version that is read

function labelsOf(labels) {
  const places = labels.map((label) => (typeof label === 'string' ? comparable(label) : refuse('no label')));
  if (new Set(places).size < labels.length) refuse('a label is there twice');
  return labels;
}

/** What ranges are called. */
function namesOf(edges) {
  const named = edges.map((edge) => shortText(edge.map(BigInt), 6)), last = edges.length - 2;
  return named.slice(0, -1).map((low, i) => `${low} to ${i < last ? 'under ' : ''}${named[i + 1]}`);
}

/**
 * A question that takes one answer of several, with a section for each level of its nodes.
 *
 * @param {object} answers `labels`, or what else says what they are; `names` are their labels
 * @param {number[][]} levels of each level, the node that each answer is counted in
 */
function oneOfLevels({ names, ...answers }, levels, most) {
  const sizes = levels.map((nodes) => 1 + Math.max(...nodes));
  let length = 0;
  const starts = sizes.map((size) => (length += size + 1) - size - 1);
  bounded(length, most);
  if (!names.length || levels.some((nodes) => nodes.length !== names.length)) refuse('not a label for each');
  const rests = starts.map((start, i) => start + sizes[i]);
  return {
    kind: 'one', nothing: onesAt(rests, length), ...answers,
    ones: names.map((_, leaf) => levels.map((nodes, i) => starts[i] + nodes[leaf])),
    names, lengths: sizes.map((size) => size + 1),
  };
}

const eachOf = (names) => [...names.keys()];

/** A few bytes of a hostile meaning could otherwise ask for any amount of memory. */
function bounded(count, most) {
  return Number.isInteger(count) && count >= 1 && count <= most ? count : refuse('not of this task');
}

function ranges(edges, clip) {
  return { edges: edges.map(asPair), clip: Boolean(clip), names: namesOf(edges) };
}

/** The answers of a hierarchy, and of each level the node that each is in, the top first. */
function levelsOf({ regions, low, high, leaves, branches, clip }, most) {
  if (regions?.length) {
    let level = regions, levels = [], names;
    for (;;) {
      names = level.map(({ label }) => label);
      levels.push(eachOf(names));
      if (!level[0].below?.length) return [{ labels: names, names: labelsOf(names) }, levels];
      const parents = level.flatMap(({ below }, place) => below.map(() => place));
      level = level.flatMap(({ below }) => below);
      levels = levels.map((nodes) => parents.map((parent) => nodes[parent]));
    }
  }
  bounded(leaves, most);
  if (!(branches >= 2)) refuse('not a tree');
  const [[a, b], [c, d]] = [low, high].map(exact), parts = BigInt(leaves);
  const edges = Array.from({ length: leaves + 1 }, (_, i) =>
    lowest(a * d * parts + (c * b - a * d) * BigInt(i), b * d * parts));
  const nodes = Array.from({ length: leaves }, (_, i) => i), levels = [nodes];
  while (1 + levels[0].at(-1) > branches) levels.unshift(levels[0].map((each) => Math.floor(each / branches)));
  return [ranges(edges, clip), levels];
}

function sums(powers) {
  return (asked) => ({ kind: 'number', nothing: onesAt([1], 2 + powers), grid: gridOf(asked), powers });
}

/** By the kind of a question and its design: the question in the sheet. */
const DESIGNS = {
  'choice one answer': ({ labels }, most) =>
    oneOfLevels({ labels, names: labelsOf(labels) }, [eachOf(labels)], most),
  'yes-no one answer': (_, most) => {
    const labels = ['yes', 'no'];
    return oneOfLevels({ labels, is_truth: true, names: labels }, [[0, 1]], most);
  },
  'scale histogram': ({ low, high, labels }, most) => {
    const points = Array.from({ length: bounded(high - low + 1, most) }, (_, i) => String(low + i));
    const named = labels.length ? { labels, names: labelsOf(labels) } : { names: points };
    return oneOfLevels({ points: [low, high], ...named }, [eachOf(points)], most);
  },
  'bins histogram': ({ edges, clip }, most) => {
    const answers = ranges(edges.map(exact), clip);
    return oneOfLevels(answers, [eachOf(answers.names)], most);
  },
  'tree leaves': (asked, most) => {
    const [answers, levels] = levelsOf(asked, most);
    return oneOfLevels(answers, levels.slice(-1), most);
  },
  'tree every level': (asked, most) => oneOfLevels(...levelsOf(asked, most), most),
  'multiple several answers': ({ labels, at_most: atMost }, most) => ({
    kind: 'some', nothing: onesAt([labels.length], bounded(labels.length + 1, most)),
    labels: labelsOf(labels), at_most: atMost || labels.length, names: labels,
  }),
  'number sum': sums(1),
  'number sum and squares': sums(2),
  'number histogram': (asked, most) => {
    const grid = gridOf(asked), length = bounded(Number(grid.steps) + 2, most);
    return { kind: 'number', nothing: onesAt([length - 1], length), grid, powers: 0 };
  },
  'vector sums': ({ column }) => ({
    kind: 'numbers', nothing: onesAt([1], 2 + column.length),
    columns: column.map((each) => ({ name: each.name, grid: gridOf(each) })),
  }),
};

/** The labels that a person chooses from, one entry each. */
const choicesOf = ({ kind, names, lengths }) => (kind === 'some' || lengths?.length === 1 ? names : []);

/** Conditions on earlier questions by their places. */
function needsOf(conditions, earlier) {
  return Object.entries(conditions ?? {}).map(([of, labels]) => {
    const place = earlier.findIndex(({ name }) => name === of);
    const known = choicesOf(earlier[place] ?? refuse('no earlier question')).map(comparable);
    const places = labels.map((label) => known.indexOf(comparable(label)));
    return [place, places.includes(-1) ? refuse('no such label') : places];
  });
}

/** The sections of a question or a table, whose own begin at a number, as a task has them. */
function sectionsOf(part, first, starts, questions) {
  const oneHot = (entries) => [1, entries, 1, 0, 0];
  const given = (entries) => (most) => [5, entries, most, first, 0];
  const powersOf = ({ grid, powers }) => Array.from({ length: powers }, (_, i) => BigInt(grid.steps) ** BigInt(i + 1));
  const { kind, nothing, lengths, of, by } = part;
  if (kind === 'one') return lengths.map(oneHot);
  if (kind === 'some') return [[2, nothing.length, part.at_most, 0, 0]];
  if (kind === 'numbers') return [oneHot(2), ...part.columns.map(({ grid }) => grid.steps).map(given(1))];
  if (kind === 'number') return part.powers ? [oneHot(2), ...powersOf(part).map(given(1))] : [oneHot(nothing.length)];
  const groups = questions[by].nothing.length;
  if (part.is_number) return [oneHot(groups), ...powersOf(questions[of]).map(given(groups - 1))];
  return [[6, questions[of].nothing.length * groups, 1, starts[of], starts[by]]];
}

/** What a meaning says, and its sheet; `most` is how many entries its task has. */
function readMeaning(written, most) {
  const { version, survey, asked, window, questions, tables, texts = {}, texts_asked_if: askedIf = {} } =
    JSON.parse(written);
  if (version !== MEANING) refuse(`meaning: version ${JSON.stringify(version)} is not known`);
  const found = [];
  for (const { question, design } of questions) {
    const { name, kind } = question, way = `${kind} ${design}`;
    if (!Object.hasOwn(DESIGNS, way)) refuse('a kind that is not known');
    const made = DESIGNS[way](question, most);
    most -= made.nothing.length;
    found.push({ name, ...made, needs: needsOf(question.ask_if, found) });
  }
  const placeOf = (name) => found.findIndex((each) => each.name === name);
  const crossing = tables.map(([of, by]) => {
    const [one, other] = [placeOf(of), placeOf(by)], isNumber = found[one].kind === 'number' && found[one].powers > 0;
    if (one === other || found[other].lengths?.length !== 1) refuse('no groups');
    if (!isNumber && found[one].lengths?.length !== 1 && found[one].kind !== 'number') refuse('no table');
    return { of: one, by: other, is_number: isNumber };
  });
  const named = Object.keys(texts).map((name) => ({ name, needs: needsOf(askedIf[name], found) }));
  const names = [...found, ...named].map(({ name }) => name);
  if (new Set(names).size < names.length || !names.length) refuse('two have one name');
  const starts = [], sections = [];
  for (const part of [...found, ...crossing]) {
    starts.push(sections.length);
    sections.push(...sectionsOf(part, sections.length, starts, found));
  }
  return {
    title: survey, called: `${survey}, asked of ${asked}`, window, texts, sections,
    questions: questions.map(({ question }) => question),
    sheet: { questions: found, tables: crossing, texts: named },
  };
}

/** @throws {DecodeError} it is no survey's, or in an unknown form */
export function meaningOf(written, most) {
  try {
    return readMeaning(written, most);
  } catch (error) {
    if (error instanceof DecodeError && error.message.startsWith('meaning: version')) throw error;
    return refuse('meaning: not that of a survey, or of a kind of question that is not known here');
  }
}
