import { hash } from "node:crypto";
import type { LoggedEntry } from "../audit-verifier/logged-entry.ts";
import type { ApprovalLine } from "./evidence-file.ts";
import { type ApprovalFinding, BadEvidenceError } from "./finding.ts";
import { checkAssertion, evidenceHash, type SignedBy } from "./passkey-evidence.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const METHODS = ["totp", "recovery_code", "passkey"];
/** What is proven of one approval. An idempotency key can repeat its use. */
const MAX_ENTRIES = 10_000;

interface Transaction {
  user: string;
  session: string;
  method: string;
  /** Path and query. */
  route: string;
  /** Keyed by JSON pointer. */
  fields: Readonly<Record<string, unknown>>;
}

/** `sequence` counts in its log. */
export interface ApprovalEntry extends LoggedEntry {
  log: number;
}

/** What the evidence says by itself. */
interface CheckedEvidence {
  findings: readonly ApprovalFinding[];
  transaction?: Transaction;
  signedBy?: SignedBy;
}

export interface ApprovalProof extends CheckedEvidence {
  id: string;
  digest: string;
  method: string;
  /** Undefined if the log does not have it. */
  asked: ApprovalEntry | undefined;
  given: ApprovalEntry | undefined;
  /** The first use, then repetitions with its idempotency key. */
  uses: readonly ApprovalEntry[];
  /** Outcomes of the calls. */
  calls: readonly ApprovalEntry[];
}

/** Collects what the logs say about one approval. Trust it only after their verdict. */
export class ApprovalEntries {
  readonly #start: string;
  readonly found: ApprovalEntry[] = [];
  #origin: string | undefined;
  #log = 0;

  constructor(id: string) {
    this.#start = `approval ${id} `;
  }

