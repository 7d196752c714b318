import { randomBytes, randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

/** The upstream's, and a path that does not exist. */
const OTHER_PATHS = ["/payments", "/nowhere"];
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

let system: System;
let api: ApiClient;
/** What must be found nowhere, by what it is. */
const canaries: Record<string, string> = {
  password: `canary ${randomUUID()}`,
  "wrong password": `wrong canary ${randomUUID()}`,
  "new password": `new canary ${randomUUID()}`,
  cookie: `cookie${randomBytes(12).toString("hex")}`,
  "unknown token": `opaque${randomBytes(12).toString("hex")}`,
  "malformed body": `broken${randomBytes(12).toString("hex")}`,
  "card number": cardNumber(),
};

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

test("an account lives through everything, every path is tried with every canary", async () => {
  await liveThroughEverything();
  await tryEveryPath();
  await sayThingsThatAreNotHttp();
  expect(Object.keys(canaries).length).toBeGreaterThan(15);
  const logs = await allLogs();
  expect(logs).toMatch(/"route":"\/payments\/\*"/);
  expect(await auditDump()).toContain("payments.create");
});

test("no log of any process has a secret in it", async () => {
  expect(found(await allLogs())).toEqual([]);
});

test("no row of the audit database has a secret in it", async () => {
  expect(found(await auditDump())).toEqual([]);
});

test("no metric has a secret in it", async () => {
  const ports = Object.entries(system.ports).filter(([name]) => name.endsWith("_OPERATIONS_PORT"));
  expect(ports.length).toBeGreaterThan(4);
  for (const [, port] of ports) {
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(metrics).toContain("gatehouse_");
    expect(found(metrics)).toEqual([]);
  }
});

/** The life of an account, with everything secret that it meets. */
async function liveThroughEverything(): Promise<void> {
  const { password = "", "new password": newPassword = "", "wrong password": wrong = "" } = canaries;
  const email = `canary-${randomUUID()}@example.com`;
  await api.post("/auth/register", { email, password, firstName: "C", lastName: "C" });
  const verification = linkIn(await mailAbout(system, email, "Confirm your e-mail address"));
  keep("verification link", verification.searchParams.get("token"));
  await api.get(verification.pathname + verification.search);
  await api.post("/auth/verify-email", { token: canaries["verification link"], password });
  await api.post("/auth/login", { email, password: wrong });
  const session = await logIn(email, password);
  keep("access token", session.accessToken.split(".")[2]);
  keep("refresh token", session.refreshToken.split(".")[2]);
  const token = session.accessToken;

  const setUp = await api.post("/auth/mfa/setup", { password }, { token });
  keep("TOTP secret", setUp.body.data.secret);
  const nextCode = totpApp(setUp.body.data.secret);
  const enabled = await api.post("/auth/mfa/enable", { code: await nextCode() }, { token });
  for (const [index, code] of enabled.body.data.recoveryCodes.entries()) keep(`recovery code ${index}`, code);
  const begun = await api.post("/auth/login", { email, password });
  keep("temporary token", begun.body.data.tempToken);
  await api.post("/auth/mfa/verify", {
    tempToken: canaries["temporary token"],
    code: canaries["recovery code 0"],
  });
  await api.post("/auth/mfa/verify", { tempToken: canaries["temporary token"], code: await nextCode() });

  await api.post("/auth/forgot-password", { email });
  const reset = linkIn(await mailAbout(system, email, "Set a new password"));
  keep("reset link", reset.searchParams.get("token"));
  await api.get(reset.pathname + reset.search);
  await api.post("/auth/reset-password", { token: `${canaries["reset link"]}x`, newPassword });
  await api.post("/auth/reset-password", { token: canaries["reset link"], newPassword });
  await api.post("/auth/refresh", { refreshToken: session.refreshToken });
  await api.get("/auth/me", { token });
}

/** Every path and method, as nobody, as somebody and as an administrator, right and wrong, with the canaries everywhere. */
/** Method and path of every operation that the gateway documents, and of some others. */
async function everyOperation(): Promise<[string, string][]> {
  const { body: document } = await api.get("/openapi.json");
  const documented = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method): [string, string] => [
      method.toUpperCase(),
      path.replace(/\{\w+\}/, randomUUID()),
    ]),
  );
  const others = OTHER_PATHS.flatMap((path) => METHODS.map((method): [string, string] => [method, path]));
  return [...documented, ...others];
}

