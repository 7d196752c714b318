import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import type { AuditSpool } from "#audit-client/spool/audit-spool.ts";
import { certificateFiles, ensureCertificates } from "#deploy/local/certificates.ts";
import { openHome } from "#deploy/local/home.ts";
import { databaseUrl, servicePasswordFile } from "#deploy/local/postgres/ensure-database.ts";
import { ensureSecrets } from "#deploy/local/secrets.ts";
import { databaseOf } from "#deploy/service-databases.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { emptyLog } from "#tests/support/system/audit-log.ts";
import { type Replica, startReplica } from "#tests/support/system/replicas.ts";
import { freePorts } from "#tests/support/system/system.ts";
import { entry } from "../figures/audit-record.ts";
import { startWorkbench } from "./workbench.ts";

export const logger = pino({ level: "silent" });
export const numbersOf = (count: number) => Array.from({ length: count }, (_, log) => log);

/** So many audit logs, each in a durable PostgreSQL of its own, and whatever starts the processes of audit-service on them. */
export async function openAuditLogs(most: number) {
  const benches = await Promise.all(numbersOf(most).map(() => startWorkbench()));
  const logins = await Promise.all(benches.map((bench) => bench.login("audit-service")));
  const owners = await Promise.all(benches.map((bench) => bench.connectOwner("audit-service")));
  const folders = benches.map(({ folder }) => folder);
  const [first] = logins;
  if (first === undefined) throw new Error("no log");
  // Those of LOGS_FILE have the role and the password of log 0.
  for (const owner of owners) await owner.unsafe(`alter role ${first.username} password '${first.password}'`);

  const home = await openHome(await mkdtemp(join(tmpdir(), "gatehouse-bench-")));
  await ensureSecrets(home);
  await ensureCertificates(home.tls, new Date());
  const files = certificateFiles(home.tls, "gateway");
  const certificate = new ProcessCertificate({
    certFile: files.certificate,
    keyFile: files.key,
    caFile: files.authority,
  });
  const system = { home: home.path, ports: await freePorts() };
  return {
    /** Connections of superusers, by log. */
    owners,
    /** The data directory of a log's PostgreSQL. */
    dataOf: (log: number) => join(folders[log] ?? "", "postgres"),
    spoolDirectory: home.spool,
    system,
    tls: home.tls,
    async empty() {
      for (const owner of owners) await emptyLog(owner);
    },
    /** A process with logs 0 to `count` - 1. */
    async startService(count = most): Promise<Replica> {
      const logs = logins.slice(1, count).map(({ host, port, database }, index) => ({
        number: index + 1,
        url: `postgres://${host}:${port}/${database}`,
      }));
      const LOGS_FILE = join(home.path, `logs-${count}.yaml`);
      await writeFile(LOGS_FILE, JSON.stringify({ logs }));
      const secrets = join(folders[0] ?? "", "secrets");
      return startReplica(system, "audit-service", {
        DATABASE_URL: databaseUrl(first, first.username, first.database),
        DATABASE_PASSWORD_FILE: servicePasswordFile(secrets, databaseOf("audit-service")),
        CHECKPOINT_FILE: "",
        ...(count > 1 && { LOGS_FILE }),
      });
    },
    /** Records what a gateway would. */
    recorderTo: ({ address }: Replica, count = most, spool?: AuditSpool) =>
      createAuditRecorder({
        ...{ address, certificate, spool, logger },
        logs: numbersOf(count),
        metrics: createMetrics("gateway"),
      }),
    async close() {
      certificate.close();
      await Promise.all(owners.map((sql) => sql.end({ timeout: 1 }).catch(() => undefined)));
      await Promise.all(benches.map((bench) => bench.stop().catch(() => undefined)));
      await rm(home.path, { recursive: true, force: true });
    },
  };
}

/** What a gateway records of a call. */
export function callOf(index: number) {
  const outcome = entry(index);
  const { outcome: _, httpStatus, latencyUs, ...call } = outcome;
  return { intent: { ...call, kind: "intent" as const }, outcome };
}
