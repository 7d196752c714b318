import { setTimeout as sleep } from "node:timers/promises";
import {
  type Answer,
  type Check,
  isAccountOf,
  isDone,
  isPayeeList,
  isPaymentList,
  isPaymentOf,
  isRefused,
  isSessionOf,
} from "./answers.ts";
import { createCaller } from "./http-calls.ts";
import { BUCKETS_MS, type LoadLine } from "./load-lines.ts";

/**
 * Runs in a pod of the cluster and prints one line of JSON a second until it is stopped: `RATE` calls a second, begun at
 * even distances whether earlier ones have ended or not, and a check of every answer.
 */

const RATE = Number(process.env.RATE);
const URL_OF_GATEWAY = new URL(process.env.GATEWAY_URL ?? "");
const HOST = process.env.GATEWAY_HOST ?? "";
const RUN = process.env.RUN ?? String(Date.now());
/** Of all calls. */
const LOGINS = Number(process.env.LOGINS ?? "0.05");

/** Below the limits of one user: 600 forwarded calls and 300 others a minute. */
const CALLS_PER_USER_AND_SECOND = 4;
/** An account may log in 60 times an hour from one place. */
const LOGINS_PER_USER_AND_SECOND = 1 / 60;
const MAX_OPEN = 2_000;
/** As long as a verifier may go on without knowing what was revoked. */
const REVOKED_WITHIN_MS = 3_000;
const TICK_MS = 5;
const PASSWORD = "Correct-Horse-42-Staple";

interface User {
  email: string;
  address: string;
  id: string;
  access: string;
  refresh: string;
  /** Its session is being replaced. */
  busy: boolean;
}

const { call, reconnected } = createCaller(URL_OF_GATEWAY, HOST);
const print = (line: LoadLine) => process.stdout.write(`${JSON.stringify(line)}\n`);

let done = 0;
let buckets = newBuckets();
let slowestMs = 0;

function newBuckets(): number[] {
  return new Array(BUCKETS_MS.length + 1).fill(0);
}

function count(name: string, ms: number, wrong: string | undefined): void {
  done++;
  slowestMs = Math.max(slowestMs, ms);
  const place = BUCKETS_MS.findIndex((bound) => ms <= bound);
  const index = place === -1 ? BUCKETS_MS.length : place;
  buckets[index] = (buckets[index] ?? 0) + 1;
  if (wrong !== undefined)
    print({ failed: name, why: wrong, ms: Math.round(ms), at: new Date().toISOString() });
}

async function checked(name: string, made: Promise<Answer>, check: Check): Promise<Answer | undefined> {
  const began = performance.now();
  const answer = await made;
  const wrong = check(answer);
  count(name, performance.now() - began, wrong);
  return wrong === undefined ? answer : undefined;
}

const as = (user: User, method: string, path: string, body?: object) =>
  call({ method, path, address: user.address, token: user.access, ...(body && { body }) });

/** @returns the answer with a new session, which is nobody's yet. */
function newSession({ email, address, id }: User): Promise<Answer | undefined> {
  const made = call({ method: "POST", path: "/auth/login", address, body: { email, password: PASSWORD } });
  return checked("login", made, isSessionOf(id));
}

async function logIn(user: User): Promise<void> {
  keep(user, await newSession(user));
}

async function refresh(user: User): Promise<void> {
  const { refresh: refreshToken, address } = user;
  const made = call({ method: "POST", path: "/auth/refresh", address, body: { refreshToken } });
  const answer = await checked("refresh", made, isSessionOf(user.id, refreshToken));
  if (answer === undefined) await logIn(user);
  else keep(user, answer);
}

/** Ends a session that no other call uses. What was ended stays ended, on every replica. */
async function logOut(user: User): Promise<void> {
  const session = await newSession(user);
  if (session === undefined) return;
  const { address } = user;
  const token = session.data.accessToken;
  const ended = call({ method: "POST", path: "/auth/logout", address, token });
  if ((await checked("logout", ended, isDone)) === undefined) return;
  await sleep(REVOKED_WITHIN_MS);
  const made = call({ method: "GET", path: "/auth/me", address, token });
  await checked("a token after its logout", made, isRefused);
}

