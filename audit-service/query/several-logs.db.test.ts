import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, transaction } from "#kit/database/postgres.ts";
import { withCallDeadline } from "#kit/values/call-deadline.ts";
import { FollowEntriesResponse } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { isIncluded } from "#tests/support/people/verify-proof.ts";
import {
  openTestLog,
  readableLog,
  signer,
  type TestLog,
  type TestSequencer,
  type TestSequencerOptions,
  testSequencer,
} from "#tests/support/system/audit-sequencer.ts";
import { producedEntry, store } from "../entries/entry.fixture.ts";
import type { Entry } from "../entries/entry.ts";
import { toWireEntry } from "../entries/entry-rpc.ts";
import { hashLeaf } from "../log/merkle-tree.ts";
import { createCheckpointNoting, findNotedCheckpoints, noteOf } from "../log/noted-checkpoints.ts";
import { selectReplicas } from "../log/sequencer-store.ts";
import { type Logs, originOf, type ReadableLog } from "../logs/logs.ts";
import { exportEntries } from "./export-entries.ts";
import { createFollowing, type FollowEntries, type Following } from "./follow-entries.ts";
import { getEntry } from "./get-entry.ts";
import { ANY } from "./search.fixture.ts";
import { type EntrySearch, searchEntries } from "./search-entries.ts";
import { countLogins, summarizeLogs } from "./summarize-log.ts";

const NUMBERS = [0, 2, 7];
const ORIGINS = NUMBERS.map((number) => originOf(signer.origin, number));

let opened: TestLog[];
let logs: Logs<ReadableLog>;
let followEntries: FollowEntries;
let sequencers: TestSequencer[];
beforeEach(async () => {
  opened = await Promise.all(NUMBERS.map(() => openTestLog()));
  logs = opened.map(({ database }, index) =>
    readableLog(database.sql, NUMBERS[index]),
  ) as unknown as Logs<ReadableLog>;
  followEntries = createFollowing(logs);
  sequencers = opened.map((_, index) => sequencerOf(index));
});
afterEach(() => Promise.all(opened.map((log) => log.close())));

const at = <T>(list: readonly T[], index: number): T => {
  const found = list[index];
  if (found === undefined) throw new Error(`nothing at ${index}`);
  return found;
};

function sequencerOf(index: number, options: TestSequencerOptions = {}): TestSequencer {
  return at(opened, index).sequencer({ origin: at(ORIGINS, index), ...options });
}

const search = (wanted: Partial<EntrySearch>) =>
  searchEntries({ logs, cursorKey: Buffer.alloc(32) }, { ...ANY, ...wanted });
const follow = (wanted: Partial<Following>) => followEntries({ ...ANY, ...wanted });

/** As audit-service does it, with its own producer name. */
async function note(index: number): Promise<void> {
  const noting = createCheckpointNoting({
    origin: at(ORIGINS, index),
    head: () => at(sequencers, index).head,
    record: (event) =>
      recordIn0({ action: event.action, resource: event.resource, reason: event.reason ?? "" }),
    onNoted: () => undefined,
    now: () => new Date(),
  });
  await noting();
}

let ownSequence = 0;
async function recordIn0(changes: Partial<Entry>, producerName = "audit-service"): Promise<void> {
  ownSequence += 1;
  const produced = producedEntry(1_000_000 + ownSequence, { kind: "event", callId: "", ...changes });
  await store(at(opened, 0).database.sql, [{ ...produced, origin: { ...produced.origin, producerName } }]);
}

test.each([1, 2, 3, 7])(
  "pages of %i entries of all logs have each entry once, also those of one time",
  async (limit) => {
    for (const [index, log] of opened.entries()) {
      for (let round = 0; round < 5; round += 1) {
        // Three times, of which each log has each.
        const occurredAt = new Date(Date.UTC(2026, 2, 1, 10, 0, (round * (index + 1)) % 3));
        await log.record(1, { occurredAt });
      }
    }
    const seen: { log: number; resource: string; atMs: number }[] = [];
    for (let cursor = ""; ; ) {
      const page = await search({ limit, cursor });
      expect(page.entries.length).toBeLessThanOrEqual(limit);
      seen.push(
        ...page.entries.map(({ log, resource, occurredAt }) => ({
          log,
          resource,
          atMs: occurredAt.getTime(),
        })),
      );
      // Newer ones do not come between.
      await at(opened, 1).record(1, { occurredAt: new Date() });
      if (page.nextCursor === "") break;
      cursor = page.nextCursor;
    }
    expect(new Set(seen.map(({ log, resource }) => `${log} ${resource}`)).size).toBe(15);
    expect(seen).toHaveLength(15);
    expect(seen.map(({ atMs }) => atMs)).toEqual(seen.map(({ atMs }) => atMs).sort((a, b) => b - a));
  },
);

