import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type { AssuranceLevel, StepUpMethod } from "#token-client/assurance.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { mfaTokenHash } from "../login/mfa-token.ts";
import { checkMfaCode, refuseWrongCode } from "../mfa/check-mfa-code.ts";
import { finishPasskeyCeremony, type UsedPasskey } from "../passkeys/passkey-ceremony.ts";
import type { Assertion } from "../passkeys/verify-assertion.ts";
import { isStill, reauthenticate } from "../passwords/reauthenticate.ts";
import type { RaisedAccess } from "../sessions/token-service-client.ts";
import { judgeTry } from "../throttle/count-guess.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import type { StepUpDeps } from "./begin-step-up.ts";
import { consumeStepUp, countStepUpTry, giveStepUpTryBack, type OpenStepUp } from "./step-up-store.ts";

const MAX_TRIES = 5;

/** What a proof adds to the session. A passkey says its `amr` itself. */
interface Proven {
  acr: AssuranceLevel;
  /** RFC 8176. A recovery code is no `otp` (RFC 4226, RFC 6238). */
  amr: readonly string[];
}

const PROVES: Record<Exclude<StepUpMethod, "passkey">, Proven> = {
  totp: { acr: 2, amr: ["otp", "mfa"] },
  recovery_code: { acr: 2, amr: ["mfa"] },
  password: { acr: 1, amr: ["pwd"] },
};

export interface StepUpProof extends ClientOrigin {
  userId: string;
  sessionId: string;
  stepUpToken: string;
  proof: Typed | Signed;
}

interface Typed {
  kind: "code" | "password";
  text: string;
}

interface Signed {
  kind: "passkey";
  assertion: Assertion;
}

const FAILURES = {
  code: { reason: "wrong_mfa_code", errorCode: "mfa_code_invalid" },
  password: { reason: "wrong_password", errorCode: "invalid_credentials" },
  passkey: { reason: "wrong_passkey", errorCode: "passkey_invalid" },
} as const satisfies Record<StepUpProof["proof"]["kind"], { reason: string; errorCode: ErrorCode }>;

/**
 * Consumes proof and step-up even if the session is not raised.
 * @throws {DomainError} `step_up_token_invalid`, `mfa_code_invalid`, `invalid_credentials`, `passkey_invalid`,
 * `validation_failed`, `too_many_requests`.
 */
export async function completeStepUp(
  deps: StepUpDeps,
  request: StepUpProof,
  context: CallContext,
): Promise<RaisedAccess> {
  const { userId, sessionId, proof } = request;
  const tokenHash = mfaTokenHash(request.stepUpToken);
  if (tokenHash === undefined) throw new DomainError("step_up_token_invalid");
  const which = { tokenHash, userId, sessionId };
  const proven =
    proof.kind === "passkey"
      ? await proveByPasskey(deps, which, { ...request, proof }, context)
      : PROVES[await proveByText(deps, which, { ...request, proof }, context)];
  return deps.tokenService.raiseSession({ userId, sessionId, ...proven }, context).catch((error: unknown) => {
    const hasEnded = error instanceof DomainError && error.code === "not_found";
    throw hasEnded ? new DomainError("token_invalid") : error;
  });
}

type Which = Omit<OpenStepUp, "now">;
type TypedProof = StepUpProof & { proof: Typed };

async function proveByPasskey(
  deps: StepUpDeps,
  which: Which,
  request: StepUpProof & { proof: Signed },
  context: CallContext,
): Promise<Proven> {
  const used = await transaction(deps.sql, (tx) => sign(tx, deps, { which, request }, context));
  // After the commit, so that the attempt counts and the challenge stays used.
  if (used === undefined) {
    // A notice may be due.
    deps.wakeMailWorker();
    throw new DomainError("passkey_invalid");
  }
  return { acr: 3, amr: used.amr };
}

