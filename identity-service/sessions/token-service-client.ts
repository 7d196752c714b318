import type { SessionServiceClient } from "../../proto/gen/gatehouse/token/v1/session_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import { toProtoRole } from "../users/role-rpc.ts";
import type { Role } from "../users/user.ts";

const MAX_USER_AGENT_LENGTH = 512;

export interface NewSession {
  userId: string;
  role: Role;
  /** RFC 8176, at least one. */
  amr: readonly string[];
  authTime: Date;
  clientIp: string;
  /** Truncated to 512 characters. */
  userAgent: string;
}

/** Never logged. */
export interface SessionTokens {
  accessToken: string;
  refreshToken: string;
  expiresInS: number;
  sessionId: string;
  userId: string;
}

export interface EndedUserSessions {
  userId: string;
  /** Null ends all. */
  exceptSessionId: string | null;
  /** In lower_snake_case, at most 32 characters. */
  reason: string;
  /** Time of the cause. Sessions begun more than a minute later are kept. */
  begunBefore?: Date;
}

export interface TokenService {
  /** Not idempotent and never retried. */
  issueSession(session: NewSession, context: CallContext): Promise<SessionTokens>;
  /** Idempotent. Returns the ids of the ended sessions. */
  revokeUserSessions(which: EndedUserSessions, context: CallContext): Promise<readonly string[]>;
  /** Idempotent. */
  revokeSession(
    which: { sessionId: string; userId: string; reason: string },
    context: CallContext,
  ): Promise<void>;
  isSessionLive(which: { sessionId: string; userId: string }, context: CallContext): Promise<boolean>;
}

export function createTokenServiceClient(client: SessionServiceClient): TokenService {
  return {
    async issueSession(session, context) {
      const request = {
        userId: session.userId,
        role: toProtoRole(session.role),
        amr: [...session.amr],
        authTime: session.authTime,
        userAgent: session.userAgent.slice(0, MAX_USER_AGENT_LENGTH).toWellFormed(),
        ip: session.clientIp,
      };
      const { tokens } = await callUnary(client, client.issueSession, request, context).catch(refuseOthers);
      if (tokens === undefined) throw new Error("token-service issued a session without tokens");
      return tokens;
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
    async isSessionLive({ sessionId, userId }, context) {
      const { sessions } = await callUnary(client, client.listSessions, { userId }, context).catch(
        refuseOthers,
      );
      return sessions.some(({ id }) => id === sessionId);
    },
  };
}

/** Other errors between services are internal and not reported to the client. */
function refuseOthers(error: unknown): never {
  if (error instanceof DomainError && error.code === "service_unavailable") throw error;
  throw new Error("token-service did not do what was asked", { cause: error });
}