async function tryEveryPath(): Promise<void> {
  const {
    cookie = "",
    "unknown token": opaque = "",
    "malformed body": broken = "",
    "card number": card = "",
  } = canaries;
  const { accessToken: admin } = await api.logIn(ADMIN);
  const { accessToken: user } = await api.newUser();
  const headers = {
    cookie: `session=${cookie}`,
    "x-api-key": opaque,
    "user-agent": `shop/1 ${card} ${user}`,
    referer: `https://shop.example/?card=${card}&token=${opaque}`,
    "x-request-id": opaque,
  };
  keep("user's token", user.split(".")[2]);
  const payment = { amount: 1, currency: "EUR", payee: `card ${card}`, reference: card };
  const body = {
    ...canaries,
    ...payment,
    token: opaque,
    refreshToken: opaque,
    newPassword: canaries.password,
  };
  const operations = await everyOperation();
  expect(operations.length).toBeGreaterThan(60);
  for (const token of [undefined, opaque, user, admin]) {
    const as = token === undefined ? {} : { token };
    for (const [method, path] of operations) {
      const query = `?token=${opaque}&password=${opaque}&card=${card}`;
      const bodies = method === "GET" ? [undefined] : [body, `{"password":"${broken}",`, { [broken]: card }];
      for (const each of bodies) {
        await api.call(method, path + query, { ...as, headers, ...(each !== undefined && { body: each }) });
      }
    }
    await api.post("/payments", payment, { ...as, headers });
    await api.call("DELETE", `/payments/${card}`, { ...as, headers });
    await api.get(`/payments/${card}?card=${card}`, { ...as, headers });
    await api.call("POST", "/payments", {
      ...as,
      body: `card=${card}`,
      headers: { ...headers, "content-type": "text/plain" },
    });
    await api.post(
      "/auth/login",
      { email: "x@example.com", password: broken.repeat(1_000) },
      { ...as, headers },
    );
  }
}

/** What the parser itself refuses. */
async function sayThingsThatAreNotHttp(): Promise<void> {
  const { "unknown token": opaque = "" } = canaries;
  for (const text of [
    `GET /${opaque} HTTP/9.9\r\n\r\n`,
    `POST /auth/login HTTP/1.1\r\nHost: x\r\nCookie: ${opaque}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
    `GET /%zz${opaque} HTTP/1.1\r\nHost: 127.0.0.1:${system.ports.GATEWAY_PORT}\r\nConnection: close\r\n\r\n`,
    `${opaque}\r\n\r\n`,
  ]) {
    await new Promise<void>((resolve) => {
      const socket = connect(system.ports.GATEWAY_PORT, "127.0.0.1", () => socket.end(text));
      socket.resume().on("error", () => undefined);
      socket.once("close", () => resolve());
    });
  }
}

async function logIn(email: string, password: string) {
  return api.logIn({ email, password });
}

function keep(name: string, secret: string | null | undefined): void {
  if (secret === null || secret === undefined || secret.length < 8) throw new Error(`no ${name}`);
  canaries[name] = secret;
}

/** The names of the canaries that a text has in it, plain, escaped for a URL, or in base64. */
function found(text: string): string[] {
  return Object.entries(canaries)
    .filter(([, secret]) =>
      [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64").slice(0, -3)].some((form) =>
        text.includes(form),
      ),
    )
    .map(([name]) => name);
}

async function allLogs(): Promise<string> {
  const folder = join(system.home, "logs");
  const names = await readdir(folder);
  expect(names.length).toBeGreaterThan(5);
  return (await Promise.all(names.map((name) => readFile(join(folder, name), "utf8")))).join("\n");
}

/** Every row of every table. */
async function auditDump(): Promise<string> {
  await using database = await databaseOfSystem(system, "audit");
  const { sql } = database;
  const tables = await sql<{ name: string }[]>`
    select quote_ident(table_schema) || '.' || quote_ident(table_name) as name from information_schema.tables
    where table_schema not in ('pg_catalog', 'information_schema')
  `;
  expect(tables.length).toBeGreaterThan(0);
  const rows = await Promise.all(tables.map(({ name }) => sql.unsafe(`select t::text from ${name} as t`)));
  return JSON.stringify(rows);
}

/** 16 digits that nobody's card has, with the check digit of one (Luhn). */
function cardNumber(): string {
  const digits = `400000${String(randomBytes(6).readUIntBE(0, 6) % 1e9).padStart(9, "0")}`;
  const sum = Array.from(digits, Number)
    .reverse()
    .reduce(
      (total, value, index) =>
        total + (index % 2 === 0 ? (value * 2 > 9 ? value * 2 - 9 : value * 2) : value),
      0,
    );
  return `${digits}${(10 - (sum % 10)) % 10}`;
}
