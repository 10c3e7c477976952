/** What a page says in its languages: which one, and numbers and times as its reader writes them. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { latin, Speech } from '../../aggregator/steward/survey/form/language.js';

const spoken = (tag) => ({
  tag,
  words: { range: `${tag} {low} to {high}`, again: 'from {start}', hosts: '{leader}!' },
  own: [`a text in ${tag}`, 'pesos'],
});
const languages = ['en', 'fr', 'ar', 'es-MX'].map(spoken);
const speech = (...wanted) => new Speech(languages, wanted);

test('a page begins in the first language that its reader wants and it has', () => {
  const begins = {
    en: [[], ['pl'], ['en-US@posix'], ['no such language!', 'EN'], ['en-GB', 'fr']],
    fr: [['fr'], ['fr-CA', 'en'], ['pl', 'fr-FR', 'en'], ['FR']],
    ar: [['ar-EG'], ['ar']],
    'es-MX': [['es'], ['es-ES'], ['es-mx']],
  };
  for (const [tag, each] of Object.entries(begins)) {
    for (const wanted of each) assert.equal(speech(...wanted).tag, tag, wanted);
  }
});

test('numbers are written as in the country of the reader, and what is no number stays', () => {
  const written = (text, ...wanted) => speech(...wanted).number(text);
  assert.equal(written('1234567.5', 'en-US'), '1,234,567.5');
  assert.equal(written('1234567.5', 'fr-CH'), new Intl.NumberFormat('fr-CH').format(1234567.5));
  assert.equal(written('1234567.5', 'es-MX'), '1,234,567.5');
  assert.equal(written('1234567.5', 'es-ES'), '1.234.567,5');
  assert.equal(written('15', 'ar-EG'), '\u0661\u0665');
  assert.equal(written('0.0000001', 'en'), '0.0000001');
  for (const text of ['1.00e+8', 'exp(8)', 'leader.example', '127.0.0.1:8000', '1/3']) {
    assert.equal(written(text, 'ar-EG'), text);
  }
});

test('what is filled in moves nothing around it, from left to right and from right to left', () => {
  const arabic = speech('ar-EG');
  assert.equal(arabic.text(['range', { low: '5', high: '1500' }]), 'ar \u0665 to \u0661\u066c\u0665\u0660\u0660');
  const english = speech('en');
  assert.equal(english.text(['range', { low: '-5', high: '0' }, 1]), 'en \u2068-5\u2069 to \u20680\u00a0pesos\u2069');
  assert.equal(english.text(['hosts', { leader: 'a.example' }]), '\u2068a.example\u2069!');
  assert.match(english.text(['again', { start: Date.UTC(2026, 10, 25, 12) }]), /^from November 25, 2026/);
  assert.equal(english.text(0), 'a text in en');
  assert.equal(english.text(['', { number: '5' }]), '5');
  assert.equal(english.text(null), '');
  english.choose(1);
  assert.equal(english.text(0), 'a text in fr');
});

test('numbers in other digits and with marks of direction are numbers', () => {
  assert.equal(latin('\u200f\u0661\u0662\u066b\u0665'), '12.5');
  assert.equal(latin('\u06f1\u06f2\u066c\u06f0\u06f0\u06f0'), '12,000');
  assert.equal(latin('-3,5'), '-3,5');
});
