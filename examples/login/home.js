// The page after the login: gets permits for the next days, and asks nothing. The server sees that
// somebody logged in, as it does anyway, and not that they answered.

import { BrowserOutbox } from './prio.js';
import { Permits } from './prio-signed.js';
import { Survey } from './prio-survey.js';

const status = document.querySelector('[role=status]');
const json = async (name) => (await fetch(`/files/${name}`)).json();

const outbox = new BrowserOutbox();
const survey = new Survey(await json('task.json'), { outbox });
survey.start(); // sends what waits from an earlier visit
const person = document.querySelector('main').dataset.account; // people may share a browser
const permits = new Permits(survey.tasks, await json('issuer-keys.json'), { outbox, person, now: () => survey.time() });
try {
  await permits.refresh('/permits');
  const isHere = await permits.isThere(survey.tasks[0], await survey.time());
  status.textContent = await survey.answered(person) ? 'You have answered today.'
    : isHere ? 'You can answer on this device.'
    : 'Today you can answer on another device of yours, on which you were logged in first.';
} catch (error) {
  console.warn(error);
  status.textContent = 'Please load this page again.';
}
document.documentElement.dataset.ready = '';