function keep(user: User, answer: Answer | undefined): void {
  if (answer === undefined) return;
  user.access = answer.data.accessToken;
  user.refresh = answer.data.refreshToken;
}

async function replaceSession(user: User, replace: (user: User) => Promise<void>): Promise<void> {
  user.busy = true;
  await replace(user);
  user.busy = false;
}

let orders = 0;
async function pay(user: User): Promise<void> {
  const order = { amount: 1250, currency: "EUR", payee: "ACME Ltd", reference: `invoice ${++orders}` };
  await checked("POST /payments", as(user, "POST", "/payments", order), isPaymentOf(order, user.id));
}

interface Kind {
  share: number;
  run: (user: User) => Promise<unknown>;
  /** It replaces the user's session, and becomes a look at the account while that is being replaced. */
  replaces?: true;
}

/** Each begins with a login. */
const LOGOUTS = 0.01;

/** Beside the logins; the shares sum to 1. */
const MIX: readonly Kind[] = [
  { share: 0.46, run: (user) => checked("GET /payees", as(user, "GET", "/payees"), isPayeeList) },
  { share: 0.09, run: (user) => checked("GET /payments", as(user, "GET", "/payments"), isPaymentList) },
  { share: 0.21, run: pay },
  { share: 0.1, run: me },
  { share: 0.11, run: refresh, replaces: true },
  { share: LOGOUTS, run: logOut },
  {
    share: 0.02,
    run: (user) =>
      checked("without a token", call({ method: "GET", path: "/payees", address: user.address }), isRefused),
  },
];

function me(user: User): Promise<unknown> {
  return checked("GET /auth/me", as(user, "GET", "/auth/me"), isAccountOf(user.email));
}

function chosen(): Kind {
  if (Math.random() < LOGINS) return { share: LOGINS, run: logIn, replaces: true };
  const at = Math.random();
  let sum = 0;
  for (const entry of MIX) {
    sum += entry.share;
    if (at < sum) return entry;
  }
  return { share: 0, run: me };
}

async function one(user: User): Promise<void> {
  const { run, replaces } = chosen();
  if (!replaces) await run(user);
  else if (user.busy) await me(user);
  else await replaceSession(user, run as (user: User) => Promise<void>);
}

/** Addresses of 198.18.0.0/15, which is for such tests (RFC 2544). */
async function newUser(index: number): Promise<User> {
  const email = `load-${RUN}-${index}@example.com`;
  const address = `198.18.${index >> 8}.${index & 255}`;
  const account = { email, password: PASSWORD, firstName: "Load", lastName: `N${index}` };
  const { data, status, code } = await call({
    method: "POST",
    path: "/auth/register",
    address,
    body: account,
  });
  if (status !== 201) throw new Error(`cannot register ${email}: ${status} ${code}`);
  const user = { email, address, id: data.user.id, access: "", refresh: "", busy: false };
  await logIn(user);
  return user;
}

const users: User[] = [];
const loginRate = RATE * (LOGINS + (1 - LOGINS) * LOGOUTS);
const needed = Math.max(4, RATE / CALLS_PER_USER_AND_SECOND, loginRate / LOGINS_PER_USER_AND_SECOND);
for (let index = 0; index < needed; index++) users.push(await newUser(index));
done = 0;
buckets = newBuckets();
slowestMs = 0;
print({ ready: true, rate: RATE, users: users.length });

const began = performance.now();
let sent = 0;
let open = 0;
setInterval(() => {
  const due = Math.floor(((performance.now() - began) / 1_000) * RATE);
  for (; sent < due; sent++) {
    const user = users[sent % users.length];
    if (user === undefined) throw new Error("there are no users");
    if (open >= MAX_OPEN) {
      count("not begun", 0, `${open} calls were open`);
      continue;
    }
    open++;
    void one(user).finally(() => open--);
  }
}, TICK_MS);
setInterval(() => {
  print({ done, open, reconnected: reconnected(), slowestMs: Math.round(slowestMs), buckets });
  done = 0;
  buckets = newBuckets();
  slowestMs = 0;
}, 1_000);
