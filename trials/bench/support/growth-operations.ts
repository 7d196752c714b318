import { randomBytes, randomUUID } from "node:crypto";
import * as argon2 from "@node-rs/argon2";
import { pino } from "pino";
import { producedEntry, store } from "#audit-service/entries/entry.fixture.ts";
import { createKeyPartitions, deleteOldKeys, dropKeyPartitions } from "#audit-service/entries/entry-store.ts";
import { cleanUpRemovals, removeOldPartitions } from "#audit-service/log/remove-old-partitions.ts";
import { selectUncleanRemovals } from "#audit-service/log/retention-store.ts";
import { ANY } from "#audit-service/query/search.fixture.ts";
import { type EntrySearch, searchEntries } from "#audit-service/query/search-entries.ts";
import { listUsers } from "#identity-service/admin/managed-users.ts";
import { countUsersOfOtherRoles } from "#identity-service/admin/user-admin-store.ts";
import { logIn } from "#identity-service/login/log-in.ts";
import { reencryptTotpSecrets } from "#identity-service/mfa/reencrypt-totp-secrets.ts";
import { sealTotpSecret } from "#identity-service/mfa/totp-secret.ts";
import { createPasswordHasher } from "#identity-service/passwords/password-hasher.ts";
import { sampleUsedCosts } from "#identity-service/passwords/used-cost-store.ts";
import { hasAdmin, readUsersTable } from "#identity-service/users/user-store.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { readableLog, signer, testSequencer } from "#tests/support/system/audit-sequencer.ts";
import { logIn as beginSession, startTokenReplica } from "#tests/support/system/token-service.ts";
import { listLiveSessions } from "#token-service/rows/session-store.ts";
import { cleanUp } from "#token-service/sessions/housekeeping.ts";
import { refreshSession } from "#token-service/sessions/refresh-session.ts";
import {
  ACTIVE,
  activeNumber,
  actorsOf,
  CLAIM_EVERY,
  DAYS,
  KEY_DAYS_TOO_OLD,
  plantedId,
  type Size,
} from "./growth-fill.ts";
import { FLOOR, identityDeps } from "./identity.ts";
import type { startWorkbench } from "./workbench.ts";

type Workbench = Awaited<ReturnType<typeof startWorkbench>>;

/** Does its work, and returns how many times. */
type Operation = (round: number) => Promise<number>;

export interface Operations {
  all: Record<string, Operation>;
  close(): Promise<void>;
}

const logger = pino({ level: "silent" });
const SEARCHES = 10;
const SECRETS = 1_000;
const MFA_KEYS = [1, 2].map(() => {
  const key = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (key === undefined) throw new Error("not an encryption key");
  return key;
});

export async function operationsOf(workbench: Workbench, size: Size): Promise<Operations> {
  const identity = await workbench.connect("identity-service");
  const token = await workbench.connect("token-service");
  const audit = await workbench.connect("audit-service");
  const reads = await workbench.connect("audit-service", 10, { plan_cache_mode: "force_custom_plan" });
  const { host, port, username, password, database } = await workbench.login("audit-service");
  const connection = { url: `postgres://${username}@${host}:${port}/${database}`, password };
  const numbering = testSequencer(connection);
  // Those of an earlier run are encrypted with its key.
  await token`delete from signing_keys`;
  const replica = await startTokenReplica(token);
  const parts = [
    await identityOperations(identity, size),
    await tokenOperations(token, replica, size),
    await auditOperations({ audit, reads, numbering }, size),
  ];
  const restart: Operation = async () => {
    const started = await startTokenReplica(token);
    await started.stop();
    await readUsersTable(identity);
    await hasAdmin(identity);
    await sampleUsedCosts(identity);
    await countUsersOfOtherRoles(identity, ["USER", "ADMIN", "AUDITOR"]);
    await numbering.stop();
    const next = testSequencer(connection);
    await next.step();
    await next.stop();
    await next.close();
    return 1;
  };
  return {
    all: { ...Object.assign({}, ...parts), restart },
    async close() {
      await numbering.close();
      await replica.stop();
      await Promise.all([identity, token, audit, reads].map((sql) => sql.end()));
    },
  };
}

