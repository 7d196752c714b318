import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { decodeJwt } from "jose";
import { generateSync } from "otplib";
import { Agent, fetch as undiciFetch } from "undici";
import { slotOfSession } from "#token-client/session-slot.ts";
import { seconds, until } from "../support.ts";

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
  /** Of the session that its access token or refresh token names. */
  slot: number | undefined;
}

/** What was acknowledged, and must be so for ever. */
interface Fact {
  what: string;
  /** When it was acknowledged, by `performance.now()`. */
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
  /** Whether one of the lives is that of this user. By default each is that of whom it has registered. */
  wants?(userId: string, life: number): boolean;
  /** As the mail's link would. */
  proveAddress(userId: string): Promise<void>;
}

type NewFact = Omit<Fact, "atMs">;

/** Register, login, refresh, logout, change of the password, payments and approvals, by clients that repeat what is refused. */
export class FailoverLoad {
  readonly calls: Call[] = [];
  readonly facts: Fact[] = [];
  /** Answers that nothing allows. */
  readonly violations: string[] = [];
  readonly #options: LoadOptions;
  readonly #agents = new Map<string, Agent>();
  #people = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  /** Calls that changed something and were answered so. */
  acknowledged(): number {
    return this.calls.filter(isAcknowledged).length;
  }

  /** Until so many more were. */
  async untilAcknowledged(more: number): Promise<void> {
    const wanted = this.acknowledged() + more;
    await until(`${more} calls more`, async () => this.acknowledged() >= wanted);
  }

  /** What does not hold of the facts from `from` on. */
  async problems(from: number, struckMs = 0): Promise<string[]> {
    const found: string[] = [];
    const waiting = this.facts.slice(from);
    await Promise.all(
      Array.from({ length: this.#options.lives }, async () => {
        for (let fact = waiting.shift(); fact !== undefined; fact = waiting.shift()) {
          const problem = await fact.check();
          if (problem !== undefined)
            found.push(`${fact.what} (${seconds(fact.atMs - struckMs)} after the fault): ${problem}`);
        }
      }),
    );
    return found;
  }

