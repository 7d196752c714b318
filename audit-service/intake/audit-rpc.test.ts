import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { untilAborted } from "./audit-rpc.ts";

test("all items are yielded to the end of the source", async () => {
  const { signal } = new AbortController();
  expect(await Array.fromAsync(untilAborted(Readable.from([1, 2, 3]), signal))).toEqual([1, 2, 3]);
});

test("an abort ends the wait and does not destroy the source", async () => {
  const aborting = new AbortController();
  const source = new Readable({ objectMode: true, read: () => undefined });
  const items = untilAborted(source, aborting.signal);
  const next = items.next();
  aborting.abort();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(source.destroyed).toBe(false);
});

test("a failure of the source is thrown", async () => {
  const { signal } = new AbortController();
  const source = new Readable({ objectMode: true, read: () => undefined });
  const next = untilAborted(source, signal).next();
  source.destroy(new Error("reset"));
  await expect(next).rejects.toThrow("reset");
});
