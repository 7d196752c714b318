import { createContext, useContext, useSyncExternalStore } from "react";
import { type Answer, type Endpoint, type GivenTo, httpCall } from "#clients/api/endpoint.ts";
import type { User } from "#clients/api/generated/gatehouse.ts";
import { type BrowserSession, type CallInit, createSession } from "#clients/browser/browser-session.ts";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import type { Proof, StepUpRequest } from "#clients/browser/proofs.ts";
import type { EndReason } from "#clients/browser/tabs.ts";
import { callApi, DEADLINE_MS, offline, type Send } from "../ui/api.ts";
import { askPasskey } from "./passkeys.ts";

export type Account = Answer<"GET /auth/me">;

/** Calls wait for it. */
export interface StepUp extends Pick<StepUpRequest, "methods" | "passkey"> {
  /** @throws {GatehouseError} if it is wrong: another one may be right. */
  prove(proof: Proof): Promise<void>;
  cancel(): void;
}

export type Call = <E extends Endpoint>(endpoint: E, ...given: GivenTo<E>) => Promise<Answer<E>>;
/** The tokens stay with the library. */
type WithoutTokens<A> = A extends unknown
  ? Omit<A, "accessToken" | "refreshToken" | "expiresIn" | "tokenType">
  : never;
/** How the last session of the page has ended. */
type Ending = "expired" | "loggedOut" | "deleted";
const ENDINGS: Readonly<Record<EndReason, Ending | undefined>> = {
  expired: "expired",
  logged_out: "loggedOut",
  replaced: undefined,
};
type OnStepUp = (request: StepUpRequest) => Promise<Proof>;

/** The gateway sets and ends it with the refresh token, which no script sees. */
const HINT = /(?:^|; )__Host-gatehouse-refresh-hint=1(?:;|$)/;
/** Whether it is worth asking for a session. */
const isExpected = () => HINT.test(document.cookie);
/** In storage, whose changes other tabs hear of: when somebody was let in. */
const ENTERED = "gatehouse.session";
/** In the storage of the tab: an `Ending`, for the login page, which the console reaches by another document. */
const ENDING = "gatehouse.ending";
/** In storage: whose account has been deleted, for the other tabs. */
const DELETED = "gatehouse.deleted";
/** For which what was typed waits for the person whose session has ended. */
const HELD_MS = 10 * 60_000;

const connectToGateway = (onStepUp: OnStepUp): BrowserSession =>
  createSession({ url: location.origin, askPasskey, onStepUp });

/** Who is logged in, and the calls with their rights. */
export class Session {
  readonly #client: BrowserSession;
  #account: Account | undefined;
  #stepUp: StepUp | undefined;
  /** Of the proof that is being checked. */
  #verdict: PromiseWithResolvers<void> | undefined;
  #isEntering = false;
  /** Runs while the pages are held. */
  #held: ReturnType<typeof setTimeout> | undefined;
  #ending: Ending | undefined;
  #shownOnce = 0;
  readonly #listeners = new Set<() => void>();
  /**
   * Calls of the session that is there now. They refuse once it has ended: what one person has begun does not go on in the
   * name of the next, although the page is the same.
   */
  fetch: Send;
  /** Asks the person for a proof if the call demands one. @throws {GatehouseError} `wrong_password`, `cancelled` and those of the API. */
  call: Call;
  /** As `call`, for what nobody has begun just now: it asks nobody. @throws {GatehouseError} also `step_up_required`. */
  quietCall: Call;

  readonly #reload: () => void;
  /** When the session ends by itself: whether the pages hold what the person has typed and not saved. */
  hasTyped = (): boolean => false;

