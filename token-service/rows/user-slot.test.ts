import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { SLOTS, slotOfSession } from "#token-client/session-slot.ts";
import { newSessionId, slotOfUser } from "./user-slot.ts";

test("a session's id ends with the slot of its user, and is a UUIDv7", () => {
  for (let count = 0; count < 1_000; count += 1) {
    const userId = randomUUID();
    const id = newSessionId(userId);
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(slotOfSession(id)).toBe(slotOfUser(userId));
  }
});

test("a slot never changes: rows are found by it", () => {
  expect(slotOfUser("00000000-0000-0000-0000-000000000000")).toBe(0x374);
  expect(slotOfUser("0190a5c3-7b7e-7c4f-9a58-0123456789ab")).toBe(
    slotOfUser("0190A5C3-7B7E-7C4F-9A58-0123456789AB"),
  );
});

test("users whose ids another system has counted are spread over all slots", () => {
  const counts = new Array<number>(SLOTS).fill(0);
  for (let n = 0; n < 100 * SLOTS; n += 1) {
    const slot = slotOfUser(`00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`);
    counts[slot] = (counts[slot] ?? 0) + 1;
  }
  expect(Math.min(...counts)).toBeGreaterThan(50);
  expect(Math.max(...counts)).toBeLessThan(160);
});
