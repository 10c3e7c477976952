/** Personal links, for pages of surveys by invitation: see links.d.ts. */

export { Link } from './link.js';
