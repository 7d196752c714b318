import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import type { AccessRules } from "#access-file/access-rules.ts";
import { DomainError } from "#kit/values/errors.ts";
import { assertAssured } from "#token-client/assurance.ts";
import { type PresentedToken, presentedToken, verifiedPrincipal } from "#token-client/bearer-token.ts";
import type { Principal, Subject, TokenVerifier, Verification } from "#token-client/principal.ts";
import { assertMayCall } from "./authorize.ts";
import type { ProofsOfKeys } from "./proofs-of-keys.ts";
import { actorOf, clientIp } from "./request/caller.ts";
import { writableState } from "./request/request-state.ts";

export interface AuthenticateDeps {
  verifier: Pick<TokenVerifier, "verify" | "nowMs">;
  access: Pick<AccessRules, "holds" | "isDefined">;
  proofsOfKeys: ProofsOfKeys;
}

/** The hook fails with an authentication error, or `service_unavailable` if the token's state is unknown. */
export function createAuthenticate(deps: AuthenticateDeps) {
  return (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    finish(
      () => authenticate(request, deps),
      done,
      (error) => {
        if (!mayBeProvenElse(request, error)) return done(error as Error);
        writableState(request).refusal ??= { error, actor: null };
        finish(() => proveForTokens(request, deps), done, done);
      },
    );
  };
}

/** Without a tick for what is known at once. */
function finish(
  work: () => Promise<void> | undefined,
  done: () => void,
  failed: (error: Error) => void,
): void {
  let running: Promise<void> | undefined;
  try {
    running = work();
  } catch (error) {
    failed(error as Error);
    return;
  }
  if (running === undefined) done();
  else running.then(done, failed);
}

/** After the limits of the user: a refused call takes no place in the memory of proofs. */
export function createUseProof({ proofsOfKeys }: Pick<AuthenticateDeps, "proofsOfKeys">) {
  return (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    const state = writableState(request);
    const { access, unusedProof } = state;
    if (access === null || unusedProof === null) {
      done();
      return;
    }
    const { principal } = access;
    state.unusedProof = null;
    finish(
      () => proofsOfKeys.useOfCall(request, unusedProof, principal),
      done,
      (error) => {
        state.access = null;
        delete state.call.actor;
        noteRefusal(request, error, principal);
        done(error);
      },
    );
  };
}

/** The session may have ended, or its token expired, during a slow body. No body replaces a token that came. */
export function createSecondLook(deps: AuthenticateDeps) {
  return (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    // Of forwarded calls, only those that need an approval have a body yet.
    if (request.state.access !== null && request.body !== undefined)
      finish(() => authenticate(request, deps), done, done);
    else done();
  };
}

function mayBeProvenElse({ state }: FastifyRequest, error: unknown): error is DomainError {
  return (
    state.policy?.orTokenInBody !== undefined &&
    error instanceof DomainError &&
    (error.code === "token_missing" || error.code === "token_expired")
  );
}

/** Synchronous for cached tokens. */
function authenticate(request: FastifyRequest, deps: AuthenticateDeps): Promise<void> | undefined {
  const { policy } = request.state;
  if (policy === null) return undefined;
  if (policy.auth === "public") return proveForTokens(request, deps);
  const presented = presentedToken(request.headers.authorization);
  const verification = deps.verifier.verify(presented.text, clientIp(request));
  if (verification instanceof Promise)
    return verification.then((verified) => admit(request, deps, presented, verified));
  admit(request, deps, presented, verification);
  return undefined;
}

function proveForTokens(
  request: FastifyRequest,
  { proofsOfKeys }: AuthenticateDeps,
): Promise<void> | undefined {
  const { issuesTokens, orTokenInBody } = request.state.policy ?? {};
  const mayGiveTokens = issuesTokens === true || orTokenInBody !== undefined;
  return mayGiveTokens ? proofsOfKeys.ofTokenRequest(request) : undefined;
}

function admit(
  request: FastifyRequest,
  deps: AuthenticateDeps,
  presented: PresentedToken,
  verification: Verification,
): void {
  try {
    const principal = verifiedPrincipal(verification);
    // A second look has the proof of the first.
    const isProven = request.state.access !== null;
    const proof = isProven ? undefined : deps.proofsOfKeys.ofCall(request, presented, principal);
    allow(request, deps, presented, principal);
    writableState(request).unusedProof = proof ?? null;
  } catch (error) {
    const subject = verification.kind === "active" ? verification.principal : verification.subject;
    noteRefusal(request, error as Error, subject);
    throw error;
  }
}

function noteRefusal(request: FastifyRequest, error: Error, subject: Subject | undefined): void {
  // The first call of many clients needs a nonce: that is no event.
  const isExpected = error instanceof DomainError && error.code === "token_proof_needs_nonce";
  const actor = subject === undefined || isExpected ? null : actorOf(subject);
  writableState(request).refusal = { error, actor };
}

function allow(
  request: FastifyRequest,
  { access, verifier }: AuthenticateDeps,
  { text: accessToken }: PresentedToken,
  principal: Principal,
): void {
  const state = writableState(request);
  assertMayCall(access, state.policy ?? { auth: { roles: [] } }, principal);
  assertAssured(state.policy?.assurance, principal, verifier.nowMs());
  state.access = { principal, accessToken };
  state.call.actor = actorOf(principal);
}
