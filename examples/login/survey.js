// The page that asks: takes a permit that is here, and asks for none. Whoever asked for one a second
// before a report would be known by that.

import { AlreadyAnswered, BrowserOutbox } from './prio.js';
import { NoPermit, Permits } from './prio-signed.js';
import { AnswerError, NotAsked, Survey } from './prio-survey.js';

const form = document.querySelector('form'), status = document.querySelector('[role=status]');
const json = async (name) => (await fetch(`/files/${name}`)).json();
const says = (text) => (status.textContent = text);

const outbox = new BrowserOutbox();
const survey = new Survey(await json('task.json'), { outbox });
survey.start();
const person = document.querySelector('main').dataset.account;
const permits = new Permits(survey.tasks, await json('issuer-keys.json'), { outbox, person, now: () => survey.time() });

const SAID = { counted: 'Your answers are counted. Thank you.', waiting: 'Your answers are kept on this device until they are sent.' };

/** What became of this person's answers of today, in words; null if there are none. */
async function outcome() {
  const found = await survey.answered(person);
  return found && (SAID[found.state] ?? `Your answers are not counted: ${found.reason}.`);
}

async function tell() {
  await survey.flush();
  says(await outcome());
}

const before = await outcome(), closed = await survey.closed();
if (before) tell().catch(() => says(before));
else if (closed) says(`Nobody can answer now: ${closed.reason}`);
else if (!(await permits.isThere(survey.tasks[0], await survey.time()))) {
  says('You cannot answer on this device today. Go back to see why.');
} else {
  form.hidden = false;
  says('');
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const answers = Object.fromEntries(new FormData(form));
  const told = { place: answers.place || null, rested: { yes: true, no: false }[answers.rested] ?? null };
  try {
    await survey.put(told, { permits });
    form.hidden = true;
    await tell();
  } catch (error) {
    if (error instanceof AlreadyAnswered) says('You have answered today.');
    else if (error instanceof NoPermit) says('Please go back, and come again.');
    else if (error instanceof AnswerError || error instanceof NotAsked) says(error.message);
    else says(await outcome() ?? 'Please try again later.');
  }
});
document.documentElement.dataset.ready = '';
