import { type Guess, type Throttle, tooManyRequests } from "./throttle.ts";

/** What an attempt still needs after its turn has come: a hash, the database, the session. */
const RESERVE_MS = 300;

/** What an attempt at a password has shown. `none`: it came to no verdict, so that it is not counted. */
export type GuessVerdict = "right" | "wrong" | "none";

/** An attempt that is counted and under way. No other attempt at the same account runs until it ends. */
export interface CountedGuess {
  /** Whether the account is locked: then the attempt must fail like a wrong password, after the same work. */
  isLocked: boolean;
  /** Must be called once, whatever happens. Of a locked account the verdict counts for nothing. */
  end(verdict: GuessVerdict): Promise<void>;
}

/**
 * Counts an attempt at a password before it begins, one at a time for each account.
 *
 * @param deadlineMs of the call, in milliseconds since the epoch.
 * @param onLocked called when the account is locked, or is from this attempt on.
 * @throws {DomainError} `too_many_requests` for the network or everybody; `busy`.
 */
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
