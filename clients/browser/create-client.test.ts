import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { type Client, type ClientOptions, createClient, type GatehouseError } from "./create-client.ts";

const URL_OF_GATEWAY = "https://api.example.com";
const ada = {
  id: "ada",
  email: "ada@example.com",
  firstName: "Ada",
  lastName: "Lovelace",
  role: "USER",
  emailVerified: true,
  mfaEnabled: false,
  createdAt: "2026-01-02T03:04:05.678Z",
};
const grace = { ...ada, id: "grace", email: "grace@example.com", firstName: "Grace" };
const credentials = { email: ada.email, password: "correct horse battery" };

interface Seen {
  path: string;
  method: string;
  headers: Headers;
  body: string;
  credentials: string;
}

/** A gateway as its contract says, for one browser. Web Locks and BroadcastChannel are Node's own. */
class FakeGateway {
  readonly seen: Seen[] = [];
  /** What is answered next, by path. */
  readonly answers = new Map<string, (() => Response | Promise<Response>)[]>();
  cookie: { sid: string; generation: number } | undefined;
  readonly live = new Map<string, number>();
  refreshes = 0;
  reused = 0;
  #sessions = 0;
  readonly #users = new Map<string, object>();

  readonly fetch = async (request: Request): Promise<Response> => {
    const { pathname: path } = new URL(request.url);
    const { method, headers, credentials: sent } = request;
    this.seen.push({ path, method, headers, body: await request.clone().text(), credentials: sent });
    const planned = this.answers.get(path)?.shift();
    if (planned !== undefined) return planned();
    // Others run meanwhile.
    await new Promise((resolve) => setImmediate(resolve));
    if (path === "/auth/login")
      return this.begin({
        user: ((await request.json()) as { email: string }).email === grace.email ? grace : ada,
      });
    if (path === "/auth/refresh") return this.refresh();
    if (path === "/auth/logout") return this.logout();
    return this.serve(request);
  };

  begin({ user = ada, ...more }: { user?: object; recoveryCodes?: string[] } = {}): Response {
    this.live.delete(this.cookie?.sid ?? "");
    this.#sessions += 1;
    const sid = `session-${this.#sessions}`;
    this.#users.set(sid, user);
    this.cookie = { sid, generation: 1 };
    this.live.set(sid, 1);
    return json(200, { data: { ...this.tokens(), user, ...more } });
  }
  tokens() {
    const { sid, generation } = this.cookie ?? { sid: "", generation: 0 };
    return { accessToken: token(sid, generation), tokenType: "Bearer", expiresIn: 900 };
  }
  refresh(): Response {
    const { cookie } = this;
    if (cookie === undefined || !this.live.has(cookie.sid)) return failure(401, "refresh_token_invalid");
    if (this.live.get(cookie.sid) !== cookie.generation) {
      this.reused += 1;
      this.live.delete(cookie.sid);
      return failure(401, "refresh_token_reused");
    }
    this.refreshes += 1;
    this.cookie = { sid: cookie.sid, generation: cookie.generation + 1 };
    this.live.set(cookie.sid, this.cookie.generation);
    return json(200, { data: this.tokens() });
  }
  logout(): Response {
    if (this.cookie === undefined) return failure(401, "refresh_token_invalid");
    this.live.delete(this.cookie.sid);
    this.cookie = undefined;
    return json(200, { data: {} });
  }
  serve({ headers }: Request): Response {
    const [, sid = "", generation = ""] =
      headers.get("authorization")?.match(/^Bearer e30\.(.+)\.(\d+)$/) ?? [];
    if (sid === "") return failure(401, "token_missing");
    const { sid: session } = JSON.parse(Buffer.from(sid, "base64url").toString());
    if (!this.live.has(session)) return failure(401, "token_invalid");
    return json(200, { data: { user: this.#users.get(session), generation: Number(generation), session } });
  }
  next(path: string, ...answers: (() => Response | Promise<Response>)[]): void {
    this.answers.set(path, answers);
  }
  pathsSeen = () => this.seen.map(({ path }) => path);
}

const token = (sid: string, generation: number) =>
  `e30.${Buffer.from(JSON.stringify({ sid })).toString("base64url")}.${generation}`;
const json = (status: number, body: object) =>
  new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", "gatehouse-answer": "gateway" },
  });
/** Whatever it says: the gateway lets no upstream send its mark. */
const upstreams = (answer: Response) => {
  answer.headers.delete("gatehouse-answer");
  return answer;
};
const pending = {
  ...{ id: "i", state: "pending", current: true, methods: ["totp"] },
  details: { "/amount": 25_000, "/payee": "ACME" },
};
const failure = (status: number, code: string, details?: object) =>
  json(status, {
    success: false,
    message: "No.",
    error: { code, requestId: "r", ...(details && { details }) },
  });

const dataOf = async (response: Response) =>
  ((await response.json()) as { data: Record<string, unknown> }).data;
const codeOf = async (response: Response) =>
  ((await response.json()) as { error: { code: string } }).error.code;

let gateway: FakeGateway;
let answers: { path: string; answer: Response }[];
/** Paths of calls that outlive their page. */
let surviving: string[];
let clock: number;
/** Each test has a browser of its own: names of locks and channels are global. */
let browsers = 0;
let url: string;
const opened: Client[] = [];

beforeEach(() => {
  browsers += 1;
  url = `${URL_OF_GATEWAY}/${browsers}`;
  clock = 1e12;
  gateway = new FakeGateway();
  surviving = [];
  answers = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const path = new URL(request.url).pathname.replace(`/${browsers}/`, "/");
    const { method, headers, credentials: sent } = request;
    if (request.keepalive) surviving.push(path);
    request.signal.throwIfAborted();
    const body = (await request.text()) || null;
    const aborted = new Promise<never>((_resolve, reject) => {
      request.signal.addEventListener("abort", () => reject(request.signal.reason));
    });
    const answer = await Promise.race([
      gateway.fetch(new Request(URL_OF_GATEWAY + path, { method, headers, credentials: sent, body })),
      aborted,
    ]);
    answers.push({ path, answer });
    return answer;
  });
});
afterEach(() => {
  for (const client of opened.splice(0)) client.close();
  vi.unstubAllGlobals();
});