test("a search does not leave a log out that does not answer", async () => {
  await at(opened, 0).record(1);
  await at(opened, 2).database.sql.end();
  await expect(search({})).rejects.toThrow();
});

test("a follower of all logs gets each entry once, from the places that it names, or from now on", async () => {
  const record = async (count: number) => {
    for (const [index, log] of opened.entries()) {
      await log.record(count);
      await at(sequencers, index).catchUp();
    }
  };
  await record(2);
  const begun = await follow({});
  expect(begun).toEqual({
    entries: [],
    nextAfter: 2,
    size: 2,
    next: NUMBERS.map((log) => ({ log, sequence: 2 })),
    hasMore: false,
    away: [],
  });
  await record(3);
  const next = await follow({ after: begun.next });
  expect(next.entries.map(({ log, sequence }) => [log, sequence])).toEqual(
    NUMBERS.flatMap((log) => [3, 4, 5].map((sequence) => [log, sequence])),
  );
  expect((await follow({ after: next.next })).entries).toEqual([]);
  // It gets what comes of a log that it does not name.
  const ofOne = await follow({ after: [{ log: 2, sequence: 0 }] });
  expect(new Set(ofOne.entries.map(({ log }) => log))).toEqual(new Set([2]));
  expect(ofOne.next).toEqual(next.next);
  // As before there were several.
  const ofFirst = await follow({ afterSequence: 1 });
  expect(ofFirst).toMatchObject({ nextAfter: 5, size: 5, next: [], hasMore: false });
  expect(ofFirst.entries).toHaveLength(4);
});

test("a log that does not answer holds up no other, and loses nothing", async () => {
  const record = async () => {
    await Promise.all(opened.map((log) => log.record(1)));
    await Promise.all(sequencers.map((sequencer) => sequencer.catchUp()));
  };
  await record();
  const begun = await follow({});
  await record();
  const silence = async (whileSilent: () => Promise<void>) => {
    await transaction(at(opened, 1).database.ownerSql, async (tx) => {
      await tx`lock table leaves in access exclusive mode`;
      await whileSilent();
    });
  };
  let places = begun.next;
  await silence(async () => {
    const found = await follow({ after: places });
    expect(found.entries.map(({ log }) => log)).toEqual([0, 7]);
    expect(found.away).toEqual([2]);
    expect(found.next).toEqual([0, 2, 7].map((log) => ({ log, sequence: log === 2 ? 1 : 2 })));
    places = found.next;
    // Its place is not known until it answers.
    await expect(follow({})).resolves.toMatchObject({ away: [2], next: [{ log: 0 }, { log: 7 }] });
    await expect(follow({ after: [{ log: 0, sequence: 0 }] })).resolves.toMatchObject({
      away: [2],
      next: [{ log: 0 }, { log: 7 }],
    });
    // Only the first call has waited long for it.
    const beganMs = performance.now();
    for (let call = 0; call < 20; call += 1)
      await expect(follow({ after: places })).resolves.toMatchObject({ away: [2], next: found.next });
    expect(performance.now() - beganMs).toBeLessThan(5_000);
  });
  await expect
    .poll(() => follow({ after: places }))
    .toMatchObject({
      entries: [{ log: 2, sequence: 2 }],
      away: [],
    });
  await Promise.all(logs.map((log) => log.sql.end({ timeout: 1 })));
  await expect(follow({ after: places })).rejects.toMatchObject({ code: "service_unavailable" });
});

test("a caller that has gone does not make its logs count as away", async () => {
  await Promise.all(opened.map((log) => log.record(1)));
  await Promise.all(sequencers.map((sequencer) => sequencer.catchUp()));
  const after = NUMBERS.map((log) => ({ log, sequence: 0 }));
  const gone = withCallDeadline(Date.now() + 60_000, () => follow({ after }), { aborted: true });
  await expect(gone).rejects.toMatchObject({ code: "service_unavailable" });
  // Of a log that counts as away one of them would be told so at once.
  for (const { entries, away } of await Promise.all([follow({ after }), follow({ after })]))
    expect([entries.length, away]).toEqual([3, []]);
});

