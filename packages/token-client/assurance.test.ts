import { expect, test } from "vitest";
import { ASSURANCE_LEVELS, acrOf, assertAssured, levelFromAmr, parseAcr } from "./assurance.ts";

test("each level has its name, and other texts have none", () => {
  expect(ASSURANCE_LEVELS.map(acrOf)).toEqual([
    "urn:gatehouse:acr:1",
    "urn:gatehouse:acr:2",
    "urn:gatehouse:acr:3",
  ]);
  expect(ASSURANCE_LEVELS.map((level) => parseAcr(acrOf(level)))).toEqual([1, 2, 3]);
  for (const text of ["", "2", "urn:gatehouse:acr:", "urn:gatehouse:acr:0", "URN:gatehouse:acr:2"])
    expect(parseAcr(text)).toBeUndefined();
});

test("methods alone never reach the level of a passkey", () => {
  expect(levelFromAmr(["pwd", "otp", "mfa"])).toBe(2);
  expect(levelFromAmr(["pwd", "otp"])).toBe(1);
  expect(levelFromAmr(["hwk", "user"])).toBe(1);
  expect(levelFromAmr([])).toBe(1);
});

test.each([{ acr: 1, maxAgeSeconds: 300 }, { acr: 2 }, { acr: 3 }] as const)(
  "a client meets no demand, however new its token is: %j",
  (demand) => {
    const client = { kind: "client", acr: 1, authTime: new Date(1_000) } as const;
    expect(() => assertAssured(demand, client, 1_000)).toThrow(
      expect.objectContaining({ code: "user_required" }),
    );
    expect(() => assertAssured(undefined, client, 1_000)).not.toThrow();
  },
);

test("a proof is fresh until its greatest age, and from as far ahead as clocks differ", () => {
  const provenMs = Date.UTC(2031, 0, 1);
  const principal = { acr: 2, authTime: new Date(provenMs) } as const;
  const demand = { acr: 2, maxAgeSeconds: 300 } as const;
  const after = (ms: number) => () => assertAssured(demand, principal, provenMs + ms);
  expect(after(300_000)).not.toThrow();
  expect(after(300_001)).toThrow(expect.objectContaining({ code: "step_up_required" }));
  expect(after(-5_000)).not.toThrow();
  expect(after(-5_001)).toThrow(expect.objectContaining({ code: "step_up_required" }));
  expect(() => assertAssured(undefined, { ...principal, acr: 1 }, provenMs + 1e12)).not.toThrow();
});
