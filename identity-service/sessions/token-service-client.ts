import type { SessionServiceClient } from "../../proto/gen/gatehouse/token/v1/session_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import { toProtoRole } from "../users/role-rpc.ts";
import type { Role } from "../users/user.ts";

const MAX_USER_AGENT_LENGTH = 512;

/** Who authenticated, how and from where. */
export interface NewSession {
  userId: string;
  role: Role;
  /** RFC 8176 methods; at least one. */
  amr: readonly string[];
  authTime: Date;
  /** May be empty. */
  clientIp: string;
  /** Cut to 512 characters. May be empty. */
  userAgent: string;
}

/** What a client receives for a session. Never logged. */
export interface SessionTokens {
  accessToken: string;
  refreshToken: string;
  /** Seconds until the access token expires. */
  expiresInS: number;
  sessionId: string;
  userId: string;
}

/** Which sessions of a user are to end. */
export interface EndedUserSessions {
  userId: string;
  /** Null: all end. */
  exceptSessionId: string | null;
  /** lower_snake_case, at most 32 characters. */
  reason: string;
  /** The time of the cause, for an end that comes late: token-service spares what began more than a minute after it. */
  begunBefore?: Date;
}

/** What identity-service asks of token-service. */
export interface TokenService {
  /**
   * Begins a session. Not idempotent, so never repeated.
   *
   * @throws {DomainError} `service_unavailable`. Anything else token-service says is a defect of ours.
   */
  issueSession(session: NewSession, context: CallContext): Promise<SessionTokens>;
  /**
   * Ends all sessions of a user but the excepted one, committed. Idempotent.
   *
   * @returns the ids of those that ended.
   * @throws {DomainError} `service_unavailable`.
   */
  revokeUserSessions(which: EndedUserSessions, context: CallContext): Promise<readonly string[]>;
  /**
   * Ends one session, committed. Idempotent.
   *
   * @throws {DomainError} `service_unavailable`.
   */
  revokeSession(
    which: { sessionId: string; userId: string; reason: string },
    context: CallContext,
  ): Promise<void>;
  /**
   * Whether a session of a user has not ended.
   *
   * @throws {DomainError} `service_unavailable`.
   */
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

/** What is wrong between two services is not the client's fault and not its business. */
function refuseOthers(error: unknown): never {
  if (error instanceof DomainError && error.code === "service_unavailable") throw error;
  throw new Error("token-service did not do what was asked", { cause: error });
}
