import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import type { AuditActor } from "../../audit-client/audit-entry.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { bearerToken, verifiedPrincipal } from "../../token-client/bearer-token.ts";
import type { Subject, TokenVerifier, Verification } from "../../token-client/principal.ts";
import { assertAllowed } from "../../token-client/route-auth.ts";
import { clientIp } from "./caller.ts";

/** The `onRequest` hook throws an authentication error, or `service_unavailable` if the token's state is unknown. */
export function createAuthenticate(verifier: Pick<TokenVerifier, "verify">) {
  return (request: FastifyRequest, _reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    const refuse = (error: unknown) => {
      if (!mayBeProvenElse(request, error)) return done(error as Error);
      request.tokenFailure = error;
      done();
    };
    let asked: Promise<void> | undefined;
    try {
      asked = authenticate(request, verifier);
    } catch (error) {
      refuse(error);
      return;
    }
    if (asked === undefined) done();
    else asked.then(() => done(), refuse);
  };
}

/** Verifies again after the body: it may take ten seconds, and the session may have ended meanwhile. */
export function createSecondLook(verifier: Pick<TokenVerifier, "verify">) {
  const authenticateAgain = createAuthenticate(verifier);
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    const hasRead = request.target === null && request.body !== undefined && request.accessToken !== "";
    if (hasRead) authenticateAgain(request, reply, done);
    else done();
  };
}

/** Whether a refresh token may replace the missing or expired access token. */
function mayBeProvenElse({ policy }: FastifyRequest, error: unknown): error is DomainError {
  return (
    policy?.orRefreshToken === true &&
    error instanceof DomainError &&
    (error.code === "token_missing" || error.code === "token_expired")
  );
}

/** Synchronous for cached tokens, which most calls have. */
function authenticate(
  request: FastifyRequest,
  verifier: Pick<TokenVerifier, "verify">,
): Promise<void> | undefined {
  if (request.policy === null || request.policy.auth === "public") return undefined;
  const token = bearerToken(request.headers.authorization);
  const verification = verifier.verify(token, clientIp(request));
  if (verification instanceof Promise)
    return verification.then((verified) => admit(request, token, verified));
  admit(request, token, verification);
  return undefined;
}

function admit(request: FastifyRequest, token: string, verification: Verification): void {
  const subject = verification.kind === "active" ? verification.principal : verification.subject;
  // Reset on success. Refusals of known callers are recorded.
  request.refusedActor = subject === undefined ? null : actorOf(subject);
  const principal = verifiedPrincipal(verification);
  if (request.policy?.auth !== "public") assertAllowed(request.policy?.auth, principal);
  const { userId, role, sessionId } = principal;
  request.refusedActor = null;
  request.principal = principal;
  request.accessToken = token;
  request.call.actor = { userId, role, sessionId };
}

function actorOf({ userId, role, sessionId }: Subject): AuditActor {
  return { userId, role, sessionId };
}
