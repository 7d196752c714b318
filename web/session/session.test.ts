import { beforeEach, expect, test, vi } from "vitest";
import type { BrowserSession } from "#clients/browser/browser-session.ts";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import type { Proof, StepUpRequest } from "#clients/browser/proofs.ts";
import type { EndReason } from "#clients/browser/tabs.ts";
import { Session } from "./session.ts";

const HINT = "a=b; __Host-gatehouse-refresh-hint=1";
let cookies: { cookie: string };

beforeEach(() => {
  cookies = { cookie: HINT };
  vi.stubGlobal("document", cookies);
  const stored = new Map<string, string>();
  for (const name of ["localStorage", "sessionStorage"])
    vi.stubGlobal(name, {
      getItem: (key: string) => stored.get(key) ?? null,
      setItem: (key: string, value: string) => stored.set(key, value),
      removeItem: (key: string) => stored.delete(key),
    });
  return () => vi.unstubAllGlobals();
});

/** No other server sets the header. */
const headers = { "gatehouse-answer": "gateway" };
const answer = (data: unknown) => Response.json({ success: true, data }, { headers });

/** The library's part, which has tests of its own. */
function connected({ fetch = async () => answer({}), ...rest }: Partial<BrowserSession> = {}) {
  const sent: string[] = [];
  let reloads = 0;
  let ask: (request: StepUpRequest) => Promise<Proof> = () => Promise.reject(new Error("not connected"));
  let end: (reason: EndReason) => void = () => undefined;
  const absent = () => Promise.reject(new Error("not part of this test"));
  const client: BrowserSession = {
    user: undefined,
    resume: absent,
    join: absent,
    step: absent,
    logout: absent,
    accessToken: absent,
    raise: () => undefined,
    onChange: () => () => undefined,
    onSessionEnd: (listener) => {
      end = listener;
      return () => undefined;
    },
    close: () => undefined,
    fetch: (input, init) => {
      sent.push(String(input));
      return fetch(input, init);
    },
    ...rest,
  };
  const session = new Session(
    (onStepUp) => {
      ask = onStepUp;
      return client;
    },
    () => {
      reloads += 1;
    },
  );
  return {
    session,
    sent,
    ask: (request: Partial<StepUpRequest>) =>
      ask({ acr: 1, methods: ["totp"], hasPasskey: false, over: new Promise(() => undefined), ...request }),
    end: (reason: EndReason) => end(reason),
    reloads: () => reloads,
  };
}
const codeOf = (error: unknown) => (error as GatehouseError).code;

test("the dialog of a proof stays until the library says that it is over, and shows what was wrong", async () => {
  const { session, ask } = connected();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const first = ask({ over });
  const proving = session.stepUp?.prove({ password: "wrong" });
  expect(await first).toEqual({ password: "wrong" });
  const second = ask({ over, problem: "invalid_credentials" });
  await expect(proving).rejects.toMatchObject({ code: "wrong_password" });
  const again = session.stepUp?.prove({ code: "123456" });
  expect(await second).toEqual({ code: "123456" });
  expect(session.stepUp).toBeDefined();
  end();
  await again;
  expect(session.stepUp).toBeUndefined();
});

test("who cancels the proof has cancelled the calls that wait for it", async () => {
  const refusal = { success: false, error: { code: "step_up_required", details: { acr: 2 } } };
  const { session, ask } = connected({ fetch: async () => Response.json(refusal, { status: 401, headers }) });
  const asked = ask({});
  session.stepUp?.cancel();
  expect(await asked).toBeNull();
  expect(await session.call("GET /auth/me").catch(codeOf)).toBe("cancelled");
});

test("whoever takes long over a proof is not told that the server cannot be reached", async () => {
  const deadlines: unknown[] = [];
  const { session } = connected({
    fetch: async (_path, init) => {
      deadlines.push([init?.signal, init?.timeoutMs]);
      return answer({});
    },
  });
  await session.call("GET /auth/sessions");
  expect(deadlines).toEqual([[undefined, 20_000]]);
});

test("a call that nobody has begun asks for no proof, and keeps its refusal", async () => {
  const refusal = { success: false, error: { code: "step_up_required", details: { acr: 2 } } };
  const quiet: unknown[] = [];
  const { session } = connected({
    fetch: async (_path, init) => {
      quiet.push(init?.isQuiet);
      return Response.json(refusal, { status: 401, headers });
    },
  });
  expect(await session.quietCall("GET /auth/me").catch(codeOf)).toBe("step_up_required");
  await session.call("GET /auth/me").catch(codeOf);
  expect(quiet).toEqual([true, undefined]);
});

test.each(["logged_out", "expired", "replaced"] as const)(
  "after an end (%s) nothing that was begun before goes on, and the next person's calls do",
  async (reason) => {
    const { session, sent, ask, end, reloads } = connected({
      fetch: async () => answer({ user: {}, permissions: [] }),
    });
    await session.load();
    const { call, fetch } = session;
    const asked = ask({});
    end(reason);
    expect([session.account, await asked, reloads()]).toEqual([
      undefined,
      null,
      reason === "replaced" ? 1 : 0,
    ]);
    await session.load();
    expect(session.account).toBeDefined();
    expect(await call("POST /auth/mfa/setup", { body: {} }).catch(codeOf)).toBe("cancelled");
    expect(await fetch("/pay", {}).catch(codeOf)).toBe("cancelled");
    await session.call("GET /auth/sessions");
    expect(sent).toEqual(["/auth/me", "/auth/me", "/auth/sessions"]);
  },
);

