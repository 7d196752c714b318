export interface Finding {
  code: FindingCode;
  /** The first bad entry is in this range. Null if all entries are proven. */
  firstSequence: number | null;
  lastSequence: number | null;
  message: string;
}

export type FindingCode =
  | "form"
  /** A different log, or an invalid start. */
  | "log"
  /** An entry, or all of a log. */
  | "missing"
  /** An entry or a log is repeated or misplaced. */
  | "order"
  | "leaf"
  /** An entry does not match the previous chain hash. */
  | "chain"
  | "claimed_email"
  /** The entries do not produce the signed root. */
  | "root"
  /** Two roots were signed for one size. */
  | "fork"
  /** The log is shorter than its checkpoint. */
  | "short"
  /** No trusted key has signed the note. */
  | "signature"
  | "removal"
  /** No checkpoint covers the last entries. */
  | "uncovered";

export interface LogsVerdict {
  /** The worst of the logs'. */
  result: Verdict["result"];
  /** As in the file, then those that are missing. At least one. */
  logs: readonly Verdict[];
}

export interface Verdict {
  /** `unproven`: a partial log without a comparable checkpoint for its last entries. */
  result: "proven" | "unproven" | "tampered";
  /** The first bad entry comes first. Empty unless tampered. */
  findings: readonly Finding[];
  origin: string;
  firstSequence: number;
  lastSequence: number;
  /** By any signed checkpoint. 0 for none. */
  provenUpTo: number;
  /** Proven by a checkpoint from outside the log. 0 for none. */
  trustedUpTo: number;
  /** How many were compared. `noted` in log 0, of another log. */
  checkpoints: { ofLog: number; noted?: number; trusted: number };
  erasedAddresses: number;
  caveats: readonly string[];
}
