import { type CallContext, newCallContext } from "#kit/call-context.ts";

/** Of a call with an operator's certificate. */
export function asOperator(): CallContext {
  return { ...newCallContext({ budgetMs: 60_000 }), person: "operator:test" };
}
