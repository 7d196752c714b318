import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { pino } from "pino";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { Confirmation } from "#kit/rpc/call-context.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { createSharedTurns } from "#kit/values/turns.ts";
import type { Algorithm } from "#token-client/compact-jws.ts";
import { RevocationSet } from "#token-client/revocation-set.ts";
import { ensureSigningKeys } from "#token-service/keys/ensure-signing-keys.ts";
import { KeyRing } from "#token-service/keys/key-ring.ts";
import type { SessionPart } from "#token-service/parts/open-part.ts";
import { Parts } from "#token-service/parts/parts.ts";
import { createMemoryBell, type RevocationBell } from "#token-service/revocations/revocation-bell.ts";
import { RevocationFeed } from "#token-service/revocations/revocation-feed.ts";
import { readRevocations } from "#token-service/revocations/revocation-store.ts";
import { LeafMarker } from "#token-service/rows/leaf-marker.ts";
import { markLeavesSeen } from "#token-service/rows/session-store.ts";
import { issueSession } from "#token-service/sessions/issue-session.ts";
import type { RefreshResult } from "#token-service/sessions/refresh-session.ts";
import type { ProvenApiKey, Refusal, VerifiedToken } from "#token-service/tokens/verify-token.ts";

export interface TokenReplicaOptions {
  algorithm?: Algorithm;
  accessTtlS?: number;
  refreshGraceS?: number;
  maxSessionsPerUser?: number;
  bell?: RevocationBell;
  /** Shared by replicas of one test: the time, in milliseconds, that they believe. */
  clock?: { ms: number };
  /** The monotonic clock of the revocation feed, in milliseconds. */
  uptime?: { ms: number };
  /** Throws while a test wants the clock to be wrong. */
  assertClock?: () => void;
  /** False: the keys are read again only when a test says so. */
  followsKeys?: boolean;
  encryptionKey?: string;
  /** Databases of parts 1 and following: of `createPartDatabase`. */
  otherParts?: readonly Sql[];
  /** Live API keys. */
  apiKeys?: Map<string, ProvenApiKey>;
}

export const TEST_ISSUER = "http://gatehouse.test";
const TEST_ENCRYPTION_KEY = randomBytes(32).toString("base64");
const silent = pino({ level: "silent" });

/** What one replica of token-service is made of, over a real database, without the network. */
export async function startTokenReplica(sql: Sql, options: TokenReplicaOptions = {}) {
  const { clock } = options;
  const now = () => (clock === undefined ? new Date() : new Date(clock.ms));
  const encryptionKey = parseEncryptionKey(options.encryptionKey ?? TEST_ENCRYPTION_KEY);
  if (encryptionKey === undefined) throw new Error("not an encryption key");
  const lifetimes = {
    accessTtlS: options.accessTtlS ?? 900,
    refreshIdleTtlS: 604_800,
    sessionAbsoluteTtlS: 2_592_000,
    refreshGraceS: options.refreshGraceS ?? 10,
  };
  const keyDeps = {
    sql,
    encryptionKeys: [encryptionKey] as const,
    algorithm: options.algorithm ?? "EdDSA",
    accessTtlS: lifetimes.accessTtlS,
    longestTokenS: lifetimes.refreshIdleTtlS + 60,
    jwksMaxAgeS: 300,
    maxAgeS: 2_592_000,
    now,
  };
  await ensureSigningKeys(keyDeps);
  const keys = new KeyRing({ ...keyDeps, logger: silent });
  await keys.reload();
  const known = new RevocationSet(Number.POSITIVE_INFINITY);
  const { accessTtlS } = lifetimes;
  const follow = (named: readonly { keyId: string }[]) =>
    options.followsKeys !== false && keys.follow(named.map(({ keyId }) => keyId));
  const openPart = (number: number, sql: Sql): SessionPart => {
    const revocations = new RevocationFeed({
      known,
      read: (log) => transaction(sql, (tx) => readRevocations(tx, log, { part: number, accessTtlS })),
      bell: options.bell ?? createMemoryBell(),
      logger: silent,
      accessTtlS,
      ...(options.uptime && { nowMs: () => options.uptime?.ms ?? 0 }),
      onKeyRevoked: (keyId) => keys.ban(keyId),
      onKeys: (named) => number === 0 && follow(named),
    });
    const assertClock = options.assertClock ?? (() => undefined);
    return { number, sql, revocations, onSecurityEvent: () => undefined, assertClock };
  };
  const { number: _, ...first } = openPart(0, sql);
  const others = (options.otherParts ?? []).map((other, index) => openPart(index + 1, other));
  const parts = new Parts([{ number: 0, ...first }, ...others], known);
  for (const { revocations } of parts.all) await revocations.start();
  const refusals: Refusal[] = [];
  const refreshes: RefreshResult[] = [];
  const leaves = new LeafMarker({ write: (batch) => markLeavesSeen(sql, batch, now()), logger: silent });
  const deps = {
    ...keyDeps,
    ...first,
    parts,
    issuer: TEST_ISSUER,
    lifetimes,
    keys,
    leaves,
    logger: silent,
    verified: new LRUCache<string, VerifiedToken>({ max: 1_000 }),
    askForApiKey: async (text: string) => options.apiKeys?.get(text),
    maxSessionsPerUser: options.maxSessionsPerUser ?? 20,
    refreshTurns: createSharedTurns(32),
    countRefusal: (refusal: Refusal) => void refusals.push(refusal),
    logRefusal: () => undefined,
    countRefresh: (result: RefreshResult) => void refreshes.push(result),
  };
  const stop = async () => {
    for (const { revocations } of parts.all) revocations.stop();
    await leaves.close();
  };
  return { deps, refusals, refreshes, stop };
}

export type TokenReplica = Awaited<ReturnType<typeof startTokenReplica>>;

/** A user who has just logged in. */
export function logIn(
  { deps }: TokenReplica,
  userId: string,
  role: "USER" | "ADMIN" | "AUDITOR" = "USER",
  proven?: Confirmation,
) {
  return issueSession(deps, {
    userId,
    role,
    amr: ["pwd"],
    acr: 1,
    authTime: deps.now(),
    ip: "192.0.2.1",
    userAgent: "test",
    proven,
  });
}
