import { type PublicKeyCredentialRequestOptionsJSON, startAuthentication } from "@simplewebauthn/browser";
import { GatehouseError, jsonRequest, readData, readFailure } from "./gateway-calls.ts";
import { type Access, createTabs, type EndReason, type News } from "./tabs.ts";

// biome-ignore lint/performance/noBarrelFile: the entry of a package
export { GatehouseError } from "./gateway-calls.ts";
export type { EndReason } from "./tabs.ts";

export interface User {
  id: string;
  email: string;
  firstName: string;
  lastName: string;
  role: string;
  emailVerified: boolean;
  mfaEnabled: boolean;
  /** RFC 3339. */
  createdAt: string;
}

/** What a step of a login has led to. A `tempToken` opens the next step, for some minutes. */
export type LoginResult =
  | { step: "done"; user: User; recoveryCodes?: string[] }
  | {
      step: "mfa";
      tempToken: string;
      methods: string[];
      passkey?: PublicKeyCredentialRequestOptionsJSON;
      trustDeviceDays?: number;
    }
  | { step: "password"; tempToken: string }
  | { step: "enrollment"; tempToken: string; methods: string[] };

export type MfaProof = { tempToken: string; trustDevice?: boolean } & (
  | { code: string }
  | { passkey: PublicKeyCredentialRequestOptionsJSON }
);

/** What a call needs before it goes on. */
export interface ProofRequest {
  /** `passkey`, `totp`, `recovery_code`, `password`: those that will do. */
  methods: string[];
  /** Whether a passkey can be asked for. */
  hasPasskey: boolean;
  /** The code of the failure of the try before: `mfa_code_invalid`, `invalid_credentials`. */
  problem?: string;
}
export interface StepUpRequest extends ProofRequest {
  acr: number;
  maxAgeSeconds?: number;
}
export interface ApprovalRequest extends ProofRequest {
  /** What the user approves, by JSON pointer: show all of it. */
  details: Record<string, unknown>;
}
/** Null: the user has given up, and the call keeps its failure. */
export type Proof = { code: string } | { password: string } | { passkey: true } | null;

export interface ClientOptions {
  /** Of the gateway, such as `https://api.example.com`. */
  url: string;
  /** For calls that are answered `step_up_required`. */
  onStepUp?: (request: StepUpRequest) => Promise<Proof>;
  /** For calls that are answered `approval_required`. */
  onApproval?: (request: ApprovalRequest) => Promise<Proof>;
  /** Milliseconds since 1970, for tests. */
  now?: () => number;
}

/** Of one browser: all tabs of an origin share its session. Failures of the gateway are `GatehouseError`. */
export interface Client {
  /** Undefined while nobody is logged in, as far as this tab knows. */
  readonly user: User | undefined;
  /** When a page has loaded: goes on with the session of the browser, if there is one. */
  resume(): Promise<User | undefined>;
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
  /** Any other call that may end a login. @returns its `data`, without tokens. */
  step<T extends object>(path: string, body: object): Promise<T>;
  /** `others` keeps this session. */
  logout(scope?: "session" | "others" | "all"): Promise<void>;
  /** As `fetch`, for paths and addresses of the gateway. @throws TypeError for another origin. */
  fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** A token that has not expired, for WebSockets and the like. Undefined while nobody is logged in. */
  accessToken(): Promise<string | undefined>;
  /** Keeps the access token of a step-up that the application has done by itself. */
  raise(token: { accessToken: string; expiresIn: number }): void;
  /** @returns a function that ends the subscription. */
  onSessionEnd(listener: (reason: EndReason) => void): () => void;
  /** Called with the user who is logged in now. @returns as `onSessionEnd`. */
  onChange(listener: (user: User | undefined) => void): () => void;
  /** Tells other tabs nothing, and ends no session. */
  close(): void;
}

