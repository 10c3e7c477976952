/**
 * When two written answers are the same: their normal form, version 1, by Unicode 14.0.
 *
 * Browsers have the Unicode of their year, and all must count one answer alike. Unicode promises
 * that the composition of assigned characters never changes, so a character that Unicode 14.0 has
 * not assigned is left as it is and strings are split there: it changes neither itself nor its
 * neighbours. An older engine is refused before anybody is asked anything.
 */

import { Unsupported } from './hpke.js';

export const NORMALISATION = 1;

/**
 * Runs of code points that Unicode 14.0 has not assigned, in base 36: how many assigned ones come
 * before the run and, after a point, its length if that is not 1.
 */
const UNASSIGNED =
  'oo.2 6.4 7 1 k b1 12.2 1e.2 3 1j.8 r.4 6.b 7i 1o.2 2t.e 1n.2 1d.2 f s.2 1 b.5 v 2.6 6k 8.2 2.2 m 7 '
  + '1.3 4.2 9.2 2.2 4.8 1.4 2 5.2 p.2 3 6.4 2.2 m 7 2 2 2.2 1 5.4 2.2 3.3 1.7 4 1.7 h.a 3 9 3 m 7 2 5.2 '
  + 'a 3 3.2 1.f 4.2 c.7 7 3 8.2 2.2 m 7 2 5.2 9.2 2.2 3.7 3.4 2 5.2 i.a 2 6.3 3 4.3 2 1 2.3 2.3 3.3 c.4 '
  + '5.3 3 4.2 1.6 1.e l.5 d 3 n g.2 9 3 4.7 2 3.2 1.2 4.2 a.7 m 3 n a 5.2 9 3 4.7 2.6 2 4.2 a 2.d d 3 1f '
  + '3 6.4 g.2 q 3 i.3 o 9 1.2 7.3 1.4 6 1 8.6 a.2 3.c 1m.4 t.11 2 1 5 o 1 n.2 5 1 6.2 a.2 4.w 20 10.4 13 '
  + '10 f d.11 5i 1.5 1.2 ah 4.2 7 1 4.2 15 4.2 x 4.2 7 1 4.2 f 1l 4.2 1v.2 w.3 q.6 2e.2 6.2 il.3 2h.7 '
  + 'm.9 o.9 k.c d 3 2.c 2m.2 a.6 a.6 q.6 2h.7 17.5 1y.a v c.4 c.4 1.3 16.2 5.b 18.4 q.6 b.3 1q.2 1t t.2 '
  + 'b.6 a.6 e.2 v.1d 25.3 1b 38.8 1o.3 f.3 1o.7 17.2 b.8 17.5 eu.2 6.2 12.2 6.2 8 1 1 1 v.2 1h f e.2 6 '
  + 'j.2 3 9 2t c.2 r d.3 x.f x.f 3w.4 if.p b.l 1ec.2 w 9p.5 19 1.5 1.2 1k.7 2.e o.9 7 7 7 7 7 7 7 7 3i.y '
  + 'q 2h.c 5y.q c.4 1s 2e.2 2v.5 17 2m 2c.c 1b mlp.3 1j.9 9o.k 54.8 5n.5 2 1 5.o 1n.3 a.6 1k.8 1y.8 c.6 '
  + '38.b u.3 26 b.4 x 1j.9 e.2 a.2 2v.o s.a 6.2 6.2 6.9 7 7 1o.4 3i.2 a.6 8mc.c n.4 1d.4 6su.2 2y.12 7.c '
  + '5.5 q 5 1 2 2 3h.g cd.2 1i.7 1.w 16.6 1f j 4.4 5 3r.2 1 5a.3 6.2 6.2 6.2 3.3 7 7.a 5.2 c q j 2 f.2 '
  + 'e.y 3f.5 3.4 19.3 2g d.3 1.1b 1a.3m t.3 1d.f s.4 10.9 u.5 17.5 u 11.4 e.16 4e.2 a.6 10.4 10.4 14.8 '
  + '1g.b c f 7 2 b f 7 2.1v 8n.9 m.a 8.o 6 16 9.1x 6.2 1 18 2.3 1.2 n 20.8 9.1c j 2.5 x.3 r.5 1.1s 1k.4 '
  + 'k.2 1e 2.5 8 3 t.2 3.4 a.7 9.7 1s.w 13.4 c.9 1i.3 t.2 r.5 q.7 4.c 7.28 21.1j 1f.d 1f.7 1a.8 a.86 v '
  + '16 3.2 2.26 14.8 16.m q.12 s.k n.9 26.4 10.9 1w.a 1.2 p.7 a.6 1h i.8 13.9 2o k.b i 18.1t 7 1 4 f b.6 '
  + '1n.5 a.6 4 8.2 2.2 m 7 2 5 a.2 2.2 3.2 1.6 1.5 7.2 7.3 5.3v 2k 5.u 20.8 a.4m 1i.2 12.y 1x.b a.6 d.j '
  + '1m.6 a.1i r.2 f.4 n.55 1o.2s 2b.c 8.2 1.2 8 2 u 2.2 c.9 a.1y 8.2 1a.2 b.r 20.8 2b.d 21.7b 9 19 e.a '
  + 't.3 w.2 m e.21 7 2 18.3 1 2 9.8 a.6 6 2 11 2 6.7 a.8m p.53 1.f 1e.d pn.2u 33 5.b 5g.218 2r.d tr '
  + '9.347 g7.6nt ft.7 v a.4 29 a.6 u.2 6.a 1y.a a 7 l.5 j.j4 2j.2t 23.4 1l.7 h.1s 5.b 2.e 4qg.8 ye.16 '
  + '9.6w7 4 7 2 83.19 3.h 4.8 b0.1s4 2z.5 d.3 9.7 a.2 8.3mk 1a.2 n.9 38.1o 6u.a 13.2 5e.l 1y.4a k.c 2f.9 '
  + 'p.3r 2d 1z 2.2 1.2 2.2 4 c 1 7 1t 4.2 8 7 s 4 5 1.3 7 9g.2 84.2 ji.f 5 f.uo v.69 7 h.2 7 2 5.5x 19.3 '
  + 'e.2 a.4 2.8w v.h 1m.5 1.yo 7 4 2 f 5h.2 g.15 24.4 a.4 2.lt 1w.24 1p.5e 4 r 2 1.2 1 a 4 1 1.6 1.4 1 1 '
  + '1 3 2 1.2 1 1 1 1 1 2 1.2 4 7 4 4 1 a h.5 3 5 h.1g 2.7i 18.4 2s.c f.2 f f 11.a 4u.1k t.d 18.4 9.7 '
  + '2.e 6.4a rc.5 g.3 d.3 38.c 2h.7 c.4 1.f c.4 1k.8 a.6 14.8 u.2 2.26 9g.c e.2 5.3 5.3 7.9 t.3 b.5 6.a '
  + 'a.6 8.8 7.9 43 1j.11 a.sm wyo.w 37d.7 66.2 4g2.e 5rl.2e7 f2.15u 3t7.fcfq 1.u 2o.3k 6o.1e6o 1eke.2 '
  + '1eke.2';

