export type FindingCode =
  | "form"
  /** Some line of the approvals is not as it was exported. */
  | "checksum"
  /** The transaction does not have the digest. */
  | "digest"
  /** An entry of the log is absent, repeated or about something else. */
  | "asked"
  | "given"
  | "used"
  | "call"
  /** The log recorded another assertion. */
  | "evidence"
  | "public_key"
  | "client_data"
  | "challenge"
  | "origin"
  | "rp_id"
  | "user_verification"
  | "signature";

export interface ApprovalFinding {
  code: FindingCode;
  message: string;
}

export class BadEvidenceError extends Error {
  override readonly name = "BadEvidenceError";
  readonly code: FindingCode;

  constructor(code: FindingCode, message: string) {
    super(message);
    this.code = code;
  }
}
