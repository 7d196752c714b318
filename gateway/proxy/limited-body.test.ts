import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { limitedBody } from "./limited-body.ts";

const uncaught = vi.fn();
beforeAll(() => void process.on("uncaughtException", uncaught));
afterAll(() => void process.off("uncaughtException", uncaught));

test.each([
  { what: "leaves", fail: (source: PassThrough) => void source.emit("aborted") },
  { what: "sends too much", fail: (source: PassThrough) => void source.write("more than ten") },
])("a client that $what when the upstream's call is over already ends no process", async ({ fail }) => {
  const source = new PassThrough();
  // No error listener, as when undici has finished with the call.
  const body = limitedBody(source, 10).resume();
  fail(source);
  // `once` from node:events would add an error listener.
  await new Promise((resolve) => void body.on("close", resolve));
  await new Promise((resolve) => setImmediate(resolve));
  expect(body.destroyed).toBe(true);
  expect(uncaught).not.toHaveBeenCalled();
});
