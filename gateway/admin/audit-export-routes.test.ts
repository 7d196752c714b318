import { expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { SearchEntriesRequest } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import type { Verification } from "#token-client/principal.ts";
import { principalWith, send, testGateway, USER_ID, verifierOfUsers } from "../testing/test-gateway.ts";

const entry = (sequence: number, changes: Partial<Entry> = {}): Entry => ({
  id: USER_ID,
  kind: EntryKind.OUTCOME,
  callId: "call",
  occurredAt: new Date(0),
  actor: { userId: "u", role: "USER", sessionId: "", claimedEmail: "", claimedEmailHash: "" },
  clientIp: "192.0.2.7",
  userAgent: "curl",
  method: "POST",
  route: "/r",
  resource: "",
  action: "a.b",
  requestId: "r",
  traceId: "t",
  outcome: Outcome.SUCCESS,
  errorCode: "",
  httpStatus: 200,
  latencyUs: 5,
  reason: "",
  sequence,
  receivedAt: new Date(1),
  producer: "gateway",
  log: 1,
  ...changes,
});

/** A log of so many entries. */
function gateway(size: number, changes: Partial<Entry> = {}) {
  const searchEntries = vi.fn(async ({ cursor, limit }: SearchEntriesRequest) => {
    const begin = Number(cursor || 0);
    const count = Math.min(limit, size - begin);
    const entries = Array.from({ length: count }, (_, index) => entry(size - begin - index, changes));
    return { entries, nextCursor: begin + count < size ? String(begin + count) : "" };
  });
  return { ...testGateway({ auditQuery: { searchEntries } }), searchEntries };
}
const get = ({ app }: Pick<ReturnType<typeof gateway>, "app">, query = "", token = "auditor-token") =>
  send(app, { url: `/admin/audit/export${query}`, token });

test("an export is for those who may read the whole log, and leaves one entry", async () => {
  const built = gateway(250);
  for (const token of ["user-token", "support-token"])
    expect((await get(built, "", token)).statusCode).toBe(403);
  const query = `?actor=${USER_ID}&action=a.b&outcome=success&from=2026-01-01T00:00:00Z`;
  expect((await get(built, query)).statusCode).toBe(200);
  const reason = `actor=${USER_ID} action=a.b outcome=success from=2026-01-01T00:00:00.000Z format=ndjson`;
  expect(built.readings).toMatchObject([{ action: "audit.exported", reason, actor: { role: "AUDITOR" } }]);
  expect(built.searchEntries).toHaveBeenCalledTimes(3);
  for (const [request] of built.searchEntries.mock.calls)
    expect(request).toMatchObject({
      actorUserId: USER_ID,
      action: "a.b",
      outcome: Outcome.SUCCESS,
      limit: 100,
    });
});

test("each line is an entry, and the last one says that these are all", async () => {
  const answer = await get(gateway(250));
  expect(answer.headers).toMatchObject({
    "content-type": "application/x-ndjson; charset=utf-8",
    "content-disposition": 'attachment; filename="audit.ndjson"',
    "cache-control": "no-store",
  });
  const lines = answer.body
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.slice(0, -1).map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: 250 }, (_, index) => 250 - index),
  );
  expect(lines.at(-1)).toEqual({ end: { entries: 250, complete: true } });
  expect((await get(gateway(0))).body).toBe('{"end":{"entries":0,"complete":true}}\n');
});

test("an export ends after 10,000 entries, says that there are more, and goes on there", async () => {
  const built = gateway(10_001);
  const { body } = await get(built);
  expect(body.endsWith('\n{"end":{"entries":10000,"complete":false,"nextCursor":"10000"}}\n')).toBe(true);
  const [entry, end] = (await get(built, "?cursor=10000")).body.split("\n");
  expect([JSON.parse(entry ?? "").sequence, end]).toEqual([1, '{"end":{"entries":1,"complete":true}}']);
  expect(built.readings).toHaveLength(2);
});

test("CSV has a head, and no cell that a spreadsheet would run", async () => {
  const answer = await get(gateway(1, { userAgent: '=cmd|"x"', resource: "a,b" }), "?format=csv");
  expect(answer.headers["content-type"]).toMatch(/^text\/csv/);
  const [head, row, end] = answer.body.split("\n");
  expect(head).toMatch(/^sequence,id,producer,kind,.*,log$/);
  expect(row).toContain(`1,${USER_ID},gateway,outcome,call,`);
  expect(row).toMatch(/,200,5,1$/);
  expect(row).toContain(`,"'=cmd|""x""",POST,/r,"a,b",a.b,`);
  expect(end).toBe("");
});

