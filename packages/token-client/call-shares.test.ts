import { expect, test } from "vitest";
import { CallShares, type CallSharesOptions } from "./call-shares.ts";

function shares(options: Partial<CallSharesOptions> = {}) {
  const clock = { ms: 1_000_000 };
  const calls = new CallShares({
    maxInFlight: 1_000,
    maxInFlightPerNetwork: 1_000,
    maxRefusals: 1_000,
    refusalsPerS: 0,
    nowMs: () => clock.ms,
    ...options,
  });
  /** Tries a call that ends at once. @returns its error code, or undefined if it was admitted. */
  const tried = (clientIp: string | undefined, isRefused = false): unknown => {
    try {
      const place = calls.enter(clientIp);
      if (isRefused) place.refused();
      place.leave();
      return undefined;
    } catch (error) {
      return (error as { code: unknown }).code;
    }
  };
  return { calls, clock, tried };
}

test("the number of places is limited; leaving frees one", () => {
  const { calls, tried } = shares({ maxInFlight: 2 });
  calls.enter(undefined);
  const place = calls.enter("192.0.2.1");
  expect(() => calls.enter("192.0.2.2")).toThrow(
    expect.objectContaining({ code: "service_unavailable", retryAfterMs: 1_000 }),
  );
  place.leave();
  expect(tried("192.0.2.2")).toBeUndefined();
});

test("a network has its own places; others and callers without an address are not counted to it", () => {
  const { calls, tried } = shares({ maxInFlightPerNetwork: 2 });
  calls.enter("192.0.2.1");
  const place = calls.enter("192.0.2.1");
  expect(() => calls.enter("192.0.2.1")).toThrow(
    expect.objectContaining({ code: "too_many_requests", retryAfterMs: 1_000 }),
  );
  expect([tried("192.0.2.2"), tried(undefined)]).toEqual([undefined, undefined]);
  place.leave();
  expect(tried("192.0.2.1")).toBeUndefined();
});

test("a /56 has four times the places of a /64, and a /48 sixteen times", () => {
  const { calls, tried } = shares({ maxInFlightPerNetwork: 1 });
  for (const subnet of ["00", "01", "02", "03"]) calls.enter(`2001:db8:1:${subnet}::1`);
  expect(tried("2001:db8:1:4::1")).toBe("too_many_requests");
  for (let site = 1; site <= 12; site += 1) calls.enter(`2001:db8:1:${site.toString(16)}00::1`);
  expect(tried("2001:db8:1:f00::1")).toBe("too_many_requests");
  expect(tried("2001:db8:2::1")).toBeUndefined();
});

test("a network whose tokens are refused must wait; refusals expire with time and cannot be saved up", () => {
  const { clock, tried } = shares({ maxRefusals: 2, refusalsPerS: 2 });
  const seen = () => [tried("192.0.2.1", true), tried("192.0.2.1", true), tried("192.0.2.1", true)];
  expect(seen()).toEqual([undefined, undefined, "too_many_requests"]);
  expect(tried("192.0.2.2")).toBeUndefined();
  clock.ms += 1_000;
  expect(seen()).toEqual([undefined, undefined, "too_many_requests"]);
  clock.ms += 3_600_000;
  expect(seen()).toEqual([undefined, undefined, "too_many_requests"]);
});

test("refusals are forgotten at the rate that was set", () => {
  const { clock, tried } = shares({ maxRefusals: 2, refusalsPerS: 10 });
  for (let refusals = 0; refusals < 2; refusals += 1) tried("192.0.2.1", true);
  clock.ms += 1;
  expect(tried("192.0.2.1", true)).toBeUndefined();
  clock.ms += 98;
  expect(tried("192.0.2.1")).toBe("too_many_requests");
  clock.ms += 2;
  expect(tried("192.0.2.1")).toBeUndefined();
});

test("a wider network may have more tokens refused, and forgets them no faster", () => {
  const { clock, tried } = shares({ maxRefusals: 1, refusalsPerS: 1 });
  for (const subnet of [0, 1, 2, 3]) expect(tried(`2001:db8:1:${subnet}::1`, true)).toBeUndefined();
  expect(tried("2001:db8:1:4::1")).toBe("too_many_requests");
  clock.ms += 1_000;
  expect(tried("2001:db8:1:4::1", true)).toBeUndefined();
  expect(tried("2001:db8:1:5::1")).toBe("too_many_requests");
});

test("a refused token without a client address is charged to no network", () => {
  const { tried } = shares({ maxRefusals: 1 });
  expect([tried(undefined, true), tried(undefined, true), tried("192.0.2.1")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
