import { describe, expect, test } from "vitest";
import { DEVICE_FILTER, filterBits, KnownCallers, NETWORK_FILTER, newDevicesPlace } from "./known-callers.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const GENERATION_MS = 15 * DAY_MS;

describe("networks", () => {
  test("one is known for 15 days and no longer", () => {
    const known = new KnownCallers(1);
    expect(known.hasNetwork("a", 0)).toBe(false);
    known.add({ network: "a" }, 5);
    expect(known.hasNetwork("a", 5 + GENERATION_MS - 1)).toBe(true);
    expect(known.hasNetwork("a", 5 + GENERATION_MS)).toBe(false);
    expect(known.hasNetwork("b", 5)).toBe(false);
  });

  test("a network is sent to Redis at first, and again after an hour", () => {
    const known = new KnownCallers(1);
    expect(known.add({ network: "a" }, 0)).toBe(true);
    expect(known.add({ network: "a" }, HOUR_MS - 1)).toBe(false);
    expect(known.add({ network: "a" }, HOUR_MS)).toBe(true);
    expect(known.add({ network: "a" }, 2 * HOUR_MS - 1)).toBe(false);
    // Each further success starts the period again.
    expect(known.hasNetwork("a", HOUR_MS + GENERATION_MS - 1)).toBe(true);
  });

  test("a limited number is remembered; the least recent success is evicted", () => {
    const known = new KnownCallers(1, 2);
    known.add({ network: "a" }, 0);
    known.add({ network: "b" }, 1);
    known.add({ network: "a" }, HOUR_MS);
    expect([known.hasNetwork("a", HOUR_MS), known.hasNetwork("b", HOUR_MS)]).toEqual([true, true]);
    known.add({ network: "c" }, HOUR_MS);
    expect(["a", "b", "c"].filter((name) => known.hasNetwork(name, HOUR_MS))).toEqual(["a", "c"]);
  });
});

describe("devices", () => {
  const letIn = (key: string, userId?: string) => ({ network: "a", device: { key, userId } });

  test("one that a login was given is known for 15 days, and longer while it comes", () => {
    const known = new KnownCallers(1);
    known.add(letIn("phone", "ada"), 0);
    expect(known.hasDevice("phone", GENERATION_MS - 1)).toBe(true);
    known.add(letIn("phone"), GENERATION_MS - 1);
    expect(known.hasDevice("phone", 2 * GENERATION_MS - 2)).toBe(true);
    expect(known.hasDevice("phone", 2 * GENERATION_MS)).toBe(false);
  });

  test("one that a client only names does not become known", () => {
    const known = new KnownCallers(1);
    known.add(letIn("made up"), 0);
    expect(known.hasDevice("made up", 0)).toBe(false);
  });

  test("five of a user become known in a day, and a known one counts once", () => {
    const known = new KnownCallers(1);
    const keys = ["1", "1", "1", "2", "3", "4", "5", "6", "7"];
    for (const [hour, key] of keys.entries()) known.add(letIn(key, "ada"), hour * HOUR_MS);
    expect(keys.filter((key) => !known.hasDevice(key, 9 * HOUR_MS))).toEqual(["6", "7"]);
    known.add(letIn("other", "ben"), 0);
    expect(known.hasDevice("other", 0)).toBe(true);
    known.add(letIn("6", "ada"), DAY_MS);
    expect(known.hasDevice("6", DAY_MS)).toBe(true);
  });

  test.each([
    [2, 2],
    [9, 1],
  ])("each of %i gateways admits %i of them", (replicas, count) => {
    const known = new KnownCallers(replicas);
    for (let index = 0; index < 9; index += 1) known.add(letIn(`${index}`, "ada"), 0);
    expect([...Array(9).keys()].filter((index) => known.hasDevice(`${index}`, 0))).toHaveLength(count);
  });

  test("networks do not make devices give way", () => {
    const known = new KnownCallers(1, 2);
    known.add(letIn("phone", "ada"), 0);
    for (let index = 0; index < 9; index += 1) known.add({ network: `${index}` }, 0);
    expect(known.hasDevice("phone", 0)).toBe(true);
  });

  test("a device is sent to Redis at each login, otherwise once an hour", () => {
    const known = new KnownCallers(1);
    expect(known.add(letIn("phone"), 0)).toBe(true);
    expect(known.add(letIn("phone"), HOUR_MS - 1)).toBe(false);
    expect(known.add(letIn("phone", "ada"), HOUR_MS - 1)).toBe(true);
    expect(known.add(letIn("laptop"), HOUR_MS - 1)).toBe(true);
  });
});

test.each([
  { filter: NETWORK_FILTER, size: 2 ** 26, count: 4 },
  { filter: DEVICE_FILTER, size: 2 ** 27, count: 12 },
])("a name has $count bits of $size, always the same", ({ filter, size, count }) => {
  const bits = filterBits("192.0.2.1", filter);
  expect(bits).toEqual(filterBits("192.0.2.1", filter));
  expect(bits).not.toEqual(filterBits("192.0.2.2", filter));
  expect(new Set(bits).size).toBe(count);
  for (let index = 0; index < 1_000; index += 1) {
    for (const bit of filterBits(`n${index}`, filter)) expect(bit < size && Number.isInteger(bit)).toBe(true);
  }
});

test("a user's counter has a place among four million, always the same", () => {
  expect(newDevicesPlace("ada")).toBe(newDevicesPlace("ada"));
  expect(newDevicesPlace("ada")).not.toBe(newDevicesPlace("ben"));
  for (let index = 0; index < 1_000; index += 1) expect(newDevicesPlace(`${index}`)).toBeLessThan(2 ** 22);
});
