import type { Outbox, OutboxRecord, Outcome } from './index.js';

/** In a folder, a file for each report: what it keeps survives the process. */
export class FolderOutbox implements Outbox {
  constructor(folder: string);
  add(records: OutboxRecord[], claims?: string[]): Promise<void>;
  save(record: OutboxRecord): Promise<void>;
  settle(record: OutboxRecord, outcome: Outcome): Promise<void>;
  list(task: string): Promise<OutboxRecord[]>;
  claimed(claim: string): Promise<Outcome | null>;
  keep<T extends number | string>(name: string, value: T): Promise<T>;
}
