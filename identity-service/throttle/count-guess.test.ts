import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DomainError } from "../../service-kit/errors.ts";
import { countGuess } from "./count-guess.ts";
import type { Admission } from "./throttle.ts";

const GUESS = { account: "anna@example.com", clientIp: "192.0.2.1" };

beforeEach(() => vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => vi.useRealTimers());

/** The result of an attempt under a throttle with this admission, and the calls of the throttle in order. */
async function tried(admission: Admission, attempt: (isLocked: boolean) => Promise<unknown>) {
  const told: unknown[] = [];
  const throttle = {
    turn: async (guess: unknown, waitMs: number) => {
      told.push(["turn", guess, waitMs]);
      return () => void told.push("done");
    },
    take: async () => {
      told.push("take");
      return admission;
    },
    succeed: async () => void told.push("succeed"),
    giveBack: async () => void told.push("giveBack"),
  };
  const onLocked = () => void told.push("onLocked");
  const result = await countGuess(throttle, GUESS, 1_005_000, onLocked, attempt).catch((error) => error);
  const [[turn, guess, waitMs], ...rest] = told as [unknown[], ...unknown[]];
  expect([turn, guess]).toEqual(["turn", GUESS]);
  return { result, told: rest, waitMs };
}
const throws = (error: unknown) => () => Promise.reject(error);

test("a turn is waited for until what the attempt still needs is left of the deadline", async () => {
  expect(await tried({ kind: "admitted" }, async () => "in")).toMatchObject({ waitMs: 4_700 });
});

test("a right password is told to the throttle", async () => {
  const attempt = async (isLocked: boolean) => ({ isLocked });
  expect(await tried({ kind: "admitted" }, attempt)).toMatchObject({
    result: { isLocked: false },
    told: ["take", "succeed", "done"],
  });
});

describe("an attempt that fails", () => {
  const admitted = { kind: "admitted" } as const;
  const defect = new Error("a defect");
  test.each([
    ["a wrong password stays counted", new DomainError("invalid_credentials"), []],
    ["an unproven address was a right password", new DomainError("email_not_verified"), ["succeed"]],
    ["no verdict is given back", new DomainError("busy"), ["giveBack"]],
    ["so is a defect", defect, ["giveBack"]],
    ["also one that has the code of a verdict", Object.assign(defect, { code: "busy" }), ["giveBack"]],
  ])("%s", async (_what, error, expected) => {
    expect(await tried(admitted, throws(error))).toMatchObject({
      result: error,
      told: ["take", ...expected, "done"],
    });
  });
});

test("the wrong password that locks the account is told, and only that", async () => {
  const admission = { kind: "admitted", locksIfWrong: true } as const;
  const wrong = await tried(admission, throws(new DomainError("invalid_credentials")));
  expect(wrong.told).toEqual(["take", "onLocked", "done"]);
  expect((await tried(admission, throws(new DomainError("busy")))).told).toEqual([
    "take",
    "giveBack",
    "done",
  ]);
  expect((await tried(admission, async () => "in")).told).toEqual(["take", "succeed", "done"]);
});

test("of a locked account the attempt is made all the same, and counts for nothing", async () => {
  const attempt = async (isLocked: boolean) => {
    if (isLocked) throw new DomainError("invalid_credentials");
  };
  expect(await tried({ kind: "locked" }, attempt)).toMatchObject({
    result: { code: "invalid_credentials" },
    told: ["take", "onLocked", "done"],
  });
});

test("what is refused is not attempted", async () => {
  const attempt = vi.fn();
  const { result, told } = await tried({ kind: "refused", retryAfterMs: 9_000, limit: 3 }, attempt);
  expect(result).toMatchObject({ code: "too_many_requests", retryAfterMs: 9_000, limit: 3 });
  expect(told).toEqual(["take", "done"]);
  expect(attempt).not.toHaveBeenCalled();
});
