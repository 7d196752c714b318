import { Metadata } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { newCallContext, traceIdOf } from "./call-context.ts";
import { fromMetadata, toMetadata } from "./rpc-metadata.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

test("a well-formed traceparent is continued", () => {
  expect(traceIdOf(newCallContext({ traceparent: TRACEPARENT }))).toBe("0af7651916cd43dd8448eb211c80319c");
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

test("metadata that a caller made up gives a context of our own making", () => {
  const metadata = new Metadata();
  metadata.set("x-request-id", "r".repeat(65));
  metadata.set("traceparent", "nonsense");
  const context = fromMetadata(metadata.toJSON(), 5, true);
  expect(context.requestId).toMatch(/^[0-9a-f-]{36}$/);
  expect(context.actor).toBeUndefined();
});