function tab(options: Partial<ClientOptions> = {}): Client {
  const client = createClient({ url, now: () => clock, ...options });
  opened.push(client);
  return client;
}
const expire = () => {
  clock += 15 * 60_000;
};
const endsOf = (client: Client) => {
  const reasons: string[] = [];
  client.onSessionEnd((reason) => reasons.push(reason));
  return reasons;
};

test("a login keeps the token in memory, and calls have it; the refresh token is never asked for", async () => {
  const client = tab();
  expect(await client.login(credentials)).toEqual({ step: "done", user: ada });
  expect(client.user).toEqual(ada);
  const response = await client.fetch("auth/me", { headers: { "x-own": "1" } });
  expect((await dataOf(response)).session).toBe("session-1");
  const [login, me] = gateway.seen;
  expect([login?.headers.get("gatehouse-client"), login?.credentials]).toEqual(["browser", "include"]);
  expect([me?.headers.get("gatehouse-client"), me?.credentials]).toEqual([null, "same-origin"]);
  expect([me?.headers.get("x-own"), me?.headers.get("authorization")]).toEqual([
    "1",
    `Bearer ${token("session-1", 1)}`,
  ]);
});

test.each([
  ["https://evil.example/me", "is not of"],
  ["//evil.example/me", "is not of"],
  ["http://api.example.com/me", "is not of"],
])("the token goes to the gateway only, not to %s", async (address, message) => {
  const client = tab();
  await client.login(credentials);
  await expect(client.fetch(address)).rejects.toThrow(message);
  await expect(client.fetch(new Request(new URL(address, "https://x.example")))).rejects.toThrow(message);
  expect(gateway.pathsSeen()).toEqual(["/auth/login"]);
});

test("what is missing to a login is the next step, and its end begins the session", async () => {
  const client = tab();
  const passkey = { challenge: "AAAA" };
  gateway.next(
    "/auth/login",
    () =>
      json(200, {
        data: { requireMfa: true, tempToken: "t", methods: ["totp"], passkey, trustDeviceDays: 30 },
      }),
    () => json(200, { data: { requirePasswordChange: true, tempToken: "t" } }),
    () => json(200, { data: { requireMfaEnrollment: true, tempToken: "t", methods: ["totp"] } }),
  );
  expect(await client.login(credentials)).toEqual({
    step: "mfa",
    tempToken: "t",
    methods: ["totp"],
    passkey,
    trustDeviceDays: 30,
  });
  expect(await client.login(credentials)).toEqual({ step: "password", tempToken: "t" });
  expect(await client.login(credentials)).toEqual({ step: "enrollment", tempToken: "t", methods: ["totp"] });
  expect(client.user).toBeUndefined();
  gateway.next("/auth/mfa/verify", () => gateway.begin());
  expect(await client.completeMfa({ tempToken: "t", code: "123456" })).toMatchObject({ step: "done" });
  gateway.next("/auth/mfa/enable", () => gateway.begin({ recoveryCodes: ["a"] }));
  expect(await client.completeEnrollment({ tempToken: "t", code: "123456" })).toEqual({
    step: "done",
    user: ada,
    recoveryCodes: ["a"],
  });
  gateway.next("/auth/login/change-password", () => gateway.begin());
  expect(await client.completePasswordChange({ tempToken: "t", newPassword: "new" })).toMatchObject({
    step: "done",
  });
  gateway.next("/auth/oauth/exchange", () => gateway.begin());
  expect(await client.exchangeCode({ code: "c", codeVerifier: "v" })).toMatchObject({ step: "done" });
  for (const { headers } of gateway.seen) expect(headers.get("gatehouse-client")).toBe("browser");
});

