import { validate, version } from "uuid";
import { expect, test } from "vitest";
import { logOfProducer, newProducerId } from "./producer-id.ts";

test("a producer id is a random UUID that ends with the number of its log", () => {
  const logs = Array.from({ length: 256 }, (_, log) => log);
  const ids = logs.map(newProducerId);
  expect(ids.map(logOfProducer)).toEqual(logs);
  for (const id of ids) expect([validate(id), version(id)]).toEqual([true, 4]);
  expect(ids[10]?.slice(-2)).toBe("0a");
  expect(new Set([...ids, ...logs.map(newProducerId)]).size).toBe(512);
});

test("the log of a producer does not depend on the case of its id", () => {
  expect(logOfProducer("7D8F4F0E-6F0A-4C56-9A0E-0D6A3F5D2BFE")).toBe(254);
});
