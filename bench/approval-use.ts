/**
 * What the use of an approval adds to a forwarded POST: the gateway reads the body, computes the digest and calls
 * identity-service, which commits the use. In turns with a POST that needs none, one after the other, on real processes
 * and a durable PostgreSQL. The approvals are planted as given.
 *
 *   npm run bench:approval-use
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { Pool } from "undici";
import { apiClient } from "#tests/support/api-client.ts";
import { startCrashingSystem } from "#tests/support/crashing-system.ts";
import { databaseOfSystem } from "#tests/support/system-database.ts";
import { quantile } from "./support/workbench.ts";

const CALLS = 1_000;
const WARM_UP_CALLS = 200;

const upstream = createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(201, { "content-type": "application/json" }).end("{}"));
});
upstream.listen(0, "127.0.0.1");
await once(upstream, "listening");
const folder = await mkdtemp(join(tmpdir(), "gatehouse-bench-"));
const routesFile = join(folder, "routes.yaml");
const plenty = { calls: 1_000_000_000, perSeconds: 60 };
const route = (prefix: string, policy: object) => ({
  prefix,
  upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
  rateLimit: { perUser: plenty, perAddress: plenty },
  methods: { POST: { roles: ["USER"], action: "payments.create", ...policy } },
});
const approval = { fields: ["/amount", "/reference"] };
await writeFile(
  routesFile,
  JSON.stringify({ routes: [route("/plain", {}), route("/approved", { approval })] }),
);

const system = await startCrashingSystem(({ name }) =>
  name === "gateway" ? { ROUTES_FILE: routesFile } : {},
);
const { accessToken } = await apiClient(system.url).newUser();
const claims = JSON.parse(Buffer.from(accessToken.split(".")[1] ?? "", "base64url").toString("utf8"));
const [user, session] = [String(claims.sub), String(claims.sid)];
const approvals = await plant(CALLS + WARM_UP_CALLS);

const pool = new Pool(system.url, { connections: 1 });
const timings = { plain: [] as number[], approved: [] as number[] };
console.log(`load average at the start: ${loadavg()[0]?.toFixed(1)}`);
for (const [index, { token, reference }] of approvals.entries()) {
  const plainMs = await post("/plain", reference);
  const approvedMs = await post("/approved", reference, token);
  if (index < WARM_UP_CALLS) continue;
  timings.plain.push(plainMs);
  timings.approved.push(approvedMs);
}
const at = (name: keyof typeof timings, share: number) => quantile(timings[name], share);
for (const share of [0.5, 0.99]) {
  const [plain, approved] = [at("plain", share), at("approved", share)];
  const added = `added ${(approved - plain).toFixed(2)} ms`;
  console.log(`p${share * 100}: plain ${plain.toFixed(2)} ms, approved ${approved.toFixed(2)} ms, ${added}`);
}
console.log(`load average at the end: ${loadavg()[0]?.toFixed(1)}`);
await pool.close();
await system.remove();
upstream.closeAllConnections();
upstream.close();
await rm(folder, { recursive: true, force: true });

async function post(path: string, reference: string, token?: string): Promise<number> {
  const headers = {
    authorization: `Bearer ${accessToken}`,
    "content-type": "application/json",
    ...(token !== undefined && { "gatehouse-approval": token }),
  };
  const startedMs = performance.now();
  const { statusCode, body } = await pool.request({
    ...{ method: "POST", path, headers },
    body: JSON.stringify({ amount: 12_500, currency: "EUR", reference }),
  });
  await body.dump();
  if (statusCode !== 201) throw new Error(`answered ${statusCode}`);
  return performance.now() - startedMs;
}

/** A session has at most ten open by asking, so these are written. */
async function plant(count: number): Promise<{ token: string; reference: string }[]> {
  const now = new Date();
  const planted = Array.from({ length: count }, () => {
    const reference = randomUUID();
    const token = randomBytes(32).toString("base64url");
    const text =
      `{"fields":{"/amount":12500,"/reference":"${reference}"},"method":"POST","route":"/approved",` +
      `"session":"${session}","user":"${user}"}`;
    return { token, reference, text };
  });
  const hash = (text: string) => createHash("sha256").update(text).digest();
  await using database = await databaseOfSystem(system, "identity");
  const rows = planted.map(({ token, text }) => ({
    ...{ id: randomUUID(), user_id: user, session_id: session, acr: 2, nonce: randomBytes(32) },
    ...{ token_hash: hash(token), transaction_text: text, digest: hash(text), method: "totp" },
    ...{ created_at: now, given_at: now, expires_at: new Date(now.getTime() + 3_600_000) },
  }));
  await database.sql`insert into approvals ${database.sql(rows)}`;
  return planted;
}