test("an answer fits into a message, however many logs there are and however long their entries; nothing is left out", async () => {
  const long = { userAgent: "€".repeat(512), resource: "€".repeat(200), reason: "€".repeat(200) };
  await Promise.all(opened.map((log) => log.record(500, long)));
  await Promise.all(sequencers.map((sequencer) => sequencer.catchUp()));
  const seen: string[] = [];
  let after = NUMBERS.map((log) => ({ log, sequence: 0 }));
  for (let hasMore = true; hasMore; ) {
    const { entries, next, ...rest } = await follow({ after, limit: 500 });
    const answer = { entries: entries.map(toWireEntry), next, ...rest, nextAfterSequence: rest.nextAfter };
    expect(FollowEntriesResponse.encode(answer).finish().length).toBeLessThan(4 * 1024 * 1024);
    seen.push(...entries.map(({ log, sequence }) => `${log}:${sequence}`));
    after = next;
    hasMore = rest.hasMore;
  }
  const all = NUMBERS.flatMap((log) => Array.from({ length: 500 }, (_, index) => `${log}:${index + 1}`));
  expect(seen).toHaveLength(all.length);
  expect(new Set(seen)).toEqual(new Set(all));
});

test("a follower is told that one of the logs has more, and which place is wrong", async () => {
  await at(opened, 1).record(501);
  await at(sequencers, 1).catchUp();
  const places = NUMBERS.map((log) => ({ log, sequence: 0 }));
  const page = await follow({ after: places });
  expect(page.hasMore).toBe(true);
  expect(page.next[1]).toEqual({ log: 2, sequence: 100 });
  for (const wrong of [
    { after: [{ log: 1, sequence: 0 }] },
    { after: [{ log: 2, sequence: 502 }] },
    { after: [...places, at(places, 0)] },
    { after: places, afterSequence: 0 },
  ]) {
    await expect(follow(wrong)).rejects.toMatchObject({
      code: "validation_failed",
      fields: [{ field: "after" }],
    });
  }
});

test("an entry of another log is proven by the head of log 0 alone, once log 0 commits to its log", async () => {
  await at(opened, 0).record(1);
  await at(opened, 1).record(9);
  await at(sequencers, 1).catchUp();
  await at(sequencers, 0).catchUp();
  const read = () => getEntry(logs, { id: "", sequence: 5, log: 2 });
  expect(await read()).toMatchObject({ entry: { log: 2, sequence: 5 }, noted: undefined });

  await note(1);
  // It has no number yet.
  expect((await read()).noted).toBeUndefined();
  // It has a number, and no checkpoint covers it.
  await at(sequencers, 0).stop();
  const [signed] = await at(opened, 0).database.ownerSql<{ at: Date }[]>`
    select max(created_at) as at from checkpoints`;
  const unsigned = sequencerOf(0, { now: () => new Date((signed?.at.getTime() ?? 0) + 1) });
  await unsigned.catchUp();
  expect(unsigned.status).toMatchObject({ size: 2, checkpointSize: 1 });
  expect((await read()).noted).toBeUndefined();
  await unsigned.stop();
  await at(opened, 0).record(20);
  await at(sequencers, 0).catchUp();
  // A later checkpoint of its log is not the one that log 0 has.
  await at(opened, 1).record(3);
  await at(sequencers, 1).catchUp();

  const { entry, proof, noted } = await read();
  const { published } = at(sequencers, 0);
  const { head, note: checkpoint } = at(published, published.length - 1);
  expect(noted?.covered?.checkpoint).toBe(checkpoint);
  const noteData = JSON.parse(noted?.leaf.data ?? "") as {
    sequence: number;
    reason: string;
    resource: string;
  };
  expect(noteData).toMatchObject({ resource: ORIGINS[1], producer: "audit-service" });
  expect(
    isIncluded({
      index: noteData.sequence - 1,
      size: head.size,
      leafHash: hashLeaf(noted?.leaf.data ?? ""),
      root: head.root,
      proof: noted?.covered?.proof ?? [],
    }),
  ).toBe(true);
  const [size, root] = noteData.reason.split(" ");
  expect(size).toBe("9");
  const claim = {
    index: entry.sequence - 1,
    size: 9,
    leafHash: hashLeaf(proof?.leaf.data ?? ""),
    root: Buffer.from(root ?? "", "base64"),
  };
  expect(isIncluded({ ...claim, proof: proof?.covered?.proof ?? [] })).toBe(true);
  expect(proof?.covered?.checkpoint).toContain(`${ORIGINS[1]}\n9\n${root}\n`);
  // It is found by its id as well, wherever it is.
  expect((await getEntry(logs, { id: entry.id, sequence: 0, log: 0 })).entry).toMatchObject({
    log: 2,
    sequence: 5,
  });
  await expect(getEntry(logs, { id: "", sequence: 1, log: 9 })).rejects.toMatchObject({ code: "not_found" });
});

