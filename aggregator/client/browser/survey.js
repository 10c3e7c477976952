/** Surveys as people are asked them, for applications and pages: see survey.d.ts. */

export { AnswerError } from './answers.js';
export { NotAsked, Survey, TimeUnknown } from './survey_client.js';
