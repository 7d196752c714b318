import {
  type Session as SessionMessage,
  SessionServiceClient,
} from "../../proto/gen/gatehouse/token/v1/session_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import { isRefreshTokenForm } from "../../token-client/token-rules.ts";
import type { TokenPair } from "./identity-client.ts";

/** A live session as its owner sees it. */
export interface Session {
  id: string;
  createdAt: Date;
  lastUsedAt: Date;
  expiresAt: Date;
  ip: string;
  userAgent: string;
  amr: readonly string[];
}

export interface RefreshAttempt {
  refreshToken: string;
  clientIp: string;
  userAgent: string;
}

/** The gateway's view of token-service's sessions. Every call throws what the service says, as a DomainError. */
export interface SessionClient {
  refresh(attempt: RefreshAttempt, context: CallContext): Promise<TokenPair>;
  /** Whose session a refresh token is the proof of. */
  prove(refreshToken: string, context: CallContext): Promise<{ userId: string; sessionId: string }>;
  revoke(which: { sessionId: string; userId: string; reason: string }, context: CallContext): Promise<void>;
  /** Newest first. */
  list(userId: string, context: CallContext): Promise<readonly Session[]>;
  close(): void;
}

/** @param address `host:port` of token-service. */
export function createSessionClient(address: string, certificate: ProcessCertificate): SessionClient {
  const client = createRpcClient(SessionServiceClient, {
    address,
    service: "token-service",
    certificate,
    idempotentMethods: [
      "gatehouse.token.v1.SessionService/ListSessions",
      "gatehouse.token.v1.SessionService/ProveRefreshToken",
    ],
  });
  return {
    async refresh({ refreshToken, clientIp, userAgent }, context) {
      if (!isRefreshTokenForm(refreshToken)) throw new DomainError("refresh_token_invalid");
      const request = { refreshToken, ip: clientIp, userAgent };
      const { tokens } = await callUnary(client, client.refreshSession, request, context);
      if (tokens === undefined) throw unexpected("refresh without tokens");
      return tokens;
    },
    async prove(refreshToken, context) {
      if (!isRefreshTokenForm(refreshToken)) throw new DomainError("refresh_token_invalid");
      const { userId, sessionId } = await callUnary(
        client,
        client.proveRefreshToken,
        { refreshToken },
        context,
      );
      if (userId === "" || sessionId === "") throw unexpected("proof without a session");
      return { userId, sessionId };
    },
    async revoke(which, context) {
      await callUnary(client, client.revokeSession, which, context);
    },
    async list(userId, context) {
      const { sessions } = await callUnary(client, client.listSessions, { userId }, context);
      return sessions.map(toSession);
    },
    close: () => client.close(),
  };
}

function toSession({ id, createdAt, lastUsedAt, expiresAt, ip, userAgent, amr }: SessionMessage): Session {
  if (createdAt === undefined || lastUsedAt === undefined || expiresAt === undefined) {
    throw unexpected("session without times");
  }
  return { id, createdAt, lastUsedAt, expiresAt, ip, userAgent, amr };
}

function unexpected(what: string): Error {
  return new Error(`token-service sent a ${what}`);
}
