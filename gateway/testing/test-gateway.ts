import { readFileSync } from "node:fs";
import { onTestFinished, TestRunner } from "vitest";
import { parseAccessFile, SHIPPED_ACCESS_FILE } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import type { AuditEntry, AuditEvent } from "#audit-client/stream/audit-entry.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { User } from "#proto/gatehouse/identity/v1/user.ts";
import { parseRoutesFile, type UpstreamRoute } from "#routes-file/routes-file.ts";
import type { Principal, Role, Verification } from "#token-client/principal.ts";
import { buildApp, type GatewayDeps } from "../app.ts";
import { createNoteReading } from "../edge/audit.ts";
import { DpopProofs } from "../edge/proofs/dpop-proof.ts";
import { UsedProofs } from "../edge/proofs/used-proofs.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { createMemoryLimiter } from "../limits/call-limiter.ts";
import { defaultLimitClasses } from "../limits/limit-class.ts";
import { ReconciledLimiter } from "../limits/reconciled-limiter.ts";
import { StrangerPlaces } from "../limits/share-counts.ts";
import { ProxyTable } from "../routing/proxy-table.ts";

export const HOST = "gateway.test";
export const USER_ID = "0199a000-0000-7000-8000-000000000001";
export const SESSION_ID = "0199a000-0000-7000-8000-000000000002";

export const ada: User = {
  id: USER_ID,
  email: "ada@example.com",
  firstName: "Ada",
  lastName: "Lovelace",
  emailVerified: false,
  mfaEnabled: false,
  language: "",
  timeZone: "",
  createdAt: new Date("2026-01-02T03:04:05.678Z"),
  role: "USER",
};
/** As clients see her. */
const { role, ...adaFields } = ada;
export const adaJson = { ...adaFields, role, createdAt: "2026-01-02T03:04:05.678Z" };

/** The answer of `GetUser` has it. */
export const account = {
  user: ada,
  hasTotp: false,
  totpSince: undefined,
  hasPassword: true,
  credentialsProven: true,
};

export const tokens = {
  accessToken: "access.jwt.text",
  refreshToken: "refresh.jwt.text",
  expiresInS: 900,
  refreshExpiresInS: 604_800,
  sessionId: SESSION_ID,
  userId: USER_ID,
};

export function completedLogin(deviceToken = "") {
  return { result: { $case: "completed" as const, value: { tokens, user: ada, deviceToken } } };
}

export function principalWith(role: Role): Principal {
  return {
    userId: USER_ID,
    sessionId: SESSION_ID,
    role,
    tokenId: "token-id",
    keyId: "key-id",
    kind: "user",
    clientId: "",
    scopes: [],
    amr: ["pwd"],
    acr: 1,
    // Fresh whenever it is read: one that is ahead is refused.
    get authTime() {
      return new Date();
    },
    issuedAt: new Date(0),
    expiresAt: new Date(4e12),
  };
}

/** With the roles that ship. */
export function shippedAccess(): AccessTable {
  return new AccessTable(parseAccessFile(readFileSync(SHIPPED_ACCESS_FILE, "utf8")));
}

const VERDICTS: Record<string, Verification> = {
  "user-token": { kind: "active", principal: principalWith("USER") },
  "admin-token": { kind: "active", principal: principalWith("ADMIN") },
  "support-token": { kind: "active", principal: principalWith("SUPPORT") },
  "auditor-token": { kind: "active", principal: principalWith("AUDITOR") },
  "receiver-token": {
    kind: "active",
    principal: {
      ...principalWith(""),
      ...{ kind: "client", clientId: USER_ID, userId: "", scopes: ["signals:receive"] },
    },
  },
  "expired-token": { kind: "inactive", reason: "expired" },
  "revoked-token": { kind: "inactive", reason: "revoked" },
};

/** Each token is a separate user, unless `verdicts` has it. */
export function verifierOfUsers(verdicts: ReadonlyMap<string, Verification | Error> = new Map()) {
  return {
    verify(token: string): Verification | Promise<Verification> {
      const verdict = verdicts.get(token);
      if (verdict instanceof Error) return Promise.reject(verdict);
      return verdict ?? { kind: "active", principal: { ...principalWith("USER"), userId: token } };
    },
    refuseSession: () => undefined,
    nowMs: () => Date.now(),
    assertReady: () => undefined,
    close: () => undefined,
  };
}

type Services = Pick<
  GatewayDeps,
  | "identity"
  | "users"
  | "clients"
  | "clientAdmin"
  | "sessions"
  | "keys"
  | "auditQuery"
  | "webhooks"
  | "signals"
>;
type TestParts = Partial<Omit<GatewayDeps, keyof Services>> & {
  [S in keyof Services]?: Partial<Services[S]>;
};

