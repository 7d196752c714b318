import { ApiError, callApi, readAnswer } from "../ui/api.ts";

/** A browser session: the access token is in memory, the refresh token in a cookie that no script reads. */
export interface SessionClient {
  /** A call that may end a login: its answer begins the session, or says what is missing. */
  step<T>(path: string, body: object): Promise<T>;
  /** With the access token, refreshed if it has expired. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** A new access token of the same session, from a step-up. */
  raise(accessToken: string): void;
  logout(scope: "session" | "others" | "all"): Promise<void>;
  /** Whether there is a session from an earlier page. */
  resume(): Promise<boolean>;
  /** Also by another tab. */
  onSessionEnd(listener: () => void): void;
}

const HEADERS = { "gatehouse-client": "browser" };
const ENDED: ReadonlySet<string> = new Set(["token_expired", "token_invalid", "token_missing"]);
/** Tabs refresh one after the other: each would use up the cookie of the other. */
const LOCK = "gatehouse.refresh";
/** In storage, without any secret: whether it is worth asking for a session. */
const HINT = "gatehouse.session";

export function createSessionClient(): SessionClient {
  let accessToken: string | undefined;
  let refreshing: Promise<boolean> | undefined;
  const listeners = new Set<() => void>();
  const tabs = new BroadcastChannel("gatehouse.session-end");

  const begin = (token: string) => {
    accessToken = token;
    localStorage.setItem(HINT, "1");
  };
  const end = () => {
    const had = accessToken !== undefined;
    accessToken = undefined;
    localStorage.removeItem(HINT);
    if (had) for (const ended of listeners) ended();
  };
  tabs.onmessage = end;

  const send = (path: string, init: RequestInit = {}) => {
    const headers = new Headers({ ...HEADERS, ...Object.fromEntries(new Headers(init.headers)) });
    if (accessToken !== undefined) headers.set("authorization", `Bearer ${accessToken}`);
    return fetch(path, { ...init, headers });
  };
  const sendWithCookie = (path: string, init: RequestInit) =>
    fetch(path, { ...init, headers: { ...init.headers, ...HEADERS } });
  const refresh = () =>
    navigator.locks.request(LOCK, async () => {
      try {
        begin((await callApi<{ accessToken: string }>(sendWithCookie, "POST", "/auth/refresh")).accessToken);
        return true;
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return false;
        throw error;
      }
    });
  const refreshOnce = (): Promise<boolean> => {
    refreshing ??= refresh().finally(() => {
      refreshing = undefined;
    });
    return refreshing;
  };

  const client: SessionClient = {
    async step<T>(path: string, body: object) {
      const answer = await callApi<T & { accessToken?: string }>(sendWithCookie, "POST", path, body);
      if (answer.accessToken !== undefined) begin(answer.accessToken);
      return answer;
    },
    async fetch(path, init) {
      const used = accessToken;
      const response = await send(path, init);
      if (response.status !== 401) return response;
      const code = await readAnswer(response.clone()).then(
        () => "",
        (error: ApiError) => error.code,
      );
      if (!ENDED.has(code)) return response;
      if (accessToken === used && !(await refreshOnce())) {
        end();
        return response;
      }
      return send(path, init);
    },
    raise: begin,
    async logout(scope) {
      await callApi(client.fetch, "POST", "/auth/logout", { scope });
      if (scope === "others") return;
      tabs.postMessage("ended");
      end();
    },
    async resume() {
      if (localStorage.getItem(HINT) === null) return false;
      const isLive = await refreshOnce();
      if (!isLive) end();
      return isLive;
    },
    onSessionEnd: (listener) => void listeners.add(listener),
  };
  return client;
}
