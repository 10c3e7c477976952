// The page of a survey: reads answers, hands them to the clients, and says what becomes of them.

const survey = JSON.parse(document.getElementById('survey').textContent);
/** Those of the survey's own report, and then text questions, each of a report by itself. */
const questions = [...survey.questions, ...survey.texts];
const form = document.querySelector('form');
const fields = [...form.querySelectorAll('fieldset')];
const after = document.getElementById('after');
const again = document.getElementById('again');
const status = document.getElementById('status');
/** What the answers are made into: here they are read from the fields. */
const sheet = new Sheet(survey);
const speech = new Speech(survey.languages);
/** What each element says whose text depends on the language. */
const says = new Map();
function put(element, said) {
  says.set(element, said);
  element.textContent = speech.text(said);
}
const say = (word, values) => put(status, [word, values]);

/** Say everything in the language that is chosen. */
function speak() {
  Object.assign(document.documentElement, { lang: speech.tag, dir: speech.words.dir });
  for (const [element, said] of says) {
    if (element.isConnected) put(element, said);
    else says.delete(element);
  }
  for (const each of document.querySelectorAll('[data-h]')) each.href = speech.own[each.dataset.h];
}

for (const each of document.querySelectorAll('[data-t]')) put(each, survey.places[each.dataset.t]);
const picker = document.getElementById('language');
if (picker) picker.value = speech.place;
picker?.addEventListener('change', () => {
  speech.choose(Number(picker.value));
  speak();
});
speak();

/** Whether some write a thousand so, others one, and the question asks for no thousandths. */
const isUnclear = (text, { low, step }) =>
  /^\s*[-+\u2212]?[1-9]\d{0,2}[.,]\d{3}\s*$/.test(text) &&
  [low, step].every(([above, below]) => (100n * BigInt(above)) % BigInt(below) === 0n);

/** What a field's number is read as; a comma is a point. Null if it is none, or unclear. */
function numberIn(text, grid, read) {
  if (isUnclear(text, grid) || /e/i.test(text)) return null; // nobody writes powers of ten
  try {
    return read(text.replace(',', '.').replace('\u2212', '-'));
  } catch {
    return null;
  }
}
const stepsIn = (text, grid) => numberIn(latin(text), grid, (plain) => stepsOf(plain, grid));

/** What is chosen in a question. */
const chosenIn = (i) =>
  [...form.querySelectorAll(`[name="q${i}"]:checked`)].map((each) => each.value);

/** Show the questions that are asked, and number them. */
function show() {
  const asked = sheet.asked(questions.map((question, i) => answerOf(question, i).read ?? null));
  fields.forEach((each, i) => (each.hidden = !asked[i]));
  const shown = fields.filter((each) => !each.hidden);
  shown.forEach((each, i) => {
    put(each.querySelector('legend small'), ['question', { number: i + 1, count: shown.length }]);
  });
}

const isAlone = ({ type, value }) => type === 'checkbox' && ['skip', 'none'].includes(value);

/** Who ticks "None of these" or "I'd rather not say" has chosen nothing else, and vice versa. */
function exclude({ target }) {
  if (target.type === 'checkbox' && !target.checked) return;
  for (const other of target.closest('fieldset')?.querySelectorAll('[type=checkbox]') ?? []) {
    if (other !== target && (isAlone(target) || isAlone(other))) other.checked = false;
  }
}

form.addEventListener('input', exclude);
form.addEventListener('input', show);
show();

/** An answer in whole numbers, and what is written in words; or the word of what is wrong. */
function answerOf(question, i) {
  const none = { read: null, written: null };
  const chosen = chosenIn(i);
  if (chosen.includes('skip')) return none;
  if (question.kind === 'text') {
    const { value: written } = form.elements[`q${i}-text`], isBlank = normalForm(written) === '';
    if (!question.grid) return isBlank ? { fault: 'fault_text' } : { ...none, written };
    const input = form.elements[`q${i}-number`], steps = stepsIn(input.value, question.grid);
    const wrong = [...(isBlank ? [form.elements[`q${i}-text`]] : []), ...(steps === null ? [input] : [])];
    if (wrong.length) return { fault: isBlank ? 'fault_text' : 'fault_number', wrong };
    return { ...none, written: [written, steps] };
  }
  if (question.kind === 'numbers') {
    const inputs = [...form.querySelectorAll(`[name="q${i}-number"]`)];
    const read = inputs.map(({ value }, at) => stepsIn(value, question.columns[at].grid));
    const wrong = inputs.filter((_, at) => read[at] === null);
    return wrong.length ? { fault: 'fault_numbers', wrong } : { read };
  }
  const { range, grid } = question;
  if (range || grid) {
    const { value } = form.elements[`q${i}-number`];
    const { edges, clip } = question;
    const place = grid ? stepsIn(value, grid) : numberIn(latin(value), range, (plain) => rangeOf(plain, edges, clip));
    return place === null ? { fault: 'fault_number' } : { read: [place] };
  }
  if (!chosen.length) return { fault: 'fault_one' };
  const read = chosen.filter((each) => each !== 'none').map(Number);
  return read.length > question.at_most ? { read, fault: 'fault_most' } : { read };
}

