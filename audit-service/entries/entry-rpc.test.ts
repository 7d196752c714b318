import { expect, test } from "vitest";
import { Outcome, Entry as WireEntry } from "#proto/gatehouse/audit/v1/entry.ts";
import { asSent, loggedEntry } from "./entry.fixture.ts";
import { fromWireEntry, fromWireOutcome, toWireEntry } from "./entry-rpc.ts";

test("an entry survives encoding and decoding", () => {
  const entry = loggedEntry();
  expect(
    fromWireEntry(WireEntry.decode(WireEntry.encode(toWireEntry({ ...entry, log: 0 })).finish())),
  ).toEqual(asSent(entry));
});

test("a kind and an outcome of a newer version are read as unspecified and unknown", () => {
  const wire = { ...toWireEntry({ ...loggedEntry(), log: 3 }), kind: 9 as 1, outcome: 9 as 1 };
  expect(fromWireEntry(wire)).toMatchObject({ kind: "unspecified", outcome: "unknown" });
});

test("a search for an unknown outcome is refused and does not match everything", () => {
  expect(fromWireOutcome(Outcome.UNSPECIFIED)).toBeUndefined();
  expect(fromWireOutcome(Outcome.FAILURE)).toBe("failure");
  expect(() => fromWireOutcome(9 as Outcome)).toThrowError(
    expect.objectContaining({ code: "validation_failed" }),
  );
});
