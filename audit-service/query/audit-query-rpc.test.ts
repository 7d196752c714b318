import { expect, test, vi } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { FollowEntriesRequest, SearchEntriesRequest } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { createAuditQueryRpc } from "./audit-query-rpc.ts";

const ANY = FollowEntriesRequest.decode(new Uint8Array());

function service(recordReading = noteReadings()) {
  let nowMs = 1_000_000;
  const followEntries = vi.fn(async () => ({ entries: [], nextAfter: 42, size: 42 }));
  const getEntry = () => Promise.reject(new DomainError("not_found"));
  const deps = { followEntries, getEntry, ...recordReading, monotonicMs: () => nowMs };
  const { followEntries: call, getEntry: read } = createAuditQueryRpc(deps as never);
  const follow = (request: Partial<FollowEntriesRequest>, person?: string) =>
    call({ ...ANY, ...request }, { ...newCallContext(), ...(person !== undefined && { person }) } as never);
  return {
    follow,
    followEntries,
    read: (wanted: { id: string; sequence: number; log: number }) =>
      read(wanted, { ...newCallContext(), person: "auditor:eve" } as never),
    reasons: () => recordReading.noted.map(({ actor, reason }) => `${actor.userId} ${reason}`),
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

test("who follows leaves a record of the place it begins after, one every ten minutes, and one for a place before", async () => {
  const { follow, reasons, pass } = service();
  await follow({}, "operator:ada");
  expect(reasons()).toEqual([]);
  for (let after = 40; after <= 42; after += 1) {
    await follow({ afterSequence: after }, "operator:ada");
    pass(1_000);
  }
  expect(reasons()).toEqual(["operator:ada after=40"]);
  // Nobody reads further back under a record that does not say so.
  await follow({ afterSequence: 0 }, "operator:ada");
  await follow({ afterSequence: 39 }, "operator:ada");
  pass(10 * 60_000);
  await follow({ afterSequence: 42 }, "operator:ada");
  expect(reasons().slice(1)).toEqual(["operator:ada after=0", "operator:ada after=42"]);
});

test("each person and each filter has records of its own, however the filter's text is cut", async () => {
  const { follow, reasons } = service();
  await follow({ afterSequence: 5, action: "a", resource: "b" }, "operator:ada");
  await follow({ afterSequence: 5, action: "a resource=b" }, "operator:ada");
  await follow({ afterSequence: 5, action: "a", resource: "b" }, "auditor:eve");
  expect(reasons()).toEqual([
    "operator:ada action=a resource=b after=5",
    'operator:ada action="a resource=b" after=5',
    "auditor:eve action=a resource=b after=5",
  ]);
});

test("the gateway records for its own callers", async () => {
  const { follow, reasons } = service();
  await follow({ afterSequence: 0 });
  expect(reasons()).toEqual([]);
});

test("what could not be recorded is not read, and is recorded with the next call", async () => {
  const { recordReading, noted } = noteReadings();
  let isAway = true;
  const unsure: typeof recordReading = async (...reading) => {
    if (isAway) throw new DomainError("audit_unavailable");
    await recordReading(...reading);
  };
  const { follow, followEntries, reasons } = service({ recordReading: unsure, noted });
  await expect(follow({ afterSequence: 1 }, "operator:ada")).rejects.toMatchObject({
    code: "audit_unavailable",
  });
  expect(followEntries).not.toHaveBeenCalled();
  isAway = false;
  await follow({ afterSequence: 1 }, "operator:ada");
  await follow({ afterSequence: 1 }, "operator:ada");
  expect(reasons()).toEqual(["operator:ada after=1"]);
});

test("who reads an entry by its number leaves a record of the log in which that counts", async () => {
  const recordReading = noteReadings();
  const { read } = service(recordReading);
  for (const wanted of [
    { id: "", sequence: 5, log: 0 },
    { id: "", sequence: 5, log: 2 },
    { id: "0190b6a0-0000-7000-8000-000000000001", sequence: 0, log: 2 },
  ])
    await expect(read(wanted)).rejects.toMatchObject({ code: "not_found" });
  expect(recordReading.noted.map(({ resource, reason }) => [resource, reason])).toEqual([
    ["5", ""],
    ["5", "log=2"],
    ["0190b6a0-0000-7000-8000-000000000001", ""],
  ]);
});

test.each([
  ["an auditor", { person: "auditor:eve" }, { person: "auditor:ada" }],
  [
    "a user",
    { actor: { userId: "eve", role: "AUDITOR", sessionId: "1" } },
    { actor: { userId: "ada", role: "AUDITOR", sessionId: "2" } },
  ],
])("%s holds two reads of a kind at once, and waits for itself alone", async (_who, eve, other) => {
  const finish: (() => void)[] = [];
  const held = vi.fn(() => new Promise((resolve) => finish.push(() => resolve({ entries: [] }))));
  const deps = { searchEntries: held, followEntries: async () => ({ entries: [] }), ...noteReadings() };
  const rpc = createAuditQueryRpc(deps as never);
  const as = (who: object) => ({ ...newCallContext({ budgetMs: 60_000 }), ...who }) as never;
  const search = (who: object) => rpc.searchEntries(SearchEntriesRequest.decode(new Uint8Array()), as(who));
  const all = Array.from({ length: 34 }, () => search(eve));
  await expect(search(eve)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(held).toHaveBeenCalledTimes(2);
  await rpc.followEntries(ANY, as(eve));
  all.push(search(other), ...Array.from({ length: 3 }, () => search({})));
  await expect.poll(() => held.mock.calls.length).toBe(6);
  finish.shift()?.();
  await expect.poll(() => held.mock.calls.length).toBe(7);
  while (finish.length > 0) {
    finish.shift()?.();
    await new Promise(setImmediate);
  }
  expect(await Promise.all(all)).toHaveLength(38);
});

test("the end of an export, also a failed one, lets the reader's next one begin", async () => {
  const begun = vi.fn();
  const sql = () => Promise.reject(new DomainError("not_found"));
  const log = { number: 0, sql, origin: "o", verifierKey: "k" };
  const held = Promise.withResolvers<void>();
  const deps = {
    logs: [log],
    recordReading: async () => {
      begun();
      await held.promise;
    },
  };
  const rpc = createAuditQueryRpc(deps as never);
  const open = async () => {
    const context = { ...newCallContext({ budgetMs: 60_000 }), person: "auditor:eve" };
    const request = { firstSequence: 0, lastSequence: 0, log: 0 };
    for await (const _ of rpc.exportEntries(request, {
      ...context,
      signal: new AbortController().signal,
    } as never));
  };
  const all = Array.from({ length: 5 }, () => open().catch(({ code }: DomainError) => code));
  await expect.poll(() => begun.mock.calls.length).toBe(2);
  held.resolve();
  expect(await Promise.all(all)).toEqual(Array(5).fill("not_found"));
});
