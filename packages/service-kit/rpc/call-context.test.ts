import { Metadata } from "@grpc/grpc-js";
import { expect, test, vi } from "vitest";
import { isTraceparent, newCallContext, traceIdOf } from "./call-context.ts";
import { fromMetadata, toMetadata } from "./rpc-metadata.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

test.each([
  ["", TRACEPARENT, "0af7651916cd43dd8448eb211c80319c"],
  [
    " whose ids begin with zeros",
    "00-00000000000000000000000000000001-0000000000000001-00",
    "00000000000000000000000000000001",
  ],
])("a well-formed traceparent%s is continued", (_what, traceparent, traceId) => {
  const context = newCallContext({ traceparent });
  expect(context.traceparent).toBe(traceparent);
  expect(traceIdOf(context)).toBe(traceId);
});

test.each([
  "",
  "00-00000000000000000000000000000000-b7ad6b7169203331-01",
  "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
  "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  TRACEPARENT.toUpperCase(),
  `${TRACEPARENT}, ${TRACEPARENT}`,
  `${TRACEPARENT}\r\nx: y`,
])("%j is no traceparent: a new trace begins", (traceparent) => {
  const context = newCallContext({ traceparent });
  expect(context.traceparent).not.toBe(traceparent);
  expect(context.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
});

test("a context crosses the wire with its actor", () => {
  const context = { ...newCallContext(), actor: { userId: "u", role: "ADMIN", sessionId: "s" } };
  expect(fromMetadata(toMetadata(context).toJSON(), context.deadlineMs, true)).toEqual(context);
});

test("malformed metadata is replaced by a new context", () => {
  const metadata = new Metadata();
  metadata.set("x-request-id", "r".repeat(65));
  metadata.set("traceparent", "nonsense");
  const context = fromMetadata(metadata.toJSON(), 5, true);
  expect(context.requestId).toMatch(/^[0-9a-f-]{36}$/);
  expect(context.actor).toBeUndefined();
});

test.each([
  `x${TRACEPARENT}`,
  `${TRACEPARENT}0`,
  TRACEPARENT.slice(0, -1),
  TRACEPARENT.replace("0af7", "af7"),
  TRACEPARENT.replace("b7ad", "7ad"),
])("%j is no traceparent", (text) => {
  expect(isTraceparent(text)).toBe(false);
});

test("a call has one second or its caller's budget, and a new or the given request id", () => {
  const now = vi.spyOn(Date, "now").mockReturnValue(5_000);
  const [usual, given] = [newCallContext(), newCallContext({ budgetMs: 200, requestId: "r" })];
  now.mockRestore();
  expect([usual.deadlineMs, given.deadlineMs, given.requestId]).toEqual([6_000, 5_200, "r"]);
  expect(usual.requestId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/);
});

const actor = { userId: "u", role: "ADMIN", sessionId: "s" };

test("an actor is accepted only from a peer that may name one, and is passed on unchanged", () => {
  const context = { ...newCallContext({ traceparent: TRACEPARENT }), actor };
  const values = toMetadata(context).toJSON();
  expect(Object.keys(values).sort()).toEqual([
    "traceparent",
    "x-actor-role",
    "x-actor-session-id",
    "x-actor-user-id",
    "x-request-id",
  ]);
  const { actor: _gone, ...rest } = context;
  expect(fromMetadata(values, context.deadlineMs, false)).toStrictEqual(rest);
  expect(Object.keys(toMetadata(rest).toJSON()).sort()).toEqual(["traceparent", "x-request-id"]);
});

test.each([
  { what: "a request id that is too long", requestId: "r".repeat(65), keepsId: false },
  { what: "the longest request id", requestId: "r".repeat(64), keepsId: true },
  { what: "no request id", requestId: "", keepsId: false },
  { what: "no trace", requestId: "r", traceparent: "nonsense", keepsId: false },
])(
  "with $what what is malformed is replaced, and the rest is kept",
  ({ requestId, traceparent = TRACEPARENT, keepsId }) => {
    const values = {
      ...toMetadata({ requestId: "x", traceparent: "x", deadlineMs: 0, actor }).toJSON(),
      "x-request-id": requestId === "" ? [] : [requestId],
      traceparent: [traceparent],
    };
    const context = fromMetadata(values, 7, true);
    expect(context).toMatchObject({ deadlineMs: 7, actor });
    expect(context.requestId === requestId).toBe(keepsId);
    expect(context.traceparent === traceparent).toBe(traceparent === TRACEPARENT);
  },
);

test("proven keys are accepted only from a peer that may name them, and are passed on unchanged", () => {
  const proven = { jkt: "k", x5tS256: "c" };
  const context = { ...newCallContext({ traceparent: TRACEPARENT }), proven };
  const values = toMetadata(context).toJSON();
  expect(fromMetadata(values, context.deadlineMs, true)).toStrictEqual(context);
  expect(fromMetadata(values, context.deadlineMs, false).proven).toBeUndefined();
  const one = toMetadata({ ...context, proven: { jkt: "k", x5tS256: "" } }).toJSON();
  expect(fromMetadata(one, 0, true).proven).toEqual({ jkt: "k", x5tS256: "" });
});

test.each(["x-actor-user-id", "x-actor-role", "x-actor-session-id", "x-proven-jkt", "x-proven-x5t-s256"])(
  "two values of %s are refused, joined or not",
  (key) => {
    for (const values of [["a", "b"], ["a,b"]]) {
      expect(() => fromMetadata({ [key]: values }, 0, false)).toThrow(
        expect.objectContaining({ code: "bad_request" }),
      );
    }
    expect(() => fromMetadata({ [key]: ["a"] }, 0, true)).not.toThrow();
  },
);

test("without a user there is no actor, and a binary value is ignored", () => {
  expect(fromMetadata({ "x-actor-role": ["ADMIN"] }, 0, true).actor).toBeUndefined();
  expect(fromMetadata({ "x-actor-user-id": [Buffer.from("u")] }, 0, true).actor).toBeUndefined();
  expect(fromMetadata({ "x-actor-user-id": ["u"] }, 0, true).actor).toEqual({
    userId: "u",
    role: "",
    sessionId: "",
  });
});
