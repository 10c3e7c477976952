/** Surveys in JavaScript: the sheet, and what each person's answers become, as in Python. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { checkCases } from './survey_cases.mjs';

const { Survey, AnswerError } = await import(process.env.SURVEY_MODULE);

test('sheets, entries, and what is said of bad answers are the vectors\'', () => {
  const found = checkCases(JSON.parse(readFileSync(process.env.SURVEY_VECTORS, 'utf8')), Survey, AnswerError);
  assert.deepEqual(found.wrong, []);
  assert.ok(found.right > 0 && found.refused > 0);
});