test("a search that fails has its status at the beginning, and breaks the answer off later", async () => {
  const built = gateway(250);
  built.searchEntries.mockRejectedValueOnce(new DomainError("service_unavailable"));
  const failed = await get(built);
  expect([failed.statusCode, failed.json().error.code]).toEqual([503, "service_unavailable"]);
  expect(failed.headers).not.toHaveProperty("content-disposition");
  const page = { entries: [entry(1)], nextCursor: "1" };
  built.searchEntries
    .mockResolvedValueOnce(page)
    .mockRejectedValueOnce(new DomainError("service_unavailable"));
  const broken = await get(built).catch(() => undefined);
  expect(broken?.body ?? "").not.toContain('"end"');
  // What has failed is not open any more.
  await expect.poll(async () => (await get(built)).statusCode).toBe(200);
});

/** Its auditor's session can end, and each page but the first waits. */
function endingExport(first: () => Promise<unknown>) {
  const verdicts = new Map<string, Verification>();
  const metrics = createMetrics("gateway");
  const allowedHosts = new Set(["gateway.test"]);
  const page = { entries: [entry(2)], nextCursor: "1" };
  const { app } = testGateway({
    auditQuery: {
      searchEntries: async ({ cursor }) => {
        await (cursor === "" ? first() : new Promise(() => undefined));
        return page;
      },
    },
    verifier: verifierOfUsers(verdicts),
    allowedHosts,
    metrics,
  });
  const setSession = (verdict: Verification) => void verdicts.set("auditor", verdict);
  setSession({ kind: "active", principal: principalWith("AUDITOR") });
  const ended = async (code: string) =>
    new RegExp(`^gatehouse_exchanges_ended_total\\{.*code="${code}".*\\} 1$`, "m").test(
      await metrics.render(),
    );
  return { app, allowedHosts, setSession, ended };
}

test.each([
  ["ndjson", "token_invalid", { kind: "inactive", reason: "revoked" }],
  ["csv", "forbidden", { kind: "active", principal: principalWith("SUPPORT") }],
] as const)(
  "an export as %s ends with its session or its role, and is then not whole",
  async (format, code, verdict) => {
    const { app, allowedHosts, setSession, ended } = endingExport(() => Promise.resolve());
    const url = await app.listen({ host: "127.0.0.1", port: 0 });
    allowedHosts.add(new URL(url).host);
    const headers = { authorization: "Bearer auditor" };
    const answer = await fetch(`${url}/admin/audit/export?format=${format}`, { headers });
    expect(answer.status).toBe(200);
    setSession(verdict);
    const endedMs = performance.now();
    await expect(answer.text()).rejects.toThrow("terminated");
    // By itself an export ends after a minute.
    expect(performance.now() - endedMs).toBeLessThan(30_000);
    expect(await ended(code)).toBe(true);
  },
);

test("an export whose session ends before its first page has come sends nothing of it", async () => {
  let goOn: (value?: unknown) => void = () => undefined;
  let begun: () => void = () => undefined;
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const { app, setSession, ended } = endingExport(() => {
    begun();
    return new Promise((resolve) => {
      goOn = resolve;
    });
  });
  const answer = get({ app }, "", "auditor");
  await hasBegun;
  setSession({ kind: "inactive", reason: "revoked" });
  await expect.poll(() => ended("token_invalid")).toBe(true);
  goOn();
  expect((await answer).statusCode).toBe(401);
});

test("HEAD reads nothing, and leaves no entry", async () => {
  const { app, readings, searchEntries } = gateway(250);
  const answer = await send(app, {
    method: "HEAD",
    url: "/admin/audit/export?format=csv",
    token: "auditor-token",
  });
  expect([answer.statusCode, answer.body]).toEqual([200, ""]);
  expect(answer.headers["content-type"]).toMatch(/^text\/csv/);
  expect([readings, searchEntries.mock.calls]).toEqual([[], []]);
});

test("a caller has one export at a time", async () => {
  let goOn: () => void = () => undefined;
  const waits = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  let begun: () => void = () => undefined;
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const built = gateway(1);
  built.searchEntries.mockImplementationOnce(async () => {
    begun();
    await waits;
    return { entries: [], nextCursor: "" };
  });
  const first = get(built);
  await hasBegun;
  const second = await get(built);
  expect([second.statusCode, second.json().error.code]).toEqual([429, "too_many_requests"]);
  expect(second.headers["retry-after"]).toBe("1");
  goOn();
  expect((await first).statusCode).toBe(200);
  await expect.poll(async () => (await get(built)).statusCode).toBe(200);
});

test.each(["format=xml", "limit=5", "cursor=", "actor=me", "from=yesterday"])(
  "?%s is refused",
  async (query) => {
    const built = gateway(1);
    expect((await get(built, `?${query}`)).statusCode).toBe(400);
    expect(built.readings).toEqual([]);
  },
);
