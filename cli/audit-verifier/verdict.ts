/** What is wrong, and where. */
export interface Finding {
  code: FindingCode;
  /** Sequence of the first bad entry, or of the first that may be it; null if every entry is proven all the same. */
  firstSequence: number | null;
  /** Of the last that may be the first bad one; the same as `firstSequence` where that is known exactly. */
  lastSequence: number | null;
  /** What to tell a person. */
  message: string;
}

export type FindingCode =
  /** A line is not what an export has there. */
  | "form"
  /** The log is another one, or begins otherwise than it can. */
  | "log"
  /** An entry is missing. */
  | "missing"
  /** An entry stands twice, or not in its place. */
  | "order"
  /** An entry is not the one that was hashed. */
  | "leaf"
  /** An entry does not follow from the one before. */
  | "chain"
  /** A claimed e-mail address is not the one that was hashed. */
  | "claimed_email"
  /** The entries do not give the root that was signed. */
  | "root"
  /** Two different roots were signed for one size. */
  | "fork"
  /** The log is shorter than it was. */
  | "short"
  /** A note that no trusted key has signed. */
  | "signature"
  /** Entries are gone and no signed note says so. */
  | "removal"
  /** No checkpoint covers the last entries. */
  | "uncovered";

/** What a verification has come to. */
export interface Verdict {
  /** `unproven`: nothing is wrong, but no checkpoint that could be compared covers the last entries of a part of a log. */
  result: "proven" | "unproven" | "tampered";
  /** The one of the first bad entry comes first. Empty unless tampered. */
  findings: readonly Finding[];
  origin: string;
  firstSequence: number;
  lastSequence: number;
  /** Entries up to here are proven by a signed checkpoint, the log's own ones included; 0 for none. */
  provenUpTo: number;
  /** Entries up to here are proven by a checkpoint from outside the log; 0 for none. */
  trustedUpTo: number;
  /** Number of checkpoints that were compared with the entries. */
  checkpoints: { ofLog: number; trusted: number };
  /** Number of claimed e-mail addresses that were erased: their hashes say nothing any more. */
  erasedAddresses: number;
  /** What is not proven, in sentences. */
  caveats: readonly string[];
}
