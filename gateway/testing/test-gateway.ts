import type { AuditEntry, AuditEvent } from "../../audit-client/audit-entry.ts";
import { parseRoutesFile, type UpstreamRoute } from "../../routes-file/routes-file.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { createLogger } from "../../service-kit/logger.ts";
import { createMetrics } from "../../service-kit/metrics.ts";
import type { Principal, Role, Verification } from "../../token-client/principal.ts";
import type { AuditQueryClient } from "../admin/audit-query-client.ts";
import type { UserAdminClient } from "../admin/user-admin-client.ts";
import { buildApp, type GatewayDeps } from "../app.ts";
import type { AccountClient } from "../auth/account-client.ts";
import type { User } from "../auth/identity-client.ts";
import type { OAuthClient } from "../auth/oauth-client.ts";
import { createNoteReading } from "../edge/note-reading.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { createMemoryLimiter } from "../limits/call-limiter.ts";
import { defaultLimitClasses } from "../limits/limit-class.ts";
import { ReconciledLimiter } from "../limits/reconciled-limiter.ts";
import { ProxyTable } from "../routing/proxy-table.ts";

export const HOST = "gateway.test";
export const USER_ID = "0199a000-0000-7000-8000-000000000001";
export const SESSION_ID = "0199a000-0000-7000-8000-000000000002";

export const ada: User = {
  id: USER_ID,
  email: "ada@example.com",
  firstName: "Ada",
  lastName: "Lovelace",
  role: "USER",
  emailVerified: false,
  mfaEnabled: false,
  createdAt: new Date("2026-01-02T03:04:05.678Z"),
};

export const tokens = {
  accessToken: "access.jwt.text",
  refreshToken: "refresh.jwt.text",
  expiresInS: 900,
  sessionId: SESSION_ID,
  userId: USER_ID,
};

export function principalWith(role: Role): Principal {
  return {
    userId: USER_ID,
    sessionId: SESSION_ID,
    role,
    tokenId: "token-id",
    keyId: "key-id",
    amr: ["pwd"],
    authTime: new Date(0),
    issuedAt: new Date(0),
    expiresAt: new Date(4e12),
  };
}

const VERDICTS: Record<string, Verification> = {
  "user-token": { kind: "active", principal: principalWith("USER") },
  "admin-token": { kind: "active", principal: principalWith("ADMIN") },
  "auditor-token": { kind: "active", principal: principalWith("AUDITOR") },
  "expired-token": { kind: "inactive", reason: "expired" },
  "revoked-token": { kind: "inactive", reason: "revoked" },
};

/** A verifier to which each token is a user of its own, until `verdicts` says otherwise. */
export function verifierOfUsers(verdicts: ReadonlyMap<string, Verification | Error> = new Map()) {
  return {
    verify(token: string): Verification | Promise<Verification> {
      const verdict = verdicts.get(token);
      if (verdict instanceof Error) return Promise.reject(verdict);
      return verdict ?? { kind: "active", principal: { ...principalWith("USER"), userId: token } };
    },
    refuseSession: () => undefined,
    assertReady: () => undefined,
    close: () => undefined,
  };
}

const absentAccount = () => Promise.reject(new Error("not part of this test"));

/** Accounts that are no part of a test. */
export const absentAccounts: AccountClient = {
  verifyEmail: absentAccount,
  disownAccount: absentAccount,
  resendVerification: absentAccount,
  forgotPassword: absentAccount,
  resetPassword: absentAccount,
  changePassword: absentAccount,
  changePasswordAtLogin: absentAccount,
  updateProfile: absentAccount,
  deleteAccount: absentAccount,
  changeEmail: absentAccount,
  confirmEmailChange: absentAccount,
  endOwnSessions: absentAccount,
  undoAccessChange: absentAccount,
  undoEmailChange: absentAccount,
  close: () => undefined,
};

/** An audit log that is no part of a test. */
export const absentAuditQuery: AuditQueryClient = {
  search: absentAccount,
  get: absentAccount,
  checkpoint: absentAccount,
  proveInclusion: absentAccount,
  proveConsistency: absentAccount,
  close: () => undefined,
};

