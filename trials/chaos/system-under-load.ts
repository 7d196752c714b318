import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TestSmtp } from "#identity-service/testing/test-smtp.ts";
import { chooseAtProvider, plainBrowser } from "#tests/support/browser/plain-browser.ts";
import { databaseOfSystem } from "#tests/support/database/system-database.ts";
import type { System } from "#tests/support/system/system.ts";
import { seededRandom } from "../support.ts";
import type { World } from "./clients.ts";
import type { Received } from "./history.ts";

/** For calls of one address. */
export const UNLIMITED = [
  ...["login", "link", "provider", "refresh", "logout", "account", "unknown"].map(
    (name) => `${name}.address`,
  ),
  ...["logout", "account"].map((name) => `${name}.user`),
  ...["login", "link"].map((name) => `${name}.total`),
]
  .map((name) => `${name}=1000000/60`)
  .join(",");
/** The same of the services behind the gateway. */
export const UNTHROTTLED = {
  THROTTLE_CALL_NETWORK_BUDGET: "1000000",
  THROTTLE_NETWORK_BUDGET: "1000000",
  THROTTLE_LOGIN_BUDGET: "1000000",
};
/** The limits of a route. */
const PLENTY = JSON.stringify(
  Object.fromEntries(
    ["perUser", "perAddress", "total"].map((scope) => [scope, { calls: 1_000_000, perSeconds: 60 }]),
  ),
);

/** What the clients call: payments, and payments that need an approval. */
export function routesTo(port: number): string {
  const common = `upstream: "http://127.0.0.1:${port}", timeoutMs: 3000, rateLimit: ${PLENTY}`;
  const approval = "approval: { fields: [/amount, /reference] }";
  return `routes:
  - { prefix: /pay, ${common}, methods: { GET: { roles: [USER] }, POST: { roles: [USER], action: pay.create } } }
  - { prefix: /approved, ${common}, methods: { POST: { roles: [USER], action: approved.create, ${approval} } } }
`;
}

/** @param smtp where the system's mails go; without it nobody gets a link. */
export function newWorld(
  system: Pick<System, "home" | "ports">,
  { seed, smtp, ...own }: Pick<World, "urls" | "signal"> & { seed: number; smtp?: TestSmtp },
): World {
  return {
    ...own,
    random: seededRandom(seed),
    calls: [],
    resetToken: smtp === undefined ? () => undefined : keepResetTokens(smtp),
    proveAddress: (userId) => proveAddress(system, userId),
    logInAtProvider: async (page) => new URL(await chooseAtProvider(plainBrowser(), page.href, "grace")),
    ghosts: [],
  };
}

/** @returns the token of the newest mail to an address with a reset link. */
function keepResetTokens(smtp: TestSmtp): (email: string) => string | undefined {
  const tokens = new Map<string, string>();
  smtp.onMail = async ({ to, raw }) => {
    const [, token] = /reset-password\?token=([\w-]+)/.exec(raw.replaceAll("=3D", "=")) ?? [];
    if (token !== undefined) tokens.set(to[0] ?? "", token);
  };
  return (email) => tokens.get(email);
}

async function proveAddress(system: Pick<System, "home" | "ports">, userId: string): Promise<void> {
  await using database = await databaseOfSystem(system, "identity");
  await database.sql`
    update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
    where id = ${userId}`;
}

/** An upstream that outlives every fault and remembers what it was sent. */
export async function startUpstream() {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => undefined);
    // The gateway has left in the middle of a body: nothing is carried out.
    if (body === undefined) return void response.destroy();
    const header = (name: string) => request.headers[name]?.toString();
    const optional = {
      reference: body === "" ? undefined : (JSON.parse(body) as { reference: string }).reference,
      idempotencyKey: header("idempotency-key"),
      approvalId: header("x-approval-id"),
      approvalDigest: header("x-approval-digest"),
    };
    received.push({
      atMs: performance.now(),
      traceId: header("traceparent")?.split("-")[1] ?? "",
      method: request.method ?? "",
      userId: header("x-user-id") ?? "",
      sessionId: header("x-session-id") ?? "",
      role: header("x-user-role") ?? "",
      ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
    });
    response
      .writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" })
      .end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    received,
    port: (server.address() as AddressInfo).port,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