test("an entry is found by its id behind those that were given the same id later, of another day or in another log", async () => {
  await at(opened, 1).record(1);
  await at(sequencers, 1).catchUp();
  const { entry: first } = await getEntry(logs, { id: "", sequence: 1, log: 2 });
  await expect.poll(() => Date.now()).toBeGreaterThan(first.receivedAt.getTime() + 1);
  await recordIn0({ id: first.id, action: "decoy" }, "event-service");
  const before = new Date(first.occurredAt.getTime() - 7 * 86_400_000);
  await at(opened, 1).record(1, { id: first.id, action: "decoy", occurredAt: before });
  expect((await getEntry(logs, { id: first.id, sequence: 0, log: 0 })).entry).toEqual(first);
});

test("each head is noted once, and nobody but audit-service can note one", async () => {
  const shown: number[] = [];
  const noting = createCheckpointNoting({
    origin: at(ORIGINS, 2),
    head: () => at(sequencers, 2).head,
    record: ({ action, resource, reason = "" }) => recordIn0({ action, resource, reason }),
    onNoted: (size) => shown.push(size),
    now: () => new Date(),
  });
  const sizes = async () =>
    (await findNotedCheckpoints(at(opened, 0).database.sql, at(ORIGINS, 2))).map(({ size }) => size);
  await noting();
  expect(await sizes()).toEqual([]);
  for (const expected of [[4], [4], [8, 4]]) {
    if (expected.length === 2 || (await sizes()).length === 0) await at(opened, 2).record(4);
    await at(sequencers, 2).catchUp();
    await noting();
    expect(await sizes()).toEqual(expected);
  }
  expect(shown).toEqual([0, 4, 8]);
  const forged = noteOf(at(ORIGINS, 2), { size: 99, root: Buffer.alloc(32) }, new Date());
  await recordIn0(
    { action: forged.action, resource: forged.resource, reason: forged.reason ?? "" },
    "gateway",
  );
  expect(await sizes()).toEqual([8, 4]);
  // Another replica that has not the lock notes nothing.
  expect(sequencerOf(2).head).toBeUndefined();
});

test("a note is found behind any number of entries that others put in its place, and behind those of a clock that was ahead", async () => {
  const origin = at(ORIGINS, 2);
  const inAYear = new Date(Date.now() + 365 * 86_400_000);
  const saying = (size: number, occurredAt: Date) => {
    const head = { size, root: Buffer.alloc(32, size) };
    const { action, resource, reason = "" } = noteOf(origin, head, occurredAt);
    return { action, resource, reason, occurredAt };
  };
  for (const size of [1, 2, 3, 4, 5]) await recordIn0(saying(size, inAYear));
  await recordIn0(saying(6, new Date()));
  for (const size of [11, 12, 13, 14, 15]) await recordIn0(saying(size, inAYear), "event-service");
  // What an intent with this action becomes when nobody ends it.
  for (let closed = 0; closed < 5; closed += 1)
    await recordIn0({ ...saying(0, inAYear), reason: "", kind: "outcome", outcome: "unknown" });
  const found = await findNotedCheckpoints(at(opened, 0).database.sql, origin);
  expect(found.map(({ size }) => size)).toEqual([6, 5, 4, 3, 2]);
});

test("a log that lacks what log 0 has noted is signed on under another number only, and waits while log 0 does not answer", async () => {
  await at(opened, 1).record(5);
  await at(sequencers, 1).catchUp();
  const backup = await at(opened, 1).database.backUp();
  await at(opened, 1).record(5);
  await at(sequencers, 1).catchUp();
  await note(1);
  const find = async () => (await findNotedCheckpoints(at(opened, 0).database.sql, at(ORIGINS, 1)))[0];
  await at(sequencers, 1).stop();
  const again = sequencerOf(1, { findNoted: find });
  await again.step();
  expect(again.status).toMatchObject({ isSequencer: true, refusal: undefined });
  await again.stop();

  const restored = testSequencer(backup, { origin: at(ORIGINS, 1), findNoted: find });
  const silent = testSequencer(backup, {
    origin: at(ORIGINS, 1),
    findNoted: () => Promise.reject(new Error("log 0 is away")),
  });
  const renumbered = testSequencer(backup, {
    origin: originOf(signer.origin, 8),
    otherOrigins: [at(ORIGINS, 0), at(ORIGINS, 2)],
    findNoted: async () => undefined,
  });
  try {
    await restored.step();
    expect(restored.status).toMatchObject({
      isSequencer: false,
      refusal:
        "the log has 5 entries, but the checkpoint that log 0 has of it covers 10: entries are missing",
    });
    await restored.stop();
    await expect(silent.step()).rejects.toThrow("log 0 is away");
    expect(silent.status).toMatchObject({ isSequencer: false, refusal: undefined });
    await renumbered.step();
    expect(renumbered.status).toMatchObject({ isSequencer: true, refusal: undefined });
    expect(renumbered.published.at(-1)?.note).toMatch(/^[^\n]+\/8\n5\n/);
  } finally {
    await restored.close();
    await silent.close();
    await renumbered.close();
    await backup.drop();
  }
});