test("a login that is refused says why", async () => {
  gateway.next("/auth/login", () => failure(401, "invalid_credentials"));
  const refused = await tab()
    .login(credentials)
    .catch((error: GatehouseError) => error);
  expect(refused).toMatchObject({
    name: "GatehouseError",
    status: 401,
    code: "invalid_credentials",
    requestId: "r",
  });
});

test("an expired token is renewed before the call, and one that the gateway refuses after it, once each", async () => {
  const client = tab();
  await client.login(credentials);
  expire();
  expect((await dataOf(await client.fetch("/me"))).generation).toBe(2);
  gateway.next("/me", () => failure(401, "token_expired"));
  const body = JSON.stringify({ amount: 1 });
  const renewed = await client.fetch("me", { method: "POST", body });
  expect((await dataOf(renewed)).generation).toBe(3);
  const calls = gateway.seen.filter(({ path }) => path === "/me");
  expect(calls.map((call) => call.body)).toEqual(["", body, body]);
  gateway.next(
    "/me",
    () => failure(401, "token_expired"),
    () => failure(401, "token_expired"),
  );
  expect((await client.fetch("me")).status).toBe(401);
  expect(gateway.refreshes).toBe(3);
});

test("many calls of an expired token share one refresh, and one that fails ends nothing", async () => {
  const client = tab();
  const ends = endsOf(client);
  await client.login(credentials);
  expire();
  gateway.next("/auth/refresh", () => Promise.reject(new TypeError("network")));
  const lost = await Promise.allSettled(Array.from({ length: 5 }, () => client.fetch("me")));
  expect(new Set(lost.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  for (const [status, code] of [
    [503, "service_unavailable"],
    [429, "too_many_requests"],
    [403, "origin_not_allowed"],
  ] as const) {
    gateway.next("/auth/refresh", () => failure(status, code));
    await expect(client.fetch("me")).rejects.toMatchObject({ code });
  }
  gateway.next("/auth/refresh", () => {
    const broken = new ReadableStream({ start: (body) => body.error(new TypeError("cut")) });
    return new Response(broken, { headers: { "gatehouse-answer": "gateway" } });
  });
  await expect(client.fetch("me")).rejects.toThrow("cut");
  const responses = await Promise.all(Array.from({ length: 20 }, () => client.fetch("me")));
  expect(responses.every(({ ok }) => ok)).toBe(true);
  expect([gateway.refreshes, ends, client.user]).toEqual([1, [], ada]);
});

test("a refresh that is refused ends the session of all tabs, once", async () => {
  const [here, there] = [tab(), tab()];
  const ends = [endsOf(here), endsOf(there)];
  await here.login(credentials);
  await expect.poll(() => there.user).toEqual(ada);
  gateway.live.clear();
  expect((await here.fetch("me")).status).toBe(401);
  await expect.poll(() => ends).toEqual([["expired"], ["expired"]]);
  expect([here.user, there.user]).toEqual([undefined, undefined]);
  // Nobody asks again on behalf of nobody.
  expect((await here.fetch("me")).status).toBe(401);
  expect(gateway.pathsSeen().filter((path) => path === "/auth/refresh")).toHaveLength(1);
  // A body that nobody reads keeps its connection. Those of its calls are the application's.
  gateway.next(
    "/auth/logout",
    () => failure(409, "conflict"),
    () => failure(401, "token_invalid"),
  );
  await here.login(credentials);
  await here.logout();
  const unread = answers.filter(({ answer }) => !answer.bodyUsed);
  expect(unread.map(({ path }) => path)).toEqual(["/me", "/me"]);
});

test("ten tabs and a hundred expiries: one refresh each, although all call at once", async () => {
  const tabs = Array.from({ length: 10 }, () => tab());
  const ends = tabs.map(endsOf);
  await tabs[0]?.login(credentials);
  for (let round = 1; round <= 100; round += 1) {
    expire();
    const tokens = await Promise.all(
      tabs.map((each) => each.accessToken().then(async (given) => given ?? (await each.resume())?.id)),
    );
    expect(tokens.every((given) => given !== undefined)).toBe(true);
    expect(gateway.refreshes).toBe(round);
  }
  expect([gateway.reused, ends.flat()]).toEqual([0, []]);
});

test("a new tab goes on with the session: with the token of another tab, or by a refresh where there is none", async () => {
  const first = tab();
  await first.login(credentials);
  const second = tab();
  expect(await second.resume()).toEqual(ada);
  expect(gateway.refreshes).toBe(0);
  first.close();
  second.close();
  const third = tab();
  expect(third.user).toBeUndefined();
  expect(await third.resume()).toEqual(ada);
  expect([gateway.refreshes, gateway.pathsSeen().at(-1)]).toEqual([1, "/auth/me"]);
  gateway.cookie = undefined;
  third.close();
  expect(await tab().resume()).toBeUndefined();
});

test("a tab that has the newest token and closes takes nothing with it", async () => {
  const [first, second, third] = [tab(), tab(), tab()];
  const ends = [endsOf(first), endsOf(third)];
  await first.login(credentials);
  await expect.poll(() => [second.user, third.user]).toEqual([ada, ada]);
  expire();
  await second.accessToken();
  await third.accessToken();
  second.close();
  first.close();
  expect(await tab().resume()).toEqual(ada);
  expect(gateway.refreshes).toBe(1);
  // Before anybody has heard of it: somebody refreshes again, with the cookie that is there.
  expire();
  await third.accessToken();
  third.close();
  expect(await tab().resume()).toEqual(ada);
  expect([gateway.reused, ends.flat()]).toEqual([0, []]);
});

test("a logout ends the session of all tabs, and a token that is still under way does not bring it back", async () => {
  const [here, there] = [tab(), tab()];
  const ends = [endsOf(here), endsOf(there)];
  await here.login(credentials);
  await expect.poll(() => there.user).toEqual(ada);
  const stale = new BroadcastChannel(`gatehouse ${url}`);
  await here.logout();
  expect(here.user).toBeUndefined();
  await expect.poll(() => ends).toEqual([["logged_out"], ["logged_out"]]);
  const access = {
    token: token("session-1", 9),
    expiresAtMs: clock + 1e6,
    sessionId: "session-1",
    epoch: 99,
  };
  stale.postMessage({ kind: "token", access, user: ada });
  stale.postMessage({ kind: "ask", after: 0 });
  stale.close();
  await there.resume();
  expect([here.user, there.user]).toEqual([undefined, undefined]);
  const [, logout] = gateway.seen;
  expect([logout?.path, logout?.body, logout?.headers.get("gatehouse-client")]).toEqual([
    "/auth/logout",
    '{"scope":"session"}',
    "browser",
  ]);
});

test("a logout that does not get through ends nothing and can be repeated; the others can be ended alone", async () => {
  const client = tab();
  await client.login(credentials);
  gateway.next(
    "/auth/logout",
    () => failure(503, "service_unavailable"),
    () => json(200, { data: {} }),
  );
  await expect(client.logout()).rejects.toMatchObject({ code: "service_unavailable" });
  await client.logout("others");
  expect(client.user).toEqual(ada);
  await client.logout();
  expect(client.user).toBeUndefined();
});

test("a login in another tab replaces a session that is another one, and gives its session to tabs without any", async () => {
  const [here, there] = [tab(), tab()];
  const idle = tab();
  const ends = [endsOf(here), endsOf(there), endsOf(idle)];
  await here.login(credentials);
  await expect.poll(() => [there.user, idle.user]).toEqual([ada, ada]);
  await there.login(credentials);
  await expect.poll(() => ends).toEqual([["replaced"], ["replaced"], ["replaced"]]);
  expect([here.user, there.user]).toEqual([undefined, ada]);
  expect((await dataOf(await there.fetch("me"))).session).toBe("session-2");
  expect(await here.resume()).toEqual(ada);
});

test("a login waits for a refresh that is under way: its refusal would take the new cookie along", async () => {
  const [here, there] = [tab(), tab()];
  await here.login(credentials);
  await expect.poll(() => there.user).toEqual(ada);
  expire();
  const refused = Promise.withResolvers<Response>();
  gateway.next("/auth/refresh", () => refused.promise);
  const refreshing = there.accessToken();
  await expect.poll(() => gateway.pathsSeen().at(-1)).toBe("/auth/refresh");
  const entering = here.login(credentials);
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(gateway.pathsSeen()).toEqual(["/auth/login", "/auth/refresh"]);
  refused.resolve(failure(401, "refresh_token_invalid"));
  expect([await refreshing, await entering]).toEqual([undefined, { step: "done", user: ada }]);
  expect(here.user).toEqual(ada);
});

test("a refresh that brings another session ends this tab's instead of changing who it acts for", async () => {
  const client = tab();
  const ends = endsOf(client);
  await client.login(credentials);
  // Of a tab without messages.
  gateway.begin();
  expire();
  expect((await client.fetch("me")).status).toBe(401);
  expect(ends).toEqual(["replaced"]);
});

/** Who has sent what to a path. */
const sentTo = (wanted: string) =>
  gateway.seen
    .filter(({ path }) => path === wanted)
    .map(({ headers }) => headers.get("authorization")?.replace("Bearer ", "") ?? "nobody");
const asGrace = { email: grace.email, password: "correct horse battery" };

test("a page whose session has ended takes the next person's only when it resumes, and sends nothing for them before", async () => {
  const [here, there] = [tab(), tab()];
  const users: unknown[] = [];
  await here.login(credentials);
  here.onChange((user) => users.push(user));
  await there.login(asGrace);
  await expect.poll(() => users).toEqual([undefined]);
  // The next person's tokens go round.
  expire();
  await there.accessToken();
  await new Promise((heard) => setTimeout(heard, 100));
  const answer = await here.fetch("pay", { method: "POST", body: "ada's" });
  expect([answer.status, sentTo("/pay"), users, await here.accessToken()]).toEqual([
    401,
    ["nobody"],
    [undefined],
    undefined,
  ]);
  // Whoever presses "log out" on that page ends nobody's session.
  await here.logout();
  expect(gateway.pathsSeen()).not.toContain("/auth/logout");
  expect(await here.resume()).toEqual(grace);
  expect(there.user).toEqual(grace);
});

test("a page that has not heard of a login ends its own session when it catches up, and does not refresh the other one", async () => {
  const first = tab();
  await first.login(credentials);
  let isDeaf = false;
  vi.stubGlobal(
    "BroadcastChannel",
    class extends BroadcastChannel {
      constructor(name: string) {
        super(name);
        this.addEventListener("message", (event) => isDeaf && event.stopImmediatePropagation());
      }
    },
  );
  const here = tab();
  expect(await here.resume()).toEqual(ada);
  const ends = endsOf(here);
  isDeaf = true;
  await first.login(asGrace);
  await new Promise((passed) => setTimeout(passed, 100));
  isDeaf = false;
  expect(here.user).toEqual(ada);
  expire();
  expect([await here.accessToken(), ends, here.user]).toEqual([undefined, ["replaced"], undefined]);
  expect(gateway.refreshes).toBe(0);
});

test.each(["step-up", "approval"])(
  "a call that waits for its %s is not repeated as the next person",
  async (what) => {
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<{ code: string }>();
    const ask = () => {
      asked.resolve();
      return answered.promise;
    };
    const [here, there] = [tab({ onStepUp: ask, onApproval: ask }), tab()];
    await here.login(credentials);
    const approval = { id: "i", token: "a" };
    gateway.next("/auth/me/approvals/i", () => json(200, { data: { approval: pending } }));
    gateway.next("/pay", () =>
      what === "step-up"
        ? failure(401, "step_up_required", demand)
        : failure(403, "approval_required", { approval }),
    );
    gateway.next("/auth/step-up", () => json(200, { data: { stepUpToken: "s", methods: ["totp"] } }));
    const paying = here.fetch("pay", { method: "POST", body: "ada's" });
    await asked.promise;
    const ends = endsOf(here);
    await there.login(asGrace);
    await expect.poll(() => ends).toEqual(["replaced"]);
    // The next person has the page by now.
    expect(await here.resume()).toEqual(grace);
    answered.resolve({ code: "123456" });
    await expect(paying).rejects.toMatchObject({ code: "token_missing" });
    expect([sentTo("/pay"), sentTo("/auth/step-up/verify"), sentTo("/auth/approvals/verify")]).toEqual([
      [token("session-1", 1)],
      [],
      [],
    ]);
  },
);

test.each([
  ["step-up", "/auth/step-up/verify"],
  ["approval", "/auth/approvals/verify"],
])("a call whose %s was accepted when its session had just ended is not repeated", async (what, verify) => {
  const prove = async () => ({ code: "123456" });
  const [here, there] = [tab({ onStepUp: prove, onApproval: prove }), tab()];
  await here.login(credentials);
  const approval = { id: "i", token: "a" };
  gateway.next("/auth/me/approvals/i", () => json(200, { data: { approval: pending } }));
  gateway.next("/pay", () =>
    what === "step-up"
      ? failure(401, "step_up_required", demand)
      : failure(403, "approval_required", { approval }),
  );
  gateway.next("/auth/step-up", () => json(200, { data: { stepUpToken: "s", methods: ["totp"] } }));
  gateway.next(verify, async () => {
    await there.login(asGrace);
    await expect.poll(() => here.user).toBeUndefined();
    expect(await here.resume()).toEqual(grace);
    return json(200, { data: { accessToken: token("session-1", 7), expiresIn: 900 } });
  });
  const answer = await here.fetch("pay", { method: "POST", body: "ada's" });
  expect([answer.ok, sentTo("/pay"), here.user]).toEqual([false, [token("session-1", 1)], grace]);
});

test("a call whose token is refused is not repeated with the token of the session that has replaced its own", async () => {
  const [here, there] = [tab(), tab()];
  await here.login(credentials);
  const refused = Promise.withResolvers<Response>();
  gateway.next("/pay", () => refused.promise);
  const paying = here.fetch("pay", { method: "POST", body: "ada's" });
  await expect.poll(() => sentTo("/pay")).toHaveLength(1);
  await there.login(asGrace);
  await expect.poll(() => here.user).toBeUndefined();
  expect(await here.resume()).toEqual(grace);
  refused.resolve(failure(401, "token_invalid"));
  expect([(await paying).status, sentTo("/pay")]).toEqual([401, [token("session-1", 1)]]);
});

test("a login on a page that has a session ends that one for the page, too", async () => {
  const client = tab();
  const ends = endsOf(client);
  await client.login(credentials);
  await client.login(credentials);
  await client.login(asGrace);
  expect([ends, client.user]).toEqual([["replaced", "replaced"], grace]);
  expect((await dataOf(await client.fetch("me"))).session).toBe("session-3");
});

test("a logout waits for no other tab, and is sent although its page is left in the next moment", async () => {
  const [here, there] = [tab(), tab()];
  await here.login(credentials);
  await expect.poll(() => there.user).toEqual(ada);
  const held = Promise.withResolvers<Response>();
  gateway.next("/auth/login", () => held.promise);
  const entering = there.login(asGrace).catch((error: GatehouseError) => error.code);
  await expect.poll(() => gateway.pathsSeen()).toHaveLength(2);
  await here.logout();
  expect([gateway.pathsSeen().at(-1), surviving]).toEqual(["/auth/logout", ["/auth/logout"]]);
  held.resolve(failure(401, "invalid_credentials"));
  expect(await entering).toBe("invalid_credentials");
});

test("a logout with an expired token does not end the session of whoever has logged in since", async () => {
  const client = tab();
  const ends = endsOf(client);
  await client.login(credentials);
  gateway.begin({ user: grace });
  expire();
  await client.logout();
  expect([ends, gateway.pathsSeen(), [...gateway.live.keys()]]).toEqual([
    ["replaced"],
    ["/auth/login", "/auth/refresh"],
    ["session-2"],
  ]);
});

test("a logout of a replaced session ends that one, and not the cookie's", async () => {
  const client = tab();
  await client.login(credentials);
  gateway.next(
    "/auth/logout",
    () => failure(409, "conflict"),
    () => json(200, { data: {} }),
  );
  await client.logout();
  const [, first, second] = gateway.seen;
  expect([first?.headers.get("gatehouse-client"), second?.headers.get("gatehouse-client")]).toEqual([
    "browser",
    null,
  ]);
  expect([second?.credentials, second?.headers.get("authorization")]).toEqual([
    "omit",
    `Bearer ${token("session-1", 1)}`,
  ]);
});

const demand = { acr: 2, maxAgeSeconds: 300, methods: ["totp"] };

test("a step-up is asked for once for all calls that need it, a wrong code is asked for again, and the calls go on", async () => {
  const asked: object[] = [];
  const codes = ["000000", "123456"];
  const client = tab({
    onStepUp: async (request) => {
      asked.push(request);
      return { code: codes.shift() ?? "" };
    },
  });
  await client.login(credentials);
  const refused = () => failure(401, "step_up_required", demand);
  gateway.next("/pay", refused, refused);
  gateway.next("/auth/step-up", () =>
    json(200, { data: { stepUpToken: "s", methods: ["totp"], expiresIn: 300 } }),
  );
  gateway.next(
    "/auth/step-up/verify",
    () => failure(401, "mfa_code_invalid"),
    () => json(200, { data: { accessToken: token("session-1", 7), expiresIn: 900, acr: 2 } }),
  );
  const responses = await Promise.all(
    [1, 2].map((amount) => client.fetch("pay", { method: "POST", body: `${amount}` })),
  );
  expect(responses.map(({ status }) => status)).toEqual([200, 200]);
  expect(asked).toEqual([
    { ...demand, hasPasskey: false, over: expect.any(Promise) },
    { ...demand, hasPasskey: false, problem: "mfa_code_invalid", over: expect.any(Promise) },
  ]);
  const paid = gateway.seen.filter(({ path }) => path === "/pay").slice(2);
  expect(paid.map(({ headers }) => headers.get("authorization"))).toEqual(
    Array(2).fill(`Bearer ${token("session-1", 7)}`),
  );
  expect(paid.map(({ body }) => body).sort()).toEqual(["1", "2"]);
});

test("the time in which an answer must come does not run while the user looks for a proof", async () => {
  const timeoutMs = 12_345;
  const begun: AbortController[] = [];
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  const signals = vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    if (ms !== timeoutMs) return timeout(ms);
    const deadline = new AbortController();
    begun.push(deadline);
    return deadline.signal;
  });
  onTestFinished(() => signals.mockRestore());
  /** Ends each time that has begun. */
  const pass = () => {
    for (const deadline of begun) deadline.abort(new DOMException("late", "TimeoutError"));
  };
  const client = tab({
    onStepUp: async () => {
      pass();
      return { code: "123456" };
    },
  });
  await client.login(credentials);
  gateway.next("/pay", () => failure(401, "step_up_required", demand));
  gateway.next("/auth/step-up", () => json(200, { data: { stepUpToken: "s", methods: ["totp"] } }));
  gateway.next("/auth/step-up/verify", () =>
    json(200, { data: { accessToken: token("session-1", 7), expiresIn: 900, acr: 2 } }),
  );
  expect((await client.fetch("pay", { timeoutMs })).status).toBe(200);
  gateway.next("/pay", () => {
    pass();
    return new Promise(() => undefined);
  });
  await expect(client.fetch("pay", { timeoutMs })).rejects.toMatchObject({ name: "TimeoutError" });
});

