import { expect } from "vitest";

/**
 * Of many uses of one thing at once, exactly one succeeds. On a busy machine that one may be answered 503 because of
 * its deadline, done or not: then none may have succeeded. The client must not repeat.
 */
export function expectOneUse(answers: { status: number }[], success: number): void {
  const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
  expect(count(success)).toBeLessThanOrEqual(1);
  if (count(503) === 0) expect(count(success)).toBe(1);
}
