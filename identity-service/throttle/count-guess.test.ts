import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { countGuess, type GuessVerdict, judgeTry } from "./count-guess.ts";
import type { Admission } from "./throttle.ts";

const GUESS = { account: "anna@example.com", clientIp: "192.0.2.1" };

beforeEach(() => vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => vi.useRealTimers());

/** The calls of a throttle with this admission, in order, for an attempt that comes to this verdict. */
async function tried(admission: Admission, verdict: GuessVerdict = "none") {
  const calls: unknown[] = [];
  const throttle = {
    turn: async (guess: unknown, waitMs: number) => {
      calls.push(["turn", guess, waitMs]);
      return () => void calls.push("done");
    },
    take: async () => {
      calls.push("take");
      return admission;
    },
    succeed: async () => void calls.push("succeed"),
    giveBack: async () => void calls.push("giveBack"),
  };
  const onLocked = () => void calls.push("onLocked");
  const attempt = async () => {
    const counted = await countGuess(throttle, GUESS, 1_005_000, onLocked);
    calls.push("attempt");
    await counted.end(verdict);
    return { isLocked: counted.isLocked };
  };
  const result = await attempt().catch((error) => error);
  const [[turn, guess, waitMs], ...rest] = calls as [unknown[], ...unknown[]];
  expect([turn, guess]).toEqual(["turn", GUESS]);
  return { result, calls: rest, waitMs };
}

test("a turn is waited for until what the attempt still needs is left of the deadline", async () => {
  expect(await tried({ kind: "admitted" })).toMatchObject({ waitMs: 4_700 });
});

test.each<[string, GuessVerdict, string[]]>([
  ["a right password is reported to the throttle", "right", ["succeed"]],
  ["a wrong password stays counted", "wrong", []],
  ["no verdict is given back", "none", ["giveBack"]],
])("%s, and the turn ends", async (_what, verdict, expected) => {
  expect(await tried({ kind: "admitted" }, verdict)).toMatchObject({
    result: { isLocked: false },
    calls: ["take", "attempt", ...expected, "done"],
  });
});

test("the wrong password that locks the account is reported, and only that", async () => {
  const admission = { kind: "admitted", locksIfWrong: true } as const;
  expect((await tried(admission, "wrong")).calls).toEqual(["take", "attempt", "onLocked", "done"]);
  expect((await tried(admission, "none")).calls).toEqual(["take", "attempt", "giveBack", "done"]);
  expect((await tried(admission, "right")).calls).toEqual(["take", "attempt", "succeed", "done"]);
});

test.each<GuessVerdict>(["right", "wrong", "none"])(
  "of a locked account the attempt is made all the same, and counts for nothing: %s",
  async (verdict) => {
    expect(await tried({ kind: "locked" }, verdict)).toMatchObject({
      result: { isLocked: true },
      calls: ["take", "onLocked", "attempt", "done"],
    });
  },
);

test("a refused attempt is not made, and its turn ends", async () => {
  const { result, calls } = await tried({ kind: "refused", retryAfterMs: 9_000, limit: 3 });
  expect(result).toMatchObject({ code: "too_many_requests", retryAfterMs: 9_000, limit: 3 });
  expect(calls).toEqual(["take", "done"]);
});

test.each(["take", "succeed", "giveBack"] as const)(
  "a throttle whose `%s` fails ends the turn",
  async (broken) => {
    let hasEnded = false;
    const works = async () => undefined;
    const throttle = {
      turn: async () => () => {
        hasEnded = true;
      },
      take: async () => ({ kind: "admitted" }) as const,
      succeed: works,
      giveBack: works,
      [broken]: () => Promise.reject(new Error("a defect")),
    };
    const attempt = countGuess(throttle, GUESS, 1_005_000, () => undefined).then(({ end }) =>
      end(broken === "succeed" ? "right" : "none"),
    );
    await expect(attempt).rejects.toThrow("a defect");
    expect(hasEnded).toBe(true);
  },
);

test.each([
  "busy",
  "too_many_requests",
  "service_unavailable",
  "audit_unavailable",
  "internal_error",
] as const)("a try that ends as %s has no verdict and is given back", async (code) => {
  const giveBack = vi.fn(() => Promise.reject(new Error("away")));
  const work = () => Promise.reject(new DomainError(code));
  await expect(judgeTry(work, giveBack)).rejects.toMatchObject({ code });
  expect(giveBack).toHaveBeenCalledOnce();
});

test("a try that was judged stays counted, and one that a defect ended does not", async () => {
  const giveBack = vi.fn();
  await expect(
    judgeTry(() => Promise.reject(new DomainError("invalid_credentials")), giveBack),
  ).rejects.toThrow();
  expect(await judgeTry(async () => "right", giveBack)).toBe("right");
  expect(giveBack).not.toHaveBeenCalled();
  const broken = () => Promise.reject(new Error("connection lost"));
  await expect(judgeTry(broken, giveBack)).rejects.toThrow("connection lost");
  expect(giveBack).toHaveBeenCalledOnce();
});
