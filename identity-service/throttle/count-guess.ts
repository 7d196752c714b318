import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { type Guess, type Throttle, tooManyRequests } from "./throttle.ts";

/** For the attempt, after its turn. */
const RESERVE_MS = 300;

/** `none` is not counted. */
export type GuessVerdict = "right" | "wrong" | "none";

/** Holds the account's turn until its end. */
export interface CountedGuess {
  /** Must then fail like a wrong password, after equal work. */
  isLocked: boolean;
  /** Call exactly once. */
  end(verdict: GuessVerdict): Promise<void>;
}

/** One attempt at a time per account. @throws {DomainError} `too_many_requests`, `busy`. */
export async function countGuess(
  throttle: Pick<Throttle, "turn" | "take" | "succeed" | "giveBack">,
  guess: Guess,
  deadlineMs: number,
  onLocked: () => void,
): Promise<CountedGuess> {
  const endTurn = await throttle.turn(guess, deadlineMs - Date.now() - RESERVE_MS);
  try {
    const admission = await throttle.take(guess);
    if (admission.kind === "refused") throw tooManyRequests(admission);
    if (admission.kind === "locked") {
      onLocked();
      return { isLocked: true, end: async () => endTurn() };
    }
    const settle = async (verdict: GuessVerdict) => {
      if (verdict === "right") await throttle.succeed(guess);
      else if (verdict === "none") await throttle.giveBack(guess);
      else if (admission.locksIfWrong) onLocked();
    };
    return { isLocked: false, end: (verdict) => settle(verdict).finally(endTurn) };
  } catch (error) {
    endTurn();
    throw error;
  }
}

const WITHOUT_VERDICT: ReadonlySet<ErrorCode> = new Set([
  "busy",
  "too_many_requests",
  "service_unavailable",
  "audit_unavailable",
  "internal_error",
]);

/**
 * For tries that are counted before the proof is checked, so that parallel ones share them. A try that ends without a
 * verdict, for example in an outage, is given back.
 */
export async function judgeTry<T>(work: () => Promise<T>, giveBack: () => unknown): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const hasVerdict = error instanceof DomainError && !WITHOUT_VERDICT.has(error.code);
    // In an outage of the database the try stays counted; the first error says why.
    if (!hasVerdict)
      await Promise.resolve()
        .then(giveBack)
        .catch(() => undefined);
    throw error;
  }
}
