import { expect, test } from "vitest";
import { mapInOrder } from "./map-in-order.ts";

async function* numbers(count: number, onRead: (read: number) => void = () => undefined) {
  for (let index = 1; index <= count; index += 1) {
    onRead(index);
    yield index;
  }
}

test("results keep the order of the source, however long each takes", async () => {
  const results = mapInOrder(numbers(5), 5, async (number) => {
    await new Promise((resolve) => setTimeout(resolve, 10 * (6 - number)));
    return number;
  });
  expect(await Array.fromAsync(results)).toEqual([1, 2, 3, 4, 5]);
});

test("at most the limit runs at once, and nothing more is read meanwhile", async () => {
  let read = 0;
  let finish: () => void = () => undefined;
  const first = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const results = mapInOrder(
    numbers(10, (index) => (read = index)),
    3,
    async (number) => {
      if (number === 1) await first;
      return number;
    },
  );
  const next = results.next();
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(read).toBe(3);
  finish();
  expect(await next).toEqual({ done: false, value: 1 });
  expect(await Array.fromAsync(results)).toHaveLength(9);
});

test("a failure follows earlier results and ends the iteration", async () => {
  const seen: number[] = [];
  const results = mapInOrder(numbers(5), 5, async (number) => {
    if (number === 3) throw new Error("third");
    await new Promise((resolve) => setTimeout(resolve, 5));
    return number;
  });
  await expect(
    (async () => {
      for await (const result of results) seen.push(result);
    })(),
  ).rejects.toThrow("third");
  expect(seen).toEqual([1, 2]);
});

test("a failure of the source ends the iteration", async () => {
  async function* broken() {
    yield 1;
    throw new Error("cut");
  }
  await expect(Array.fromAsync(mapInOrder(broken(), 4, async (number) => number))).rejects.toThrow("cut");
});
