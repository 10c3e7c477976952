// The page of a survey: reads answers, hands them to the clients, and says what becomes of them.

const survey = JSON.parse(document.getElementById('survey').textContent);
const words = survey.words;
const form = document.querySelector('form');
const fields = [...form.querySelectorAll('fieldset')];
const after = document.getElementById('after');
const status = document.getElementById('status');
const say = (word) => (status.textContent = words[word]);
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** A number as a fraction of two whole ones; a comma is a point. */
function fraction(text) {
  const match = /^\s*([-+\u2212]?)(\d{1,30})(?:[.,](\d{1,30}))?\s*$/.exec(text);
  if (!match) return null;
  const [, sign, whole, decimals = ''] = match;
  const size = BigInt(whole + decimals);
  return [sign === '' || sign === '+' ? size : -size, 10n ** BigInt(decimals.length)];
}

/** How many steps above the least a number is, the nearest, ties to even; null beyond the range. */
function stepsOf(text, grid) {
  const given = fraction(text);
  if (!given) return null;
  const [low, step] = [grid.low, grid.step].map((each) => each.map(BigInt));
  // (given - low) / step
  const top = (given[0] * low[1] - low[0] * given[1]) * step[1];
  const bottom = given[1] * low[1] * step[0];
  const most = BigInt(grid.steps);
  if (top < 0n || top > most * bottom) {
    if (!grid.clip) return null;
    return top < 0n ? 0n : most;
  }
  const down = top / bottom, twice = 2n * (top - down * bottom);
  return twice > bottom || (twice === bottom && down % 2n === 1n) ? down + 1n : down;
}

/** A one among zeros. */
const oneHot = (place, length) => Array.from({ length }, (_, at) => +(at === place));

/** What is chosen in a question. */
const chosenIn = (i) =>
  [...form.querySelectorAll(`[name="q${i}"]:checked`)].map((each) => each.value);

/** Whether a question is asked, by the answers to those before it that are asked. */
const isAsked = ({ needs }) =>
  needs.every(([place, labels]) => {
    const chosen = fields[place].hidden ? ['skip'] : chosenIn(place);
    return !chosen.includes('skip') && labels.some((label) => chosen.includes(String(label)));
  });

/** Show the questions that are asked, and number them. */
function show() {
  survey.questions.forEach((question, i) => (fields[i].hidden = !isAsked(question)));
  const shown = fields.filter((each) => !each.hidden);
  shown.forEach((each, i) => {
    const place = filled(words.question, { number: i + 1, count: shown.length });
    each.querySelector('legend small').textContent = place;
  });
}

form.addEventListener('input', show);
show();

/** What an answer adds to the entries of its question, or the word of what is wrong. */
function answerOf(question, i) {
  const { nothing } = question;
  const chosen = chosenIn(i);
  // Who is not asked has given no answer, in a report like everybody's.
  if (fields[i].hidden || chosen.includes('skip')) return { entries: nothing };
  if (question.kind === 'number') {
    const steps = stepsOf(form.elements[`q${i}-number`].value, question.grid);
    if (steps === null) return { fault: 'fault_number' };
    if (!question.powers) return { entries: oneHot(Number(steps), nothing.length) };
    const powers = Array.from({ length: question.powers }, (_, at) => steps ** BigInt(at + 1));
    return { entries: [1, 0, ...powers] };
  }
  if (!chosen.length) return { fault: 'fault_one' };
  if (question.kind === 'one') {
    const ones = question.ones[Number(chosen[0])];
    return { entries: nothing.map((_, at) => +ones.includes(at)) };
  }
  const places = chosen.filter((each) => each !== 'none').map(Number);
  if (places.length > question.at_most) return { fault: 'fault_most' };
  return { entries: nothing.map((_, at) => +places.includes(at)) };
}

/** What the answers to two questions add to a table; the last group is of nobody who answered. */
function crossed({ of, by, is_number: isNumber }, answers) {
  const [answer, groups] = [answers[of], answers[by]];
  if (!isNumber) return answer.flatMap((one) => groups.map((other) => one * other));
  const [isAnswered, , ...powers] = answer;
  const size = groups.length - 1;
  const place = isAnswered ? groups.indexOf(1) : size;
  return [
    ...oneHot(place, size + 1),
    ...powers.flatMap((power) => oneHot(place, size).map((one) => (one ? power : 0))),
  ];
}

