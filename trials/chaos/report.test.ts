import { expect, test } from "vitest";
import type { Call, Entry, History } from "./history.ts";
import { described, report } from "./report.ts";

const call = (name: string, startMs: number, fields: Partial<Call> = {}): Call => ({
  traceId: name.padEnd(32, "0"),
  kind: "read",
  userId: "ada",
  sessionId: "session",
  startMs,
  endMs: startMs + 10,
  ...fields,
});
const answer = { status: 401, code: "token_invalid", requestId: "request" };
const broken = call("a", 30_000, { answer });
const before = call("b", 20_000, {
  kind: "refresh",
  presented: { sessionId: "session", generation: 7, claims: "" },
});
const another = call("c", 30_000, { userId: "grace", sessionId: "other" });
const longAgo = call("d", 1_000);
const intent = { id: "entry", traceId: broken.traceId } as Entry;
const history = {
  calls: [longAgo, before, broken, another],
  received: [],
  entries: [intent, { ...intent, id: "another", traceId: another.traceId }],
  owedEvents: [],
  numbered: { count: 2, last: 2 },
  approvals: [],
  usedCodes: new Map(),
  firstNames: new Map(),
  reasons: new Map(),
  webhooks: [],
} satisfies History;
const fault = (deed: "kill" | "freeze", startMs: number, endMs: number) => ({
  deed,
  whom: "gateway",
  startMs,
  endMs,
});
const circumstances = {
  seed: 7,
  seconds: 20,
  faults: [fault("freeze", 16_000, 18_000), fault("kill", 2_000, 3_000)],
  logs: new Map([
    ["gateway", [`{"traceId":"${broken.traceId}","status":401}`, `{"traceId":"${another.traceId}"}`]],
  ]),
};

test("what broke a rule is reported with its seed, its answer, and all that happened to the same session", () => {
  const text = report([described(broken)], history, circumstances);
  expect(text).toContain("CHAOS_SEED=7 CHAOS_SECONDS=20");
  expect(text).toContain("401 token_invalid request request");
  expect(text).toContain("16000-18000 ms freeze gateway");
  expect(text).toContain(described(before));
  expect(text).toContain(JSON.stringify(intent));
  expect(text).toContain(`gateway {"traceId":"${broken.traceId}","status":401}`);
  for (const other of [longAgo, another]) expect(text).not.toContain(other.traceId);
  expect(text).not.toContain("kill");
});

test("what names a user or a session alone is reported with their calls", () => {
  expect(report(["forked: session 2"], history, circumstances)).toContain(described(broken));
  expect(report(["grace is Ada"], history, circumstances)).toContain(described(another));
  expect(report(["7 entries, 8 numbers"], history, circumstances)).toContain("- 7 entries, 8 numbers");
});

test("of many the first are reported, and how many there are", () => {
  const text = report(["one", "two", "three", "four", "five"], history, circumstances);
  expect(text).toMatch(/^5 times/);
  expect(text).toContain("- three\nand 2 more");
});
