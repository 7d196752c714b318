/** What the command line ends with. Above 1 they are those of BSD's sysexits(3). */
export const EXIT = {
  ok: 0,
  /** Refused by the service, or failed there. */
  failed: 1,
  /** EX_USAGE: the command line is wrong. */
  usage: 64,
  /** EX_DATAERR: the audit log is not the one that was signed. */
  tampered: 65,
  /** EX_NOINPUT: a file cannot be read, or is not what it should be. */
  input: 66,
  /** EX_UNAVAILABLE: the service cannot be reached, or cannot answer now. */
  unavailable: 69,
  /** EX_CANTCREAT: a file cannot be written. */
  output: 73,
  /** EX_CONFIG: certificates, an address or a file are missing or cannot be used. */
  config: 78,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
