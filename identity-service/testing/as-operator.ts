import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";

/** Of a call with an operator's certificate. */
export function asOperator(): CallContext {
  return { ...newCallContext({ budgetMs: 60_000 }), person: "operator:test" };
}