/** Users whose administration is no part of a test. */
export const absentUsers: UserAdminClient = {
  list: absentAccount,
  get: absentAccount,
  setAccess: absentAccount,
  resetMfa: absentAccount,
  endSessions: absentAccount,
  delete: absentAccount,
  close: () => undefined,
};

/** A gateway of which no identity provider is known. */
export const absentOAuth: OAuthClient = {
  listProviders: async () => [],
  begin: () => Promise.reject(new DomainError("provider_not_found")),
  complete: absentAccount,
  exchange: absentAccount,
  listIdentities: absentAccount,
  unlink: absentAccount,
  close: () => undefined,
};
/** Routes as a routes file has them. */
export function routesOf(routes: readonly object[]): UpstreamRoute[] {
  return parseRoutesFile(JSON.stringify({ routes }));
}

export interface TestGateway {
  app: GatewayApp;
  /** What the audit log was given, in order. */
  entries: AuditEntry[];
  /** What the audit log would get of readings. */
  readings: AuditEvent[];
  /** Sessions refused since the start. */
  refused: string[];
  /** Everything the gateway logged, as JSON lines. */
  log(): string;
}

/** A gateway whose tokens are words (`user-token`, `admin-token`, …) and whose services are what a test gives. */
export function testGateway({
  routes = [],
  ...overrides
}: Partial<GatewayDeps> & { routes?: readonly UpstreamRoute[] } = {}): TestGateway {
  const entries: AuditEntry[] = [];
  const readings: AuditEvent[] = [];
  const refused: string[] = [];
  const lines: string[] = [];
  const metrics = overrides.metrics ?? createMetrics("gateway");
  const absent = () => Promise.reject(new Error("not part of this test"));
  const app = buildApp({
    identity: { register: absent, login: absent, getUser: absent, close: () => undefined },
    accounts: absentAccounts,
    mfa: {
      completeLogin: absent,
      beginEnrollment: absent,
      confirmEnrollment: absent,
      disable: absent,
      regenerateRecoveryCodes: absent,
      close: () => undefined,
    },
    oauth: absentOAuth,
    tokenDelivery: "fragment",
    users: absentUsers,
    sessions: { refresh: absent, prove: absent, revoke: absent, list: absent, close: () => undefined },
    auditQuery: absentAuditQuery,
    jwks: { get: absent },
    verifier: {
      verify: (token) => VERDICTS[token] ?? { kind: "inactive", reason: "invalid" },
      refuseSession: (id) => void refused.push(id),
      assertReady: () => undefined,
      close: () => undefined,
    },
    noteReading: createNoteReading(
      { recordEvent: async (event) => void readings.push(event) },
      () => new Date(),
    ),
    recorder: {
      record: async (entry) => void entries.push(entry),
      enqueue: (entry) => void entries.push(entry),
      assertReady: () => undefined,
      close: async () => undefined,
    },
    proxies: overrides.proxies ?? new ProxyTable(routes, metrics),
    limitClasses: defaultLimitClasses(),
    callLimiter: createMemoryLimiter({ replicas: 1, now: () => performance.now() }),
    proxyLimiter: new ReconciledLimiter({ redis: undefined, replicas: 1 }),
    allowedOrigins: new Set(),
    maxWebSockets: 10,
    isDraining: () => false,
    allowedHosts: new Set([HOST]),
    isTrustedProxy: () => false,
    logger: createLogger("gateway", "info", { write: (line) => void lines.push(line) }),
    metrics,
    ...overrides,
  });
  return { app, entries, readings, refused, log: () => lines.join("") };
}

interface Call {
  method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS";
  url: string;
  /** A word that stands for an access token. */
  token?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** One request without a network; `body` is sent as JSON unless it is a string or bytes. */
export async function send(app: GatewayApp, { method, url, token, body, headers }: Call) {
  const isRaw = typeof body === "string" || Buffer.isBuffer(body);
  return app.inject({
    method: method ?? "GET",
    url,
    headers: {
      host: HOST,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { payload: isRaw ? body : JSON.stringify(body) }),
  });
}