/**
 * Full case folding where it differs from `toLowerCase`: the character and what it becomes, without
 * characters that canonical decomposition takes apart.
 */
const FOLDS = new Map(
  ('\u00b5\u03bc \u00dfss \u0149\u02bcn \u017fs \u0345\u03b9 \u03c2\u03c3 \u03d0\u03b2 \u03d1\u03b8 '
    + '\u03d5\u03c6 \u03d6\u03c0 \u03f0\u03ba \u03f1\u03c1 \u03f5\u03b5 \u0587\u0565\u0582 '
    + '\u13f8\u13f0 \u13f9\u13f1 \u13fa\u13f2 \u13fb\u13f3 \u13fc\u13f4 \u13fd\u13f5 '
    + '\u1c80\u0432 \u1c81\u0434 \u1c82\u043e \u1c83\u0441 \u1c84\u0442 \u1c85\u0442 '
    + '\u1c86\u044a \u1c87\u0463 \u1c88\ua64b \u1e9aa\u02be \u1e9ess \ufb00ff \ufb01fi \ufb02fl '
    + '\ufb03ffi \ufb04ffl \ufb05st \ufb06st \ufb13\u0574\u0576 \ufb14\u0574\u0565 '
    + '\ufb15\u0574\u056b \ufb16\u057e\u0576 \ufb17\u0574\u056d')
    .split(' ').map((each) => [each[0], each.slice(1)]),
);

