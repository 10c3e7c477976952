import type { Permit, Task } from './index.js';

/**
 * A person's link, of a survey or a task that counts only reports with a permit. A page that has
 * this part reads such tasks; one that has not refuses them.
 */
export class Link {
  /** Read a code, or a link that ends with one. @throws {DecodeError} it is none */
  static read(text: string): Promise<Link>;
  /** By which a device remembers whose answers it has sent. */
  readonly name: string;
  /** What `Client.put` needs for a moment, in milliseconds since 1970. */
  permit(task: Task, moment: number, number?: number): Promise<Permit>;
}
