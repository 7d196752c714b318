import { Agent, type Dispatcher, fetch as undiciFetch } from "undici";
import { expect } from "vitest";
import type { CallName, Row } from "./contract.ts";

/** For an answer. The machine may be busy. */
const PATIENCE_MS = 90_000;
const PASSWORD = "correct horse battery";

const agents = new Map<string, Agent>();
const agentOf = (from: string): Dispatcher => {
  const agent = agents.get(from) ?? new Agent({ localAddress: from, connect: { family: 4 } });
  agents.set(from, agent);
  return agent;
};

interface Request {
  token?: string | undefined;
  body?: unknown;
}

/** Calls the gateway at this port from an address of loopback. */
export function callerAt(port: number) {
  return (from: string, method: string, path: string, { token, body }: Request = {}) =>
    undiciFetch(`http://127.0.0.1:${port}${path}`, {
      method,
      dispatcher: agentOf(from),
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(path.startsWith("/account") && { accept: "text/html" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
}
export type Caller = ReturnType<typeof callerAt>;
type Response = Awaited<ReturnType<Caller>>;

/** Of a login that succeeded. */
export async function tokensOf(response: Response): Promise<{ accessToken: string; refreshToken: string }> {
  const text = await response.text();
  if (!response.ok) throw new Error(`login: ${response.status} ${text}`);
  return (JSON.parse(text) as { data: { accessToken: string; refreshToken: string } }).data;
}

/** As the contract writes an answer. */
async function seen(response: Response): Promise<string> {
  const text = await response.text();
  if (response.ok) return String(response.status);
  const { error } = JSON.parse(text) as { error: { code: string } };
  if (response.status === 503) expect(response.headers.get("retry-after")).toMatch(/^\d+$/);
  return `${response.status} ${error.code}`;
}

/**
 * A person with sessions for the calls that each need one of their own, calling from an address of their own.
 *
 * @param admin access token of an administrator. @returns asks calls, with their answers as the contract writes them.
 */
export async function newPerson(call: Caller, admin: string, index: number) {
  const from = `127.0.2.${index + 1}`;
  const credentials = { email: `person-${index}@example.com`, password: PASSWORD };
  /** Logs in as often as it takes: a person's twenty-first session ends the first. */
  const other = { email: `other-${index}@example.com`, password: PASSWORD };
  const register = (person: object) =>
    call(from, "POST", "/auth/register", { body: { ...person, firstName: "Ada", lastName: "Lovelace" } });
  for (const person of [credentials, other]) expect(await seen(await register(person))).toBe("201");
  const logIn = async () => tokensOf(await call(from, "POST", "/auth/login", { body: credentials }));
  const [main, unseen, refreshed, ended] = [await logIn(), await logIn(), await logIn(), await logIn()];
  let payments = 0;
  const ask: Record<CallName, () => Promise<Response>> = {
    keys: () => call(from, "GET", "/.well-known/jwks.json"),
    page: () => call(from, "GET", "/account/login"),
    login: () => call(from, "POST", "/auth/login", { body: other }),
    refresh: () => call(from, "POST", "/auth/refresh", { body: { refreshToken: refreshed.refreshToken } }),
    logout: () => call(from, "POST", "/auth/logout", { token: ended.accessToken }),
    account: () => call(from, "GET", "/auth/me", { token: main.accessToken }),
    known: () => call(from, "GET", "/payments", { token: main.accessToken }),
    fresh: () => call(from, "GET", "/payments", { token: unseen.accessToken }),
    pay: () => {
      payments += 1;
      const body = { amount: 100 + payments, currency: "EUR", payee: "ACME Ltd", reference: `${payments}` };
      return call(from, "POST", "/payments", { token: main.accessToken, body });
    },
    register: () => register({ email: `third-${index}@example.com`, password: PASSWORD }),
    log: () => call(from, "GET", "/admin/audit?limit=1", { token: admin }),
    webhooks: () => call(from, "GET", "/admin/webhooks?limit=1", { token: admin }),
  };
  return async (names: readonly CallName[]): Promise<Partial<Row>> =>
    Object.fromEntries(await Promise.all(names.map(async (name) => [name, await seen(await ask[name]())])));
}
export type Asking = Awaited<ReturnType<typeof newPerson>>;