test("a log whose database has the checkpoints of another one is not signed", async () => {
  await at(opened, 1).record(2);
  await at(sequencers, 1).catchUp();
  await at(sequencers, 1).stop();
  const mistaken = at(opened, 1).sequencer({ origin: at(ORIGINS, 2), otherOrigins: ORIGINS.slice(0, 2) });
  await mistaken.step();
  expect(mistaken.status.refusal).toBe(
    `its database has checkpoints of ${ORIGINS[1]}: LOGS_FILE gives it another number`,
  );
});

test("logs that stopped being numbered are found by the next term, which notes the last head again", async () => {
  await at(opened, 1).record(3);
  await at(sequencers, 1).catchUp();
  expect(at(sequencers, 1).head?.size).toBe(3);
  await at(sequencers, 1).stop();
  expect(at(sequencers, 1).head).toBeUndefined();
  const next = sequencerOf(1);
  expect(next.head).toBeUndefined();
  await next.step();
  expect(next.head?.size).toBe(3);
});

test("counts are those of all logs", async () => {
  const HOUR = new Date("2026-03-01T10:00:00Z");
  const span = { interval: "hour", from: HOUR, to: new Date(HOUR.getTime() + 7_200_000) } as const;
  for (const [index, log] of opened.entries()) {
    const occurredAt = new Date(HOUR.getTime() + (index === 2 ? 3_600_000 : 60_000));
    const login = { action: "auth.login", kind: "outcome", occurredAt } as const;
    await log.record(2, { ...login, outcome: "success", actor: { ...ACTOR, sessionId: "s" } });
    await log.record(1, { kind: "event", action: "user.login_failed", reason: `r${index % 2}`, occurredAt });
    await at(sequencers, index).catchUp();
    await countLogins(log.database.sql);
  }
  expect(await summarizeLogs(logs, span)).toMatchObject({
    buckets: [
      { start: HOUR, logins: 4 },
      { start: new Date(HOUR.getTime() + 3_600_000), logins: 2 },
    ],
    refusals: [
      { reason: "r0", count: 2 },
      { reason: "r1", count: 1 },
    ],
    countedUpTo: 9,
    size: 9,
  });
});

const ACTOR = {
  userId: "0190b6a0-0000-7000-8000-000000000001",
  role: "USER",
  sessionId: "",
  claimedEmail: "",
};

test("an export is of one log and names it", async () => {
  await at(opened, 1).record(3);
  await at(sequencers, 1).catchUp();
  const [first, ...lines] = await Array.fromAsync(exportEntries(at([...logs], 1), { first: 0, last: 0 }));
  expect(first).toMatchObject({ kind: "log", log: { origin: ORIGINS[1], lastSequence: 3 } });
  expect(lines).toHaveLength(4);
});

test("the replicas of a log are those that are connected, each once, in one order", async () => {
  const { database } = at(opened, 0);
  const config = {
    DATABASE_URL: database.url,
    DATABASE_PASSWORD_FILE: new Secret(database.password),
    DATABASE_POOL_SIZE: 1,
  };
  const connect = (name: string) => connectPostgres(config, name, pino({ level: "silent" }));
  const all = ["numbers b", "numbers a", "numbers b", "other c"].map(connect);
  const [first, second] = all as [ReturnType<typeof connect>, ReturnType<typeof connect>];
  try {
    for (const sql of all) await sql`select`;
    expect(await selectReplicas(first, "numbers ")).toEqual(["a", "b"]);
    await second.end();
    await expect.poll(() => selectReplicas(first, "numbers ")).toEqual(["b"]);
  } finally {
    for (const sql of all) await sql.end({ timeout: 1 });
  }
});
