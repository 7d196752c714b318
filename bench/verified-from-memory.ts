/**
 * What `verify` costs in a process that has seen the token: the synchronous answer from memory, with ten thousand
 * tokens known and ten thousand sessions revoked.
 *
 *   npm run bench:verified-from-memory
 */
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { createMetrics } from "#kit/metrics.ts";
import { createTestCertificates } from "#tests/support/certificates.ts";
import { startTokenServer } from "#tests/support/token-server.ts";
import { logIn, startTokenReplica } from "#tests/support/token-service.ts";
import { createTokenVerifier } from "#token-client/token-verifier.ts";
import { quantile, runMany, startCpu, startWorkbench } from "./support/workbench.ts";

const TOKENS = 2_000;
const REVOKED = 10_000;
const ROUNDS = 9;
const CALLS = 200_000;

const workbench = await startWorkbench();
const certificates = await createTestCertificates();
const replica = await startTokenReplica(await workbench.connect("token-service"));
const server = await startTokenServer(replica, certificates);
const verifier = createTokenVerifier({
  address: server.address,
  certificate: certificates.of("gateway"),
  logger: pino({ level: "silent" }),
  metrics: createMetrics("bench"),
});
for (let index = 0; index < REVOKED; index += 1) verifier.refuseSession(randomUUID());
const tokens: string[] = [];
await runMany(TOKENS, 8, async () => void tokens.push((await logIn(replica, randomUUID())).accessToken));
for (const token of tokens) await verifier.verify(token, undefined);

const cpuUs: number[] = [];
for (let round = -1; round < ROUNDS; round += 1) {
  // A request brings its token as a new string each time: its hash is not cached.
  const texts = Array.from({ length: CALLS / 100 }, (_, index) => Buffer.from(tokens[index % TOKENS] ?? ""));
  const cpu = startCpu();
  for (let index = 0; index < CALLS; index += 1) {
    const verdict = verifier.verify(
      (texts[index % texts.length] ?? Buffer.alloc(0)).toString("latin1"),
      undefined,
    );
    if (verdict instanceof Promise || verdict.kind !== "active") throw new Error("not answered from memory");
  }
  if (round >= 0) cpuUs.push(cpu() / CALLS);
  await new Promise((resolve) => setTimeout(resolve, 600)); // a heartbeat
}
console.log(
  `verified from memory: ${quantile(cpuUs, 0.5).toFixed(2)} µs CPU (median of ${ROUNDS} rounds of ${CALLS})`,
);
verifier.close();
await server.stop();
replica.stop();
await replica.deps.sql.end();
await workbench.stop();
await certificates.remove();
