/** An outbox in a folder, for programs in Node: each record and each claim is a file. */

import { createHash, randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { AlreadyAnswered, OutboxFull, claimsOfAll } from './outbox.js';

const toText = (value) =>
  JSON.stringify(value, (_, each) => {
    if (typeof each === 'bigint') return { whole: each.toString() };
    return each instanceof Uint8Array ? { bytes: Buffer.from(each).toString('base64') } : each;
  });

const fromText = (text) =>
  JSON.parse(text, (_, each) => {
    if (typeof each?.whole === 'string') return BigInt(each.whole);
    return typeof each?.bytes === 'string'
      ? Uint8Array.from(Buffer.from(each.bytes, 'base64'))
      : each;
  });

/** Names this process, even where every process has the same number. */
const OWN = `${randomBytes(6).toString('hex')}.new`;

const DAY = 86_400_000;

const isMissing = (error) => error.code === 'ENOENT';

export class FolderOutbox {
  /** @param {string} folder made if it is missing, for the owner only: it holds answers */
  constructor(folder) {
    this.folder = folder;
    this.opening = null;
    this.adding = Promise.resolve();
  }

  /**
   * Make the folders; delete what a process was writing a day ago, which may be an answer, when it
   * died; and add the claims that a process left out when it died after writing a record.
   */
  async open() {
    for (const name of ['records', 'claims']) {
      const folder = join(this.folder, name);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      for (const each of await readdir(folder)) {
        if (each.endsWith('.new')) await this.removeOld(join(folder, each));
      }
    }
    for (const record of await this.records()) {
      for (const claim of claimsOfAll([record], [])) {
        if (!(await this.read(this.claimPath(claim)))) await this.write(this.claimPath(claim), { state: 'waiting' });
      }
    }
  }

  /** A young draft may be of a process that lives. */
  async removeOld(draft) {
    try {
      const { mtimeMs } = await stat(draft);
      if (Date.now() - mtimeMs > DAY) await rm(draft, { force: true });
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  ready() {
    this.opening ??= this.open().catch((error) => {
      this.opening = null;
      throw error;
    });
    return this.opening;
  }

  recordPath(key) {
    return join(this.folder, 'records', key);
  }

  claimPath(claim) {
    return join(this.folder, 'claims', createHash('sha256').update(claim).digest('hex'));
  }

  async read(path) {
    try {
      return fromText(await readFile(path, 'utf8'));
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  /**
   * Write a file that is whole or not there, and on the disk when this returns.
   *
   * @param place `rename`, or `link` to replace nothing
   */
  async write(path, value, place = rename, draft = `${path}.${OWN}`) {
    try {
      const file = await open(draft, 'w', 0o600);
      try {
        await file.writeFile(toText(value));
        await file.sync();
      } finally {
        await file.close();
      }
      await place(draft, path);
      await this.sync(path);
    } catch (error) {
      await rm(draft, { force: true });
      if (error.code === 'ENOSPC' || error.code === 'EDQUOT') {
        throw new OutboxFull('the disk is full', { cause: error });
      }
      throw error;
    }
  }

  /** Put a file's name on the disk. */
  async sync(path) {
    const folder = await open(join(path, '..'));
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  async records() {
    const names = await readdir(join(this.folder, 'records'));
    const found = names.filter((name) => !name.endsWith('.new'));
    const records = await Promise.all(found.map((name) => this.read(this.recordPath(name))));
    return records.filter((record) => record !== null);
  }

  async add(records, claims = []) {
    await this.ready();
    const all = claimsOfAll(records, claims);
    // One after the other: a claim is looked for before it is made.
    const turn = this.adding.then(() => this.addNow(records, all));
    this.adding = turn.catch(() => {});
    return turn;
  }

  async addNow(records, claims) {
    for (const claim of claims) {
      if (await this.read(this.claimPath(claim))) throw new AlreadyAnswered(claim);
    }
    const made = [];
    try {
      for (const record of records) {
        made.push(this.recordPath(record.key));
        await this.write(made.at(-1), record);
      }
      for (const claim of claims) {
        made.push(this.claimPath(claim));
        await this.write(made.at(-1), { state: 'waiting' });
      }
    } catch (error) {
      for (const path of made) await rm(path, { force: true });
      throw error;
    }
  }

  async save(record) {
    await this.ready();
    if (await this.read(this.recordPath(record.key))) {
      await this.write(this.recordPath(record.key), record);
    }
  }

  async settle(record, outcome) {
    await this.ready();
    if (!(await this.read(this.recordPath(record.key)))) return;
    // In this order, so that a process that dies in between sends the same bytes once more.
    const isOpen = record.claim !== null && (await this.claimed(record.claim))?.state === 'waiting';
    if (isOpen) await this.write(this.claimPath(record.claim), outcome);
    await rm(this.recordPath(record.key), { force: true });
  }

  async list(task) {
    await this.ready();
    const own = (await this.records()).filter((record) => record.task === task);
    return own.sort((a, b) => a.created - b.created);
  }

  async claimed(claim) {
    await this.ready();
    return this.read(this.claimPath(claim));
  }

  /**
   * If two processes come at once, only one makes the link. The other may read the value before
   * the first has synced the name to disk, so it syncs too.
   */
  async keep(name, value) {
    await this.ready();
    const path = this.claimPath(name);
    if (!(await this.read(path))) {
      const draft = `${path}.${randomBytes(6).toString('hex')}.${OWN}`;
      try {
        await this.write(path, { kept: value }, link, draft);
      } catch (error) {
        if (error.code !== 'EEXIST') throw error;
      }
      await rm(draft, { force: true });
    }
    const { kept } = await this.read(path);
    await this.sync(path);
    return kept;
  }
}
