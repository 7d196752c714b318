import { GatehouseError } from "./gateway-calls.ts";

type Transport = "ble" | "hybrid" | "internal" | "nfc" | "usb";
/** What the gateway asks a passkey for, as `PublicKeyCredential.parseRequestOptionsFromJSON` takes it. */
export interface PasskeyRequestOptions {
  challenge: string;
  timeout?: number;
  rpId?: string;
  allowCredentials?: { id: string; type: "public-key"; transports?: Transport[] }[];
  userVerification?: "discouraged" | "preferred" | "required";
}

/** What a call needs before it goes on. */
export interface ProofRequest {
  /** `passkey`, `totp`, `recovery_code`, `password`: those that will do. */
  methods: string[];
  /** Whether a passkey can be asked for. */
  hasPasskey: boolean;
  /** For an application that asks the authenticator by itself. */
  passkey?: PasskeyRequestOptions;
  /** The code of the failure of the try before: `mfa_code_invalid`, `invalid_credentials`. */
  problem?: string;
  /** Resolves when nothing more is asked for: a proof was accepted, the user gave up, or the call has failed. */
  over: Promise<void>;
}
export interface StepUpRequest extends ProofRequest {
  acr: number;
  maxAgeSeconds?: number;
}
export interface ApprovalRequest extends ProofRequest {
  /** What the user approves, by JSON pointer: show all of it. */
  details: Record<string, unknown>;
}
/**
 * `passkey: true` lets the library ask the authenticator; an object is its answer. Null: the user has given up, and the call
 * keeps its failure.
 */
export type Proof = { code: string } | { password: string } | { passkey: true | object } | null;

/** What the gateway offers. */
export interface Offer {
  methods: string[];
  passkey?: PasskeyRequestOptions;
}
export type AskPasskey = (options: PasskeyRequestOptions) => Promise<object>;
/** Calls a path of the gateway in one session: POST with a body, GET without. @throws {GatehouseError} also once it has ended. */
export type CallGateway = <T>(path: string, body?: object) => Promise<T>;

const WRONG = new Set(["mfa_code_invalid", "invalid_credentials"]);
const MAX_PROOFS = 5;

/** Asks again after a wrong answer. @returns undefined if the user has given up. @throws as `verify` and `askPasskey`. */
export async function prove<T>(
  { methods, passkey }: Offer,
  askPasskey: AskPasskey,
  ask: (request: ProofRequest) => Promise<Proof>,
  verify: (proof: object) => Promise<T>,
): Promise<T | undefined> {
  let problem: string | undefined;
  let end = () => {};
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  const request = { methods, hasPasskey: passkey !== undefined, ...(passkey && { passkey }), over };
  try {
    for (let tries = 0; tries < MAX_PROOFS; tries += 1) {
      const proof = await ask({ ...request, ...(problem !== undefined && { problem }) });
      if (proof === null) return undefined;
      const isAsked = "passkey" in proof && proof.passkey === true && passkey !== undefined;
      const shown = isAsked ? { passkey: await askPasskey(passkey) } : proof;
      try {
        return await verify(shown);
      } catch (error) {
        if (!(error instanceof GatehouseError) || !WRONG.has(error.code)) throw error;
        problem = error.code;
      }
    }
    return undefined;
  } finally {
    end();
  }
}

/** Undefined: of none. */
export type SessionId = string | undefined;

export interface Tokens {
  accessToken: string;
  expiresIn: number;
}

/** @returns whether the user has given a proof. */
type StepUp = (sessionId: SessionId, call: CallGateway, demand: StepUpRequest) => Promise<boolean>;

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