test("a call that needs a higher level asks after the one that needs less; an application may ask the authenticator itself", async () => {
  const levels: number[] = [];
  const over: string[] = [];
  const passkey = { challenge: "AAAA" };
  const client = tab({
    onStepUp: async ({ acr, hasPasskey, passkey: options, over: end }) => {
      levels.push(acr);
      void end.then(() => over.push(`${acr}`));
      expect([hasPasskey, options]).toEqual([true, passkey]);
      return { passkey: { id: "own" } };
    },
  });
  await client.login(credentials);
  for (const [path, acr] of [
    ["/low", 1],
    ["/high", 2],
  ] as const)
    gateway.next(path, () => failure(401, "step_up_required", { acr }));
  const offer = () => json(200, { data: { stepUpToken: "s", methods: ["passkey"], passkey } });
  gateway.next("/auth/step-up", offer, offer);
  const raised = () => json(200, { data: { accessToken: token("session-1", 7), expiresIn: 900 } });
  gateway.next("/auth/step-up/verify", raised, raised);
  const answers = await Promise.all([client.fetch("low"), client.fetch("high")]);
  expect([answers.map(({ status }) => status), levels, over]).toEqual([
    [200, 200],
    [1, 2],
    ["1", "2"],
  ]);
  const proofs = gateway.seen.filter(({ path }) => path === "/auth/step-up/verify").map(({ body }) => body);
  expect(proofs).toEqual(Array(2).fill('{"stepUpToken":"s","passkey":{"id":"own"}}'));
});

