import { GatehouseError, jsonRequest, readData, readFailure, unlessRefused } from "./gateway-calls.ts";
import {
  type AskPasskey,
  type CallGateway,
  createStepUp,
  type Proof,
  type SessionId,
  type StepUpRequest,
  type Tokens,
} from "./proofs.ts";
import { type Access, createTabs, type EndReason, type News } from "./tabs.ts";

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

export interface SessionOptions {
  /** Of the gateway, such as `https://api.example.com`. */
  url: string;
  /** For calls that are answered `step_up_required`. */
  onStepUp?: ((request: StepUpRequest) => Promise<Proof>) | undefined;
  /** For a `Proof` of `passkey: true`. */
  askPasskey: AskPasskey;
  /** Milliseconds since 1970, for tests. */
  now?: (() => number) | undefined;
}

export interface CallInit extends RequestInit {
  /** Asks the user for no proof, as a call must that nobody has begun just now: a refusal for want of one is the answer. */
  isQuiet?: boolean;
  /** Milliseconds in which each answer must come. A `signal` counts the time in which the user looks for a proof, too. */
  timeoutMs?: number;
}

/** Of one browser: all tabs of an origin share its session. Failures of the gateway are `GatehouseError`. */
export interface BrowserSession {
  /** Undefined while nobody is logged in, as far as this tab knows. */
  readonly user: User | undefined;
  /**
   * When a page has loaded: goes on with the session of the browser, if there is one. Also after an end, with whoever is
   * logged in then: show nothing of the former user any more before you call it.
   */
  resume(): Promise<User | undefined>;
  /** As `resume`, for an application that loads what it wants to know of the user. @returns whether there is a session. */
  join(): Promise<boolean>;
  /** Any call that may end a login. @returns its `data`, without tokens. */
  step<T extends object>(path: string, body: object): Promise<T>;
  /** `others` keeps this session. */
  logout(scope?: "session" | "others" | "all"): Promise<void>;
  /**
   * As `fetch`, for paths and addresses of the gateway. The call is of the session in which it began: if that ends meanwhile,
   * it is not repeated in another one. With a token it follows no redirect: `redirect: "manual"` shows one.
   * @throws TypeError for another origin, and for a redirect.
   */
  fetch(input: string | URL | Request, init?: CallInit): Promise<Response>;
  /** A token that has not expired, for WebSockets and the like. Undefined while nobody is logged in. */
  accessToken(): Promise<string | undefined>;
  /** Keeps the access token of a step-up that the application has done by itself. */
  raise(token: { accessToken: string; expiresIn: number }): void;
  /**
   * Nothing is sent with a token after it, until the application calls `resume` or logs in. @returns a function that ends
   * the subscription.
   */
  onSessionEnd(listener: (reason: EndReason) => void): () => void;
  /** Called with the user who is logged in now. @returns as `onSessionEnd`. */
  onChange(listener: (user: User | undefined) => void): () => void;
  /** Sends nothing to other tabs, and ends no session. */
  close(): void;
}

type Data = Partial<Tokens> & { user?: User; tokenType?: string };
/** @returns the token of an approval, if the user has given it. */
type Approve = (call: CallGateway, approval: { id: string; token: string }) => Promise<string | undefined>;

const EXPIRED = new Set(["token_expired", "token_invalid"]);
/** A token is renewed before it ends on its way. */
const MARGIN_MS = 10_000;
/** For the answer of a tab that has the newest token: forty times. */
const ANSWER_MS = 50;
const MAX_ASKED = 40;

