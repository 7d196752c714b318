import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { networksOf } from "#kit/values/network-of.ts";
import { type Place, StrangerPlaces } from "./share-counts.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const network = (index: number) => networksOf(`192.0.2.${index}`);
const busy = expect.objectContaining({ code: "busy", retryAfterMs: 1_000 });
const tooMany = expect.objectContaining({ code: "too_many_requests" });

/** Until no more are let in. */
function fill(places: StrangerPlaces, callers: (index: number) => ReturnType<typeof networksOf>) {
  const taken: Place[] = [];
  try {
    for (let index = 0; index < 1_000; index += 1) taken.push(places.enter(callers(index)));
  } catch (error) {
    return { taken, error };
  }
  throw new Error("no limit");
}

describe("places of strangers", () => {
  test("as many as there are; one who leaves makes room for one", () => {
    const places = new StrangerPlaces(8);
    const { taken, error } = fill(places, network);
    expect([taken.length, error]).toEqual([8, busy]);
    taken[3]?.leave(false);
    expect(places.taken).toBe(7);
    places.enter(network(100));
    expect(() => places.enter(network(101))).toThrow(busy);
  });

  test("a network gets half of them, and so do all networks of one /48", () => {
    const wide = new StrangerPlaces(8);
    expect(fill(wide, (index) => networksOf(`2001:db8:1:${index.toString(16)}::1`))).toMatchObject({
      taken: { length: 4 },
      error: tooMany,
    });
    wide.enter(network(1));
    const narrow = new StrangerPlaces(8);
    expect(fill(narrow, () => network(1))).toMatchObject({ taken: { length: 4 }, error: tooMany });
    narrow.enter(network(2));
  });

  test("whom a busy service has refused keeps the place for a second: refusals that come fast are no way around", () => {
    const places = new StrangerPlaces(2);
    const { taken } = fill(places, network);
    taken[0]?.leave(true);
    expect(() => places.enter(network(100))).toThrow(busy);
    vi.advanceTimersByTime(999);
    expect(() => places.enter(network(100))).toThrow(busy);
    vi.advanceTimersByTime(1);
    places.enter(network(100));
    expect(places.taken).toBe(2);
  });
});
