import {
  type AskPasskey,
  type CallGateway,
  type Offer,
  type Proof,
  prove,
  type StepUpRequest,
} from "./proofs.ts";

/** Undefined: of none. */
export type SessionId = string | undefined;

export interface Tokens {
  accessToken: string;
  expiresIn: number;
}

/** @returns whether the user has given a proof. */
export type StepUp = (sessionId: SessionId, call: CallGateway, demand: StepUpRequest) => Promise<boolean>;

/** Calls that need the same proof share it; one that needs more asks after them. */
export function createStepUp(
  askPasskey: AskPasskey,
  ask: (request: StepUpRequest) => Promise<Proof>,
  adopt: (tokens: Tokens) => Promise<void>,
): StepUp {
  const running = new Map<SessionId, { acr: number; done: Promise<boolean> }>();

  const stepUp = async (call: CallGateway, demand: StepUpRequest) => {
    const wanted = demand.acr > 1 ? { acr: demand.acr } : {};
    const { stepUpToken, ...offer } = await call<Offer & { stepUpToken: string }>("/auth/step-up", wanted);
    const tokens = await prove(
      offer,
      askPasskey,
      (request) => ask({ ...demand, ...request }),
      (proof) => call<Tokens>("/auth/step-up/verify", { stepUpToken, ...proof }),
    );
    if (tokens !== undefined) await adopt(tokens);
    return tokens !== undefined;
  };

  return async (sessionId, call, demand) => {
    const { acr } = demand;
    for (;;) {
      const run = running.get(sessionId);
      if (run === undefined) break;
      if (run.acr >= acr) return run.done;
      await run.done.catch(() => false);
    }
    const done = stepUp(call, demand).finally(() => running.delete(sessionId));
    running.set(sessionId, { acr, done });
    return done;
  };
}
