export interface Finding {
  code: FindingCode;
  /** The first bad entry, or the earliest that may be it. Null if all entries are proven. */
  firstSequence: number | null;
  /** The latest that may be the first bad entry. */
  lastSequence: number | null;
  message: string;
}

export type FindingCode =
  /** The line is not part of an export. */
  | "form"
  /** A different log, or an invalid start. */
  | "log"
  | "missing"
  /** An entry is repeated or misplaced. */
  | "order"
  /** An entry differs from its leaf hash. */
  | "leaf"
  /** An entry does not match the previous chain hash. */
  | "chain"
  /** An address differs from its hash. */
  | "claimed_email"
  /** The entries do not produce the signed root. */
  | "root"
  /** Two roots were signed for one size. */
  | "fork"
  /** The log is shorter than its checkpoint. */
  | "short"
  /** No trusted key has signed the note. */
  | "signature"
  /** Entries are missing without a signed removal. */
  | "removal"
  /** No checkpoint covers the last entries. */
  | "uncovered";

export interface Verdict {
  /** `unproven`: a partial log without a comparable checkpoint for its last entries. */
  result: "proven" | "unproven" | "tampered";
  /** The first bad entry comes first. Empty unless tampered. */
  findings: readonly Finding[];
  origin: string;
  firstSequence: number;
  lastSequence: number;
  /** Covered by any signed checkpoint. 0 for none. */
  provenUpTo: number;
  /** Covered by a checkpoint from outside the log. 0 for none. */
  trustedUpTo: number;
  checkpoints: { ofLog: number; trusted: number };
  /** The hashes of erased addresses prove nothing. */
  erasedAddresses: number;
  caveats: readonly string[];
}
