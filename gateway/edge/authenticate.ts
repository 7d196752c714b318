import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import type { AccessRules } from "../../access-file/access-rules.ts";
import type { Actor } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { assertAssured } from "../../token-client/assurance.ts";
import { bearerToken, verifiedPrincipal } from "../../token-client/bearer-token.ts";
import type { Subject, TokenVerifier, Verification } from "../../token-client/principal.ts";
import { assertMayCall } from "./authorize.ts";
import { clientIp } from "./caller.ts";
import { writableState } from "./request-state.ts";

export interface AuthenticateDeps {
  verifier: Pick<TokenVerifier, "verify">;
  access: Pick<AccessRules, "holds" | "isDefined">;
}

/** The hook fails with an authentication error, or `service_unavailable` if the token's state is unknown. */
export function createAuthenticate(deps: AuthenticateDeps) {
  return (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    const refuse = (error: unknown) => {
      if (!mayBeProvenElse(request, error)) return done(error as Error);
      writableState(request).refusal ??= { error, actor: null };
      done();
    };
    let asked: Promise<void> | undefined;
    try {
      asked = authenticate(request, deps);
    } catch (error) {
      refuse(error);
      return;
    }
    if (asked === undefined) done();
    else asked.then(() => done(), refuse);
  };
}

/** The session may have ended during a slow body. */
export function createSecondLook(deps: AuthenticateDeps) {
  const authenticateAgain = createAuthenticate(deps);
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    // Of forwarded calls, only those that need an approval have a body yet.
    if (request.state.access !== null && request.body !== undefined) authenticateAgain(request, reply, done);
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
function authenticate(
  request: FastifyRequest,
  { verifier, access }: AuthenticateDeps,
): Promise<void> | undefined {
  const { policy } = request.state;
  if (policy === null || policy.auth === "public") return undefined;
  const token = bearerToken(request.headers.authorization);
  const verification = verifier.verify(token, clientIp(request));
  if (verification instanceof Promise)
    return verification.then((verified) => admit(request, access, token, verified));
  admit(request, access, token, verification);
  return undefined;
}

function admit(
  request: FastifyRequest,
  access: AuthenticateDeps["access"],
  token: string,
  verification: Verification,
): void {
  const state = writableState(request);
  try {
    const principal = verifiedPrincipal(verification);
    assertMayCall(access, state.policy ?? { auth: { roles: [] } }, principal);
    assertAssured(state.policy?.assurance, principal, Date.now());
    state.access = { principal, accessToken: token };
    state.call.actor = actorOf(principal);
  } catch (error) {
    const subject = verification.kind === "active" ? verification.principal : verification.subject;
    state.refusal = { error: error as Error, actor: subject === undefined ? null : actorOf(subject) };
    throw error;
  }
}

function actorOf({ userId, role, sessionId, scopes }: Subject): Actor {
  return { userId, role, sessionId, ...(scopes && { scopes }) };
}
