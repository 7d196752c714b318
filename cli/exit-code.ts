/** Codes above 1 follow BSD's sysexits(3). */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 64,
  /** EX_DATAERR: the audit log, or the evidence of an approval, was changed. */
  tampered: 65,
  /** EX_NOINPUT: unreadable or invalid file. */
  input: 66,
  /** EX_UNAVAILABLE: unreachable or unavailable service. */
  unavailable: 69,
  /** EX_CANTCREAT: unwritable file. */
  output: 73,
  /** EX_CONFIG: missing or invalid configuration. */
  config: 78,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
