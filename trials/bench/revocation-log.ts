/**
 * A token-service that starts with a million live entries in the revocation log, besides as many that have ended; a
 * fail-over that loses some; and a verifier, a process of its own, that takes all of them from the stream.
 *
 *   npm run trial -- revocation-log [entries]
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pino } from "pino";
import { createRpcClient } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { TokenServiceClient } from "#proto/gatehouse/token/v1/token_service.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { startTokenServer } from "#tests/support/system/token-server.ts";
import { startTokenReplica } from "#tests/support/system/token-service.ts";
import { RevocationSet } from "#token-client/revocation-set.ts";
import { RevocationWatch } from "#token-client/revocation-watch.ts";
import { serverCpuUs, startCpu, startWorkbench } from "./support/workbench.ts";

const MAX_START_S = 10;
const MAX_LAG_MS = 3_000;
const heapMb = () => {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / 1_048_576;
};

/** @returns what was used since the call: seconds on the clock, seconds of CPU, growth of the heap. */
function measure() {
  const before = heapMb();
  const startedMs = performance.now();
  const cpu = startCpu();
  return () => {
    const s = (performance.now() - startedMs) / 1_000;
    const cpuS = cpu() / 1_000_000;
    const growthMb = heapMb() - before;
    const maxRssMb = process.resourceUsage().maxRSS / 1_024;
    return {
      cpuS,
      text: `${s.toFixed(1)} s, ${cpuS.toFixed(1)} s of CPU, ${growthMb.toFixed(0)} MiB of heap, at most ${maxRssMb.toFixed(0)} MiB RSS`,
    };
  };
}

if (process.send === undefined) await serve(Number(process.argv[2] ?? "1000000"));
else await verify(process.argv.slice(2));

async function serve(entries: number): Promise<void> {
  const bench = await startWorkbench();
  const certificates = await createTestCertificates();
  const owner = await bench.connectOwner("token-service");
  await owner`
    insert into revocations (sequence, session_id, expires_at)
    select n, gen_random_uuid(), now() + case when n <= ${entries}::integer then interval '-30 minutes' else interval '30 minutes' end
    from generate_series(1, 2 * ${entries}::integer) as n`;
  await owner`update revocation_head set sequence = 2 * ${entries}::integer`;
  await owner`analyze`;

  const sql = await bench.connect("token-service", 10, { statement_timeout: "2000" });
  const postgresUs = () => serverCpuUs(join(bench.folder, "postgres"));
  const beforeUs = await postgresUs();
  const startMeasured = measure();
  const replica = await startTokenReplica(sql);
  const start = startMeasured();
  const readS = ((await postgresUs()) - beforeUs) / 1_000_000;
  console.log(
    `token-service starts with ${entries}: ${start.text}; PostgreSQL: ${readS.toFixed(1)} s of CPU`,
  );

  await owner`update revocations set tip = gen_random_uuid(), session_id = gen_random_uuid() where sequence > 2 * ${entries}::integer - 100`;
  const lostMs = performance.now();
  await replica.deps.revocations.refresh();
  const rereadMs = performance.now() - lostMs;
  console.log(`after a fail-over that lost 100 of them: read again in ${rereadMs.toFixed(0)} ms`);

  const server = await startTokenServer(replica, certificates);
  const files = Object.values(certificates.environmentOf("gateway"));
  const watched = measure();
  const verifier = fork(import.meta.filename, [server.address, ...files], {
    execArgv: ["--expose-gc", "--max-old-space-size=256"],
  });
  const [taken] = await once(verifier, "message", { signal: AbortSignal.timeout(60_000) });
  const sent = watched();
  console.log(`a verifier takes ${taken.size}: ${taken.text}\n  token-service sends them: ${sent.text}`);

  await server.stop();
  await replica.stop();
  await Promise.all([sql.end(), owner.end()]);
  await bench.stop();
  await certificates.remove();
  // By CPU: the time on the clock has the other work of the machine in it.
  const isKept =
    start.cpuS + readS < MAX_START_S &&
    rereadMs < MAX_LAG_MS &&
    taken.cpuS + sent.cpuS < MAX_START_S &&
    taken.size >= entries;
  const promise = `a start of token-service and one of a verifier take less than ${MAX_START_S} s of CPU on both sides, a fail-over less than ${MAX_LAG_MS / 1_000} s`;
  console.log(isKept ? `promise kept: ${promise}` : `PROMISE BROKEN: ${promise}`);
  process.exit(isKept ? 0 : 1);
}

async function verify([address = "", certFile = "", keyFile = "", caFile = ""]: string[]): Promise<void> {
  const measured = measure();
  const revoked = new RevocationSet(Number.POSITIVE_INFINITY);
  const watch = new RevocationWatch({
    client: createRpcClient(TokenServiceClient, {
      address,
      certificate: new ProcessCertificate({ certFile, keyFile, caFile }),
      service: "token-service",
    }),
    revoked,
    logger: pino({ level: "silent" }),
  });
  while (!watch.isHeard) await setTimeout(10);
  process.send?.({ ...measured(), size: revoked.size }, () => process.exit());
}
