import { expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import {
  type FollowEntriesRequest,
  type SummarizeLoginsRequest,
  SummaryInterval,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const BEGIN = new Date("2026-03-01T10:00:00Z");
const END = new Date("2026-03-01T12:00:00Z");
const SUMMARY = {
  from: BEGIN,
  to: END,
  buckets: [{ start: BEGIN, logins: 4, failures: 1 }],
  refusals: [{ reason: "wrong_password", count: 1 }],
  openIntents: 2,
  oldestOpenIntent: BEGIN,
  countedUpTo: 40,
  size: 42,
};

const ENDS = [
  { log: 0, sequence: 42 },
  { log: 1, sequence: 7 },
];

function gateway(overrides: Parameters<typeof testGateway>[0] = {}) {
  const followEntries = vi.fn(async ({ afterSequence }: FollowEntriesRequest) => ({
    entries: [],
    nextAfterSequence: Math.max(afterSequence ?? 42, 42),
    size: 42,
    next: afterSequence === undefined ? ENDS : [],
    hasMore: afterSequence === undefined,
    away: [] as number[],
  }));
  const summarizeLogins = vi.fn(async (_span: SummarizeLoginsRequest) => SUMMARY);
  return {
    ...testGateway({ auditQuery: { followEntries, summarizeLogins }, ...overrides }),
    followEntries,
    summarizeLogins,
  };
}
type Gateway = ReturnType<typeof gateway>;
const tail = ({ app }: Gateway, query = "", token = "auditor-token") =>
  send(app, { url: `/admin/audit/tail${query}`, token });

test.each(["/admin/audit/summary", "/admin/audit/tail", "/admin/audit/tail?after=1"])(
  "%s is for those who may read the whole log",
  async (url) => {
    const { app, readings } = gateway();
    for (const [token, status] of [
      ["user-token", 403],
      ["support-token", 403],
      ["revoked-token", 401],
    ] as const)
      expect((await send(app, { url, token })).statusCode).toBe(status);
    expect(readings).toEqual([]);
    for (const token of ["admin-token", "auditor-token"])
      expect((await send(app, { url, token })).statusCode).toBe(200);
  },
);

test("a summary is what was counted, and leaves an entry", async () => {
  const { app, readings, summarizeLogins } = gateway();
  const query = "from=2026-03-01T11:20:00%2B01:00&to=2026-03-01T11:20:00Z&interval=day";
  const { data } = (await send(app, { url: `/admin/audit/summary?${query}`, token: "auditor-token" })).json();
  expect(data).toEqual({
    from: BEGIN.toISOString(),
    to: END.toISOString(),
    buckets: [{ start: BEGIN.toISOString(), logins: 4, failures: 1 }],
    refusals: [{ reason: "wrong_password", count: 1 }],
    openIntents: { count: 2, oldest: BEGIN.toISOString() },
    countedUpTo: 40,
    size: 42,
  });
  const from = new Date("2026-03-01T10:20:00Z");
  const to = new Date("2026-03-01T11:20:00Z");
  expect(summarizeLogins.mock.lastCall?.[0]).toEqual({ from, to, interval: SummaryInterval.DAY });
  expect(readings).toMatchObject([
    {
      action: "audit.summarized",
      reason: `interval=day from=${from.toISOString()} to=${to.toISOString()}`,
      actor: { userId: USER_ID, role: "AUDITOR" },
    },
  ]);
});

test("without times a summary is of the last 24 hours, by hour", async () => {
  const { app, summarizeLogins } = gateway();
  const beforeMs = Date.now();
  await send(app, { url: "/admin/audit/summary", token: "auditor-token" });
  const { from, to, interval } = summarizeLogins.mock.lastCall?.[0] ?? {};
  expect(interval).toBe(SummaryInterval.HOUR);
  expect(to?.getTime()).toBeGreaterThanOrEqual(beforeMs);
  expect((to?.getTime() ?? 0) - (from?.getTime() ?? 0)).toBe(86_400_000);
});

test("following begins at the end of the log, and forwards its filters", async () => {
  const built = gateway();
  const query = `?actor=${USER_ID}&action=auth.login&resource=r&outcome=failure`;
  const { data } = (await tail(built, query)).json();
  expect(data).toEqual({ entries: [], place: "0:42,1:7", hasMore: true, nextAfter: 42, size: 42 });
  const filter = {
    ...{ actorUserId: USER_ID, action: "auth.login", resource: "r", outcome: Outcome.FAILURE },
    withoutActions: [],
    limit: 0,
  };
  expect(built.followEntries.mock.lastCall?.[0]).toEqual({ ...filter, afterSequence: undefined, after: [] });
  const ofLog0 = (await tail(built, `${query}&after=0`)).json().data;
  expect(built.followEntries.mock.lastCall?.[0]).toEqual({ ...filter, afterSequence: 0, after: [] });
  expect(ofLog0).toEqual({ entries: [], hasMore: false, nextAfter: 42, size: 42 });
  await tail(built, `${query}&place=0:42,1:7`);
  expect(built.followEntries.mock.lastCall?.[0]).toEqual({
    ...filter,
    afterSequence: undefined,
    after: ENDS,
  });
});

const everyLog = Array.from({ length: 256 }, (_, log) => `${log}:${Number.MAX_SAFE_INTEGER}`).join(",");

test("a place names each log once, up to all that there can be", async () => {
  const built = gateway();
  const statusOf = async (place: string) =>
    (await tail(built, `?place=${encodeURIComponent(place)}`)).statusCode;
  expect(await statusOf(everyLog)).toBe(200);
  const refused = [
    "",
    "7",
    "0:",
    ":7",
    "0:-1",
    "0:1,",
    "0:01",
    "0:1;1:2",
    "0:1 ",
    "256:1",
    "0:1,0:2",
    "0:9007199254740993",
  ];
  for (const place of [...refused, `${everyLog},0:1`])
    expect([place, await statusOf(place)]).toEqual([place, 400]);
  expect(built.followEntries).toHaveBeenCalledOnce();
  await tail(built, "?after=1&place=0:2");
  const [wanted] = built.followEntries.mock.lastCall ?? [];
  expect(wanted).toMatchObject({ afterSequence: undefined, after: [{ log: 0, sequence: 2 }] });
});

test("following several logs leaves an entry of the places it begins at, and one for a place before them in any log", async () => {
  const built = gateway();
  const reasons = () => built.readings.map(({ reason }) => reason);
  await tail(built, "?place=0:40,1:7");
  await tail(built, "?place=0:42,1:7");
  await tail(built, "?after=41");
  await tail(built, "?place=1:9");
  expect(reasons()).toEqual(['place="0:40,1:7"']);
  await tail(built, "?place=0:50,1:6");
  await tail(built, "?place=0:40,2:3");
  await tail(built, "?place=0:40,1:6,2:3");
  expect(reasons().slice(1)).toEqual(['place="0:50,1:6"', 'place="0:40,2:3"']);
});

test("a poll every two seconds leaves an entry every ten minutes, which says from where on was read", async () => {
  const built = gateway();
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  let nowMs = 1_000_000;
  const reasons = () => built.readings.map(({ action, reason }) => `${action} ${reason}`);
  await tail(built);
  expect(reasons()).toEqual([]);
  for (let after = 40; after <= 42; after += 1) {
    await tail(built, `?after=${after}`);
    nowMs += 2_000;
  }
  expect(reasons()).toEqual(["audit.followed after=40"]);
  // Nobody reads further back under an entry that does not say so.
  await tail(built, "?after=7");
  await tail(built, "?after=9");
  expect(reasons()).toEqual(["audit.followed after=40", "audit.followed after=7"]);
  // Another filter, another session's role: entries of their own.
  await tail(built, "?after=42&action=auth.login");
  nowMs += 10 * 60_000;
  await tail(built, "?after=42");
  expect(reasons().slice(2)).toEqual([
    "audit.followed action=auth.login after=42",
    "audit.followed after=42",
  ]);
  vi.restoreAllMocks();
});

test.each([
  ["", { next: [{ log: 0, sequence: 42 }], nextAfterSequence: 42 }],
  ["?place=0:40,1:5", { next: ENDS, nextAfterSequence: 42 }],
])("while a log is away nothing is left out in silence: %j is answered 503", async (query, found) => {
  const built = gateway();
  built.followEntries.mockResolvedValueOnce({ entries: [], size: 42, hasMore: false, away: [1], ...found });
  const refused = await tail(built, query);
  expect([refused.statusCode, refused.json().error.code]).toEqual([503, "service_unavailable"]);
  expect((await tail(built, query)).statusCode).toBe(200);
});

test("a place that could not be noted is not read, and is noted with the next call", async () => {
  const notes: string[] = [];
  const built = gateway({
    noteReading: async (_request, { action }) => {
      notes.push(action);
      if (notes.length === 1) throw new DomainError("audit_unavailable");
    },
  });
  const { statusCode } = await tail(built, "?after=1");
  expect([statusCode, built.followEntries.mock.calls.length]).toEqual([503, 0]);
  expect((await tail(built, "?after=1")).statusCode).toBe(200);
  expect((await tail(built, "?after=1")).statusCode).toBe(200);
  expect(notes).toEqual(["audit.followed", "audit.followed"]);
});

test.each([
  "tail?after=-1",
  "tail?after=1e3",
  "tail?after=9007199254740993",
  "tail?cursor=c",
  "tail?actor=me",
  "summary?interval=minute",
  "summary?from=yesterday",
  "summary?limit=1",
])("/admin/audit/%s is refused", async (path) => {
  const { app, readings } = gateway();
  expect((await send(app, { url: `/admin/audit/${path}`, token: "admin-token" })).statusCode).toBe(400);
  expect(readings).toEqual([]);
});
