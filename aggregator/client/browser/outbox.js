/**
 * Where reports wait until they are settled: in IndexedDB, or in memory.
 *
 * A record holds both shares of a report, and so the answer, until there is an outcome; then it is
 * deleted. A claim says that something was answered, and what became of it, but not what.
 *
 * An outbox has five methods and, for text questions, `keep`; `node.js` has one that keeps files.
 * `add` and `settle` change records and their claims together or not at all. The first value that
 * `keep` was given under a name stays for ever.
 */

/** The same was answered before, as far as this outbox remembers. */
export class AlreadyAnswered extends Error {
  name = 'AlreadyAnswered';

  constructor(claim) {
    super(`${claim} was answered before`);
  }
}

/** There is no room for one more report. */
export class OutboxFull extends Error {
  name = 'OutboxFull';
}

/** What records claim, and what is claimed beside them; nothing may be claimed twice. */
export function claimsOfAll(records, claims) {
  const own = records.flatMap(({ claim, also = [] }) => (claim === null ? also : [claim, ...also]));
  const all = [...own, ...claims];
  const twice = all.find((claim, i) => all.indexOf(claim) !== i);
  if (twice !== undefined) throw new AlreadyAnswered(twice);
  return all;
}

/** For pages that a device must not remember, and for programs without a store. */
export class MemoryOutbox {
  records = new Map();
  claims = new Map();

  /** Add records and their claims, all of them or none. */
  async add(records, claims = []) {
    const all = claimsOfAll(records, claims);
    const taken = all.find((claim) => this.claims.has(claim));
    if (taken !== undefined) throw new AlreadyAnswered(taken);
    for (const record of records) this.records.set(record.key, record);
    for (const claim of all) this.claims.set(claim, { state: 'waiting' });
  }

  /** Replace a record, unless it is settled. */
  async save(record) {
    if (this.records.has(record.key)) this.records.set(record.key, record);
  }

  /** Delete a record, and say in its claim what became of it; what is settled stays so. */
  async settle(record, outcome) {
    const isThere = this.records.delete(record.key);
    if (isThere && record.claim !== null) this.claims.set(record.claim, outcome);
  }

  /** All records of a task, the oldest first. */
  async list(task) {
    const own = [...this.records.values()].filter((each) => each.task === task);
    return own.sort((a, b) => a.created - b.created);
  }

  /** What became of a claim, or null. */
  async claimed(claim) {
    return this.claims.get(claim) ?? null;
  }

  /** Keep a value under a name, unless there is one; return the one that is kept. */
  async keep(name, value) {
    if (!this.claims.has(name)) this.claims.set(name, { kept: value });
    return this.claims.get(name).kept;
  }
}

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** What a promise gives within ten seconds: some browsers never answer, and say nothing. */
export function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(reject, 10_000, new DOMException('no answer', 'TimeoutError'));
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * Reports that survive the page, the browser and the device being turned off.
 *
 * What a browser does not do within ten seconds fails with a `TimeoutError`, and is not done later,
 * unless it is being written already. Only `add` waits for as long as it takes, once its
 * transaction has begun: a report that may be stored is not made again.
 */
export class BrowserOutbox {
  constructor(name = 'prio-outbox') {
    this.name = name;
  }

  async open() {
    const opening = indexedDB.open(this.name, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore('records', { keyPath: 'key' }).createIndex('task', 'task');
      opening.result.createObjectStore('claims');
    };
    const opened = done(opening);
    try {
      const database = await inTime(opened);
      // Another tab may need to change it, and browsers close it when they clear their data.
      database.onversionchange = database.onclose = () => {
        database.close();
        this.database = null;
      };
      return database;
    } catch (error) {
      this.database = null;
      opened.then((late) => late.close(), () => {});
      throw error;
    }
  }

  /** Do `work` in one transaction, which is on the disk when this returns, or fails as a whole. */
  async within(mode, work, limited = inTime) {
    let transaction;
    try {
      const database = await (this.database ??= this.open());
      const names = ['records', 'claims'];
      transaction = database.transaction(names, mode, { durability: 'strict' });
      const finished = new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error ?? new Error('the transaction ended'));
      });
      const stores = names.map((name) => transaction.objectStore(name));
      return (await limited(Promise.all([work(...stores), finished])))[0];
    } catch (error) {
      try {
        transaction.abort();
      } catch {
        // It has not begun, or has ended by itself.
      }
      if (error?.name === 'QuotaExceededError') {
        throw new OutboxFull('this browser has no room left', { cause: error });
      }
      throw error;
    }
  }

  add(added, claimed = []) {
    return this.within('readwrite', async (records, claims) => {
      const all = claimsOfAll(added, claimed);
      for (const claim of all) {
        if (await done(claims.get(claim))) throw new AlreadyAnswered(claim);
      }
      // What goes wrong from here on ends the transaction, whose error says what it was.
      for (const claim of all) claims.add({ state: 'waiting' }, claim);
      for (const record of added) records.add(record);
    }, (storing) => storing);
  }

  /** In one transaction, so that two tabs at once keep one value. */
  keep(name, value) {
    return this.within('readwrite', async (_, claims) => {
      const found = await done(claims.get(name));
      if (found) return found.kept;
      claims.add({ kept: value }, name);
      return value;
    });
  }

  save(record) {
    return this.within('readwrite', async (records) => {
      if (await done(records.get(record.key))) records.put(record);
    });
  }

  settle(record, outcome) {
    return this.within('readwrite', async (records, claims) => {
      if (!(await done(records.get(record.key)))) return; // another tab was quicker
      records.delete(record.key);
      if (record.claim !== null) claims.put(outcome, record.claim);
    });
  }

  async list(task) {
    const read = async (records) => done(records.index('task').getAll(task));
    return (await this.within('readonly', read)).sort((a, b) => a.created - b.created);
  }

  async claimed(claim) {
    return (await this.within('readonly', async (_, claims) => done(claims.get(claim)))) ?? null;
  }
}