/** Counts for each active user. After the first round their rows are in memory. */
const each = (size: Size, work: (number: number) => Promise<unknown>): Operation => {
  return async () => {
    for (let k = 0; k < ACTIVE; k += 1) await work(activeNumber(k, size));
    return ACTIVE;
  };
};

async function identityOperations(sql: Sql, size: Size): Promise<Record<string, Operation>> {
  const deps = await identityDeps(sql, 1);
  // The same work at every size, and a hundred times all the rest.
  const withoutWork = { ...argon2, verify: async () => true };
  const queue = { run: <T>(work: () => Promise<T>) => work() };
  const passwords = createPasswordHasher({
    ...{ argon2: withoutWork, parameters: FLOOR, costKey: randomBytes(32), logger },
    queue: queue as Parameters<typeof createPasswordHasher>[0]["queue"],
  });
  const devices = new Map<string, string>();
  const emails = new Map<number, string>();
  for (let k = 0; k < ACTIVE; k += 1) {
    const number = activeNumber(k, size);
    const [row] = await sql<{ email: string }[]>`select email from users where id = ${plantedId(number)}`;
    emails.set(number, row?.email ?? "");
  }
  const logInOnce = async (number: number) => {
    const email = emails.get(number) ?? "";
    const from = { clientIp: "192.0.2.1", userAgent: "bench", deviceToken: devices.get(email) ?? "" };
    const attempt = { email, password: "correct horse battery", ...from };
    const result = await logIn({ ...deps, passwords }, attempt, newCallContext({ budgetMs: 60_000 }));
    if (result.kind === "completed") devices.set(email, result.deviceToken);
  };
  const search = (query: string, expected: number | "refused" | "some"): Operation => {
    return async () => {
      for (let time = 0; time < SEARCHES; time += 1) {
        const found = await listUsers({ sql }, { query, limit: 50 }).catch((error: unknown) => {
          if (error instanceof DomainError && error.code === "validation_failed") return "refused" as const;
          throw error;
        });
        const count = found === "refused" ? found : found.users.length;
        if (expected !== "some" && count !== expected)
          throw new Error(`${query}: ${count} users, not ${expected}`);
      }
      return SEARCHES;
    };
  };
  await plantSecrets(sql);
  return {
    login: each(size, logInOnce),
    "user search, one letter": search("a", "refused"),
    "user search, two letters": search("an", 50),
    "user search, three common letters": search("ber", 50),
    "user search, three rare letters": search("ann", "some"),
    "user search, everybody": search("example", 50),
    "user search, an address": search(emails.get(activeNumber(7, size)) ?? "", 1),
    "user search, nobody": search("nobody.of.this.name@", 0),
    "users, first page": async () => {
      for (let time = 0; time < SEARCHES; time += 1) await listUsers({ sql }, { limit: 50 });
      return SEARCHES;
    },
    "secret re-encryption": async (round) => {
      const mfaKeys = round % 2 === 0 ? MFA_KEYS : MFA_KEYS.toReversed();
      const { done } = await reencryptTotpSecrets({ sql, mfaKeys: mfaKeys as never, logger });
      if (done !== SECRETS) throw new Error(`${done} secrets were encrypted again, not ${SECRETS}`);
      return done;
    },
  };
}

/** Of neighbours, because all are encrypted again in their order. The others' are of a key that is not in use. */
async function plantSecrets(sql: Sql): Promise<void> {
  const [, earlier] = MFA_KEYS;
  if (earlier === undefined) throw new Error("no key");
  for (let number = 1; number <= SECRETS; number += 1) {
    const userId = plantedId(number);
    const { secretEncrypted, keyId } = sealTotpSecret([earlier], userId, randomBytes(20));
    await sql`delete from totp_credentials where user_id = ${userId}`;
    await sql`insert into totp_credentials (user_id, secret_encrypted, key_id, created_at)
      values (${userId}, ${secretEncrypted}, ${keyId}, now())`;
  }
}

