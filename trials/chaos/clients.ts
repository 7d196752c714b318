import { createHash, randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { generateSync } from "otplib";
import { Agent, fetch } from "undici";
import type { Call, CallKind, Leaf } from "./history.ts";

const ANSWER_TIMEOUT_MS = 6_000;
const PAUSE_MS = 15;
const PAUSE_AFTER_FAILURE_MS = 100;
/** Less than a user's 20, of which one more ends the oldest: a login without an answer may have begun a session. */
const LOGINS_OF_USER = 12;
const GHOSTS_MAX = 300;
/** The mail of a sender that was killed comes after its lease, in minutes: another user asks for another one. */
const MAIL_PATIENCE_MS = 30_000;
const PARALLEL_USES = 3;
const CODES_USED = 8;
/** A step of TOTP: a code of the enrolment is not good for an approval as well, so approvals take recovery codes. */
const PASSWORD = "correct horse battery";
const NEW_PASSWORD = "another horse battery";

/** What all clients of a run share. */
export interface World {
  /** Of the gateways. */
  urls: readonly string[];
  random: () => number;
  calls: Call[];
  signal: AbortSignal;
  /** The token of the newest mail to an address with a reset link. */
  resetToken(email: string): string | undefined;
  /** So that the credentials count as proven, and a second factor can be set up. */
  proveAddress(userId: string): Promise<void>;
  /** @returns where the provider sends the browser then. */
  logInAtProvider(page: URL): Promise<URL>;
  /** Sessions that their clients have left, most of them ended. */
  ghosts: Session[];
}

export interface Session {
  userId: string;
  sessionId: string;
  accessToken: string;
  refreshToken: string;
  /** Refresh tokens that were exchanged, oldest first. */
  spent: string[];
}

interface User {
  email: string;
  password: string;
  userId: string;
}

interface Wanted extends Pick<Call, "kind" | "userId"> {
  method: "GET" | "POST" | "PATCH";
  path: string;
  token?: string;
  body?: unknown;
  headers?: Record<string, string>;
  noted?: Partial<Call>;
}

interface Made {
  call: Call;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the API sent
  body: any;
  location?: URL;
  /** Used for the next call. */
  cookie?: string;
}

const agent = new Agent({ connections: 64 });

const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
    sub: string;
    sid: string;
    gen: number;
  };
/** What a one-time code is bound to (RFC 7636). */
const challengeOf = (verifier: string) => createHash("sha256").update(verifier).digest("base64url");
const leafOf = (token: string): Leaf => {
  const { sid, gen } = claimsOf(token);
  return { sessionId: sid, generation: gen, claims: token.split(".")[1] ?? "" };
};
const isSuccess = ({ call: { answer } }: Made) =>
  answer !== undefined && answer.status < 400 && answer.code === undefined;
/** Answered, and not "try again". */
const isDecided = ({ call }: Made) => (call.answer?.status ?? 500) < 500;

