import { expect, test } from "vitest";
import { filterBits, KnownNetworks } from "./known-networks.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

test("a network is known for a day and no longer", () => {
  const networks = new KnownNetworks();
  expect(networks.has("a", 0)).toBe(false);
  networks.add("a", 5);
  expect(networks.has("a", 5 + DAY_MS - 1)).toBe(true);
  expect(networks.has("a", 5 + DAY_MS)).toBe(false);
  expect(networks.has("b", 5)).toBe(false);
});

test("the others are told at first, and again after an hour", () => {
  const networks = new KnownNetworks();
  expect(networks.add("a", 0)).toBe(true);
  expect(networks.add("a", HOUR_MS - 1)).toBe(false);
  expect(networks.add("a", HOUR_MS)).toBe(true);
  expect(networks.add("a", 2 * HOUR_MS - 1)).toBe(false);
  // From the second time on, too, the day begins anew.
  expect(networks.has("a", HOUR_MS + DAY_MS - 1)).toBe(true);
});

test("so many networks are remembered; the one that was good longest ago gives way", () => {
  const networks = new KnownNetworks(2);
  networks.add("a", 0);
  networks.add("b", 1);
  networks.add("a", HOUR_MS);
  expect([networks.has("a", HOUR_MS), networks.has("b", HOUR_MS)]).toEqual([true, true]);
  networks.add("c", HOUR_MS);
  expect(["a", "b", "c"].filter((name) => networks.has(name, HOUR_MS))).toEqual(["a", "c"]);
});

test("a network has four bits of a filter of 8 MiB, always the same", () => {
  const bits = filterBits("192.0.2.1");
  expect(bits).toEqual(filterBits("192.0.2.1"));
  expect(bits).not.toEqual(filterBits("192.0.2.2"));
  expect(new Set(bits).size).toBe(4);
  for (let index = 0; index < 1_000; index += 1) {
    for (const bit of filterBits(`n${index}`)) expect(bit < 2 ** 26 && Number.isInteger(bit)).toBe(true);
  }
});