test("who gives up a step-up, or an application that asks for none, gets the refusal", async () => {
  for (const options of [{}, { onStepUp: async () => null }]) {
    const client = tab(options);
    await client.login(credentials);
    gateway.next("/pay", () => failure(401, "step_up_required", demand));
    gateway.next("/auth/step-up", () => json(200, { data: { stepUpToken: "s", methods: ["totp"] } }));
    const response = await client.fetch("pay");
    expect([response.status, await codeOf(response)]).toEqual([401, "step_up_required"]);
  }
});

test("a quiet call asks for nothing, with the gateway's refusal as its answer, and still renews its token", async () => {
  const asked: object[] = [];
  const onAsked = async (request: object) => {
    asked.push(request);
    return null;
  };
  const client = tab({ onStepUp: onAsked, onApproval: onAsked });
  await client.login(credentials);
  expire();
  gateway.next("/list", () => failure(401, "step_up_required", demand));
  const response = await client.fetch("list", { isQuiet: true });
  expect([response.status, await codeOf(response)]).toEqual([401, "step_up_required"]);
  expect([gateway.refreshes, asked]).toEqual([1, []]);
});

test("an approval shows what it is for, and the call is repeated with it, with the same body", async () => {
  const asked: object[] = [];
  const client = tab({
    onApproval: async (request) => {
      asked.push(request);
      return { code: "123456" };
    },
  });
  await client.login(credentials);
  const { details } = pending;
  const claimed = { details: { "/amount": 0 }, methods: ["passkey"], passkey: { challenge: "other" } };
  const approval = { id: "i", token: "a", expiresIn: 300, ...claimed };
  gateway.next("/auth/me/approvals/i", () => json(200, { data: { approval: pending } }));
  gateway.next("/payments", () => failure(403, "approval_required", { approval }));
  gateway.next("/auth/approvals/verify", () => json(200, { data: { approvalId: "i" } }));
  const response = await client.fetch("payments", { method: "POST", body: '{"amount":25000}' });
  expect(response.status).toBe(200);
  expect(asked).toEqual([{ methods: ["totp"], hasPasskey: false, details, over: expect.any(Promise) }]);
  const [first, second] = gateway.seen.filter(({ path }) => path === "/payments");
  expect([first?.headers.get("gatehouse-approval"), second?.headers.get("gatehouse-approval")]).toEqual([
    null,
    "a",
  ]);
  expect(second?.body).toBe(first?.body);
  expect(gateway.seen.find(({ path }) => path === "/auth/approvals/verify")?.body).toBe(
    '{"approvalId":"i","code":"123456"}',
  );
});