/** The measurement of all answers: as many entries whatever they are. */
const measurementOf = (answers) =>
  [...answers, ...survey.tables.map((table) => crossed(table, answers))].flat();

/** Mark what has to be looked at again; whether there is nothing. */
function mark(answers) {
  const list = document.querySelector('#faults ul');
  list.replaceChildren();
  answers.forEach(({ fault }, i) => {
    const at = document.getElementById(`q${i}-fault`);
    at.hidden = !fault;
    at.textContent = fault ? filled(words[fault], survey.questions[i].names) : '';
    const inputs = form.querySelectorAll(`[name="q${i}"], [name="q${i}-number"]`);
    for (const input of inputs) {
      if (fault) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    }
    if (!fault) return;
    const link = document.createElement('a');
    link.href = `#${inputs[0].id}`;
    link.textContent = survey.questions[i].text;
    link.addEventListener('click', (event) => {
      event.preventDefault();
      inputs[0].focus();
    });
    const item = document.createElement('li');
    item.append(link);
    list.append(item);
  });
  const isRight = !list.children.length;
  document.getElementById('faults').hidden = isRight;
  if (!isRight) document.querySelector('#faults a').focus();
  return isRight;
}

/** Where reports wait: in the browser, or where it keeps nothing, in the page. */
async function outboxHere() {
  const outbox = new BrowserOutbox();
  try {
    await outbox.claimed('');
    return [outbox, true];
  } catch {
    return [new MemoryOutbox(), false];
  }
}

const { seconds, offset } = survey.window;
/** The window of now, of which a browser takes one answer: a page may stay open beyond its own. */
const windowNow = () => `window ${Math.floor((Date.now() / 1000 - offset) / seconds)}`;
const answeredIn = (window) => `${survey.task.id} answered in ${window}`;
let claim = windowNow();
const [outbox, isKept] = await outboxHere();
const client = new Client(new Task(survey.task), { outbox });

/** Show what became of the answers, without the questions: a device may be another's next. */
function thank() {
  form.hidden = true;
  form.reset();
  after.hidden = false;
  after.querySelector('h2').focus();
}

/** Send whatever waits, and say how it stands; again until nothing waits. */
async function send() {
  const { reason } = await client.flush({ now: true });
  const state = (await client.claimed(claim))?.state;
  if (!state) say('already');
  else if (reason === 'report_too_early') say('clock');
  else if (state === 'waiting') say(isKept ? 'kept' : 'kept_by_page');
  else say(state === 'refused' || state === 'late' ? state : 'counted');
  return state === 'waiting';
}

let tries = 0;
async function sendUntilDone() {
  try {
    if (await send()) setTimeout(sendUntilDone, Math.min(1000 * 2 ** ++tries, 60_000));
  } catch (error) {
    say(error instanceof Unsupported ? 'unsupported' : isKept ? 'kept' : 'kept_by_page');
  }
}
addEventListener('online', () => sendUntilDone());

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const answers = survey.questions.map(answerOf);
  if (!mark(answers)) return;
  const button = form.querySelector('button');
  button.disabled = true;
  claim = windowNow();
  try {
    await (await webCrypto.ephemeral()).exchange(new Uint8Array(32).fill(9));
    // One report, also where every answer is none: whoever sees it learns that they took part.
    const measurement = measurementOf(answers.map(({ entries }) => entries));
    await outbox.add([client.make(measurement, { claim })], [answeredIn(claim)]);
    say('sending');
  } catch (error) {
    if (error instanceof AlreadyAnswered) say('already');
    else if (error instanceof OutboxFull) say('full');
    else say('unsupported');
    thank();
    return;
  }
  thank();
  await sendUntilDone();
});

if (await outbox.claimed(answeredIn(claim))) {
  say('already');
  thank();
  await sendUntilDone();
} else {
  // What an earlier window's visit has left.
  client.flush().catch(() => {});
  // The first report is slow: make some while the person reads.
  const warm = () => client.warm(measurementOf(survey.questions.map(({ nothing }) => nothing)));
  (globalThis.requestIdleCallback ?? setTimeout)(warm);
}
document.documentElement.dataset.ready = 'yes';
