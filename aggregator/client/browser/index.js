/** Reports of Prio aggregator, made and sent from a browser or Node: see index.d.ts. */

export { DecodeError, toBase64Url } from './bytes.js';
export { MeasurementError } from './digits.js';
export { Client } from './client.js';
export { Unsupported, seal, webCrypto } from './hpke.js';
export { AlreadyAnswered, BrowserOutbox, MemoryOutbox, OutboxFull } from './outbox.js';
export { Prio3 } from './prio3.js';
export { prepare, preferredConfig, random, sealReport, uploadErrors } from './report.js';
export { Task } from './task.js';
