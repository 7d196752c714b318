import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { refreshSession } from "../sessions/refresh-session.ts";
import { createSecurityEventDelivery, type SecurityEventDeliveryDeps } from "./deliver-security-events.ts";
import { toAuditEvent } from "./security-event-audit.ts";
import type { SecurityEvent } from "./security-event-store.ts";

let database: TestDatabase;
let replica: TokenReplica;
const origin = { ip: "192.0.2.9", userAgent: "thief", requestId: "r-1", traceId: "t-1" };

beforeEach(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
});

afterEach(async () => {
  replica.stop();
  await database.drop();
});

/** As if the time of the lease had passed. */
const becomeDue = () =>
  database.ownerSql`update security_events set next_attempt_at = now() - interval '1 second'`;

async function reuse(): Promise<{ userId: string; sessionId: string }> {
  const userId = randomUUID();
  const first = await logIn(replica, userId);
  const second = await refreshSession(replica.deps, first.refreshToken, origin);
  await refreshSession(replica.deps, second.refreshToken, origin);
  await expect(refreshSession(replica.deps, first.refreshToken, origin)).rejects.toMatchObject({
    code: "refresh_token_reused",
  });
  return { userId, sessionId: first.sessionId };
}

/** As a replica delivers. */
const deliver = (deps: SecurityEventDeliveryDeps) => createSecurityEventDelivery(deps).poll();

function receivers() {
  /** Without the ends of sessions, which are for the audit log alone. */
  const recorded: SecurityEvent[] = [];
  const ended: SecurityEvent[] = [];
  const notified: SecurityEvent[] = [];
  const deps = {
    sql: database.sql,
    record: async (event: SecurityEvent) => {
      (event.type === "session_ended" ? ended : recorded).push(event);
    },
    notify: async (event: SecurityEvent) => void notified.push(event),
    now: () => new Date(),
    logger: replica.deps.logger,
  };
  return { recorded, ended, notified, deps };
}

test("a reuse is reported once to the audit log and once to the user, by any replica", async () => {
  const { userId, sessionId } = await reuse();
  const { recorded, ended, notified, deps } = receivers();
  await Promise.all(Array.from({ length: 5 }, () => deliver(deps)));
  await becomeDue();
  await deliver(deps);
  expect(recorded).toHaveLength(1);
  expect(notified).toEqual(recorded);
  expect(notified[0]).toMatchObject({
    type: "refresh_reuse",
    userId,
    sessionId,
    ip: "192.0.2.9",
    userAgent: "thief",
  });
  expect(toAuditEvent(recorded[0] as SecurityEvent)).toMatchObject({
    kind: "event",
    action: "session.refresh_reused",
    resource: userId,
    actor: { userId, sessionId },
    outcome: "failure",
    requestId: "r-1",
  });
  expect(ended.map(toAuditEvent)).toEqual([
    expect.objectContaining({
      ...{ kind: "event", action: "session.ended", outcome: "success", reason: "refresh_reuse" },
      ...{ resource: userId, actor: { userId, sessionId } },
    }),
  ]);
});

test.each(["record", "notify"] as const)(
  "an unavailable receiver (%s) gets the event later, and does not delay the other",
  async (name) => {
    await reuse();
    const { recorded, notified, deps } = receivers();
    const [delivered, other] = name === "record" ? [recorded, notified] : [notified, recorded];
    const away = async () => {
      throw new Error("away");
    };
    // Of the end of the session it is the audit log alone that hears.
    const ofReuse = (event: SecurityEvent) => (event.type === "session_ended" ? Promise.resolve() : away());
    await deliver({ ...deps, [name]: ofReuse });
    expect([delivered.length, other.length]).toEqual([0, 1]);
    await deliver(deps);
    expect(delivered).toHaveLength(0); // still leased
    await becomeDue();
    await deliver(deps);
    expect([delivered.length, other.length]).toEqual([1, 1]);
  },
);

test("what another process has noted of an event stays when a late one notes less", async () => {
  await reuse();
  const { recorded, notified, deps } = receivers();
  const late = async (event: SecurityEvent) => {
    if (event.type === "session_ended") return;
    await becomeDue(); // its lease ends while it delivers
    await deliver(deps);
    recorded.push(event);
  };
  const away = () => Promise.reject(new Error("away"));
  await deliver({ ...deps, record: late, notify: away });
  await becomeDue();
  await deliver(deps);
  expect([recorded.length, notified.length]).toEqual([2, 1]);
});

test("neither a failed nor a successful refresh leaves an event", async () => {
  const pair = await logIn(replica, randomUUID());
  await refreshSession(replica.deps, pair.refreshToken, origin);
  await expect(refreshSession(replica.deps, "nonsense", origin)).rejects.toThrow();
  const { recorded, deps } = receivers();
  await deliver(deps);
  expect(recorded).toEqual([]);
});
