/** Who asks while there are no identities: the owner credential is the principal, and its one tenant owns everything. */
export const LOCAL_TENANT = 'local';
export const OWNER_PRINCIPAL = 'owner';
/** `server` of the owner credential that belongs to the embedded coordinator. */
export const EMBEDDED_SERVER = 'embedded';
export const OWNER_TOKEN_PREFIX = 'bbo';