/** Makes one call at one of the gateways, and notes it. */
async function make(world: World, wanted: Wanted): Promise<Made> {
  const { kind, userId, method, path, token, body, headers, noted } = wanted;
  const traceId = randomBytes(16).toString("hex");
  const url = world.urls[Math.floor(world.random() * world.urls.length)] ?? "";
  const call: Call = {
    traceId,
    kind,
    userId,
    ...(token === undefined ? {} : { sessionId: claimsOf(token).sid }),
    ...noted,
    startMs: performance.now(),
    endMs: 0,
  };
  const made: Made = { call, body: undefined };
  try {
    const response = await fetch(url + path, {
      method,
      redirect: "manual",
      dispatcher: agent,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        // What a client says of itself must reach nobody.
        ...(world.random() < 0.3 ? { "x-user-id": randomUUID(), "x-session-id": randomUUID() } : {}),
        traceparent: `00-${traceId}-${traceId.slice(0, 16)}-01`,
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const text = await response.text();
    const location = response.headers.get("location");
    if (location !== null) made.location = new URL(location, url);
    made.cookie = response.headers
      .getSetCookie()
      .map((line) => line.split(";")[0])
      .join("; ");
    if (response.headers.get("content-type")?.startsWith("application/json")) made.body = JSON.parse(text);
    const redirected = new URLSearchParams(made.location?.hash.slice(1)).get("error") ?? undefined;
    const code = (made.body?.error?.code as string | undefined) ?? redirected;
    call.answer = {
      status: response.status,
      requestId: response.headers.get("x-request-id") ?? "",
      ...(code === undefined ? {} : { code }),
    };
    const refreshToken = made.body?.data?.refreshToken as string | undefined;
    if (refreshToken !== undefined) call.given = leafOf(refreshToken);
  } catch {
    // No whole answer.
  }
  call.endMs = performance.now();
  world.calls.push(call);
  await sleep((call.answer?.status ?? 500) < 500 ? PAUSE_MS : PAUSE_AFTER_FAILURE_MS);
  return made;
}

/** Repeats until it is decided, or the run ends. */
async function insist(world: World, wanted: () => Wanted): Promise<Made> {
  for (;;) {
    const made = await make(world, wanted());
    if (isDecided(made) || world.signal.aborted) return made;
  }
}

export async function newUser(world: World): Promise<User | undefined> {
  const email = `user-${randomUUID()}@example.com`;
  const made = await insist(world, () => ({
    kind: "register",
    userId: "",
    method: "POST",
    path: "/auth/register",
    body: { email, password: PASSWORD, firstName: "Ada", lastName: "Lovelace" },
    noted: { value: email },
  }));
  // 409: an earlier call, whose answer was lost. Who it is, is in the first login.
  return isDecided(made) ? { email, password: PASSWORD, userId: made.body?.data?.user?.id ?? "" } : undefined;
}

export async function logIn(world: World, user: User): Promise<Session | undefined> {
  const made = await make(world, {
    kind: "login",
    userId: user.userId,
    method: "POST",
    path: "/auth/login",
    body: { email: user.email, password: user.password },
  });
  const session = sessionOf(made);
  user.userId = session?.userId ?? user.userId;
  return session;
}

/** Of an answer with tokens. Notes whose they are. */
function sessionOf(made: Made): Session | undefined {
  if (!isSuccess(made)) return undefined;
  const { accessToken, refreshToken } = made.body.data as { accessToken: string; refreshToken: string };
  const { sub, sid } = claimsOf(accessToken);
  made.call.userId = sub;
  return { userId: sub, sessionId: sid, accessToken, refreshToken, spent: [] };
}

export const read = (world: World, { userId, accessToken }: Session) =>
  make(world, { kind: "read", userId, method: "GET", path: "/pay", token: accessToken });

function refresh(world: World, { userId }: Session, refreshToken: string, isAttack = false): Promise<Made> {
  return make(world, {
    kind: "refresh",
    userId,
    method: "POST",
    path: "/auth/refresh",
    body: { refreshToken },
    noted: { presented: leafOf(refreshToken), ...(isAttack ? { isAttack } : {}) },
  });
}

/** Two tabs refresh at once, now and then. */
export async function rotate(world: World, session: Session): Promise<void> {
  const { refreshToken } = session;
  const tabs = world.random() < 0.3 ? 2 : 1;
  const made = await Promise.all(Array.from({ length: tabs }, () => refresh(world, session, refreshToken)));
  const good = made.find(isSuccess);
  if (good === undefined) return;
  session.spent.push(refreshToken);
  session.refreshToken = good.body.data.refreshToken;
  session.accessToken = good.body.data.accessToken;
}

export async function act(world: World, session: Session): Promise<void> {
  const { userId, accessToken: token } = session;
  const dice = world.random();
  const value = randomUUID();
  if (dice < 0.45) await read(world, session);
  else if (dice < 0.55)
    await make(world, { kind: "account", userId, method: "GET", path: "/auth/me", token });
  else if (dice < 0.8) {
    const body = { amount: 100, reference: value };
    await make(world, { kind: "pay", userId, method: "POST", path: "/pay", token, body, noted: { value } });
  } else {
    const body = { firstName: value };
    await make(world, {
      kind: "profile",
      userId,
      method: "PATCH",
      path: "/auth/me",
      token,
      body,
      noted: { value },
    });
  }
}

export function leave(world: World, session: Session): void {
  world.ghosts.push(session);
  if (world.ghosts.length > GHOSTS_MAX) world.ghosts.shift();
}

/** Logs in, calls, refreshes, and logs out or is attacked; again and again. */
export async function keepSessions(world: World): Promise<void> {
  while (!world.signal.aborted) {
    const user = await newUser(world);
    for (
      let logins = 0;
      user !== undefined && logins < LOGINS_OF_USER && !world.signal.aborted;
      logins += 1
    ) {
      const session = await logIn(world, user);
      if (session !== undefined) await useSession(world, session);
    }
  }
}

async function useSession(world: World, session: Session): Promise<void> {
  for (let steps = 4 + world.random() * 20; steps > 0 && !world.signal.aborted; steps -= 1) {
    if (world.random() < 0.25) await rotate(world, session);
    else await Promise.all([act(world, session), ...(world.random() < 0.3 ? [act(world, session)] : [])]);
  }
  const [stolen] = session.spent;
  if (session.spent.length > 1 && stolen !== undefined && world.random() < 0.3) {
    // Whoever else has it, its session ends.
    await insistOnAttack(world, session, stolen);
  } else await logOut(world, session);
  leave(world, session);
  await read(world, session);
}

export const logOut = (world: World, { userId, accessToken: token }: Session) =>
  insist(world, () => ({ kind: "logout", userId, method: "POST", path: "/auth/logout", token }));

async function insistOnAttack(world: World, session: Session, stolen: string): Promise<void> {
  while (!isDecided(await refresh(world, session, stolen, true)) && !world.signal.aborted);
}

/** Uses what is left of sessions that were left, again and again. */
export async function haunt(world: World): Promise<void> {
  while (!world.signal.aborted) {
    const ghost = world.ghosts[Math.floor(world.random() * world.ghosts.length)];
    if (ghost === undefined) await sleep(PAUSE_AFTER_FAILURE_MS);
    else if (world.random() < 0.2) await refresh(world, ghost, ghost.refreshToken);
    else await read(world, ghost);
  }
}

/** Forgets the password, and uses the link of the mail several times at once. */
export async function keepForgetting(world: World): Promise<void> {
  while (!world.signal.aborted) {
    const user = await newUser(world);
    const session = user && (await logIn(world, user));
    if (user === undefined || session === undefined) continue;
    const asked = await insist(world, () => ({
      kind: "forgot",
      userId: session.userId,
      method: "POST",
      path: "/auth/forgot-password",
      body: { email: user.email },
    }));
    let token: string | undefined;
    const endMs = performance.now() + MAIL_PATIENCE_MS;
    while (isSuccess(asked) && !world.signal.aborted && token === undefined && performance.now() < endMs) {
      await sleep(50);
      token = world.resetToken(user.email);
    }
    if (token === undefined) continue;
    const use = () =>
      insist(world, () => ({
        kind: "reset",
        userId: session.userId,
        method: "POST",
        path: "/auth/reset-password",
        body: { token, newPassword: NEW_PASSWORD },
        noted: { secrets: [`link ${token}`] },
      }));
    await Promise.all(Array.from({ length: PARALLEL_USES }, use));
    leave(world, session);
    await read(world, session);
  }
}

/** Asks for approvals, gives them with recovery codes, and pays several times at once. */
export async function keepApproving(world: World): Promise<void> {
  while (!world.signal.aborted) {
    const user = await newUser(world);
    const session = user && (await logIn(world, user));
    if (session === undefined) continue;
    const codes = await setUpFactor(world, session).catch(() => []);
    for (const code of codes.slice(0, CODES_USED)) {
      if (world.signal.aborted) return;
      await approveAndPay(world, session, code);
    }
  }
}

async function setUpFactor(world: World, { userId, accessToken: token }: Session): Promise<string[]> {
  await world.proveAddress(userId);
  const setUp = await make(world, {
    kind: "set up",
    userId,
    method: "POST",
    path: "/auth/mfa/setup",
    token,
    body: { password: PASSWORD },
  });
  if (!isSuccess(setUp)) return [];
  const enabled = await make(world, {
    kind: "enable",
    userId,
    method: "POST",
    path: "/auth/mfa/enable",
    token,
    body: { code: generateSync({ secret: setUp.body.data.secret }) },
  });
  return isSuccess(enabled) ? enabled.body.data.recoveryCodes : [];
}

async function approveAndPay(world: World, session: Session, code: string): Promise<void> {
  const { userId, accessToken: token } = session;
  const isKeyed = world.random() < 0.5;
  const asked = async () => {
    const reference = randomUUID();
    const key = isKeyed ? randomUUID() : undefined;
    const headers: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
    const payment = {
      userId,
      method: "POST",
      path: "/approved",
      token,
      body: { amount: 12_500, reference },
    } as const;
    const kept = { value: reference, ...(key === undefined ? {} : { idempotencyKey: key }) };
    const made = await insist(world, () => ({ ...payment, kind: "ask", headers, noted: kept }));
    const approval = made.body?.error?.details?.approval?.token as string | undefined;
    return { reference, key, headers, payment, kept, approval };
  };
  // One code for two approvals, now and then.
  const all = await Promise.all(Array.from({ length: world.random() < 0.3 ? 2 : 1 }, asked));
  await Promise.all(
    all.map(async ({ reference, key, headers, payment, kept, approval }) => {
      if (approval === undefined) return;
      const use = () =>
        insist(world, () => ({
          ...payment,
          kind: "approved" satisfies CallKind,
          headers: { ...headers, "gatehouse-approval": approval },
          noted: { ...kept, ...(key === undefined ? { secrets: [`approval ${approval}`] } : {}) },
        }));
      const early = use();
      if (world.random() < 0.5) await early;
      await insist(world, () => ({
        kind: "approve",
        userId,
        method: "POST",
        path: "/auth/approvals/verify",
        token,
        body: { token: approval, code },
        noted: { secrets: [`code ${userId} ${code}`], value: reference },
      }));
      await Promise.all([early, ...Array.from({ length: PARALLEL_USES }, use)]);
    }),
  );
}

/** Logs in with recovery codes: two codes for one challenge, each several times at once. */
export async function keepProving(world: World): Promise<void> {
  while (!world.signal.aborted) {
    const user = await newUser(world);
    const session = user && (await logIn(world, user));
    if (user === undefined || session === undefined) continue;
    const codes = await setUpFactor(world, session).catch(() => []);
    for (let used = 0; used + 1 < codes.length && !world.signal.aborted; used += 2)
      await logInWithCodes(world, user, codes.slice(used, used + 2));
  }
}

async function logInWithCodes(world: World, user: User, codes: readonly string[]): Promise<void> {
  const { userId, email, password } = user;
  const login = await insist(world, () => ({
    kind: "login",
    userId,
    method: "POST",
    path: "/auth/login",
    body: { email, password },
  }));
  const challenge = login.body?.data?.tempToken as string | undefined;
  if (challenge === undefined) return;
  const prove = (code: string) =>
    insist(world, () => ({
      kind: "verify",
      userId,
      method: "POST",
      path: "/auth/mfa/verify",
      body: { tempToken: challenge, code },
      noted: { secrets: [`challenge ${challenge}`, `code ${userId} ${code}`] },
    }));
  await useEach(world, await Promise.all([...codes, ...codes].map(prove)));
}

/** Logs in at the provider: comes back, and exchanges the code, several times at once. */
export async function keepReturning(world: World): Promise<void> {
  while (!world.signal.aborted) {
    const codeVerifier = randomBytes(32).toString("base64url");
    const departure = await insist(world, () => ({
      kind: "depart",
      userId: "",
      method: "GET",
      path: `/auth/demo?codeChallenge=${challengeOf(codeVerifier)}`,
    }));
    if (departure.location === undefined || !isSuccess(departure)) continue;
    const { pathname, search, searchParams } = await world.logInAtProvider(departure.location);
    const comeBack = () =>
      insist(world, () => ({
        kind: "return",
        userId: "",
        method: "GET",
        path: pathname + search,
        headers: { cookie: departure.cookie ?? "" },
        noted: { secrets: [`login at the provider ${searchParams.get("state")}`] },
      }));
    const returned = await Promise.all(Array.from({ length: PARALLEL_USES }, comeBack));
    const code = returned.find(isSuccess)?.location?.searchParams.get("code") ?? undefined;
    if (code === undefined) continue;
    const exchange = () =>
      insist(world, () => ({
        kind: "exchange",
        userId: "",
        method: "POST",
        path: "/auth/oauth/exchange",
        body: { code, codeVerifier },
        noted: { secrets: [`authorization code ${code}`] },
      }));
    await useEach(world, await Promise.all(Array.from({ length: PARALLEL_USES }, exchange)));
  }
}

/** Each session that was begun, for a short time. */
async function useEach(world: World, begun: readonly Made[]): Promise<void> {
  for (const session of begun.map(sessionOf)) {
    if (session === undefined) continue;
    await read(world, session);
    await logOut(world, session);
    leave(world, session);
  }
}
