import { startAuthentication } from "@simplewebauthn/browser";
import { type BrowserSession, createSession, type SessionOptions, type User } from "./browser-session.ts";
import { jsonRequest, readData } from "./gateway-calls.ts";
import {
  type ApprovalRequest,
  type AskPasskey,
  type CallGateway,
  type Offer,
  type PasskeyRequestOptions,
  type Proof,
  prove,
} from "./proofs.ts";

export type { User } from "./browser-session.ts";
// biome-ignore lint/performance/noBarrelFile: the entry of a package
export { GatehouseError } from "./gateway-calls.ts";
export type { ApprovalRequest, PasskeyRequestOptions, Proof, ProofRequest, StepUpRequest } from "./proofs.ts";
export type { EndReason } from "./tabs.ts";

/** What a step of a login has led to. A `tempToken` opens the next step, for some minutes. */
export type LoginResult =
  | { step: "done"; user: User; recoveryCodes?: string[] }
  | {
      step: "mfa";
      tempToken: string;
      methods: string[];
      passkey?: PasskeyRequestOptions;
      trustDeviceDays?: number;
    }
  | { step: "password"; tempToken: string }
  | { step: "enrollment"; tempToken: string; methods: string[] };

export type MfaProof = { tempToken: string; trustDevice?: boolean } & (
  | { code: string }
  | { passkey: PasskeyRequestOptions }
);

export interface ClientOptions extends Omit<SessionOptions, "askPasskey"> {
  /** For calls that are answered `approval_required`. */
  onApproval?: ((request: ApprovalRequest) => Promise<Proof>) | undefined;
}

export interface Client extends BrowserSession {
  login(credentials: { email: string; password: string }): Promise<LoginResult>;
  /** By a code, or by a passkey that the browser asks for. */
  completeMfa(proof: MfaProof): Promise<LoginResult>;
  /** For `step: "password"`. */
  completePasswordChange(change: { tempToken: string; newPassword: string }): Promise<LoginResult>;
  /** For `step: "enrollment"`, after `POST /auth/mfa/setup`. */
  completeEnrollment(proof: { tempToken: string; code: string }): Promise<LoginResult>;
  /** @param options `autofill` waits for a passkey that the user picks in an input field. */
  loginWithPasskey(options?: { autofill?: boolean }): Promise<LoginResult>;
  /** At the end of a login at an identity provider that began with a `codeChallenge`. */
  exchangeCode(exchange: { code: string; codeVerifier: string }): Promise<LoginResult>;
}

interface Answer {
  requireMfa?: true;
  requirePasswordChange?: true;
  requireMfaEnrollment?: true;
}
interface PasskeyChallenge {
  challengeToken: string;
  options: PasskeyRequestOptions;
}

const askPasskey = (optionsJSON: PasskeyRequestOptions, useBrowserAutofill = false) =>
  startAuthentication({ optionsJSON, useBrowserAutofill });

export function createClient(options: ClientOptions): Client {
  const { onApproval } = options;
  const ask = (asked: PasskeyRequestOptions) => askPasskey(asked);
  const session = createSession(
    { ...options, askPasskey: ask },
    onApproval && ((call, approval) => approve(call, approval, ask, onApproval)),
  );
  const base = options.url.replace(/\/+$/, "");

  async function loginStep(path: string, body: object): Promise<LoginResult> {
    const { requireMfa, requirePasswordChange, requireMfaEnrollment, ...data } = await session.step<Answer>(
      path,
      body,
    );
    const next = requireMfa
      ? "mfa"
      : requirePasswordChange
        ? "password"
        : requireMfaEnrollment && "enrollment";
    return { ...data, step: next ?? "done" } as LoginResult;
  }

  return Object.assign(session, {
    login: (credentials: object) => loginStep("/auth/login", credentials),
    async completeMfa(proof: MfaProof) {
      const shown = "passkey" in proof ? { ...proof, passkey: await askPasskey(proof.passkey) } : proof;
      return loginStep("/auth/mfa/verify", shown);
    },
    completePasswordChange: (change: object) => loginStep("/auth/login/change-password", change),
    completeEnrollment: (proof: object) => loginStep("/auth/mfa/enable", proof),
    async loginWithPasskey({ autofill = false } = {}) {
      const plain = jsonRequest(`${base}/auth/passkeys/login/options`, {}, { isBrowser: false });
      // With the cookie of a known device, and no session yet.
      const request = new Request(plain, { credentials: "include" });
      const { challengeToken, options: asked } = await readData<PasskeyChallenge>(await fetch(request));
      const response = await askPasskey(asked, autofill);
      return loginStep("/auth/passkeys/login", { challengeToken, response });
    },
    exchangeCode: (exchange: object) => loginStep("/auth/oauth/exchange", exchange),
  });
}

interface Approval extends Offer {
  id: string;
  details: Record<string, unknown>;
  state: string;
  /** Whether this session has asked for it. */
  current: boolean;
}

/**
 * Shown and given is what the gateway answers for this id: the refusal is believed in nothing else. @returns the token, if the
 * user has approved.
 */
async function approve(
  call: CallGateway,
  { id, token }: { id: string; token: string },
  askPasskey: AskPasskey,
  ask: (request: ApprovalRequest) => Promise<Proof>,
): Promise<string | undefined> {
  const path = `/auth/me/approvals/${encodeURIComponent(id)}`;
  const { approval } = await call<{ approval: Approval }>(path);
  const { details, state, current, methods, passkey } = approval;
  if (approval.id !== id || state !== "pending" || !current) return undefined;
  const given = await prove(
    { methods, ...(passkey && { passkey }) },
    askPasskey,
    (request) => ask({ ...request, details }),
    (proof) => call("/auth/approvals/verify", { approvalId: id, ...proof }),
  );
  return given === undefined ? undefined : token;
}
