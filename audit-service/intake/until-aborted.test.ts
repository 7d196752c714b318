import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { untilAborted } from "./until-aborted.ts";

test("everything comes through to the end of the source", async () => {
  const { signal } = new AbortController();
  expect(await Array.fromAsync(untilAborted(Readable.from([1, 2, 3]), signal))).toEqual([1, 2, 3]);
});

test("an abort ends the wait for the next one and leaves the source undestroyed", async () => {
  const aborting = new AbortController();
  const source = new Readable({ objectMode: true, read: () => undefined });
  const items = untilAborted(source, aborting.signal);
  const next = items.next();
  aborting.abort();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(source.destroyed).toBe(false);
});

test("a source that breaks is an error", async () => {
  const { signal } = new AbortController();
  const source = new Readable({ objectMode: true, read: () => undefined });
  const next = untilAborted(source, signal).next();
  source.destroy(new Error("reset"));
  await expect(next).rejects.toThrow("reset");
});
