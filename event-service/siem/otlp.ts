import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { createOutboundHttp, OutboundError } from "#outbound-http/outbound-http.ts";
import { retryAfterMs } from "#outbound-http/retry-after.ts";
import type { WholeEntry } from "../stream/audit-log-client.ts";
import { type Collector, CollectorProblem, MAX_ASKED_PAUSE_MS } from "./collector.ts";
import type { EntryReader } from "./entry-reader.ts";

const MAX_BATCH = 500;
const IDLE_MS = 200;
const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024;
/** SeverityNumber of OpenTelemetry's data model. */
const SEVERITY = { INFO: 9, WARN: 13 } as const;

const compress = promisify(gzip);

export interface OtlpOptions {
  /** …/v1/logs. Plain HTTP on loopback only. */
  url: string;
  /** Read for each batch, so that a new token needs no restart. @throws {Error} */
  headers(): Readonly<Record<string, string>>;
  ca: string | undefined;
  reader: EntryReader;
  now: () => Date;
}

/** Sends logs by OTLP 1 over HTTP, in JSON (opentelemetry.io/docs/specs/otlp). */
export function openOtlpCollector({ url, headers, ca, reader, now }: OtlpOptions): Collector {
  const http = createOutboundHttp({
    network: ["public", "private", "loopback"],
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_ANSWER_BYTES,
    ca,
  });
  const send = async (entries: readonly WholeEntry[], signal: AbortSignal) => {
    const body = await compress(JSON.stringify(toLogsData(entries, now())));
    const answer = await http
      .fetch(url, {
        method: "POST",
        headers: { ...headers(), "content-type": "application/json", "content-encoding": "gzip" },
        body,
        signal,
      })
      .catch((error: unknown) => {
        if (error instanceof OutboundError) throw new CollectorProblem(error.problem, { cause: error });
        throw error;
      });
    await assertTaken(answer, now());
  };
  return {
    name: "otlp",
    idleMs: IDLE_MS,
    async push(places, signal) {
      const { entries, next } = await reader.after(places, MAX_BATCH);
      if (entries.length === 0) return undefined;
      await send(entries, signal);
      return next;
    },
    close: () => http.close(),
  };
}

/** Every refusal is one of all: what the receiver has refused is never dropped here. */
async function assertTaken(answer: Response, now: Date): Promise<void> {
  if (answer.status !== 200) {
    const pauseMs = retryAfterMs(answer, now, MAX_ASKED_PAUSE_MS);
    throw new CollectorProblem(`status ${answer.status}`, { pauseMs });
  }
  const text = await answer.text();
  const { partialSuccess } = parse(text);
  const rejected = Number(partialSuccess?.rejectedLogRecords ?? 0);
  if (rejected !== 0) throw new CollectorProblem(`${rejected} entries refused (partial success)`);
}

interface ExportLogsResponse {
  partialSuccess?: { rejectedLogRecords?: string | number } | null;
}

function parse(text: string): ExportLogsResponse {
  if (text.trim() === "") return {};
  try {
    return (JSON.parse(text) as ExportLogsResponse | null) ?? {};
  } catch (cause) {
    throw new CollectorProblem("the answer is not JSON", { cause });
  }
}

function toLogsData(entries: readonly WholeEntry[], now: Date) {
  const resource = { attributes: attributes({ "service.name": "gatehouse" }) };
  const observed = unixNano(now);
  const logRecords = entries.map((entry) => toLogRecord(entry, observed));
  return { resourceLogs: [{ resource, scopeLogs: [{ scope: { name: "gatehouse.audit" }, logRecords }] }] };
}

/** Names of OpenTelemetry's semantic conventions where there is one. */
function toLogRecord(entry: WholeEntry, observedTimeUnixNano: string) {
  const severityText = entry.outcome === "failure" ? "WARN" : "INFO";
  return {
    timeUnixNano: unixNano(new Date(entry.occurredAt)),
    observedTimeUnixNano,
    severityNumber: SEVERITY[severityText],
    severityText,
    eventName: `gatehouse.${entry.action}`,
    body: { stringValue: JSON.stringify(entry) },
    attributes: attributes({
      "log.record.uid": entry.id,
      "gatehouse.log": entry.log,
      "gatehouse.sequence": entry.sequence,
      "gatehouse.kind": entry.kind,
      "gatehouse.action": entry.action,
      "gatehouse.outcome": entry.outcome,
      "gatehouse.resource": entry.resource,
      "gatehouse.producer": entry.producer,
      "gatehouse.call_id": entry.callId,
      "gatehouse.request_id": entry.requestId,
      "gatehouse.reason": entry.reason,
      "user.id": entry.actor.userId,
      "gatehouse.role": entry.actor.role,
      "session.id": entry.actor.sessionId,
      "client.address": entry.clientIp,
      "user_agent.original": entry.userAgent,
      "http.request.method": entry.method,
      "http.route": entry.route,
      "http.response.status_code": entry.httpStatus,
      "error.type": entry.errorCode,
    }),
    ...(/^(?!0{32})[0-9a-f]{32}$/.test(entry.traceId) && { traceId: entry.traceId }),
  };
}

/** Without those that an entry does not have. A log has the number 0. */
function attributes(values: Readonly<Record<string, string | number>>) {
  return Object.entries(values)
    .filter(([key, value]) => key === "gatehouse.log" || (value !== "" && value !== 0))
    .map(([key, value]) => ({
      key,
      value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
    }));
}

function unixNano(time: Date): string {
  return Number.isNaN(time.getTime()) ? "0" : `${BigInt(time.getTime()) * 1_000_000n}`;
}
