/** Signed permits, for applications with a login: see signed.d.ts. */

export { NoPermit, Permits } from './signed_permits.js';