/** Mark what has to be looked at again; whether there is nothing. */
function mark(answers) {
  const list = document.querySelector('#faults ul');
  list.replaceChildren();
  answers.forEach(({ fault, wrong }, i) => {
    const at = document.getElementById(`q${i}-fault`);
    at.hidden = !fault;
    put(at, fault ? [fault, questions[i].names] : null);
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
    put(link, questions[i].text);
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

/** The link or permits of whoever answers, where only such answers count, and whose they are here. */
const link = survey.invited ? await personalLink(form, put) : null, person = link?.name ?? '';

const keep = document.getElementById('keep');
const unsent = new Unsent(form, keep, (survey.task ?? survey.texts[0].tasks[0]).id + person, () => localStorage);
let isFilled = false;
form.addEventListener('input', ({ target }) => (isFilled ||= target !== keep));
show();

const described = {
  task: survey.task && new Task(survey.task), sheet: survey, window: survey.window, name: survey.name,
};
const begin = (outbox, texts = []) => new Asking({ ...described, texts }, { outbox, patience: 10_000 });
/** When the page was opened; by this device's clock, until the time is known. */
let opened = Date.now();
/** The moment of the answers; when the page was opened, until there are any. */
let moment = opened;

/**
 * Where reports wait: in the browser, or where it keeps nothing or does not answer in time, in the
 * page. That is decided before there is a report, so that nobody has one in each place.
 */
async function outboxHere() {
  const outbox = new BrowserOutbox();
  try {
    await inTime(navigator.locks?.request('prio-outbox', { ifAvailable: true }, () => {}));
    await outbox.save({ key: '' }); // changes nothing, and waits for whoever holds the store
    return [outbox, true, await outbox.claimed(begin(outbox).answeredIn(person, moment))];
  } catch {
    return [new MemoryOutbox(), false, null];
  }
}
let [outbox, isKept, wasAnswered] = await outboxHere();
let asking = begin(outbox);

/** A client for each text question: its task is tossed for, and that kept, before it has an answer. */
async function openTexts() {
  // Who keeps nothing would toss again at the next visit, and be in two tasks; a link is in one.
  if (!survey.texts.length || !(isKept || link)) return [];
  const read = (documents) => documents.map((each) => new Task(each));
  const open = async (asked) => {
    const question = await TextQuestion.read(asked.description, read(asked.tasks));
    const spelled = await Promise.all(asked.spelled.map(({ description, tasks }) =>
      Spelling.read(description, read(tasks), question)));
    return { question, spelled };
  };
  try {
    asking = begin(outbox, await Promise.all(survey.texts.map(open)));
    return await asking.openTexts(survey.draft + person);
  } catch (error) {
    console.warn(error);
    // No report was made yet; a toss that is kept late is that of the next visit.
    if (error?.name === 'TimeoutError') [outbox, isKept] = [new MemoryOutbox(), false];
    asking = begin(outbox);
    return [];
  }
}
const texts = await openTexts();
const { own, clients, clock } = asking;
if (texts.length < survey.texts.length) {
  // All other questions are asked here; which browser it is says nothing of answers.
  questions.splice(survey.questions.length);
  for (const each of fields.splice(survey.questions.length)) each.remove();
  form.querySelector('button').hidden = !questions.length;
  document.getElementById('not-here').hidden = false;
  show();
}
put(status, null);
if (!questions.length) say('cannot');
else if (!isKept) say('not_kept');

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

/** Why nobody can answer at a moment, in words; null if they can. */
function refusalAt(at, word) {
  const closed = asking.closedAt(at, word);
  if (!closed) return null;
  if (at < asking.opens) return ['not_begun', { start: closed.at }];
  if (at >= asking.closes) return ['over', { end: closed.at }];
  return closed.at === null ? ['no_more'] : ['no_more_until', { start: closed.at }];
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
    ...own.map((each) => each.claimed(asking.claimOf(person, moment))), ...texts.map((text) => text.answered(moment)),
  ]);
  const states = new Set(outcomes.filter(Boolean).map(({ state }) => state));
  const waits = states.has('waiting');
  const start = asking.nextAfter(moment);
  put(again, start === null ? null : ['again', { start }]);
  const ofLink = link && [...outcomes.map((each) => each?.reason), ...reasons].map((each) => OF_LINKS[each]).find(Boolean);
  if (!outcomes[0]) say('already');
  else if (reasons.includes('report_too_early') && clients.some((each) => each.clockAhead > 300)) say('clock');
  else if (ofLink && states.size === 1) say(ofLink);
  else if (waits) say(isKept ? 'kept' : 'kept_by_page');
  else say(states.size > 1 ? 'partly' : [...states][0]);
  isWaiting = waits;
  return waits;
}

/** Whether there is a report that is not sent. */
let isWaiting = false;
addEventListener('beforeunload', (event) => {
  const isUnsent = after.hidden && !form.hidden && isFilled && !unsent.isKept;
  if (isUnsent || (isWaiting && !isKept)) event.preventDefault();
});

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
  // Who is not asked has given no answer, in a report like everybody's.
  const none = { read: null, written: null };
  const answers = questions.map((question, i) => (fields[i].hidden ? none : answerOf(question, i)));
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
    put(status, refusal);
    form.hidden = true;
    unsent.end();
    return;
  }
  if (survey.texts.length && asking.windowOf(at - ahead) !== asking.windowOf(opened)) {
    // Nobody collects what is written in a window of letters, which a page of before knows nothing of.
    put(status, ['stale', { start: asking.nextAfter(opened) }]);
    for (const each of form.elements) each.disabled = false;
    isFilled = false; // who does as they are told is not asked whether they mean it
    return;
  }
  try {
    moment = at - ahead;
    const [own, ofTexts] = [answers.slice(0, survey.questions.length), answers.slice(survey.questions.length)];
    const [records, claims] = await asking.make(
      own.map(({ read }) => read), ofTexts.map(({ written }) => written), { texts, person, moment, link },
    );
    await store(records, claims);
    link?.tidy?.().catch(() => {}); // it is done at the next visit
    isWaiting = true;
    unsent.end();
    say('sending');
  } catch (error) {
    if (error instanceof AlreadyAnswered) unsent.end();
    if (error instanceof AlreadyAnswered) say('already');
    else if (error instanceof OutboxFull) say('full');
    else if (error.name === 'NoPermit') say('permit_none');
    else say('unsupported');
    thank();
    return;
  }
  thank();
  // Some browsers forget what a page has kept that nobody visits for a week: the tosses, too.
  if (texts.length) navigator.storage?.persist?.().catch(() => {});
  await sendUntilDone();
}