/** Other methods fail. */
function serviceOf<S extends object>(methods: Partial<S> = {}, others: Partial<S> = {}): S {
  const absent = () => Promise.reject(new Error("not part of this test"));
  const find = (name: string | symbol) => Reflect.get(methods, name) ?? Reflect.get(others, name) ?? absent;
  return new Proxy({}, { get: (_target, name) => find(name) }) as S;
}

const UNUSED: Partial<Services["identity"]> = {
  listProviders: async () => ({ providers: [] }),
  listTrustedDevices: async () => ({ trustedDevices: [] }),
  beginOAuthLogin: () => Promise.reject(new DomainError("provider_not_found")),
};

const UNKNOWN_CLIENT: Partial<Services["clients"]> = {
  authenticateClient: () => Promise.reject(new DomainError("invalid_client")),
  grantClientToken: () => Promise.reject(new DomainError("invalid_client")),
};

export function routesOf(routes: readonly object[]): UpstreamRoute[] {
  return parseRoutesFile(JSON.stringify({ routes }));
}

export interface TestGateway {
  app: GatewayApp;
  /** Recorded in order. */
  entries: AuditEntry[];
  /** Of readings, not sent. */
  readings: AuditEvent[];
  refused: string[];
  /** As JSON lines. */
  log(): string;
}

/** Its tokens are words: `user-token`, `admin-token`. Closes after the test, if a test runs. */
export function testGateway({
  routes = [],
  identity,
  users,
  clients,
  clientAdmin,
  sessions,
  keys,
  auditQuery,
  webhooks,
  signals,
  ...overrides
}: TestParts & { routes?: readonly UpstreamRoute[] } = {}): TestGateway {
  const entries: AuditEntry[] = [];
  const readings: AuditEvent[] = [];
  const refused: string[] = [];
  const lines: string[] = [];
  const metrics = overrides.metrics ?? createMetrics("gateway");
  const proxyLimiter = overrides.proxyLimiter ?? new ReconciledLimiter({ redis: undefined, replicas: 1 });
  const app = buildApp({
    identity: serviceOf(identity, UNUSED),
    users: serviceOf(users),
    clients: serviceOf(clients, UNKNOWN_CLIENT),
    clientAdmin: serviceOf(clientAdmin),
    sessions: serviceOf(sessions),
    keys: serviceOf(keys),
    auditQuery: serviceOf(auditQuery),
    webhooks: serviceOf(webhooks),
    signals: serviceOf(signals),
    tokenDelivery: "fragment",
    bindsToCertificates: false,
    deviceBoundSessions: true,
    tokenIssuer: () => "https://gateway.test",
    isKeyBanned: () => false,
    maxUpstreamTokens: 1_000,
    jwks: { get: () => Promise.reject(new Error("not part of this test")) },
    dpopProofs: new DpopProofs(() => Date.now()),
    usedProofs: new UsedProofs({
      redis: undefined,
      nowMs: () => performance.now(),
      wallMs: () => Date.now(),
    }),
    verifier: {
      verify: (token) => VERDICTS[token] ?? { kind: "inactive", reason: "invalid" },
      refuseSession: (id) => void refused.push(id),
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
    access: shippedAccess(),
    noteReading: createNoteReading(
      { recordEvent: async (event) => void readings.push(event) },
      () => new Date(),
    ),
    nextRecorder: () => ({
      record: async (entry) => void entries.push(entry),
      enqueue: (entry) => void entries.push(entry),
    }),
    proxies: overrides.proxies ?? new ProxyTable(routes, metrics),
    limitClasses: defaultLimitClasses(),
    strangerPlaces: new StrangerPlaces(64),
    webPages: [],
    indexLinks: [],
    brand: { name: "Gatehouse", style: "" },
    pageLanguages: [],
    returnTargets: [],
    callLimiter: createMemoryLimiter({ replicas: 1, now: () => performance.now() }),
    proxyLimiter,
    allowedOrigins: new Set(),
    maxWebSockets: 10,
    isDraining: () => false,
    allowedHosts: new Set([HOST]),
    isTrustedProxy: () => false,
    logger: createLogger("gateway", "info", { write: (line) => void lines.push(line) }),
    metrics,
    ...overrides,
  });
  app.addHook("onClose", async () => {
    if (proxyLimiter instanceof ReconciledLimiter) proxyLimiter.close();
  });
  closeAfterTest(app);
  return { app, entries, readings, refused, log: () => lines.join("") };
}

/** Timers would keep the app, and each garbage collection would mark it. */
function closeAfterTest(app: GatewayApp): void {
  const test = TestRunner.getCurrentTest();
  // Which of several concurrent tests runs is not known.
  if (test !== undefined && !test.concurrent) onTestFinished(() => app.close());
}

interface Call {
  method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS";
  url: string;
  /** A word that stands for an access token. */
  token?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** `body` is sent as JSON unless it is a string or bytes. */
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