test("what was asked about one person is not shown to the next", async () => {
  const late = Promise.withResolvers<Response>();
  const { session, end } = connected({ fetch: () => late.promise });
  const loading = session.load();
  end("expired");
  late.resolve(answer({ user: { email: "ada@example.com" }, permissions: [] }));
  await loading;
  expect(session.account).toBeUndefined();
});

test("what was typed when the session ended is held for the same person, for a time, and calls nothing", async () => {
  vi.useFakeTimers();
  let id = "ada";
  const { session, sent, end, reloads } = connected({
    fetch: async () => answer({ user: { id }, permissions: [] }),
    join: async () => true,
  });
  const logInElsewhere = (who: string) => {
    id = who;
    cookies.cookie = HINT;
    return session.goOn();
  };
  const beginTyping = async () => {
    id = "ada";
    await session.load();
    session.hasTyped = () => true;
    cookies.cookie = "";
    end("expired");
    expect(session.isHeld).toBe(true);
  };
  await beginTyping();
  expect(await session.goOn()).toBe(false);
  const before = sent.length;
  expect(await session.call("GET /auth/sessions").catch(codeOf)).toBe("held");
  expect(sent).toHaveLength(before);
  expect(await logInElsewhere("ada")).toBe(true);
  expect([session.isHeld, session.ending, session.account?.user.id]).toEqual([false, undefined, "ada"]);
  await session.call("GET /auth/sessions");

  await beginTyping();
  expect(await logInElsewhere("grace")).toBe(false);
  expect([session.isHeld, session.account, reloads()]).toEqual([false, undefined, 1]);

  await beginTyping();
  vi.advanceTimersByTime(10 * 60_000);
  expect([session.isHeld, session.account, session.ending]).toEqual([false, undefined, "expired"]);
  expect(await logInElsewhere("ada")).toBe(false);

  // Who logs out, here or in another tab, leaves nothing.
  await session.load();
  end("logged_out");
  expect([session.isHeld, session.account, session.ending]).toEqual([false, undefined, "loggedOut"]);
  vi.useRealTimers();
  // The console's login is another document. The next one says nothing of it any more.
  expect([connected().session.ending, connected().session.ending]).toEqual(["loggedOut", undefined]);
});

test("what is shown once stays when the session ends, and is not covered until the person leaves it", async () => {
  vi.useFakeTimers();
  const { session, end } = connected({ fetch: async () => answer({ user: {}, permissions: [] }) });
  await session.load();
  const leave = session.showOnce();
  end("expired");
  vi.advanceTimersByTime(25 * 60_000);
  expect([session.isHeld, session.isCovered]).toEqual([true, false]);
  leave();
  expect([session.isHeld, session.isCovered]).toEqual([true, true]);
  vi.advanceTimersByTime(10 * 60_000);
  expect([session.isHeld, session.ending]).toEqual([false, "expired"]);

  // Who logs out, here or in another tab, leaves it.
  await session.load();
  session.showOnce();
  end("logged_out");
  expect([session.isHeld, session.ending]).toEqual([false, "loggedOut"]);
  vi.useRealTimers();
});

test("the other tabs of who has deleted the account say so, and hold nothing; those of the next person do not", async () => {
  let id = "ada";
  const fetch = async () => answer({ user: { id }, permissions: [] });
  const [here, other] = [connected({ fetch }), connected({ fetch })];
  for (const { session } of [here, other]) await session.load();
  other.session.hasTyped = () => true;
  here.session.forget("deleted");
  other.end("expired");
  expect([other.session.ending, other.session.isHeld]).toEqual(["deleted", false]);
  id = "grace";
  await other.session.load();
  other.session.hasTyped = () => false;
  other.end("expired");
  expect(other.session.ending).toBe("expired");
});

test("a login of this page itself does not load it anew", async () => {
  const { session, end, reloads } = connected({
    step: async <T extends object>() => {
      end("replaced");
      return {} as T;
    },
  });
  await session.step("POST /auth/oauth/exchange", { body: { code: "c", codeVerifier: "v" } });
  expect(reloads()).toBe(0);
  end("replaced");
  expect(reloads()).toBe(1);
});

test("a page asks for a session only where the browser may have one", async () => {
  let joined = 0;
  let isThere = false;
  const { session } = connected({
    fetch: async () => answer({ user: {}, permissions: [] }),
    join: async () => {
      joined += 1;
      return isThere;
    },
  });
  for (const cookie of ["", "__Host-gatehouse-refresh-hint=", "x__Host-gatehouse-refresh-hint=1"]) {
    cookies.cookie = cookie;
    await session.resume();
  }
  expect(joined).toBe(0);
  cookies.cookie = HINT;
  await session.resume();
  expect([joined, session.account]).toEqual([1, undefined]);
  isThere = true;
  await session.resume();
  expect([joined, session.account !== undefined]).toEqual([2, true]);
});

test("what fails without an answer is offline; an answer of the gateway says more", async () => {
  const lost = () => Promise.reject(new TypeError("Failed to fetch"));
  const refused = () => Promise.reject(new GatehouseError(401, { code: "invalid_credentials" }));
  const { session } = connected({ step: lost, logout: lost, join: lost, fetch: lost });
  const codes = [
    session.step("POST /auth/login", { body: { email: "a@example.com", password: "p" } }),
    session.logout("session"),
    session.resume(),
    session.call("GET /auth/me"),
    connected({ step: refused }).session.step("POST /auth/login", {
      body: { email: "a@example.com", password: "p" },
    }),
  ].map((call) => call.then(() => "", codeOf));
  expect(await Promise.all(codes)).toEqual([
    "offline",
    "offline",
    "offline",
    "offline",
    "invalid_credentials",
  ]);
});
