import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { RevocationBell } from "./revocation-bell.ts";

/** Of two replicas, or twice the same. */
export interface BellEnds {
  here: RevocationBell;
  there: RevocationBell;
}

/** @param open returns ends that are ready to ring. */
export function testBellContract(name: string, open: () => Promise<BellEnds>): void {
  describe(`${name}, as every bell`, () => {
    let ends: BellEnds;

    beforeEach(async () => {
      ends = await open();
    });

    afterEach(async () => {
      await Promise.all([ends.here.close(), ends.there.close()]);
    });

    test("wakes every listener of every replica, from either end", async () => {
      for (const ringer of [ends.here, ends.there]) {
        const listeners = [vi.fn(), vi.fn(), vi.fn()] as const;
        ends.here.onRing(listeners[0]);
        ends.there.onRing(listeners[1]);
        ends.there.onRing(listeners[2]);
        ringer.ring();
        for (const listener of listeners)
          await expect.poll(() => listener, { interval: 5 }).toHaveBeenCalled();
      }
    });

    test("calls no listener before ring() has returned", () => {
      const listener = vi.fn();
      ends.here.onRing(listener);
      ends.here.ring();
      expect(listener).not.toHaveBeenCalled();
    });

    test("carries nothing: a listener is called without arguments", async () => {
      const listener = vi.fn();
      ends.there.onRing(listener);
      ends.here.ring();
      await expect.poll(() => listener, { interval: 5 }).toHaveBeenCalled();
      expect(listener.mock.calls[0]).toEqual([]);
    });

    test("after the last of many rings there is still a call", async () => {
      const log = { length: 0 };
      let seen = -1;
      ends.there.onRing(() => {
        seen = log.length;
      });
      for (let count = 1; count <= 1_000; count += 1) {
        log.length = count;
        ends.here.ring();
      }
      await expect.poll(() => seen, { interval: 5 }).toBe(1_000);
    });

    test("a closed bell calls no listener, and may be rung or closed again", async () => {
      const listener = vi.fn();
      ends.here.onRing(listener);
      ends.here.ring();
      await ends.here.close();
      await ends.here.close();
      const before = listener.mock.calls.length;
      expect(() => ends.here.ring()).not.toThrow();
      ends.there.ring();
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(listener.mock.calls.length).toBe(before);
    });
  });
}
