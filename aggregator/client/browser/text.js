/** Text questions, for pages that ask one: see text.d.ts. */

export { normalForm } from './normal.js';
export { TextClient, TextQuestion, fingerprint, siphash, tossed } from './question.js';
export { Spelling } from './spelling.js';