test("the passkey of an approval is asked by the options that the gateway answers for it", async () => {
  const asked: (object | undefined)[] = [];
  const client = tab({
    onApproval: async ({ passkey }) => {
      asked.push(passkey);
      return { passkey: { id: "answer" } };
    },
  });
  await client.login(credentials);
  const [mine, other] = [{ challenge: "mine" }, { challenge: "other" }];
  gateway.next("/payments", () =>
    failure(403, "approval_required", { approval: { id: "i", token: "a", passkey: other } }),
  );
  gateway.next("/auth/me/approvals/i", () =>
    json(200, { data: { approval: { ...pending, passkey: mine } } }),
  );
  gateway.next("/auth/approvals/verify", () => json(200, { data: { approvalId: "i" } }));
  expect((await client.fetch("payments", { method: "POST", body: "{}" })).status).toBe(200);
  expect(asked).toEqual([mine]);
});

test.each<[string, object]>([
  ["of another session", { current: false }],
  ["already refused", { state: "refused" }],
  ["already given", { state: "given" }],
  ["another one", { id: "j" }],
])("an approval that is %s is neither shown nor given", async (_what, differs) => {
  const asked: object[] = [];
  const client = tab({
    onApproval: async (request) => {
      asked.push(request);
      return { code: "123456" };
    },
  });
  await client.login(credentials);
  gateway.next("/payments", () =>
    failure(403, "approval_required", { approval: { ...pending, token: "a" } }),
  );
  gateway.next("/auth/me/approvals/i", () => json(200, { data: { approval: { ...pending, ...differs } } }));
  const response = await client.fetch("payments", { method: "POST", body: "{}" });
  expect([response.status, await codeOf(response), asked]).toEqual([403, "approval_required", []]);
  expect(gateway.pathsSeen()).not.toContain("/auth/approvals/verify");
});

