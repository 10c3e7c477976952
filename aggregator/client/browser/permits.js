/**
 * Permits: what lets one report of a window count.
 *
 * Wherever this file is loaded, tasks that need a permit are read, and what their leaders say.
 *
 * Source: "Permits" of our protocol document.
 */

import { Client } from './client.js';
import { refuse } from './digest.js';
import { Task } from './task.js';

/** The type of the task's extension, and of the one in the helper's share. */
export const EXTENSION = 0xff51;
/** Bytes of an opening, and of a report's id. */
export const SIZE = 16;
const LISTED = 257; // version 1, kind 1
const FIRST_ERROR = 240;
const ERRORS = ['permit_missing', 'permit_unknown', 'permit_of_another_window', 'permit_spent'];

/** What follows a domain, by version and kind; a file that few need adds another. */
export const KINDS = { [LISTED]: () => ({}) };

Task.readers[EXTENSION] = (data, task) => {
  const rest = KINDS[data.number(2)] ?? refuse('permits: this kind is not known');
  task.permits = { domain: data.take(32), ...rest(data) };
  data.finish();
  task.reportErrors = [...task.reportErrors];
  ERRORS.forEach((name, i) => (task.reportErrors[FIRST_ERROR - 1 + i] = name));
};

// Waiting changes nothing about these; the list of an unknown one may come later.
Object.assign(Client.verdicts, { permit_spent: 'refused', permit_of_another_window: 'refused' });

/** A whole number in 8 bytes and another in 4. */
export function numbers(large, small) {
  const view = new DataView(new ArrayBuffer(12));
  view.setBigUint64(0, large);
  view.setUint32(8, small);
  return new Uint8Array(view.buffer);
}

/** The number of the window of a moment, in milliseconds; 0 without windows. */
export function windowOf(task, moment) {
  const { window } = task.policy;
  return window ? (task.time(moment) + window.length - window.start) / window.length : 0n;
}
