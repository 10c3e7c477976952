// The page of a survey: reads answers, hands them to the clients, and says what becomes of them.

const survey = JSON.parse(document.getElementById('survey').textContent);
const words = survey.words;
/** Those of the survey's own report, and then text questions, each of a report by itself. */
const questions = [...survey.questions, ...survey.texts];
const form = document.querySelector('form');
const fields = [...form.querySelectorAll('fieldset')];
const after = document.getElementById('after');
const again = document.getElementById('again');
const status = document.getElementById('status');
const say = (word) => (status.textContent = words[word]);
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** A number as a fraction of two whole ones; a comma is a point. */
function fraction(text) {
  const match = /^\s*([-+\u2212]?)(?=[.,]?\d)(\d{0,30})(?:[.,](\d{0,30}))?\s*$/.exec(text);
  if (!match) return null;
  const [, sign, whole, decimals = ''] = match;
  const size = BigInt(whole + decimals);
  return [sign === '' || sign === '+' ? size : -size, 10n ** BigInt(decimals.length)];
}

/** Whether some write a thousand so, others one, and the question asks for no thousandths. */
const isUnclear = (text, [low, step]) =>
  /^\s*[-+\u2212]?[1-9]\d{0,2}[.,]\d{3}\s*$/.test(text) &&
  [low, step].every(([above, below]) => (100n * above) % below === 0n);

/** How many steps above the least a number is, as a fraction; null beyond the range. */
function above(text, grid) {
  const given = fraction(text);
  const [low, step] = [grid.low, grid.step].map((each) => each.map(BigInt));
  if (!given || isUnclear(text, [low, step])) return null;
  // (given - low) / step
  const top = (given[0] * low[1] - low[0] * given[1]) * step[1];
  const bottom = given[1] * low[1] * step[0];
  const most = BigInt(grid.steps) * bottom;
  if (top >= 0n && top <= most) return [top, bottom];
  return grid.clip ? [top < 0n ? 0n : most, bottom] : null;
}

/** The number of steps, the nearest, ties to even; or null. */
function stepsOf(text, grid) {
  const found = above(text, grid);
  if (!found) return null;
  const [top, bottom] = found;
  const down = top / bottom, twice = 2n * (top - down * bottom);
  return twice > bottom || (twice === bottom && down % 2n === 1n) ? down + 1n : down;
}

/** The place of the range that a number is in, the last with its upper edge; or null. */
function leafOf(text, grid) {
  const found = above(text, grid);
  return found && Math.min(Number(found[0] / found[1]), grid.steps - 1);
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
  questions.forEach((question, i) => (fields[i].hidden = !isAsked(question)));
  const shown = fields.filter((each) => !each.hidden);
  shown.forEach((each, i) => {
    const place = filled(words.question, { number: i + 1, count: shown.length });
    each.querySelector('legend small').textContent = place;
  });
}

const isAlone = ({ type, value }) => type === 'checkbox' && ['skip', 'none'].includes(value);

/** Who ticks "None of these" or "I'd rather not say" has chosen nothing else, and vice versa. */
function exclude({ target }) {
  if (target.type === 'checkbox' && !target.checked) return;
  for (const other of target.closest('fieldset').querySelectorAll('[type=checkbox]')) {
    if (other !== target && (isAlone(target) || isAlone(other))) other.checked = false;
  }
}

form.addEventListener('input', exclude);
form.addEventListener('input', show);
show();