interface Tokens {
  accessToken: string;
  expiresIn: number;
}
type Data = Partial<Tokens> & { user?: User; tokenType?: string };
type Answer = Data & {
  requireMfa?: true;
  requirePasswordChange?: true;
  requireMfaEnrollment?: true;
  tempToken?: string;
  methods?: string[];
};
interface Offer {
  methods: string[];
  passkey?: PublicKeyCredentialRequestOptionsJSON;
}

const EXPIRED = new Set(["token_expired", "token_invalid"]);
const WRONG = new Set(["mfa_code_invalid", "invalid_credentials"]);
const MAX_PROOFS = 5;
/** A token is renewed before it ends on its way. */
const MARGIN_MS = 10_000;
/** For the answer of a tab that has the newest token: forty times. */
const ANSWER_MS = 50;
const MAX_ASKED = 40;

export function createClient({ url, onStepUp, onApproval, now = Date.now }: ClientOptions): Client {
  const { origin } = new URL(url);
  const base = url.replace(/\/+$/, "");
  let access: Access | undefined;
  let user: User | undefined;
  /** Its tokens may still be under way from another tab. */
  let endedSessionId = "";
  let renewing: Promise<void> | undefined;
  let steppingUp: Promise<boolean> | undefined;
  let heard = () => {};
  const ends = new Set<(reason: EndReason) => void>();
  const changes = new Set<(user: User | undefined) => void>();
  const tabs = createTabs<User>(`gatehouse ${base}`, hear);

  const isFresh = () => access !== undefined && access.expiresAtMs > now();

  function hear(news: News<User>): void {
    if (news.kind === "ask") {
      if (access !== undefined && access.epoch > news.after) tabs.tell({ kind: "token", access, user });
    } else if (news.kind === "end") {
      if (news.sessionId === access?.sessionId) forget(news.reason);
    } else if (news.access.sessionId !== endedSessionId && news.access.epoch > (access?.epoch ?? 0)) {
      if (access === undefined || access.sessionId === news.access.sessionId) {
        keep(news.access, news.user ?? user).catch(() => undefined);
      } else forget("replaced");
      heard();
    }
  }

  async function keep(next: Access, its: User | undefined): Promise<void> {
    const isChange = access?.sessionId !== next.sessionId || user !== its;
    access = next;
    user = its;
    if (isChange) for (const listener of changes) listener(user);
    await tabs.hold(next.epoch);
  }

  function forget(reason: EndReason): void {
    if (access === undefined) return;
    endedSessionId = access.sessionId;
    access = undefined;
    user = undefined;
    tabs.hold(0).catch(() => undefined);
    for (const listener of ends) listener(reason);
    for (const listener of changes) listener(undefined);
  }

  function end(reason: EndReason): void {
    if (access !== undefined) tabs.tell({ kind: "end", sessionId: access.sessionId, reason });
    forget(reason);
  }

  async function accessOf({ accessToken, expiresIn }: Tokens): Promise<Access> {
    const epoch = Math.max(access?.epoch ?? 0, await tabs.newestEpoch()) + 1;
    const expiresAtMs = now() + expiresIn * 1_000 - Math.min(MARGIN_MS, expiresIn * 100);
    return { token: accessToken, expiresAtMs, sessionId: sessionIdOf(accessToken), epoch };
  }

  /** Another tab may have a newer token, although its message has not arrived yet. */
  async function catchUp(): Promise<void> {
    for (let asked = 0; asked < MAX_ASKED && (await tabs.newestEpoch()) > (access?.epoch ?? 0); asked += 1) {
      const answered = new Promise<void>((done) => {
        heard = done;
        setTimeout(done, ANSWER_MS);
      });
      tabs.tell({ kind: "ask", after: access?.epoch ?? 0 });
      await answered;
    }
  }

  async function refresh(): Promise<void> {
    const response = await fetch(jsonRequest(`${base}/auth/refresh`, undefined, { isBrowser: true }));
    if (response.status === 401) return end("expired");
    const next = await accessOf(await readData<Tokens>(response));
    tabs.tell({ kind: "token", access: next, user: access?.sessionId === next.sessionId ? user : undefined });
    // Somebody has logged in to another session, and its cookie is the browser's.
    if (access !== undefined && access.sessionId !== next.sessionId) forget("replaced");
    else await keep(next, user);
  }

  /** @param stale a token that was refused. */
  async function renewed(stale?: string): Promise<string | undefined> {
    const isGood = () => isFresh() && access?.token !== stale;
    if (!isGood()) {
      renewing ??= tabs
        .alone(async () => {
          await catchUp();
          if (!isGood()) await refresh();
        })
        .finally(() => {
          renewing = undefined;
        });
      await renewing;
    }
    return access?.token;
  }

  const accessToken = async () => (access === undefined ? undefined : renewed());

  async function step<T extends object>(path: string, body: object): Promise<T> {
    return tabs.alone(async () => {
      const response = await fetch(jsonRequest(base + path, body, { isBrowser: true }));
      const { accessToken: token, expiresIn, tokenType: _, ...data } = await readData<T & Data>(response);
      if (token !== undefined && expiresIn !== undefined) {
        const next = await accessOf({ accessToken: token, expiresIn });
        await keep(next, data.user);
        tabs.tell({ kind: "token", access: next, user });
      }
      return data as unknown as T;
    });
  }

  async function loginStep(path: string, body: object): Promise<LoginResult> {
    const { requireMfa, requirePasswordChange, requireMfaEnrollment, ...data } = await step<Answer>(
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

  /** @returns undefined if the user has given up. */
  async function prove<T>(
    { methods, passkey }: Offer,
    ask: (request: ProofRequest) => Promise<Proof>,
    verify: (proof: object) => Promise<T>,
  ): Promise<T | undefined> {
    let problem: string | undefined;
    for (let tries = 0; tries < MAX_PROOFS; tries += 1) {
      const request = { methods, hasPasskey: passkey !== undefined };
      const proof = await ask({ ...request, ...(problem !== undefined && { problem }) });
      if (proof === null) return undefined;
      const isPasskey = "passkey" in proof && passkey !== undefined;
      const shown = isPasskey ? { passkey: await startAuthentication({ optionsJSON: passkey }) } : proof;
      try {
        return await verify(shown);
      } catch (error) {
        if (!(error instanceof GatehouseError) || !WRONG.has(error.code)) throw error;
        problem = error.code;
      }
    }
    return undefined;
  }

  async function authorized<T>(path: string, body: object): Promise<T> {
    return readData<T>(
      await fetch(jsonRequest(base + path, body, { isBrowser: false, token: await renewed() })),
    );
  }

  async function stepUp(demand: { acr: number; maxAgeSeconds?: number }, ask: NonNullable<typeof onStepUp>) {
    const wanted = demand.acr > 1 ? { acr: demand.acr } : {};
    const { stepUpToken, ...offer } = await authorized<Offer & { stepUpToken: string }>(
      "/auth/step-up",
      wanted,
    );
    const raised = await prove(
      offer,
      (request) => ask({ ...demand, ...request }),
      (proof) => authorized<Tokens>("/auth/step-up/verify", { stepUpToken, ...proof }),
    );
    if (raised !== undefined) await adopt(raised);
    return raised !== undefined;
  }

  async function adopt(tokens: Tokens): Promise<void> {
    const next = await accessOf(tokens);
    if (access?.sessionId !== next.sessionId) return;
    await keep(next, user);
    tabs.tell({ kind: "token", access: next, user });
  }

  async function approve({
    token,
    details,
    ...offer
  }: Offer & { token: string; details: Record<string, unknown> }) {
    const given = await prove(
      offer,
      async (request) => (await onApproval?.({ ...request, details })) ?? null,
      (proof) => authorized("/auth/approvals/verify", { token, ...proof }),
    );
    return given === undefined ? undefined : token;
  }

  async function fetchWithSession(input: string | URL | Request, init?: RequestInit): Promise<Response> {
    const request = new Request(input instanceof Request ? input : new URL(input, `${base}/`), init);
    if (new URL(request.url).origin !== origin) throw new TypeError(`${request.url} is not of ${origin}`);
    const send = () => {
      const sent = request.clone();
      if (access !== undefined) sent.headers.set("authorization", `Bearer ${access.token}`);
      return fetch(sent);
    };
    await accessToken();
    const done = new Set<string>();
    for (;;) {
      const used = access?.token;
      const response = await send();
      const { code = "", details } = await readFailure(response);
      const kind = EXPIRED.has(code) ? "expired" : code;
      // Each once: a call that is refused for the same reason again is answered so.
      if (used === undefined || done.has(kind)) return response;
      done.add(kind);
      if (kind === "expired") {
        if ((await renewed(used)) === undefined) return response;
      } else if (kind === "step_up_required" && onStepUp !== undefined) {
        steppingUp ??= stepUp(details as StepUpRequest, onStepUp).finally(() => {
          steppingUp = undefined;
        });
        if (!(await steppingUp)) return response;
      } else if (kind === "approval_required" && onApproval !== undefined) {
        const { approval } = details as { approval: Parameters<typeof approve>[0] };
        const token = await approve(approval);
        if (token === undefined) return response;
        request.headers.set("gatehouse-approval", token);
      } else return response;
    }
  }

  async function logout(scope: "session" | "others" | "all" = "session"): Promise<void> {
    await tabs.alone(async () => {
      const token = access !== undefined && isFresh() ? access.token : undefined;
      const send = (isBrowser: boolean) =>
        fetch(jsonRequest(`${base}/auth/logout`, { scope }, { isBrowser, token }));
      let response = await send(true);
      // The cookie is of another session, which somebody has begun since: it stays.
      if (response.status === 409) response = await send(false);
      if (response.status !== 401) await readData(response);
      if (scope !== "others" || response.status === 401) end("logged_out");
    });
  }

  return {
    get user() {
      return user;
    },
    async resume() {
      await renewed();
      if (access !== undefined && user === undefined) {
        const { user: found } = await readData<{ user: User }>(await fetchWithSession("/auth/me"));
        // Nobody has logged out meanwhile.
        if (access !== undefined) await keep(access, found);
      }
      return user;
    },
    login: (credentials) => loginStep("/auth/login", credentials),
    async completeMfa(proof) {
      if (!("passkey" in proof)) return loginStep("/auth/mfa/verify", proof);
      const passkey = await startAuthentication({ optionsJSON: proof.passkey });
      return loginStep("/auth/mfa/verify", { ...proof, passkey });
    },
    completePasswordChange: (change) => loginStep("/auth/login/change-password", change),
    completeEnrollment: (proof) => loginStep("/auth/mfa/enable", proof),
    async loginWithPasskey({ autofill = false } = {}) {
      // With the cookie of a known device, and no session yet.
      const request = new Request(
        jsonRequest(`${base}/auth/passkeys/login/options`, {}, { isBrowser: false }),
        {
          credentials: "include",
        },
      );
      const { challengeToken, options } = await readData<{
        challengeToken: string;
        options: PublicKeyCredentialRequestOptionsJSON;
      }>(await fetch(request));
      const response = await startAuthentication({ optionsJSON: options, useBrowserAutofill: autofill });
      return loginStep("/auth/passkeys/login", { challengeToken, response });
    },
    exchangeCode: (exchange) => loginStep("/auth/oauth/exchange", exchange),
    step,
    logout,
    fetch: fetchWithSession,
    accessToken,
    raise: (token) => void adopt(token).catch(() => undefined),
    onSessionEnd: (listener) => subscribe(ends, listener),
    onChange: (listener) => subscribe(changes, listener),
    close: () => tabs.close(),
  };
}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Not verified: the gateway has just sent it. */
function sessionIdOf(token: string): string {
  const payload = token.split(".")[1] ?? "";
  const claims = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as { sid?: string };
  return claims.sid ?? "";
}