  /** A user who gives approvals, made before they are needed. */
  async newPayer(): Promise<Payer> {
    const address = this.#nextAddress();
    const email = `payer-${randomUUID()}@example.com`;
    const person = { email, password: PASSWORD, firstName: "Ada", lastName: "Lovelace" };
    await this.#ask(address, "register", "/auth/register", { body: person });
    const answer = await this.#ask(address, "login", "/auth/login", { body: { email, password: PASSWORD } });
    const token: string = answer.body.data.accessToken;
    await this.#options.proveAddress(answer.body.data.user.id);
    const setup = await this.#ask(address, "set-up", "/auth/mfa/setup", {
      body: { password: PASSWORD },
      token,
    });
    const code = generateSync({ secret: setup.body.data.secret });
    const enabled = await this.#ask(address, "set-up", "/auth/mfa/enable", { body: { code }, token });
    if (enabled.status !== 200)
      throw new Error(`second factor: ${enabled.status} ${JSON.stringify(enabled.body)}`);
    const { refreshToken } = answer.body.data;
    return { address, token, refreshToken, codes: enabled.body.data.recoveryCodes };
  }

  /** Lives of users, one after the other, until the signal; and the payments of the payers. */
  async run(payers: readonly Payer[], signal: AbortSignal): Promise<void> {
    const living = Array.from({ length: this.#options.lives }, async (_, life) => {
      while (!signal.aborted) await this.#live(life);
    });
    const paying = payers.map(async (payer) => {
      for (const code of payer.codes) {
        if (signal.aborted) return;
        await this.#payApproved(payer, code);
        await sleep(this.#options.random() * 2_000, undefined, { signal }).catch(() => undefined);
      }
    });
    await Promise.all([...living, ...paying]);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.close()));
  }

  async #once(address: string, kind: string, path: string, { token, body, headers }: Request) {
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
      slot: slotIn(token ?? (body as { refreshToken?: string } | undefined)?.refreshToken),
    };
    let parsed: Body;
    try {
      const response = await undiciFetch(this.#options.url + path, {
        method: body === undefined ? "GET" : "POST",
        dispatcher: this.#agentOf(address),
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
      this.violations.push(`${kind}: no answer: ${String(error)}`);
    }
    call.endedMs = performance.now();
    this.calls.push(call);
    if ((call.status ?? 0) >= 500 && (call.status !== 503 || !call.hasRetryAfter))
      this.violations.push(
        `${kind}: ${call.status} ${call.code}${call.hasRetryAfter ? "" : " without Retry-After"}`,
      );
    return { call, body: parsed };
  }

  /** Repeats what is refused. */
  async #ask(address: string, kind: string, path: string, request: Request): Promise<Answer> {
    let isRepeated = false;
    for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(PAUSE_MS)) {
      const { call, body } = await this.#once(address, kind, path, request);
      const status = call.status ?? 503;
      if (status < 500 && status !== 429) return { status, body, isRepeated };
      isRepeated ||= status !== 429;
      if (performance.now() > endMs) throw new Error(`${kind}: ${status} for ${PATIENCE_MS} ms`);
    }
  }

  /** @returns whether the answer is one of `wanted`; one of `afterRepetition` is neither that nor a violation. */
  #isAs(kind: string, answer: Answer, wanted: readonly number[], afterRepetition: readonly number[] = []) {
    if (wanted.includes(answer.status)) return true;
    if (!(answer.isRepeated && afterRepetition.includes(answer.status)))
      this.violations.push(
        `${kind}: ${answer.status} ${answer.body?.error?.code}${answer.isRepeated ? " (repeated)" : ""}`,
      );
    return false;
  }

  async #logIn(address: string, email: string, password: string): Promise<Tokens | undefined> {
    const answer = await this.#ask(address, "login", "/auth/login", { body: { email, password } });
    return this.#isAs("login", answer, [200]) ? answer.body.data : undefined;
  }

  #sessionEnded(address: string, { accessToken, refreshToken }: Tokens, how: string): NewFact {
    return {
      what: `a session ended by ${how}`,
      check: async () => {
        const refreshed = await this.#ask(address, "check", "/auth/refresh", { body: { refreshToken } });
        if (refreshed.status !== 401) return `its refresh token is answered ${refreshed.status}`;
        const me = await this.#ask(address, "check", "/auth/me", { token: accessToken });
        return me.status === 401 ? undefined : `its access token is answered ${me.status}`;
      },
    };
  }

  #passwordHolds(address: string, email: string, password: string, former: string | undefined): NewFact {
    return {
      what: former === undefined ? "a registration" : "a changed password",
      check: async () => {
        const now = await this.#ask(address, "check", "/auth/login", { body: { email, password } });
        if (now.status !== 200) return `the password is answered ${now.status} ${now.body?.error?.code}`;
        if (former === undefined) return undefined;
        const before = await this.#ask(address, "check", "/auth/login", {
          body: { email, password: former },
        });
        return before.status === 401 ? undefined : `the former password is answered ${before.status}`;
      },
    };
  }

  async #pay(address: string, token: string): Promise<void> {
    const reference = randomUUID();
    const answer = await this.#ask(address, "payment", "/payments", {
      body: { reference },
      token,
      headers: { "idempotency-key": reference },
    });
    if (this.#isAs("payment", answer, [201]))
      this.#note({
        what: "a payment",
        check: async () => (this.#options.paid.has(reference) ? undefined : "the upstream does not know it"),
      });
  }

  /** One user, from the registration to a changed password. */
  async #live(life: number): Promise<void> {
    const address = this.#nextAddress();
    const email = `user-${randomUUID()}@example.com`;
    const person = { email, password: PASSWORD, firstName: "Ada", lastName: "Lovelace" };
    // 409: a repeated call of which the first had its effect.
    const registered = await this.#ask(address, "register", "/auth/register", { body: person });
    if (!this.#isAs("register", registered, [201, 409])) return;
    const { wants } = this.#options;
    if (wants !== undefined && !wants(String(registered.body.data?.user?.id), life)) return;
    let password = this.#passwordHolds(address, email, PASSWORD, undefined);
    try {
      const [first, second, third] = [
        await this.#logIn(address, email, PASSWORD),
        await this.#logIn(address, email, PASSWORD),
        await this.#logIn(address, email, PASSWORD),
      ];
      if (first === undefined || second === undefined || third === undefined) return;
      await this.#pay(address, first.accessToken);
      const refreshed = await this.#ask(address, "refresh", "/auth/refresh", {
        body: { refreshToken: first.refreshToken },
      });
      if (!this.#isAs("refresh", refreshed, [200], [401])) return;
      const current: Tokens = refreshed.body.data;
      const ended = await this.#ask(address, "logout", "/auth/logout", {
        body: {},
        token: second.accessToken,
      });
      if (this.#isAs("logout", ended, [200, 204], [401]))
        this.#note(this.#sessionEnded(address, second, "logout"));
      const changed = await this.#ask(address, "change password", "/auth/change-password", {
        body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
        token: current.accessToken,
      });
      if (this.#isAs("change password", changed, [200, 204], [400, 401])) {
        password = this.#passwordHolds(address, email, NEW_PASSWORD, PASSWORD);
        this.#note(this.#sessionEnded(address, third, "a changed password"));
      } else {
        // Whether it holds is unknown: another change decides nothing either.
        password = { what: "an unknown password", check: async () => undefined };
      }
    } finally {
      this.#note(password);
    }
  }

  /** Several at once get the same tokens. */
  async #renew(payer: Payer): Promise<void> {
    const { refreshToken } = payer;
    const answer = await this.#ask(payer.address, "check", "/auth/refresh", { body: { refreshToken } });
    // Another check may have been first.
    if (answer.status === 200 && payer.refreshToken === refreshToken)
      Object.assign(payer, {
        token: answer.body.data.accessToken,
        refreshToken: answer.body.data.refreshToken,
      });
  }

  async #payApproved(payer: Payer, code: string): Promise<void> {
    const { address } = payer;
    const reference = randomUUID();
    const order = { amount: 12_500, reference };
    const use = (kind: string, approval?: string) =>
      this.#ask(address, kind, "/pay", {
        body: order,
        token: payer.token,
        headers: approval === undefined ? {} : { "gatehouse-approval": approval },
      });
    const asked = await use("order");
    if (!this.#isAs("order", asked, [403])) return;
    const approval: string | undefined = asked.body.error.details?.approval?.token;
    if (approval === undefined) {
      this.violations.push(`order: ${JSON.stringify(asked.body)}`);
      return;
    }
    const given = await this.#ask(address, "approval", "/auth/approvals/verify", {
      body: { token: approval, code },
      token: payer.token,
    });
    if (!this.#isAs("approval", given, [200], [400, 401, 403])) return;
    const isUsedLater = this.#options.random() < 0.5;
    // A repeated use is refused if the first one passed and its answer was lost.
    if (
      !isUsedLater &&
      !this.#isAs("approved payment", await use("approved payment", approval), [201], [403])
    )
      return;
    this.#note({
      what: `an approval that was ${isUsedLater ? "given" : "used"}`,
      check: async () => {
        // At the end of many rounds it has expired.
        const { status } = await this.#ask(address, "check", "/auth/me", { token: payer.token });
        if (status === 401) await this.#renew(payer);
        // Of the first check; at later ones it was used.
        if (!this.#options.paid.has(reference)) {
          const first = await use("check", approval);
          if (first.status !== 201 && !(first.isRepeated && this.#options.paid.has(reference)))
            return `its use is answered ${first.status} ${first.body?.error?.code}`;
        }
        const again = await use("check", approval);
        if (again.status !== 403) return `another use is answered ${again.status}`;
        return this.#options.paid.get(reference) === 1
          ? undefined
          : `it was paid ${this.#options.paid.get(reference)} times`;
      },
    });
  }

  #note(fact: NewFact): void {
    this.facts.push({ ...fact, atMs: performance.now() });
  }

  #nextAddress(): string {
    return `127.0.4.${1 + (this.#people++ % ADDRESSES)}`;
  }

  #agentOf(address: string): Agent {
    const agent = this.#agents.get(address) ?? new Agent({ localAddress: address, connect: { family: 4 } });
    this.#agents.set(address, agent);
    return agent;
  }
}

/** A call that changed something, and was answered so. */
export const isAcknowledged = ({ kind, status }: Call): boolean =>
  kind !== "check" && status !== undefined && status < 300;

function slotIn(token: string | undefined): number | undefined {
  return token === undefined ? undefined : slotOfSession(String(decodeJwt(token).sid));
}

/** Where payments are carried out. It outlives every fault. */
export async function startUpstream() {
  const paid = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const { reference } = JSON.parse(await text(request)) as { reference: string };
    // A payment has its reference as its key: repeated, it is carried out once.
    const isRepeated = request.headers["idempotency-key"] === reference;
    paid.set(reference, isRepeated ? 1 : (paid.get(reference) ?? 0) + 1);
    response.writeHead(201, { "content-type": "application/json" }).end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    /** How often it has carried out a reference. */
    paid,
    /** A file of routes to it. */
    routes: `routes:
  - prefix: /payments
    upstream: ${url}
    methods:
      POST: { roles: [USER], action: payments.create }
  - prefix: /pay
    upstream: ${url}
    methods:
      POST: { roles: [USER], action: pay.create, approval: { fields: [/amount, /reference] } }
`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