test.each<[number, string, object | undefined]>([
  [403, "approval_required", { approval: { token: "t", ...pending } }],
  [401, "step_up_required", { acr: 2, methods: ["totp"] }],
  [401, "token_expired", undefined],
  [401, "token_invalid", undefined],
])(
  "an upstream's %i %s is its own: the application gets it, and nothing is asked or done",
  async (status, code, details) => {
    const asked: object[] = [];
    const ask = async (request: object) => {
      asked.push(request);
      return { code: "123456" };
    };
    const client = tab({ onStepUp: ask, onApproval: ask });
    await client.login(credentials);
    const before = gateway.seen.length;
    gateway.next("/newsletter", () => upstreams(failure(status, code, details)));
    const response = await client.fetch("newsletter", { method: "POST", body: "{}" });
    expect([response.status, await codeOf(response)]).toEqual([status, code]);
    expect([asked, gateway.pathsSeen().slice(before), client.user]).toEqual([[], ["/newsletter"], ada]);
  },
);

test("an answer that is not the gateway's begins no session and ends none", async () => {
  const client = tab();
  gateway.next("/shop/login", () => upstreams(json(200, { data: { ...gateway.tokens(), user: grace } })));
  await expect(client.step("/shop/login", {})).rejects.toMatchObject({ status: 200, code: "" });
  expect(client.user).toBeUndefined();
  await client.login(credentials);
  const ends = endsOf(client);
  expire();
  gateway.next("/auth/refresh", () => upstreams(failure(401, "refresh_token_invalid")));
  await expect(client.fetch("me")).rejects.toMatchObject({ status: 401, code: "" });
  expect([ends, client.user]).toEqual([[], ada]);
});

