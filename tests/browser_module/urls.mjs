/** Says of each line's URL how Node reads it, and why our module refuses a task with it. */

import { createInterface } from 'node:readline';

import { DecodeError, Task } from '../../aggregator/client/browser/index.js';

function readOf(url) {
  try {
    const { protocol, hostname, port, pathname, origin } = new URL(url);
    return { protocol, hostname, port, pathname, origin };
  } catch {
    return null;
  }
}

function faultOf(task) {
  try {
    return new Task(task) && null;
  } catch (error) {
    if (error instanceof DecodeError) return error.message;
    throw error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { url, task } = JSON.parse(line);
  console.log(JSON.stringify({ read: readOf(url), fault: faultOf(task) }));
}
