import type { SessionLimits } from "#access-file/access-rules.ts";
import type { CallContext, Confirmation } from "#kit/rpc/call-context.ts";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { SessionServiceClient } from "#proto/gatehouse/token/v1/session_service.ts";
import { type AssuranceLevel, acrOf, parseAcr } from "#token-client/assurance.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { Role } from "../users/account.ts";

const MAX_USER_AGENT_LENGTH = 512;

/** The user agent is cut to 512 characters. */
export interface NewSession extends ClientOrigin {
  userId: string;
  role: Role;
  /** RFC 8176, at least one. */
  amr: readonly string[];
  acr: AssuranceLevel;
  authTime: Date;
  /** The limits of the user's role. */
  limits: SessionLimits;
}

/** What the user of a live session has proven again. */
export interface NewProof {
  sessionId: string;
  userId: string;
  acr: AssuranceLevel;
  /** RFC 8176, at least one. */
  amr: readonly string[];
}

/** Never logged. */
export interface RaisedAccess {
  accessToken: string;
  expiresInS: number;
  /** The session's level now. */
  acr: AssuranceLevel;
}

/** A client that has proven itself by a live credential. */
export interface ProvenClient {
  clientId: string;
  credentialId: string;
  scopes: readonly string[];
  /** Database time at which the credential was live. */
  provenAt: Date;
  confirmation: Confirmation | undefined;
}

/** Never logged. */
export interface ClientToken {
  accessToken: string;
  expiresInS: number;
}

/** Never logged. */
export interface SessionTokens {
  accessToken: string;
  refreshToken: string;
  expiresInS: number;
  refreshExpiresInS: number;
  sessionId: string;
  userId: string;
  /** What they are bound to. */
  confirmation?: Confirmation | undefined;
}

export interface EndedUserSessions {
  userId: string;
  /** Null ends all. */
  exceptSessionId: string | null;
  reason: string;
  /** Time of the cause. Sessions begun more than a minute later are kept. */
  begunBefore?: Date;
}

export interface TokenService {
  /** Not idempotent; never retried. */
  issueSession(session: NewSession, context: CallContext): Promise<SessionTokens>;
  /** Not idempotent. @throws {DomainError} `not_found` if the session has ended. */
  raiseSession(proof: NewProof, context: CallContext): Promise<RaisedAccess>;
  /** Idempotent. Returns the ids of ended sessions. */
  revokeUserSessions(which: EndedUserSessions, context: CallContext): Promise<readonly string[]>;
  /** Idempotent. */
  revokeSession(
    which: { sessionId: string; userId: string; reason: string },
    context: CallContext,
  ): Promise<void>;
  /** @throws {DomainError} `invalid_client` if the credential has been revoked since. */
  issueClientToken(client: ProvenClient, context: CallContext): Promise<ClientToken>;
  /** Idempotent. @param ids of credentials. */
  revokeClientTokens(ids: readonly string[], context: CallContext): Promise<void>;
  isSessionLive(which: { sessionId: string; userId: string }, context: CallContext): Promise<boolean>;
}

export function createTokenServiceClient(client: SessionServiceClient): TokenService {
  return {
    async issueSession(session, context) {
      const request = {
        userId: session.userId,
        role: session.role,
        amr: [...session.amr],
        acr: acrOf(session.acr),
        authTime: session.authTime,
        userAgent: session.userAgent.slice(0, MAX_USER_AGENT_LENGTH).toWellFormed(),
        ip: session.clientIp,
        limits: {
          idleS: session.limits.idleS ?? 0,
          absoluteS: session.limits.absoluteS ?? 0,
          atMost: session.limits.atMost ?? 0,
        },
        confirmation: context.proven,
      };
      const { tokens } = await callUnary(client, client.issueSession, request, context).catch(refuseOthers);
      if (tokens === undefined) throw new Error("token-service issued a session without tokens");
      return tokens;
    },
    async raiseSession(proof, context) {
      const request = { ...proof, acr: acrOf(proof.acr), amr: [...proof.amr] };
      const answer = await callUnary(client, client.raiseSession, request, context).catch(
        (error: unknown) => {
          if (error instanceof DomainError && error.code === "not_found") throw error;
          return refuseOthers(error);
        },
      );
      const acr = parseAcr(answer.acr);
      if (acr === undefined) throw new Error("token-service raised a session to no known level");
      return { accessToken: answer.accessToken, expiresInS: answer.expiresInS, acr };
    },
    async revokeUserSessions({ exceptSessionId, ...which }, context) {
      const request = { begunBefore: undefined, ...which, exceptSessionId: exceptSessionId ?? "" };
      const { sessionIds } = await callUnary(client, client.revokeUserSessions, request, context).catch(
        refuseOthers,
      );
      return sessionIds;
    },
    async revokeSession(which, context) {
      await callUnary(client, client.revokeSession, which, context).catch(refuseOthers);
    },
    async issueClientToken({ scopes, ...proven }, context) {
      const request = { ...proven, scopes: [...scopes] };
      return callUnary(client, client.issueClientToken, request, context).catch((error: unknown) => {
        const isOfClient =
          error instanceof DomainError && (error.code === "invalid_client" || error.code === "invalid_scope");
        if (isOfClient) throw error;
        return refuseOthers(error);
      });
    },
    async revokeClientTokens(ids, context) {
      await callUnary(client, client.revokeClientTokens, { ids: [...ids] }, context).catch(refuseOthers);
    },
    async isSessionLive({ sessionId, userId }, context) {
      const { sessions } = await callUnary(client, client.listSessions, { userId }, context).catch(
        refuseOthers,
      );
      return sessions.some(({ id }) => id === sessionId);
    },
  };
}

/** Other errors are internal. */
function refuseOthers(error: unknown): never {
  if (error instanceof DomainError && error.code === "service_unavailable") throw error;
  throw new Error("a call to token-service failed", { cause: error });
}

/** Whether the session in which a change began still exists. A change that began outside of a session has none, and goes on. */
export async function isStillLoggedIn(
  deps: { tokenService: Pick<TokenService, "isSessionLive"> },
  { userId, sessionId }: { userId: string; sessionId: string | null },
  context: CallContext,
): Promise<boolean> {
  return sessionId === null || deps.tokenService.isSessionLive({ userId, sessionId }, context);
}