/** What an answer adds to the entries of its question, or the word of what is wrong. */
function answerOf(question, i) {
  const { nothing } = question; // a text question adds nothing to the survey's own report
  const chosen = chosenIn(i);
  // Who is not asked has given no answer, in a report like everybody's.
  if (fields[i].hidden || chosen.includes('skip')) return { entries: nothing, written: null };
  if (question.kind === 'text') {
    const written = form.elements[`q${i}-text`].value;
    return normalForm(written) === '' ? { fault: 'fault_text' } : { entries: nothing, written };
  }
  if (question.kind === 'number') {
    const steps = stepsOf(form.elements[`q${i}-number`].value, question.grid);
    if (steps === null) return { fault: 'fault_number' };
    if (!question.powers) return { entries: oneHot(Number(steps), nothing.length) };
    const powers = Array.from({ length: question.powers }, (_, at) => steps ** BigInt(at + 1));
    return { entries: [1, 0, ...powers] };
  }
  if (question.kind === 'numbers') {
    const inputs = [...form.querySelectorAll(`[name="q${i}-number"]`)];
    const steps = inputs.map(({ value }, at) => stepsOf(value, question.columns[at].grid));
    const wrong = inputs.filter((_, at) => steps[at] === null);
    return wrong.length ? { fault: 'fault_numbers', wrong } : { entries: [1, 0, ...steps] };
  }
  const { range } = question;
  const leaf = range ? leafOf(form.elements[`q${i}-number`].value, range) : null;
  if (range && leaf === null) return { fault: 'fault_number' };
  if (!range && !chosen.length) return { fault: 'fault_one' };
  if (question.kind === 'one') {
    const ones = question.ones[leaf ?? Number(chosen[0])];
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
  answers.forEach(({ fault, wrong }, i) => {
    const at = document.getElementById(`q${i}-fault`);
    at.hidden = !fault;
    at.textContent = fault ? filled(words[fault], questions[i].names) : '';
    const names = ['', '-number', '-text'].map((each) => `[name="q${i}${each}"]`);
    const inputs = form.querySelectorAll(names.join());
    const first = wrong?.[0] ?? inputs[0];
    for (const input of inputs) {
      if (fault && (wrong?.includes(input) ?? true)) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    }
    if (!fault) return;
    const link = document.createElement('a');
    link.href = `#${first.id}`;
    link.textContent = questions[i].text;
    link.addEventListener('click', (event) => {
      event.preventDefault();
      first.focus();
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

/** Whether somebody wants to send before it is known where reports wait. */
let isEarly = false;
form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (document.documentElement.dataset.ready) return;
  isEarly = true;
  say('soon');
});

/**
 * Where reports wait: in the browser, or where it keeps nothing or does not answer in time, in the
 * page. That is decided before there is a report, so that nobody has one in each place.
 */
async function outboxHere() {
  const outbox = new BrowserOutbox();
  try {
    await inTime(navigator.locks?.request('prio-outbox', { ifAvailable: true }, () => {}));
    await outbox.save({ key: '' }); // changes nothing, and waits for whoever holds the store
    return [outbox, true, await outbox.claimed(answeredIn(windowOf(moment)))];
  } catch {
    return [new MemoryOutbox(), false, null];
  }
}

const { seconds, offset } = survey.window;
/** The window of a moment, of which a browser takes one answer: a page may stay open beyond it. */
const windowOf = (moment) => `window ${Math.floor((moment / 1000 - offset) / seconds)}`;
/** By the survey's name and not its task: a changed survey has another, and asks the same people. */
const answeredIn = (window) => `${survey.name} answered in ${window} of ${seconds} from ${offset}`;
/** The moment of the answers; when the page was opened, until there are any. */
let moment = Date.now();
let frozen = null;
/** The clock of all clients, which stands still, and is right, while reports are made. */
const now = () => frozen ?? Date.now();
let [outbox, isKept, wasAnswered] = await outboxHere();

/** A client for each text question: its task is tossed for, and that kept, before it has an answer. */
async function openTexts() {
  // Who keeps nothing would toss again at the next visit, and be in two tasks.
  if (!survey.texts.length || !isKept) return [];
  const read = (documents) => documents.map((each) => new Task(each));
  const open = async (asked) => {
    const question = await TextQuestion.read(asked.description, read(asked.tasks));
    const spelled = await Promise.all(asked.spelled.map(({ description, tasks }) =>
      Spelling.read(description, read(tasks), question)));
    return TextClient.open(question, { outbox, now, spelled });
  };
  try {
    return await Promise.all(survey.texts.map(open));
  } catch (error) {
    console.warn(error);
    // No report was made yet; a toss that is kept late is that of the next visit.
    if (error?.name === 'TimeoutError') [outbox, isKept] = [new MemoryOutbox(), false];
    return [];
  }
}
const texts = await openTexts();
/** The client of the survey's own report, if there is one: not where all questions are text. */
const own = survey.task ? [new Client(new Task(survey.task), { outbox, now })] : [];
if (texts.length < survey.texts.length) {
  // All other questions are asked here; which browser it is says nothing of answers.
  questions.splice(survey.questions.length);
  for (const each of fields.splice(survey.questions.length)) each.remove();
  form.querySelector('button').hidden = !questions.length;
  document.getElementById('not-here').hidden = false;
  show();
}
status.textContent = '';
if (!questions.length) say('cannot');
else if (!isKept) say('not_kept');
const clients = [...own, ...texts.flatMap((text) => text.clients)];

/**
 * Store reports, however long it takes: they may be stored already, so there is no other place for
 * them now. Who waits is told so.
 */
async function store(records, claims) {
  const timer = setTimeout(say, 10_000, 'storing');
  try {
    for (;;) {
      try {
        return await outbox.add(records, claims);
      } catch (error) {
        if (error?.name !== 'TimeoutError') throw error; // the store was not even opened
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

const first = clients[0]?.task;
const clock = first && new Clock(first);
/** When these questions are asked, in milliseconds: the interval of all their tasks. */
const [opens, closes] = first?.interval
  ? [first.interval.start, first.interval.end].map((each) => 1000 * Number(each * first.timePrecision))
  : [0, Infinity];
const written = (at) => new Intl.DateTimeFormat(words.lang, { dateStyle: 'long', timeStyle: 'short' }).format(at);
/** When the window after that of a moment begins; null if none does. */
function nextAfter(at) {
  const start = 1000 * ((Math.floor((at / 1000 - offset) / seconds) + 1) * seconds + offset);
  return start < closes ? start : null;
}

/** Why nobody can answer at a moment, in words; null if they can. */
function refusalAt(at, word) {
  if (at < opens) return filled(words.not_begun, { start: written(opens) });
  if (at >= closes) return filled(words.over, { end: written(closes) });
  if (!word) return null;
  const start = nextAfter(at);
  return start === null ? words.no_more : filled(words.no_more_until, { start: written(start) });
}

/** Show what became of the answers, without the questions: a device may be another's next. */
function thank() {
  form.hidden = true;
  form.reset();
  after.hidden = false;
  after.querySelector('h2').focus();
}

/** Send whatever waits, and say how it stands; again until nothing waits. */
async function send() {
  const reasons = [];
  for (const each of clients) reasons.push((await each.flush({ now: true })).reason);
  const outcomes = await Promise.all([
    ...own.map((each) => each.claimed(windowOf(moment))), ...texts.map((text) => text.answered(moment)),
  ]);
  const states = new Set(outcomes.filter(Boolean).map(({ state }) => state));
  const waits = states.has('waiting');
  const start = nextAfter(moment);
  again.textContent = start === null ? '' : filled(words.again, { start: written(start) });
  if (!outcomes[0]) say('already');
  else if (reasons.includes('report_too_early') && clients.some((each) => each.clockAhead > 300)) say('clock');
  else if (waits) say(isKept ? 'kept' : 'kept_by_page');
  else say(states.size > 1 ? 'partly' : [...states][0]);
  return waits;
}

let tries = 0, timer = null;
async function sendUntilDone() {
  try {
    if (!(await send())) return;
  } catch (error) {
    say(error instanceof Unsupported ? 'unsupported' : isKept ? 'kept' : 'kept_by_page');
    if (error instanceof Unsupported) return;
  }
  clearTimeout(timer); // who comes online may be here twice
  timer = setTimeout(sendUntilDone, Math.min(1000 * 2 ** ++tries, 60_000));
}

/** Send what an earlier window's visit has left, and say nothing: who reads has not answered yet. */
function sendLeft() {
  for (const each of clients) each.flush().catch(() => {});
}

addEventListener('online', () => {
  tries = 0;
  if (held) report(...held);
  else if (after.hidden) sendLeft();
  else sendUntilDone();
});

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const answers = questions.map(answerOf);
  if (!mark(answers)) return;
  for (const each of form.elements) each.disabled = true; // they are as they were sent
  await report(answers, Date.now());
});

/** Answers, and their moment by this device's clock, while the time is not known. */
let held = null;
let looking = null;
/** Ask for the time, and report answers. */
async function report(answers, at) {
  clearTimeout(looking);
  held = null;
  const ahead = await clock.look();
  if (ahead === null) {
    // Without the time nobody knows the window that they are of: they wait in this page.
    say('held');
    held = [answers, at];
    looking = setTimeout(() => report(...held), Math.min(1000 * 2 ** ++tries, 60_000));
    return;
  }
  tries = 0;
  const refusal = refusalAt(at - ahead, null);
  if (refusal) {
    status.textContent = refusal;
    form.hidden = true;
    return;
  }
  try {
    await (await webCrypto.ephemeral()).exchange(new Uint8Array(32).fill(9));
    moment = frozen = at - ahead;
    const claim = windowOf(moment);
    // As many reports where every answer is none: whoever sees them learns that they took part.
    const measurement = measurementOf(answers.map(({ entries }) => entries));
    const ofTexts = answers.slice(survey.questions.length);
    const records = [
      ...own.map((each) => each.make(measurement, { claim })),
      ...(await Promise.all(texts.map((text, i) => text.make(ofTexts[i].written)))),
    ];
    await store(records, [answeredIn(claim)]);
    say('sending');
  } catch (error) {
    if (error instanceof AlreadyAnswered) say('already');
    else if (error instanceof OutboxFull) say('full');
    else say('unsupported');
    thank();
    return;
  } finally {
    frozen = null;
  }
  thank();
  // Some browsers forget what a page has kept that nobody visits for a week: the tosses, too.
  if (texts.length) navigator.storage?.persist?.().catch(() => {});
  await sendUntilDone();
}

/** Look, before the first question, what time it is and whether there is an answer to give. */
async function lookFirst() {
  if (!first) return null;
  const [ahead, word] = await Promise.all([clock.look(), clock.refusal()]);
  moment = Date.now() - (ahead ?? 0);
  return refusalAt(moment, word);
}

const seen = windowOf(moment);
// Who is slow to say so keeps nobody waiting.
form.hidden = true;
const patience = new Promise((done) => setTimeout(() => done(refusalAt(moment, null)), 3000));
const looked = lookFirst();
const refused = await Promise.race([looked, patience]);
form.hidden = false;
if (windowOf(moment) !== seen) wasAnswered = await outbox.claimed(answeredIn(windowOf(moment))).catch(() => null);
if (wasAnswered) {
  say('already');
  thank();
  await sendUntilDone();
} else if (refused) {
  status.textContent = refused;
  form.hidden = true;
  sendLeft();
} else {
  sendLeft();
  // The first report is slow: make some while the person reads.
  const nothing = measurementOf(survey.questions.map((question) => question.nothing));
  const idle = globalThis.requestIdleCallback ?? setTimeout;
  for (const each of clients) idle(() => each.warm(own.includes(each) ? nothing : 0));
}
document.documentElement.dataset.ready = 'yes';
if (isEarly && !form.hidden && questions.length) form.requestSubmit();
const late = await looked;
if (late && after.hidden && !held) {
  status.textContent = late;
  form.hidden = true;
}
