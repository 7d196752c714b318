import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Redis } from "ioredis";
import { vi } from "vitest";
import type { TestCertificates } from "../system/certificates.ts";
import { freePort } from "../system/free-port.ts";
import { launch, startRedis, type TestRedis } from "./redis.ts";

const CONFIGURATION = resolve(import.meta.dirname, "..", "..", "..", "deploy", "high-availability");
const HOST = "localhost";
const PATIENCE = { timeout: 60_000 };
const REPLICATION_PASSWORD = "a-replication-password";

export interface SecuredSentinels {
  url: string;
  /** Of the user `gatehouse` of Redis. */
  password: string;
  sentinelPassword: string;
  caFile: string;
  primary: TestRedis;
  replica: TestRedis;
  remove(): Promise<void>;
}

/** A primary, a replica and three sentinels, which speak only TLS, have passwords and know each other by name. */
export async function startSecuredSentinels(
  program: string,
  certificates: TestCertificates,
): Promise<SecuredSentinels> {
  const files = certificates.environmentOf("token-service");
  const tls = { certFile: files.TLS_CERT_FILE, keyFile: files.TLS_KEY_FILE, caFile: files.TLS_CA_FILE };
  const [password, sentinelPassword] = ["a-redis-password", "a-sentinel-password"];
  const startNode = (...more: string[]) =>
    startRedis(program, {
      tls,
      password: REPLICATION_PASSWORD,
      more: [
        ...["--tls-replication", "yes", "--masterauth", REPLICATION_PASSWORD],
        ...["--replica-announce-ip", HOST, "--repl-diskless-sync-delay", "0"],
        ...["--user", "gatehouse", "on", `>${password}`, "~*", "&*", "+@all", "-@dangerous"],
        ...more,
      ],
    });
  const primary = await startNode();
  const replica = await startNode("--replicaof", HOST, `${primary.port}`);
  const ca = await readFile(tls.caFile);
  const ask = async (port: number, secret: string, ...[name = "", ...given]: string[]) => {
    const redis = new Redis({ host: HOST, port, password: secret, tls: { ca } });
    redis.on("error", () => undefined);
    return redis.call(name, ...given).finally(() => redis.disconnect());
  };
  const isInStep = async () =>
    `${await ask(replica.port, REPLICATION_PASSWORD, "ROLE")}`.includes("connected");
  await vi.waitUntil(isInStep, PATIENCE);

  const folder = await mkdtemp(join(tmpdir(), "gatehouse-secured-sentinels-"));
  const shared = await readFile(join(CONFIGURATION, "sentinel.conf"), "utf8");
  const ports = await Promise.all([freePort(), freePort(), freePort()]);
  const sentinels = await Promise.all(
    ports.map(async (port) => {
      const own = join(folder, `${port}`);
      await mkdir(own);
      const lines = [
        ...["bind 127.0.0.1 -::1", "port 0", `tls-port ${port}`, `dir ${own}`],
        ...[`tls-cert-file ${tls.certFile}`, `tls-key-file ${tls.keyFile}`, `tls-ca-cert-file ${tls.caFile}`],
        ...["tls-auth-clients no", "tls-replication yes", `requirepass ${sentinelPassword}`],
        ...["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"],
        ...[`sentinel announce-ip ${HOST}`, `sentinel announce-port ${port}`],
        shared
          .replace(/^(sentinel monitor \w+) \S+ \d+/m, `$1 ${HOST} ${primary.port}`)
          .replace(/(?<=^sentinel down-after-milliseconds \w+ )\d+/m, "2000"),
        `sentinel auth-pass gatehouse ${REPLICATION_PASSWORD}`,
      ];
      const file = join(own, "sentinel.conf");
      await writeFile(file, `${lines.join("\n")}\n`);
      return launch(program, [file, "--sentinel"], port, own);
    }),
  );
  for (const port of ports) {
    const sentinel = (...given: string[]) => ask(port, sentinelPassword, "SENTINEL", ...given);
    const canElect = async () => {
      const quorum = await sentinel("CKQUORUM", "gatehouse").catch(String);
      const replicas = (await sentinel("REPLICAS", "gatehouse")) as unknown[];
      return `${quorum}`.startsWith("OK 3 ") && replicas.length === 1;
    };
    await vi.waitUntil(canElect, PATIENCE);
  }
  return {
    url: `rediss+sentinel://gatehouse@${ports.map((port) => `${HOST}:${port}`).join(",")}/gatehouse`,
    password,
    sentinelPassword,
    caFile: tls.caFile,
    primary,
    replica,
    async remove() {
      for (const child of sentinels) child.kill("SIGKILL");
      await Promise.all([primary.remove(), replica.remove()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
