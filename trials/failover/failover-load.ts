import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { generateSync } from "otplib";
import { Agent, fetch as undiciFetch } from "undici";

/** One call of the load, as its client knows it. */
export interface Call {
  kind: string;
  traceId: string;
  startedMs: number;
  endedMs: number;
  /** Undefined: no whole answer. */
  status: number | undefined;
  code: string | undefined;
  hasRetryAfter: boolean;
}

/** What was acknowledged, and must be so for ever. */
interface Fact {
  what: string;
  /** Of the acknowledgement, by `performance.now()`. */
  atMs: number;
  /** @returns what is wrong. */
  check(): Promise<string | undefined>;
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the API sent and asserts on it
type Body = any;
interface Answer {
  status: number;
  body: Body;
  /** An earlier attempt may have had its effect. */
  isRepeated: boolean;
}
interface Request {
  token?: string;
  body?: object;
  headers?: Record<string, string>;
}
interface Tokens {
  accessToken: string;
  refreshToken: string;
}

const PASSWORD = "correct horse battery";
const NEW_PASSWORD = "an entirely new password";
const NO_ANSWER_MS = 30_000;
const PATIENCE_MS = 120_000;
const PAUSE_MS = 100;
/** Each person calls from an address of their own, so that no limit of a network is met. */
const ADDRESSES = 200;

export interface Load {
  calls: readonly Call[];
  facts: readonly Fact[];
  /** Answers that nothing allows. */
  violations: readonly string[];
  /** Calls that changed something and were answered so. */
  acknowledged(): number;
  /** A user who gives approvals, made before they are needed. */
  newPayer(): Promise<Payer>;
  /** Lives of users, one after the other, until the signal; and the payments of the payers. */
  run(payers: readonly Payer[], signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

interface Payer {
  address: string;
  token: string;
  refreshToken: string;
  codes: string[];
}

export interface LoadOptions {
  url: string;
  random: () => number;
  lives: number;
  /** How often the upstream has carried out a reference. */
  paid: ReadonlyMap<string, number>;
  /** As the mail's link would. */
  proveAddress(userId: string): Promise<void>;
}

/** Register, login, refresh, logout, change of the password, payments and approvals, by clients that repeat what is refused. */
export function failoverLoad({ url, random, lives, paid, proveAddress }: LoadOptions): Load {
  const calls: Call[] = [];
  const facts: Fact[] = [];
  const note = (fact: Omit<Fact, "atMs">) => facts.push({ ...fact, atMs: performance.now() });
  const violations: string[] = [];
  const agents = new Map<string, Agent>();
  let people = 0;

  const nextAddress = () => `127.0.4.${1 + (people++ % ADDRESSES)}`;
  const agentOf = (address: string) => {
    const agent = agents.get(address) ?? new Agent({ localAddress: address, connect: { family: 4 } });
    agents.set(address, agent);
    return agent;
  };

  async function once(address: string, kind: string, path: string, { token, body, headers }: Request) {
    const traceId = randomBytes(16).toString("hex");
    const startedMs = performance.now();
    const call: Call = {
      kind,
      traceId,
      startedMs,
      endedMs: 0,
      status: undefined,
      code: undefined,
      hasRetryAfter: false,
    };
    let parsed: Body;
    try {
      const response = await undiciFetch(url + path, {
        method: body === undefined ? "GET" : "POST",
        dispatcher: agentOf(address),
        headers: {
          "content-type": "application/json",
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          traceparent: `00-${traceId}-${traceId.slice(0, 16)}-01`,
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(NO_ANSWER_MS),
      });
      parsed = await response.json().catch(() => undefined);
      call.status = response.status;
      call.code = parsed?.error?.code;
      call.hasRetryAfter = response.headers.has("retry-after");
    } catch (error) {
      violations.push(`${kind}: no answer: ${String(error)}`);
    }
    call.endedMs = performance.now();
    calls.push(call);
    if ((call.status ?? 0) >= 500 && (call.status !== 503 || !call.hasRetryAfter))
      violations.push(
        `${kind}: ${call.status} ${call.code}${call.hasRetryAfter ? "" : " without Retry-After"}`,
      );
    return { call, body: parsed };
  }

  /** Repeats what is refused. */
  async function ask(address: string, kind: string, path: string, request: Request): Promise<Answer> {
    let isRepeated = false;
    for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(PAUSE_MS)) {
      const { call, body } = await once(address, kind, path, request);
      const status = call.status ?? 503;
      if (status < 500 && status !== 429) return { status, body, isRepeated };
      isRepeated ||= status !== 429;
      if (performance.now() > endMs) throw new Error(`${kind}: ${status} for ${PATIENCE_MS} ms`);
    }
  }

  /** @returns whether the answer is one of `wanted`; one of `afterRepetition` is neither that nor a violation. */
  function isAs(
    kind: string,
    answer: Answer,
    wanted: readonly number[],
    afterRepetition: readonly number[] = [],
  ) {
    if (wanted.includes(answer.status)) return true;
    if (!(answer.isRepeated && afterRepetition.includes(answer.status)))
      violations.push(
        `${kind}: ${answer.status} ${answer.body?.error?.code}${answer.isRepeated ? " (repeated)" : ""}`,
      );
    return false;
  }

  const post = (address: string, kind: string, path: string, body: object, more: Request = {}) =>
    ask(address, kind, path, { ...more, body });

  async function logIn(address: string, email: string, password: string): Promise<Tokens | undefined> {
    const answer = await post(address, "login", "/auth/login", { email, password });
    return isAs("login", answer, [200]) ? answer.body.data : undefined;
  }

  const sessionEnded = (
    address: string,
    { accessToken, refreshToken }: Tokens,
    how: string,
  ): Omit<Fact, "atMs"> => ({
    what: `a session ended by ${how}`,
    async check() {
      const refreshed = await post(address, "check", "/auth/refresh", { refreshToken });
      if (refreshed.status !== 401) return `its refresh token is answered ${refreshed.status}`;
      const me = await ask(address, "check", "/auth/me", { token: accessToken });
      return me.status === 401 ? undefined : `its access token is answered ${me.status}`;
    },
  });

  const passwordHolds = (
    address: string,
    email: string,
    password: string,
    former: string | undefined,
  ): Omit<Fact, "atMs"> => ({
    what: former === undefined ? "a registration" : "a changed password",
    async check() {
      const now = await post(address, "check", "/auth/login", { email, password });
      if (now.status !== 200) return `the password is answered ${now.status} ${now.body?.error?.code}`;
      if (former === undefined) return undefined;
      const before = await post(address, "check", "/auth/login", { email, password: former });
      return before.status === 401 ? undefined : `the former password is answered ${before.status}`;
    },
  });

  async function pay(address: string, token: string): Promise<void> {
    const reference = randomUUID();
    const answer = await post(
      address,
      "payment",
      "/payments",
      { reference },
      { token, headers: { "idempotency-key": reference } },
    );
    if (isAs("payment", answer, [201]))
      note({
        what: "a payment",
        check: async () => (paid.has(reference) ? undefined : "the upstream does not know it"),
      });
  }

  /** One user, from the registration to a changed password. */
  async function live(): Promise<void> {
    const address = nextAddress();
    const email = `user-${randomUUID()}@example.com`;
    const person = { email, password: PASSWORD, firstName: "Ada", lastName: "Lovelace" };
    // 409: a repeated call of which the first had its effect.
    if (!isAs("register", await post(address, "register", "/auth/register", person), [201, 409])) return;
    let password = passwordHolds(address, email, PASSWORD, undefined);
    try {
      const [first, second, third] = [
        await logIn(address, email, PASSWORD),
        await logIn(address, email, PASSWORD),
        await logIn(address, email, PASSWORD),
      ];
      if (first === undefined || second === undefined || third === undefined) return;
      await pay(address, first.accessToken);
      const refreshed = await post(address, "refresh", "/auth/refresh", { refreshToken: first.refreshToken });
      if (!isAs("refresh", refreshed, [200], [401])) return;
      const current: Tokens = refreshed.body.data;
      const ended = await post(address, "logout", "/auth/logout", {}, { token: second.accessToken });
      if (isAs("logout", ended, [200, 204], [401])) note(sessionEnded(address, second, "logout"));
      const changed = await post(
        address,
        "change password",
        "/auth/change-password",
        { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
        { token: current.accessToken },
      );
      if (isAs("change password", changed, [200, 204], [400, 401])) {
        password = passwordHolds(address, email, NEW_PASSWORD, PASSWORD);
        note(sessionEnded(address, third, "a changed password"));
      } else {
        // Whether it holds is unknown: another change decides nothing either.
        password = { what: "an unknown password", check: async () => undefined };
      }
    } finally {
      note(password);
    }
  }

  /** Several at once get the same tokens. */
  async function renew(payer: Payer): Promise<void> {
    const { refreshToken } = payer;
    const answer = await post(payer.address, "check", "/auth/refresh", { refreshToken });
    // Another check may have been first.
    if (answer.status === 200 && payer.refreshToken === refreshToken)
      Object.assign(payer, {
        token: answer.body.data.accessToken,
        refreshToken: answer.body.data.refreshToken,
      });
  }

  async function payApproved(payer: Payer, code: string): Promise<void> {
    const { address } = payer;
    const reference = randomUUID();
    const order = { amount: 12_500, reference };
    const use = (kind: string, approval?: string) =>
      post(address, kind, "/pay", order, {
        token: payer.token,
        headers: approval === undefined ? {} : { "gatehouse-approval": approval },
      });
    const asked = await use("order");
    if (!isAs("order", asked, [403])) return;
    const approval: string | undefined = asked.body.error.details?.approval?.token;
    if (approval === undefined) {
      violations.push(`order: ${JSON.stringify(asked.body)}`);
      return;
    }
    const given = await post(
      address,
      "approval",
      "/auth/approvals/verify",
      { token: approval, code },
      { token: payer.token },
    );
    if (!isAs("approval", given, [200], [400, 401, 403])) return;
    const isUsedLater = random() < 0.5;
    // A repeated use is refused if the first one passed and its answer was lost.
    if (!isUsedLater && !isAs("approved payment", await use("approved payment", approval), [201], [403]))
      return;
    note({
      what: `an approval that was ${isUsedLater ? "given" : "used"}`,
      async check() {
        // At the end of many rounds it has expired.
        const { status } = await ask(address, "check", "/auth/me", { token: payer.token });
        if (status === 401) await renew(payer);
        // Of the first check; at later ones it was used.
        if (!paid.has(reference)) {
          const first = await use("check", approval);
          if (first.status !== 201 && !(first.isRepeated && paid.has(reference)))
            return `its use is answered ${first.status} ${first.body?.error?.code}`;
        }
        const again = await use("check", approval);
        if (again.status !== 403) return `another use is answered ${again.status}`;
        return paid.get(reference) === 1 ? undefined : `it was paid ${paid.get(reference)} times`;
      },
    });
  }

  return {
    calls,
    facts,
    violations,
    acknowledged: () => calls.filter(isAcknowledged).length,
    async newPayer() {
      const address = nextAddress();
      const email = `payer-${randomUUID()}@example.com`;
      const person = { email, password: PASSWORD, firstName: "Ada", lastName: "Lovelace" };
      await post(address, "register", "/auth/register", person);
      const answer = await post(address, "login", "/auth/login", { email, password: PASSWORD });
      const token: string = answer.body.data.accessToken;
      await proveAddress(answer.body.data.user.id);
      const setup = await post(address, "set-up", "/auth/mfa/setup", { password: PASSWORD }, { token });
      const code = generateSync({ secret: setup.body.data.secret });
      const enabled = await post(address, "set-up", "/auth/mfa/enable", { code }, { token });
      if (enabled.status !== 200)
        throw new Error(`second factor: ${enabled.status} ${JSON.stringify(enabled.body)}`);
      const { refreshToken } = answer.body.data;
      return { address, token, refreshToken, codes: enabled.body.data.recoveryCodes };
    },
    async run(payers, signal) {
      const living = Array.from({ length: lives }, async () => {
        while (!signal.aborted) await live();
      });
      const paying = payers.map(async (payer) => {
        for (const code of payer.codes) {
          if (signal.aborted) return;
          await payApproved(payer, code);
          await sleep(random() * 2_000, undefined, { signal }).catch(() => undefined);
        }
      });
      await Promise.all([...living, ...paying]);
    },
    async close() {
      await Promise.all([...agents.values()].map((agent) => agent.close()));
    },
  };
}

/** A call that changed something, and was answered so. */
export const isAcknowledged = ({ kind, status }: Call): boolean =>
  kind !== "check" && status !== undefined && status < 300;