/** Undefined for a refused answer. */
async function sign(
  tx: TransactionSql,
  deps: StepUpDeps,
  { which, request }: { which: Which; request: StepUpProof & { proof: Signed } },
  context: CallContext,
): Promise<UsedPasskey | undefined> {
  const user = await lockAccountForMfa(tx, which.userId);
  if (user?.status !== "active") throw new DomainError("step_up_token_invalid");
  await countTry(tx, deps, which, 3);
  const { clientIp, userAgent, proof } = request;
  const answer = { purpose: "step_up", boundTo: which.tokenHash, assertion: proof.assertion } as const;
  const used = await finishPasskeyCeremony(tx, deps, { ...answer, user, clientIp, userAgent }, context);
  if (used === undefined) await recordFailure(tx, deps, request, context);
  else await succeed(tx, deps, { which, request, method: "passkey" }, context);
  return used;
}

function proveByText(
  deps: StepUpDeps,
  which: Which,
  request: TypedProof,
  context: CallContext,
): Promise<Exclude<StepUpMethod, "passkey">> {
  return request.proof.kind === "code"
    ? proveByCode(deps, which, request, context)
    : proveByPassword(deps, which, request, context);
}

async function proveByCode(
  deps: StepUpDeps,
  which: Which,
  request: TypedProof,
  context: CallContext,
): Promise<"totp" | "recovery_code"> {
  const method = await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, which.userId);
    if (user?.status !== "active") throw new DomainError("step_up_token_invalid");
    await countTry(tx, deps, which, 2);
    const typed = { ...request, code: request.proof.text };
    const accepted = await checkMfaCode(tx, deps, { user, typed, source: "session" }, context);
    if (accepted === undefined) await recordFailure(tx, deps, request, context);
    else await succeed(tx, deps, { which, request, method: accepted }, context);
    return accepted;
  });
  // After the commit, so that the attempt counts.
  if (method === undefined) refuseWrongCode(deps);
  if (method === "recovery_code") deps.wakeMailWorker();
  return method;
}

async function proveByPassword(
  deps: StepUpDeps,
  which: Which,
  request: TypedProof,
  context: CallContext,
): Promise<"password"> {
  const { userId, clientIp, proof } = request;
  // Counted before the password is checked: parallel guesses share the five attempts.
  await transaction(deps.sql, (tx) => countTry(tx, deps, which, 1));
  const claim = { userId, password: proof.text, clientIp };
  const check = () => reauthenticate(deps, claim, context.deadlineMs);
  const checked = await judgeTry(check, () => giveStepUpTryBack(deps.sql, which)).catch(
    async (error: unknown) => {
      const isWrong = error instanceof DomainError && error.code === "invalid_credentials";
      if (isWrong) await transaction(deps.sql, (tx) => recordFailure(tx, deps, request, context));
      throw error;
    },
  );
  await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (!isStill(checked, user)) throw new DomainError("invalid_credentials");
    await succeed(tx, deps, { which, request, method: "password" }, context);
  });
  return "password";
}

/** @param reaches the level of the proof. @throws {DomainError} `step_up_token_invalid`. */
async function countTry(
  tx: TransactionSql,
  deps: StepUpDeps,
  which: Which,
  reaches: AssuranceLevel,
): Promise<void> {
  const acr = await countStepUpTry(tx, { ...which, now: deps.now(), maxTries: MAX_TRIES, reaches });
  if (acr === undefined) throw new DomainError("step_up_token_invalid");
}

/** @throws {DomainError} `step_up_token_invalid`. */
async function succeed(
  tx: TransactionSql,
  deps: StepUpDeps,
  { which, request, method }: { which: Which; request: StepUpProof; method: StepUpMethod },
  context: CallContext,
): Promise<void> {
  if (!(await consumeStepUp(tx, { ...which, now: deps.now() })))
    throw new DomainError("step_up_token_invalid");
  const { userId, clientIp, userAgent } = request;
  await recordAudit(tx, deps, { type: "stepped_up", userId, clientIp, userAgent, reason: method }, context);
}

async function recordFailure(
  tx: TransactionSql,
  deps: StepUpDeps,
  { userId, clientIp, userAgent, proof }: StepUpProof,
  context: CallContext,
): Promise<void> {
  const event = { type: "step_up_failed", userId, clientIp, userAgent, ...FAILURES[proof.kind] } as const;
  await recordAudit(tx, deps, event, context);
}