/** Look, before the first question, what time it is and whether there is an answer to give. */
async function lookFirst() {
  if (!clock) return null;
  const [ahead, word] = await Promise.all([clock.look(), clock.refusal()]);
  moment = opened = Date.now() - (ahead ?? 0);
  return refusalAt(moment, word);
}

const seen = asking.windowOf(moment);
// Who is slow to say so keeps nobody waiting.
form.hidden = true;
const patience = new Promise((done) => setTimeout(() => done(refusalAt(moment, null)), 3000));
const looked = lookFirst();
const refused = await Promise.race([looked, patience]);
form.hidden = false;
if (asking.windowOf(moment) !== seen) {
  wasAnswered = await outbox.claimed(asking.answeredIn(person, moment)).catch(() => null);
}
if (wasAnswered) {
  unsent.end();
  say('already');
  thank();
  await sendUntilDone();
} else if (refused || (await link?.isMissing?.(moment).catch(() => true))) {
  put(status, refused ?? ['permit_none']);
  form.hidden = true;
  sendLeft();
} else {
  sendLeft();
  // The first report is slow: make some while the person reads.
  const nothing = sheet.measurement(survey.questions.map(() => null));
  const idle = globalThis.requestIdleCallback ?? setTimeout;
  for (const each of clients) idle(() => each.warm(own.includes(each) ? nothing : 0));
}
document.documentElement.dataset.ready = 'yes';
if (isEarly && !form.hidden && questions.length) form.requestSubmit();
const late = await looked;
if (late && after.hidden && !held) {
  put(status, late);
  form.hidden = true;
}
