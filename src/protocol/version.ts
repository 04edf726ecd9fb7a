/** The version of this program, and what one process says of it to another. */
declare const BUILD_VERSION: string | undefined;

export const VERSION: string = typeof BUILD_VERSION === 'string' ? BUILD_VERSION : '0.0.0';
export const VERSION_HEADER = 'x-botbuddy-version';
/** The highest event that a client saw; a coordinator behind it catches up before it answers. */
export const SEEN_SEQ_HEADER = 'x-botbuddy-seen-seq';
/** What a Helper and a coordinator must agree on. */
export const HELPER_PROTOCOL_VERSION = 4;
