import { createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { AuditServiceClient } from "#proto/gatehouse/audit/v1/audit_service.ts";
import type { AuditSpool } from "../spool/audit-spool.ts";
import type { AuditEvent } from "../stream/audit-entry.ts";
import { logOfProducer, newProducerId } from "../stream/producer-id.ts";
import { openRecordStream, type RecordStreamHandlers } from "../stream/record-stream.ts";
import { createRecorderMetrics } from "../stream/recorder-metrics.ts";
import { AuditLogs } from "./audit-logs.ts";
import { Recorder, type RecorderLimits } from "./recorder.ts";

export interface AuditRecorderOptions extends Partial<RecorderLimits> {
  /** `host:port` of audit-service. */
  address: string;
  certificate: ProcessCertificate;
  /** Numbers of the logs that it writes to, default 0. With a spool: those that it was opened for. */
  logs?: readonly number[];
  spool?: AuditSpool | undefined;
  logger: Logger;
  metrics: Metrics;
}

/** A process needs one. It is one producer for each log, and the limits of queues are of all together. */
export function createAuditRecorder(options: AuditRecorderOptions) {
  const { logs = [0], spool, logger } = options;
  const producers = spool === undefined ? logs.map(newProducerId) : [...spool.spools.keys()];
  const metrics = createRecorderMetrics(options.metrics, () =>
    recorders.reduce((sum, { queuedEntries }) => sum + queuedEntries, 0),
  );
  const limits = {
    maxQueuedEntries: Math.floor((options.maxQueuedEntries ?? 10_000) / producers.length),
    reservedForOutcomes: Math.floor((options.reservedForOutcomes ?? 1_000) / producers.length),
    stallTimeoutMs: options.stallTimeoutMs ?? 2_000,
    unreadyAfterMs: options.unreadyAfterMs ?? 1_000,
    spoolAfterMs: options.spoolAfterMs ?? 250,
  };
  // A connection for each log: the failures and the back-pressure of one are no other's.
  const connections = producers.map(() => new Connection(options));
  const recorders = connections.map((connection, index) => {
    const producerId = producers[index] as string;
    return new Recorder({
      openStream: connection.openStream,
      onStall: () => connection.renew(),
      spool: spool?.spools.get(producerId),
      producerId,
      newEntryId: uuidv7,
      random: Math.random,
      limits,
      logger: logger.child({ auditLog: logOfProducer(producerId) }),
      metrics,
    });
  });
  const all = new AuditLogs(recorders);
  const resend = { openStream: (connections[0] as Connection).openStream, random: Math.random };
  const closing = new AbortController();
  const resending = spool?.resendFormer({ ...resend, signal: closing.signal });
  return {
    next: () => all.next(),
    recordEvent: (event: AuditEvent, deadlineMs: number) => all.recordEvent(event, deadlineMs),
    assertReady: () => all.assertReady(),
    /** Waits at most `graceMs` for queued entries. */
    async close(graceMs: number): Promise<void> {
      const flushed = all.close(graceMs);
      const end = new AbortController();
      const timer = setTimeout(() => end.abort(), graceMs);
      closing.abort();
      await resending;
      // After a scale-down there may be no later process to send them.
      await spool?.resendTaken({ ...resend, signal: end.signal });
      await flushed;
      clearTimeout(timer);
      await spool?.close();
      for (const connection of connections) connection.close();
    },
  };
}

class Connection {
  readonly #options: Pick<AuditRecorderOptions, "address" | "certificate">;
  #client: AuditServiceClient;

  constructor(options: Pick<AuditRecorderOptions, "address" | "certificate">) {
    this.#options = options;
    this.#client = this.#connect();
  }

  readonly openStream = (handlers: RecordStreamHandlers) => openRecordStream(this.#client, handlers);

  /** Otherwise a dead connection stays in use until its keepalive fails. */
  renew(): void {
    this.close();
    this.#client = this.#connect();
  }

  close(): void {
    this.#client.close();
  }

  #connect(): AuditServiceClient {
    const { address, certificate } = this.#options;
    return createRpcClient(AuditServiceClient, { address, service: "audit-service", certificate });
  }
}