  /** @param reload of the page, for whoever has logged in to this browser in another tab. */
  constructor(connect = connectToGateway, reload = () => location.reload()) {
    this.#client = connect(this.#ask);
    this.#reload = reload;
    this.#ending = (sessionStorage.getItem(ENDING) as Ending | null) ?? undefined;
    sessionStorage.removeItem(ENDING);
    this.#client.onSessionEnd((reason) => {
      const ending = this.#endingOf(reason);
      const isOwn = ending === "expired" && this.#account !== undefined;
      if (isOwn && (this.hasTyped() || this.#shownOnce > 0)) return this.#hold();
      this.#end(ending);
      if (reason === "replaced" && !this.#isEntering) reload();
    });
    ({ fetch: this.fetch, call: this.call, quietCall: this.quietCall } = this.#callsOfNow());
  }

  get account(): Account | undefined {
    return this.#account;
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };

  /** Whether the session has ended while the person typed. The pages stay, for the same person; they are hidden and call nothing. */
  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** Whether the held pages are hidden, as they are unless they show what is shown once. */
  get isCovered(): boolean {
    return this.isHeld && this.#shownOnce === 0;
  }

  /** From now on the pages stay when the session ends by itself, until the person has left what they show. @returns what notes that. */
  readonly showOnce = (): (() => void) => {
    this.#shownOnce += 1;
    this.#changed();
    return () => {
      this.#shownOnce -= 1;
      this.#changed();
    };
  };

  /** Of the session that this tab had before. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  get stepUp(): StepUp | undefined {
    return this.#stepUp;
  }

  /** A call that may end a login: its answer begins the session, or says what is missing. @throws {GatehouseError} */
  readonly step = async <E extends Endpoint>(
    endpoint: E,
    ...given: GivenTo<E>
  ): Promise<WithoutTokens<Answer<E>>> => {
    const { path, body = {} } = httpCall(endpoint, ...given);
    this.#isEntering = true;
    try {
      return await this.#client.step<WithoutTokens<Answer<E>> & object>(path, body).catch(offline);
    } finally {
      this.#isEntering = false;
    }
  };

  /** @throws {GatehouseError} */
  readonly logout = (scope: "session" | "others"): Promise<void> => this.#client.logout(scope).catch(offline);

  /** Reads the account again. @throws {GatehouseError} */
  readonly load = async (): Promise<void> => {
    const { call } = this;
    const account = await call("GET /auth/me");
    localStorage.setItem(ENTERED, String(Date.now()));
    localStorage.removeItem(DELETED);
    if (this.call === call) this.#set(account);
  };

  /** Of an access token: at most half of the time after which a session ends that nobody uses. */
  readonly tokenLifetimeMs = async (): Promise<number> => {
    const [, claims = ""] = ((await this.#client.accessToken()) ?? "").split(".");
    const { iat, exp } = JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/")));
    return (exp - iat) * 1_000;
  };

  /** After a change, which has happened whether or not this succeeds. */
  readonly loadAgain = (): Promise<void> => this.load().catch(() => undefined);

  /** The session is gone, at the server too. */
  readonly forget = (ending: Ending): void => {
    if (ending === "deleted") localStorage.setItem(DELETED, this.#account?.user.id ?? "");
    this.#end(ending);
  };

  /**
   * If the same person has logged in again in another tab, the held pages go on. Anybody else begins with a page of their own.
   * @returns whether they go on. @throws {GatehouseError}
   */
  readonly goOn = async (): Promise<boolean> => {
    if (!this.isHeld || !isExpected()) return false;
    if (!(await this.#client.join().catch(offline))) return false;
    const account = await callApi((path, init) => this.#client.fetch(path, init), "GET /auth/me");
    if (!this.isHeld) return false;
    const isSame = account.user.id === this.#account?.user.id;
    if (isSame) {
      this.#release();
      this.#set(account);
    } else {
      this.#end(undefined);
      this.#reload();
    }
    return isSame;
  };

  /** Goes on with the session of the browser, if there may be one. @throws {GatehouseError} */
  async resume(): Promise<void> {
    if (isExpected() && (await this.#client.join().catch(offline))) await this.load();
  }

  #callsOfNow(): { fetch: Send; call: Call; quietCall: Call } {
    const send = async (path: string, init: CallInit) => {
      if (this.isHeld) throw held();
      if (this.fetch !== send) throw cancelled();
      return this.#client.fetch(path, init);
    };
    // The deadline of the call would run while the person looks for a proof: each answer has its own.
    const inTime: Send = (path, { signal: _deadline, ...init }) =>
      send(path, { ...init, timeoutMs: DEADLINE_MS });
    const call: Call = (endpoint, ...given) =>
      callApi(inTime, endpoint, ...given).catch((error: unknown) => {
        // The library has asked for a proof.
        const isCancelled = error instanceof GatehouseError && error.code === "step_up_required";
        if (this.isHeld) throw held();
        throw isCancelled ? cancelled() : aboutPassword(error);
      });
    const quietCall: Call = (endpoint, ...given) =>
      callApi((url, init) => send(url, { ...init, isQuiet: true }), endpoint, ...given);
    return { fetch: send, call, quietCall };
  }

  readonly #ask: OnStepUp = ({ methods, passkey, problem, over }) => {
    const { promise, resolve: answer } = Promise.withResolvers<Proof>();
    if (problem !== undefined)
      this.#verdict?.reject(aboutPassword(new GatehouseError(401, { code: problem })));
    else
      void over.then(() => {
        this.#verdict?.resolve();
        this.#setStepUp(undefined);
      });
    const prove = (proof: Proof): Promise<void> => {
      this.#verdict = Promise.withResolvers();
      answer(proof);
      return this.#verdict.promise;
    };
    this.#setStepUp({ methods, ...(passkey && { passkey }), prove, cancel: () => answer(null) });
    return promise;
  };

  #setStepUp(stepUp: StepUp | undefined): void {
    this.#stepUp = stepUp;
    this.#changed();
  }

  #endingOf(reason: EndReason): Ending | undefined {
    const isDeleted = reason === "expired" && localStorage.getItem(DELETED) === this.#account?.user.id;
    return isDeleted ? "deleted" : ENDINGS[reason];
  }

  readonly #giveUp = (): void => {
    if (this.#shownOnce > 0) this.#held = setTimeout(this.#giveUp, HELD_MS);
    else this.#end("expired");
  };

  #hold(): void {
    this.#held ??= setTimeout(this.#giveUp, HELD_MS);
    this.#stepUp?.cancel();
    this.#changed();
  }

  #release(): void {
    clearTimeout(this.#held);
    this.#held = undefined;
  }

  #end(ending: Ending | undefined): void {
    this.#release();
    this.#ending = ending;
    if (ending !== undefined) sessionStorage.setItem(ENDING, ending);
    ({ fetch: this.fetch, call: this.call, quietCall: this.quietCall } = this.#callsOfNow());
    this.#stepUp?.cancel();
    this.#set(undefined);
  }

  #set(account: Account | undefined): void {
    if (account !== undefined) this.#ending = undefined;
    this.#account = account;
    this.#changed();
  }

  #changed(): void {
    for (const changed of this.#listeners) changed();
  }
}

/** `invalid_credentials` is about the password alone where nobody enters an address. */
export function aboutPassword(error: unknown): unknown {
  const isPassword = error instanceof GatehouseError && error.code === "invalid_credentials";
  return isPassword ? new GatehouseError(error.status, { ...error, code: "wrong_password" }) : error;
}

const cancelled = () => new GatehouseError(0, { code: "cancelled" });
/** The session has ended before the call. */
const held = () => new GatehouseError(0, { code: "held" });

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("rendered outside of a page");
  return session;
}

/** Undefined when logged out. */
export function useAccount(): Account | undefined {
  const session = useSession();
  return useSyncExternalStore(session.subscribe, () => session.account);
}

/** Whether the person's role holds a permission. It covers those below it: `audit:read` covers `audit:read:user`. */
export const may = ({ permissions }: Account, permission: string): boolean =>
  permissions.some((held) => permission === held || permission.startsWith(`${held}:`));

/** As `may`, of the person who is logged in. */
export function useMay(): (permission: string) => boolean {
  const account = useAccount();
  return (permission) => account !== undefined && may(account, permission);
}

/** On pages that only a logged-in person sees. */
export function useUser(): User {
  const account = useAccount();
  if (account === undefined) throw new Error("rendered without a session");
  return account.user;
}