async function tokenOperations(
  sql: Sql,
  replica: Awaited<ReturnType<typeof startTokenReplica>>,
  size: Size,
): Promise<Record<string, Operation>> {
  const origin = { ip: "192.0.2.1", userAgent: "bench", requestId: "", traceId: "" };
  const leaves = new Map<number, string>();
  for (let k = 0; k < ACTIVE; k += 1) {
    const number = activeNumber(k, size);
    leaves.set(number, (await beginSession(replica, plantedId(number))).refreshToken);
  }
  return {
    refresh: each(size, async (number) => {
      const next = await refreshSession(replica.deps, leaves.get(number) ?? "", origin);
      leaves.set(number, next.refreshToken);
    }),
    "session list": each(size, async (number) => {
      const found = await listLiveSessions(sql, plantedId(number));
      if (found.length === 0) throw new Error("no session of a user");
    }),
    // As many sessions as there are in the small installation.
    "session clean-up": async () => {
      await cleanUp({ sql, assertClock: () => undefined, logger }, plantedId(size.users * 2 - 20_000));
      return 1;
    },
  };
}

interface AuditPools {
  audit: Sql;
  reads: Sql;
  numbering: ReturnType<typeof testSequencer>;
}

async function auditOperations(
  { audit, reads, numbering }: AuditPools,
  size: Size,
): Promise<Record<string, Operation>> {
  const deps = { logs: [readableLog(reads)] as const, cursorKey: Buffer.alloc(32) };
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);
  const search = (make: (number: number) => Partial<EntrySearch>) =>
    each(size, (number) => searchEntries(deps, { ...ANY, limit: 50, ...make(number) }));
  let sequence = 0;
  const producerId = randomUUID();
  const record = async (count: number) => {
    const entries = Array.from({ length: count }, () => {
      sequence += 1;
      const produced = producedEntry(sequence, { occurredAt: new Date(), callId: `bench-${sequence}` });
      return { ...produced, origin: { ...produced.origin, producerId } };
    });
    await store(audit, entries);
  };
  const retention = { sql: audit, signer, now: () => new Date(), logger };
  return {
    "audit record": async () => {
      for (let time = 0; time < 10; time += 1) await record(100);
      return 1_000;
    },
    sequencer: async () => {
      const before = numbering.status.size;
      await numbering.catchUp();
      return numbering.status.size - before;
    },
    "audit search, newest": search(() => ({})),
    "audit search, actor": search((number) => ({ actorUserId: plantedId(1 + (number % actorsOf(size))) })),
    "audit search, request": search((number) => ({ requestId: `request-${number}` })),
    "audit search, rare action": search(() => ({ action: "rare" })),
    "audit search, failures of an action": search(() => ({ action: "action-3", outcome: "failure" })),
    "audit search, an old span of 100 entries": search((number) => {
      const from = daysAgo(40 + (number % 10));
      return { from, to: new Date(from.getTime() + (100 * DAYS * 86_400_000) / size.entries) };
    }),
    "retention of a month": async (round) => {
      const [before] = await audit<{ count: number }[]>`select count(*)::int as count from removals`;
      await removeOldPartitions({ ...retention, retentionMonths: 10 - round });
      const [after] = await audit<{ count: number }[]>`select count(*)::int as count from removals`;
      return (after?.count ?? 0) - (before?.count ?? 0);
    },
    "retention, 1,000 addresses": async () => {
      const removals = await selectUncleanRemovals(audit);
      await cleanUpRemovals({ sql: audit, isStopped: () => false });
      const entries = removals.map(({ firstSequence, lastSequence }) => lastSequence - firstSequence + 1);
      return entries.reduce((sum, count) => sum + count, 0) / CLAIM_EVERY / 1_000;
    },
    "key clean-up": async (round) => {
      await createKeyPartitions(audit, 3);
      const dropped = await dropKeyPartitions(audit, 31 + KEY_DAYS_TOO_OLD - 2 - round);
      await deleteOldKeys(audit, 31, 500);
      return Math.min(dropped, 1);
    },
  };
}
