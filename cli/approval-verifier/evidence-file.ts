import { createHash } from "node:crypto";
import { LineError, parseExportLine } from "../audit-verifier/export-line.ts";
import { readLines } from "../audit-verifier/read-lines.ts";
import { type ApprovalFinding, BadEvidenceError } from "./finding.ts";

/** Bytes are base64, in the order of `JSON.stringify`. */
export interface PasskeyEvidence {
  authenticatorData: string;
  clientData: string;
  credentialId: string;
  nonce: string;
  passkeyId: string;
  publicKey: string;
  rpId: string;
  signature: string;
}

export interface ApprovalLine {
  type: "approval";
  id: string;
  /** RFC 8785. */
  transaction: string;
  /** Lower-case hexadecimal. */
  digest: string;
  method: string;
  passkey?: PasskeyEvidence;
}

const VERSION = 1;
const PASSKEY_MEMBERS = [
  "authenticatorData",
  "clientData",
  "credentialId",
  "nonce",
  "passkeyId",
  "publicKey",
  "rpId",
  "signature",
] as const;

/** Formats the file: a head, a line an approval, and an end with the SHA-256 of all before it. */
export class EvidenceWriter {
  readonly #hash = createHash("sha256");
  #approvals = 0;

  get approvals(): number {
    return this.#approvals;
  }

  head(): string {
    return this.#line({ type: "approvals", v: VERSION });
  }

  lines(approvals: readonly ApprovalLine[]): string {
    this.#approvals += approvals.length;
    return approvals.map((approval) => this.#line(approval)).join("");
  }

  end(): string {
    return `${JSON.stringify({ type: "end", approvals: this.#approvals, sha256: this.#hash.digest("hex") })}\n`;
  }

  #line(value: object): string {
    const line = `${JSON.stringify(value)}\n`;
    this.#hash.update(line);
    return line;
  }
}

export class NotEvidenceError extends Error {
  override readonly name = "NotEvidenceError";
}

/**
 * Reads all of the file, because any change counts.
 * @param onRead Called with the approvals read so far.
 * @throws {NotEvidenceError} for another file, and errors of the file system.
 */
export async function readEvidence(
  path: string,
  id: string,
  onRead?: (approvals: number) => void,
): Promise<{ approval: ApprovalLine | undefined; findings: ApprovalFinding[] }> {
  const hash = createHash("sha256");
  let approval: ApprovalLine | undefined;
  let approvals = -1;
  let isEnded = false;
  try {
    for await (const batch of readLines(path)) {
      for (const bytes of batch) {
        if (isEnded) throw new BadEvidenceError("form", "the file goes on after its end");
        const line = parseExportLine(bytes);
        if (approvals === -1) checkHead(line);
        else if (typeOf(line) === "end") {
          checkEnd(line, { approvals, sha256: hash.digest("hex") });
          isEnded = true;
          continue;
        } else {
          checkApproval(line);
          if (line.id === id && approval !== undefined)
            throw new BadEvidenceError("form", "it is there twice");
          if (line.id === id) approval = line;
        }
        approvals += 1;
        hash.update(bytes).update("\n");
      }
      onRead?.(approvals);
    }
    if (approvals === -1) throw new NotEvidenceError("It is empty.");
    if (!isEnded) throw new BadEvidenceError("form", "the end of the file is missing");
    return { approval, findings: [] };
  } catch (error) {
    if (!(error instanceof LineError || error instanceof BadEvidenceError)) throw error;
    if (approvals === -1) throw new NotEvidenceError(`The first line ${error.message}`);
    const where = `line ${approvals + 2} of the approvals`;
    const code = error instanceof BadEvidenceError ? error.code : "form";
    return { approval, findings: [{ code, message: `${where}: ${error.message}` }] };
  }
}

function checkHead(line: unknown): void {
  const isHead = JSON.stringify(line) === JSON.stringify({ type: "approvals", v: VERSION });
  if (!isHead) throw new LineError("is not the head of exported approvals of this version");
}

function checkEnd(line: unknown, expected: { approvals: number; sha256: string }): void {
  if (JSON.stringify(line) === JSON.stringify({ type: "end", ...expected })) return;
  throw new BadEvidenceError("checksum", "the file is not as it was exported");
}

function checkApproval(line: unknown): asserts line is ApprovalLine {
  const { type, id, transaction, digest, method, passkey, ...rest } = (line ?? {}) as Partial<ApprovalLine>;
  const texts = [id, transaction, digest, method];
  const isProper = type === "approval" && texts.every((text) => typeof text === "string");
  if (!isProper || Object.keys(rest).length > 0) throw new LineError("is not an approval");
  if ((method === "passkey") !== (passkey !== undefined)) {
    throw new LineError(
      passkey === undefined ? "has no passkey's evidence" : "has evidence of another method",
    );
  }
  if (passkey === undefined) return;
  const isWhole = PASSKEY_MEMBERS.every((name) => typeof passkey?.[name] === "string");
  if (!isWhole || Object.keys(passkey).length !== PASSKEY_MEMBERS.length) {
    throw new LineError("has no whole evidence of a passkey");
  }
}

function typeOf(line: unknown): unknown {
  return typeof line === "object" && line !== null && "type" in line ? line.type : undefined;
}