test("with a token no redirect is followed; a call without one, and an application's own choice, stay as they are", async () => {
  const seen: string[] = [];
  const { fetch: send } = globalThis;
  vi.stubGlobal("fetch", (request: Request) => {
    if (request.url.endsWith("/me")) seen.push(request.redirect);
    return send(request);
  });
  const client = tab();
  await client.fetch("me");
  await client.login(credentials);
  await client.fetch("me");
  await client.fetch("me", { redirect: "manual" });
  expect(seen).toEqual(["follow", "error", "manual"]);
});

test("without Web Locks a race of tabs is one refresh in most cases, and never a logout while the gateway forgives it", async () => {
  vi.stubGlobal("navigator", {});
  const tabs = Array.from({ length: 3 }, () => tab());
  const ends = tabs.map(endsOf);
  await tabs[0]?.login(credentials);
  await expect.poll(() => tabs.map(({ user }) => user)).toEqual([ada, ada, ada]);
  for (let round = 0; round < 3; round += 1) {
    expire();
    const tokens = await Promise.all(tabs.map((each) => each.accessToken()));
    expect(tokens.every((given) => given !== undefined)).toBe(true);
  }
  expect([ends.flat(), gateway.reused]).toEqual([[], 0]);
});

test("without BroadcastChannel a tab has its own token, and the lock keeps refreshes apart", async () => {
  vi.stubGlobal("BroadcastChannel", undefined);
  const [here, there] = [tab(), tab()];
  await here.login(credentials);
  expect(await there.resume()).toEqual(ada);
  expire();
  await Promise.all([here.fetch("me"), there.fetch("me")]);
  expect([gateway.refreshes, gateway.reused]).toEqual([3, 0]);
});