  take(line: unknown): void {
    if (typeof line !== "object" || line === null) return;
    if ("origin" in line) this.#begin(String(line.origin));
    if (!("entry" in line)) return;
    const entry = line.entry as Partial<LoggedEntry> | null;
    if (typeof entry?.reason !== "string" || !entry.reason.startsWith(this.#start)) return;
    if (this.found.length < MAX_ENTRIES) this.found.push({ ...(entry as LoggedEntry), log: this.#log });
  }

  /** Of several logs, log 0 is the first, and the origin of log 1 is its origin and `/1`. */
  #begin(origin: string): void {
    this.#origin ??= origin;
    this.#log = Number(origin.slice(this.#origin.length + 1));
  }
}

/** @param entries Of a proven log. */
export function proveApproval(
  approval: ApprovalLine,
  entries: readonly ApprovalEntry[],
  origins: readonly string[],
): ApprovalProof {
  const { id, digest, method } = approval;
  const checked = checkEvidence(approval, origins);
  const events = (action: string) =>
    entries.filter(
      ({ kind, producer, action: found, outcome }) =>
        kind === "event" && producer === "identity-service" && found === action && outcome === "success",
    );
  const asked = events("user.approval_asked");
  const given = events("user.approval_given");
  const uses = events("user.approval_used");
  const calls = entries.filter(({ kind, producer }) => kind === "outcome" && producer === "gateway");
  const findings = [...checked.findings];
  const { transaction } = checked;
  if (transaction !== undefined) {
    const reason = `approval ${id} ${method} ${digest}`;
    const evidence = approval.passkey === undefined ? "" : ` ${evidenceHash(approval.passkey)}`;
    findings.push(
      ...checkOne("asked", asked, `approval ${id} - ${digest}`, transaction),
      ...checkOne("given", given, `${reason}${evidence}`, transaction),
      ...checkUses(uses, reason, transaction),
      ...checkCalls(calls, uses.length, reason, transaction),
    );
  }
  return { ...checked, id, digest, method, findings, asked: asked[0], given: given[0], uses, calls };
}

function checkEvidence(approval: ApprovalLine, origins: readonly string[]): CheckedEvidence {
  const findings: ApprovalFinding[] = [];
  const digest = hash("sha256", approval.transaction, "buffer");
  if (digest.toString("hex") !== approval.digest) {
    findings.push({ code: "digest", message: "The transaction does not have this digest" });
  }
  if (!METHODS.includes(approval.method)) {
    findings.push({ code: "form", message: `The method ${JSON.stringify(approval.method)} is unknown` });
  }
  const transaction = readTransaction(approval.transaction);
  if (transaction === undefined) {
    findings.push({ code: "form", message: "The transaction has not the form of one" });
    return { findings };
  }
  if (approval.passkey === undefined) return { findings, transaction };
  try {
    return { findings, transaction, signedBy: checkAssertion(approval.passkey, digest, origins) };
  } catch (error) {
    if (!(error instanceof BadEvidenceError)) throw error;
    const { code, message } = error;
    return { findings: [...findings, { code, message: `The passkey's evidence: ${message}` }], transaction };
  }
}

function readTransaction(text: string): Transaction | undefined {
  try {
    const value = JSON.parse(text) as Partial<Transaction> | null;
    const { user, session, method, route, fields } = value ?? {};
    const texts = [user, session, method, route];
    const isProper = texts.every((part) => typeof part === "string") && UUID.test(user ?? "");
    if (!isProper || typeof fields !== "object" || fields === null) return undefined;
    return value as Transaction;
  } catch {
    return undefined;
  }
}

function checkOne(
  code: "asked" | "given",
  events: readonly LoggedEntry[],
  reason: string,
  transaction: Transaction,
): ApprovalFinding[] {
  const [event] = events;
  const action = `user.approval_${code}`;
  if (event === undefined) return [{ code, message: `The log has no ${action} of this approval` }];
  if (events.length > 1)
    return [{ code, message: `The log has ${events.length} times ${action} of this approval` }];
  return isAbout(event, transaction) ? checkReason(code, event, reason) : [another(code, event)];
}

function checkUses(
  uses: readonly LoggedEntry[],
  reason: string,
  transaction: Transaction,
): ApprovalFinding[] {
  if (uses.length === 0)
    return [{ code: "used", message: "The log has no user.approval_used of this approval" }];
  return uses.flatMap((event) =>
    isAbout(event, transaction) ? checkReason("used", event, reason) : [another("used", event)],
  );
}

/** A gateway that was killed has left no outcome with the approval, so there may be fewer. */
function checkCalls(
  calls: readonly LoggedEntry[],
  uses: number,
  reason: string,
  transaction: Transaction,
): ApprovalFinding[] {
  const wrong = calls.flatMap((call): ApprovalFinding[] => {
    const isSame = isOf(call, transaction) && call.method === transaction.method;
    return isSame ? checkReason("call", call, reason) : [another("call", call)];
  });
  if (calls.length <= uses) return wrong;
  return [
    ...wrong,
    { code: "call", message: `The log has ${calls.length} calls for ${uses} uses of this approval` },
  ];
}

function checkReason(code: ApprovalFinding["code"], entry: LoggedEntry, reason: string): ApprovalFinding[] {
  if (entry.reason === reason) return [];
  // Only the hash of the assertion follows in `given`.
  const isOtherAssertion = entry.reason.split(" ", 4).join(" ") === reason.split(" ", 4).join(" ");
  const what = isOtherAssertion ? "another assertion of the passkey" : "another digest or method";
  const message = `Entry ${entry.sequence} (${entry.action}) has ${what}`;
  return [{ code: isOtherAssertion ? "evidence" : code, message }];
}

function another(code: ApprovalFinding["code"], { sequence, action }: LoggedEntry): ApprovalFinding {
  return { code, message: `Entry ${sequence} (${action}) is of another user, session or method` };
}

function isAbout(event: LoggedEntry, transaction: Transaction): boolean {
  return isOf(event, transaction) && event.resource === transaction.user;
}

function isOf({ actor }: LoggedEntry, { user, session }: Transaction): boolean {
  return actor.userId === user && actor.sessionId === session;
}
