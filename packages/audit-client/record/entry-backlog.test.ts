import { expect, test } from "vitest";
import { UnacknowledgedQueue } from "./entry-backlog.ts";

function queueOf(...items: string[]) {
  const queue = new UnacknowledgedQueue<string>();
  for (const item of items) queue.push(item);
  return queue;
}

test("items are numbered from 1 and stay until acknowledged", () => {
  const queue = queueOf("a", "b", "c");
  expect(queue.from(2, 10)).toEqual([
    { sequence: 2, item: "b" },
    { sequence: 3, item: "c" },
  ]);
  expect([queue.length, queue.first, queue.next]).toEqual([3, 1, 4]);
});

test("an acknowledgement removes everything up to it once", () => {
  const queue = queueOf("a", "b", "c");
  expect(queue.acknowledge(2)).toEqual(["a", "b"]);
  expect(queue.acknowledge(2)).toEqual([]);
  expect(queue.acknowledge(0)).toEqual([]);
  expect([queue.length, queue.first, queue.next]).toEqual([1, 3, 4]);
});

test("numbering continues after everything was acknowledged", () => {
  const queue = queueOf("a");
  queue.acknowledge(1);
  expect([queue.length, queue.first]).toEqual([0, 2]);
  queue.push("b");
  expect(queue.from(queue.first, 1)).toEqual([{ sequence: 2, item: "b" }]);
});

test("at most the limit is returned", () => {
  expect(queueOf("a", "b", "c").from(1, 2)).toHaveLength(2);
});