const unassigned = patternOf(UNASSIGNED);

function patternOf(runs) {
  let at = 0, spans = '';
  for (const run of runs.split(' ')) {
    const [assigned, size] = run.split('.');
    const first = at + Number.parseInt(assigned, 36);
    at = first + Number.parseInt(size ?? '1', 36);
    spans += `\\u{${first.toString(16)}}-\\u{${(at - 1).toString(16)}}`;
  }
  return new RegExp(`([${spans}]+)`, 'u');
}

/** @throws {Unsupported} this engine's Unicode is older than 14.0 */
export function checkUnicode() {
  // A mark and a letter that came with it.
  const isKnown = 'a\u0301\u1dfa'.normalize('NFD') === 'a\u1dfa\u0301'
    && '\u{10570}'.toLowerCase() === '\u{10597}';
  if (!isKnown) throw new Unsupported('this browser is too old: its Unicode is older than 14.0');
}

function foldedCharacter(character) {
  const code = character.codePointAt(0);
  // Cherokee folds to its capital letters, which are older.
  if (code >= 0x13a0 && code <= 0x13f5) return character;
  if (code >= 0xab70 && code <= 0xabbf) return String.fromCodePoint(code - 0x97d0);
  const lower = FOLDS.get(character) ?? character.toLowerCase();
  // A capital letter whose small letter was added later, as in Cherokee, keeps its own folding.
  return unassigned.test(lower) ? character : lower;
}

/** In how many characters marks may change places at a cost that grows with their square. */
const SHORT = 256;

const decomposed = (text) => text.normalize('NFD');

/** Whether two decomposed characters change places: the first has the higher class, and no 0. */
const areSwapped = (one, other) => decomposed(one + other) === other + one && one !== other;

/** Whether a decomposed character is a mark: it changes places with one of the extreme classes. */
const isMark = (each) => areSwapped('\u0345', each) || areSwapped(each, '\u0334');

/**
 * NFD(part). The engine's own moves each mark past those before it, one by one: some million of
 * them, in one answer, would hold a server that takes answers for hours.
 */
function ordered(part) {
  if (part.length <= SHORT) return decomposed(part);
  const all = Array.from(Array.from(part, decomposed).join(''));
  const marks = [...new Set(all)].filter(isMark);
  marks.sort((a, b) => areSwapped(a, b) - areSwapped(b, a));
  const classes = new Map(); // of marks, in the order of their numbers, which no engine tells
  marks.forEach((mark, i) => {
    const last = classes.get(marks[i - 1]) ?? 0;
    classes.set(mark, i && areSwapped(mark, marks[i - 1]) ? last + 1 : last);
  });
  for (let at = 0, end; at < all.length; at = end + 1) {
    for (end = at; classes.has(all[end]); end++);
    if (end - at < 2) continue;
    const run = all.slice(at, end).sort((a, b) => classes.get(a) - classes.get(b));
    run.forEach((mark, i) => (all[at + i] = mark));
  }
  return all.join('');
}

const foldedPart = (part) =>
  ordered(Array.from(ordered(part), foldedCharacter).join('')).normalize('NFC');

/**
 * What an answer is counted as; no string is refused.
 *
 * Lone surrogates become U+FFFD; NFC(full case folding(NFD(answer))); every run of white space or
 * control characters becomes one space, and the spaces at both ends go.
 */
export function normalForm(answer) {
  const parts = answer.replace(/\p{Cs}/gu, '\ufffd').split(unassigned);
  const folded = parts.map((part, i) => (i % 2 ? part : foldedPart(part))).join('');
  const spaces = /[\0-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;
  return folded.replace(spaces, ' ').replace(/^ | $/g, '');
}
