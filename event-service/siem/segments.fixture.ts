import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { pino } from "pino";
import { removeOldPartitions } from "#audit-service/log/remove-old-partitions.ts";
import { monthOf } from "#audit-service/log/retention-store.ts";
import { AUDIT_QUERY_CALLERS, createAuditQueryRpc } from "#audit-service/query/audit-query-rpc.ts";
import { followEntries } from "#audit-service/query/follow-entries.ts";
import { openLogCheckpoint } from "#cli/audit-verifier/checkpoint.ts";
import { parseExportLine } from "#cli/audit-verifier/export-line.ts";
import { parseVerifierKey } from "#cli/audit-verifier/signed-note.ts";
import { verifyLogs } from "#cli/audit-verifier/verify-logs.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { AuditQueryServiceService } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { ORIGIN, openTestLog, readableLog, signer } from "#tests/support/system/audit-sequencer.ts";
import type { TestCertificates } from "#tests/support/system/certificates.ts";
import { createAuditLogClient } from "../stream/audit-log-client.ts";
import type { Manifest } from "./segments.ts";

const OTHER_LOG = 7;

/** audit-service's reading side with the logs 0 and 7, and event-service's client of it. */
export async function startAuditLogs(certificates: TestCertificates) {
  const [first, other] = await Promise.all([openTestLog(), openTestLog()]);
  const logs = [readableLog(first.database.sql), readableLog(other.database.sql, OTHER_LOG)] as const;
  const server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("audit-service"),
  });
  const deps = {
    logs,
    followEntries: (following: Parameters<typeof followEntries>[1]) => followEntries(logs, following),
    recordReading: async () => undefined,
    monotonicMs: () => performance.now(),
  };
  server.add(AuditQueryServiceService, AUDIT_QUERY_CALLERS, createAuditQueryRpc(deps as never));
  const port = await server.listen();
  const client = createAuditLogClient(`127.0.0.1:${port}`, certificates.of("event-service"));
  const written = [
    { log: first, sequencer: first.sequencer() },
    { log: other, sequencer: other.sequencer({ origin: `${ORIGIN}/${OTHER_LOG}` }) },
  ];
  return {
    client,
    /** The last entries are covered by a checkpoint. */
    async add(count: number, log: 0 | 7 = 0) {
      const to = written[log === 0 ? 0 : 1];
      await to?.log.record(count);
      await to?.sequencer.catchUp();
    },
    /** Retention removes old entries of log 0, and some of this month follow them. */
    async addAfterRemoved(removed: number, count: number) {
      const [to] = written;
      await first.recordIn(monthOf(new Date()) - 3, removed);
      await to?.sequencer.catchUp();
      await first.record(count);
      await to?.sequencer.catchUp();
      await removeOldPartitions({
        ...{ sql: first.database.sql, signer, retentionMonths: 1, now: () => new Date() },
        logger: pino({ level: "silent" }),
      });
    },
    verifierKey: logs[0].verifierKey,
    async close() {
      client.close();
      await server.close(200);
      await Promise.all([first.close(), other.close()]);
    },
  };
}

export type AuditLogs = Awaited<ReturnType<typeof startAuditLogs>>;

/** By name, all that a place has. */
export type Objects = ReadonlyMap<string, Buffer>;

export async function readFolder(root: string): Promise<Objects> {
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const names = found.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const read = await Promise.all(
    names.toSorted().map(async (path) => [path.slice(root.length + 1), await readFile(path)] as const),
  );
  return new Map(read);
}

/**
 * What a SIEM may rely on: every manifest has its segment whole, each follows the one before without a gap, and the house's
 * verifier proves each. @returns `log:first-last`.
 */
export async function provenSegments(objects: Objects, verifierKey: string): Promise<string[]> {
  const manifests = [...objects]
    .filter(([name]) => name.endsWith(".manifest.json"))
    .map(([, bytes]) => JSON.parse(bytes.toString()) as Manifest);
  const keys = [parseVerifierKey(verifierKey)];
  const checkpoints = manifests.map(({ checkpoint }) => openLogCheckpoint(checkpoint, keys));
  const former = new Map<number, Manifest>();
  for (const manifest of manifests) {
    const before = former.get(manifest.log);
    if (manifest.former !== (before?.name ?? null) || (before && manifest.first !== before.last + 1))
      throw new Error(`${manifest.name} does not follow`);
    former.set(manifest.log, manifest);
    const bytes = objects.get(manifest.name) ?? Buffer.of();
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    if (sha256 !== manifest.sha256 || bytes.length !== manifest.bytes)
      throw new Error(`${manifest.name} is not whole`);
    const lines = bytes.toString("latin1").trimEnd().split("\n");
    const verdict = await verifyLogs({
      batches: inOne(lines.map((line) => Buffer.from(line, "latin1"))),
      read: parseExportLine,
      trust: { keys, checkpoints, isPartial: true },
    });
    const [log] = verdict.logs;
    if (
      verdict.result !== "proven" ||
      log?.lastSequence !== manifest.last ||
      log.trustedUpTo !== manifest.last
    )
      throw new Error(`${manifest.name}: ${JSON.stringify(verdict)}`);
  }
  return manifests.map(({ log, first, last }) => `${log}:${first}-${last}`);
}

async function* inOne<T>(batch: T): AsyncGenerator<T> {
  yield batch;
}

/** Answers undefined: as an object store does. */
type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/** What of S3 a collector sees. It refuses what is not signed for its content. A trial has a real one. */
export async function startBucket() {
  const objects = new Map<string, Buffer>();
  const requests: { method: string; path: string; headers: IncomingMessage["headers"] }[] = [];
  const state: { answer: Answer | undefined } = { answer: undefined };
  const server = createServer(async (request, response) => {
    const { method = "", url: path = "", headers } = request;
    const body = await buffer(request).catch(() => undefined);
    requests.push({ method, path, headers });
    if (state.answer !== undefined) return state.answer(request, response);
    const hash = createHash("sha256").update(body ?? "");
    if (hash.digest("hex") !== headers["x-amz-content-sha256"]) return response.writeHead(400).end();
    const name = path.replace(/^\/audit\/gatehouse\//, "");
    if (method === "PUT") objects.set(name, body ?? Buffer.of());
    const found = objects.get(name);
    if (found === undefined) return response.writeHead(404).end("<Error><Code>NoSuchKey</Code></Error>");
    return response.writeHead(200).end(method === "GET" ? found : "");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/audit/gatehouse`,
    objects,
    requests,
    answer(answer?: Answer) {
      state.answer = answer;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type Bucket = Awaited<ReturnType<typeof startBucket>>;