/** @param approve for calls that are answered `approval_required`. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: as a class it is 6 % larger (docs/decisions/pages.md)
export function createSession(options: SessionOptions, approve?: Approve): BrowserSession {
  const { url, askPasskey, onStepUp, now = Date.now } = options;
  const { origin } = new URL(url);
  const base = url.replace(/\/+$/, "");
  let access: Access | undefined;
  let user: User | undefined;
  /** Its tokens may still be under way from another tab. */
  let endedSessionId = "";
  /** A page whose session has ended may still show it, so it takes no other one by itself. */
  let mayJoin = true;
  const renewing = new Map<SessionId, Promise<void>>();
  let onToken = () => {};
  const ends = new Set<(reason: EndReason) => void>();
  const changes = new Set<(user: User | undefined) => void>();
  const tabs = createTabs<User>(`gatehouse ${base}`, receive);

  const stepUp = onStepUp && createStepUp(askPasskey, onStepUp, adopt);

  const isFresh = () => access !== undefined && access.expiresAtMs > now();
  const isCurrent = (sessionId: SessionId) => access?.sessionId === sessionId;

  function receive(news: News<User>): void {
    if (news.kind === "ask") {
      if (access !== undefined && access.epoch > news.after) tabs.post({ kind: "token", access, user });
    } else if (news.kind === "end") {
      if (isCurrent(news.sessionId)) forget(news.reason);
    } else if (news.access.sessionId !== endedSessionId && news.access.epoch > (access?.epoch ?? 0)) {
      if (access === undefined ? mayJoin : isCurrent(news.access.sessionId)) {
        activate(news.access, news.user ?? user).catch(() => undefined);
      } else forget("replaced");
      onToken();
    }
  }

  async function activate(next: Access, its: User | undefined): Promise<void> {
    const isChange = !isCurrent(next.sessionId) || user !== its;
    access = next;
    user = its;
    if (isChange) for (const listener of changes) listener(user);
    await tabs.announce(next.epoch);
  }

  function forget(reason: EndReason): void {
    if (access === undefined) return;
    endedSessionId = access.sessionId;
    mayJoin = false;
    access = undefined;
    user = undefined;
    tabs.announce(0).catch(() => undefined);
    for (const listener of ends) listener(reason);
    for (const listener of changes) listener(undefined);
  }

  function end(reason: EndReason): void {
    if (access !== undefined) tabs.post({ kind: "end", sessionId: access.sessionId, reason });
    forget(reason);
  }

  async function accessOf({ accessToken, expiresIn }: Tokens): Promise<Access> {
    const epoch = Math.max(access?.epoch ?? 0, await tabs.newestEpoch()) + 1;
    const expiresAtMs = now() + expiresIn * 1_000 - Math.min(MARGIN_MS, expiresIn * 100);
    return { token: accessToken, expiresAtMs, sessionId: sessionIdOf(accessToken), epoch };
  }

  /** Another tab may have a newer token, although its message has not arrived yet. */
  async function catchUp(sessionId: SessionId): Promise<void> {
    for (let asked = 0; asked < MAX_ASKED && isCurrent(sessionId); asked += 1) {
      const after = access?.epoch ?? 0;
      if ((await tabs.newestEpoch()) <= after) return;
      const answered = new Promise<void>((done) => {
        onToken = done;
        setTimeout(done, ANSWER_MS);
      });
      tabs.post({ kind: "ask", after });
      await answered;
    }
  }

  async function refresh(sessionId: SessionId): Promise<void> {
    const response = await fetch(jsonRequest(`${base}/auth/refresh`, undefined, { isBrowser: true }));
    const tokens = await readData<Tokens>(response).catch(unlessRefused);
    // Nothing else ends a session.
    if (tokens === undefined) return isCurrent(sessionId) ? end("expired") : undefined;
    const next = await accessOf(tokens);
    tabs.post({ kind: "token", access: next, user: isCurrent(next.sessionId) ? user : undefined });
    if (!isCurrent(sessionId)) return;
    // Somebody has logged in to another session, and its cookie is the browser's.
    if (sessionId !== undefined && sessionId !== next.sessionId) forget("replaced");
    else await activate(next, user);
  }

  /** @param of the session that must go on; undefined begins with the browser's. @param stale a token that was refused. */
  async function renewed(sessionId: SessionId, stale?: string): Promise<string | undefined> {
    const isDue = () => isCurrent(sessionId) && !(isFresh() && access?.token !== stale);
    if (isDue()) {
      const run =
        renewing.get(sessionId) ??
        tabs
          .alone(async () => {
            await catchUp(sessionId);
            if (isDue()) await refresh(sessionId);
          })
          .finally(() => renewing.delete(sessionId));
      renewing.set(sessionId, run);
      await run;
    }
    return sessionId === undefined || isCurrent(sessionId) ? access?.token : undefined;
  }

  const accessToken = async () => (access === undefined ? undefined : renewed(access.sessionId));

  async function join(): Promise<boolean> {
    mayJoin = true;
    await renewed(access?.sessionId);
    return access !== undefined;
  }

  async function resume(): Promise<User | undefined> {
    await join();
    const sessionId = access?.sessionId;
    if (sessionId !== undefined && user === undefined) {
      const { user: found } = await readData<{ user: User }>(await fetchWithSession("/auth/me"));
      // Nobody has logged out meanwhile.
      if (access !== undefined && isCurrent(sessionId)) await activate(access, found);
    }
    return user;
  }

  async function step<T extends object>(path: string, body: object): Promise<T> {
    return tabs.alone(async () => {
      const response = await fetch(jsonRequest(base + path, body, { isBrowser: true }));
      const { accessToken: token, expiresIn, tokenType: _, ...data } = await readData<T & Data>(response);
      if (token !== undefined && expiresIn !== undefined) {
        const next = await accessOf({ accessToken: token, expiresIn });
        if (!isCurrent(next.sessionId)) forget("replaced");
        await activate(next, data.user);
        tabs.post({ kind: "token", access: next, user });
      }
      return data as unknown as T;
    });
  }

  /** Without a token once the session has ended. */
  async function sendIn(sessionId: SessionId, request: Request, timeoutMs?: number): Promise<Response> {
    let token = sessionId === undefined ? undefined : await renewed(sessionId);
    for (let isRenewed = false; ; isRenewed = true) {
      const copy = inTime(request.clone(), timeoutMs);
      const sent = token === undefined ? copy : stayingHere(copy);
      if (token !== undefined) sent.headers.set("authorization", `Bearer ${token}`);
      const response = await fetch(sent);
      if (token === undefined || isRenewed) return response;
      const { code = "" } = await readFailure(response);
      if (!EXPIRED.has(code)) return response;
      token = await renewed(sessionId, token);
      if (token === undefined) return response;
    }
  }

  /** A GET without a body. */
  async function authorized<T>(sessionId: SessionId, path: string, body?: object): Promise<T> {
    if (!isCurrent(sessionId))
      throw new GatehouseError(401, { code: "token_missing" }, "The session has ended.");
    const request = jsonRequest(base + path, body, { isBrowser: false });
    return readData<T>(
      await sendIn(sessionId, body === undefined ? new Request(request, { method: "GET" }) : request),
    );
  }

  async function adopt(tokens: Tokens): Promise<void> {
    const next = await accessOf(tokens);
    if (!isCurrent(next.sessionId)) return;
    await activate(next, user);
    tabs.post({ kind: "token", access: next, user });
  }

  async function fetchWithSession(input: string | URL | Request, init?: CallInit): Promise<Response> {
    const request = new Request(input instanceof Request ? input : new URL(input, `${base}/`), init);
    if (new URL(request.url).origin !== origin) throw new TypeError(`${request.url} is not of ${origin}`);
    const sessionId = access?.sessionId;
    const call: CallGateway = (path, body) => authorized(sessionId, path, body);
    const done = new Set<string>();
    for (;;) {
      const response = await sendIn(sessionId, request, init?.timeoutMs);
      const { code = "", details } = await readFailure(response);
      // Each once: a call that is refused for the same reason again is answered so.
      if (sessionId === undefined || init?.isQuiet || done.has(code)) return response;
      done.add(code);
      if (code === "step_up_required" && stepUp !== undefined) {
        if (!(await stepUp(sessionId, call, details as StepUpRequest))) return response;
      } else if (code === "approval_required" && approve !== undefined) {
        const { approval } = details as { approval: { id: string; token: string } };
        const approved = await approve(call, approval);
        if (approved === undefined) return response;
        request.headers.set("gatehouse-approval", approved);
      } else return response;
      // Whoever is logged in now has not begun this call.
      if (!isCurrent(sessionId)) return response;
    }
  }

  async function logout(scope: "session" | "others" | "all" = "session"): Promise<void> {
    const sessionId = access?.sessionId;
    // The cookie is not of the session that has ended here.
    if (sessionId === undefined ? !mayJoin : (await renewed(sessionId)) === undefined) return;
    // At once, and although the page may be left in the next moment: no lock, which takes a while.
    const send = (isBrowser: boolean) => {
      const how = { isBrowser, token: access?.token, keepalive: true };
      return fetch(jsonRequest(`${base}/auth/logout`, { scope }, how));
    };
    let response = await send(true);
    // The cookie is of another session, which somebody has begun since: it stays.
    if (response.status === 409) {
      await response.body?.cancel();
      response = await send(false);
    }
    await readData(response).catch(unlessRefused);
    if (isCurrent(sessionId) && (scope !== "others" || response.status === 401)) end("logged_out");
  }

  return {
    get user() {
      return user;
    },
    resume,
    join,
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

/** No redirect is followed: some browsers send `Authorization` on to another origin. */
function stayingHere(request: Request): Request {
  return request.redirect === "follow" ? new Request(request, { redirect: "error" }) : request;
}

function inTime(request: Request, timeoutMs: number | undefined): Request {
  if (timeoutMs === undefined) return request;
  return new Request(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]) });
}

/** Not verified: the gateway has just sent it. */
function sessionIdOf(token: string): string {
  const payload = token.split(".")[1] ?? "";
  const claims = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as { sid?: string };
  return claims.sid ?? "";
}
