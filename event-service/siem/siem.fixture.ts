import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import type { Sql } from "#kit/database/postgres.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { type Repetition, repeat } from "#kit/telemetry/repeat.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { WholeEntry } from "../stream/audit-log-client.ts";
import type { LogsInMemory } from "../stream/event.fixture.ts";
import type { StreamEntry } from "../stream/event.ts";
import { EventSource } from "../stream/event-source.ts";
import type { Collector } from "./collector.ts";
import type { CollectorLease, CollectorName } from "./collector-store.ts";
import { Collectors } from "./collectors.ts";
import { EntryReader } from "./entry-reader.ts";

const BEAT_MS = 20;
/** With it the pauses between attempts are of no length. */
const NO_PAUSE = -2;

/** The collectors of one event-service. Once started it reads and beats again and again. */
export function startSiem(
  { sql, logs }: { sql: Sql; logs: Pick<LogsInMemory, "follow"> },
  name: CollectorName,
  open: (reader: EntryReader, lease: CollectorLease) => Collector,
) {
  const lines: string[] = [];
  const logger = createLogger("event-service", "info", { write: (line) => void lines.push(line) });
  const events = new EventSource({ follow: logs.follow, source: "https://auth.example.com", logger });
  const readLog = async (log: number, after: number, limit: number) => {
    const { entries, next, away } = await logs.follow({ [log]: after }, limit);
    if (away.includes(log)) throw new DomainError("service_unavailable");
    return {
      entries: entries.filter((entry) => entry.log === log).map(toWholeEntry),
      next: next[log] ?? after,
    };
  };
  const reader = new EntryReader({ readLog, events, logger });
  const openers = new Map([[name, (lease: CollectorLease) => open(reader, lease)]]);
  const random = () => NO_PAUSE;
  const collectors = new Collectors({ sql, open: openers, reader, now: () => new Date(), random, logger });
  let repetition: Repetition | undefined;
  return {
    collectors,
    lines,
    async start() {
      const goOn = async () => {
        await Promise.all([events.read(), collectors.beat()]);
      };
      await goOn();
      repetition = repeat("replica", BEAT_MS, goOn, logger);
    },
    /** It beats no more, and knows nothing of it. */
    freeze: () => repetition?.stop(),
    async stop() {
      await repetition?.stop();
      await collectors.stop();
    },
  };
}

export type Siem = ReturnType<typeof startSiem>;

export function toWholeEntry(entry: StreamEntry): WholeEntry {
  const { occurredAt, receivedAt, actor, ...rest } = entry;
  return {
    ...rest,
    v: 1,
    occurredAt: occurredAt.toISOString(),
    receivedAt: receivedAt.toISOString(),
    actor: { ...actor, claimedEmail: "ada@example.com", claimedEmailHash: "" },
    clientIp: "203.0.113.9",
    userAgent: 'Browser "1" ]\\ ü\nnext',
  };
}

interface Certificates {
  environmentOf(name: "payments-service"): Record<"TLS_CERT_FILE" | "TLS_KEY_FILE" | "TLS_CA_FILE", string>;
}

/** Of a receiver at 127.0.0.1, and whom its callers trust. */
export function receiverTls(certificates: Certificates) {
  const files = certificates.environmentOf("payments-service");
  return {
    key: readFileSync(files.TLS_KEY_FILE, "utf8"),
    cert: readFileSync(files.TLS_CERT_FILE, "utf8"),
    ca: readFileSync(files.TLS_CA_FILE, "utf8"),
  };
}

interface LogRecord {
  eventName: string;
  severityText: string;
  timeUnixNano: string;
  body: { stringValue: string };
  attributes: { key: string; value: { stringValue?: string; intValue?: string } }[];
}

type Answer = (entries: WholeEntry[], response: ServerResponse) => unknown;

/** A receiver of OTLP logs. It keeps what it has answered with 200. */
export async function startOtlpReceiver(tls: ReturnType<typeof receiverTls>) {
  const taken: WholeEntry[] = [];
  const records: LogRecord[] = [];
  const requests: { headers: IncomingMessage["headers"]; atMs: number }[] = [];
  const ok: Answer = (_, response) => response.writeHead(200).end("{}");
  const state = { answer: ok };
  const server = createServer(tls, async (request, response) => {
    const body = JSON.parse(gunzipSync(await buffer(request)).toString()) as {
      resourceLogs: { scopeLogs: { logRecords: LogRecord[] }[] }[];
    };
    const received = body.resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap((one) => one.logRecords));
    const entries = received.map((record) => JSON.parse(record.body.stringValue) as WholeEntry);
    requests.push({ headers: request.headers, atMs: performance.now() });
    await state.answer(entries, response);
    if (response.statusCode === 200 && response.writableEnded) {
      taken.push(...entries);
      records.push(...received);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1/logs`,
    taken,
    records,
    requests,
    answer(answer: Answer = ok) {
      state.answer = answer;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type OtlpReceiver = Awaited<ReturnType<typeof startOtlpReceiver>>;

/** Once for each place, in the order of the logs: what a SIEM has after it has removed what came twice. */
export function places(entries: readonly Pick<WholeEntry, "log" | "sequence">[]): string[] {
  const sorted = entries.toSorted((one, other) => one.log - other.log || one.sequence - other.sequence);
  return [...new Set(sorted.map(({ log, sequence }) => `${log}:${sequence}`))];
}
