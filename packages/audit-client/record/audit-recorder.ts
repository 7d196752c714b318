import { createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { AuditServiceClient } from "#proto/gatehouse/audit/v1/audit_service.ts";
import type { AuditSpool } from "../spool/audit-spool.ts";
import type { AuditEventRecorder } from "../stream/audit-entry.ts";
import { newProducerId } from "../stream/producer-id.ts";
import { openRecordStream, type RecordStreamHandlers } from "../stream/record-stream.ts";
import { Recorder, type RecorderLimits } from "./recorder.ts";

export interface AuditRecorderOptions extends Partial<RecorderLimits> {
  /** `host:port` of audit-service. */
  address: string;
  certificate: ProcessCertificate;
  spool?: AuditSpool | undefined;
  logger: Logger;
  metrics: Metrics;
}

/** A process is one producer and needs one recorder. */
export function createAuditRecorder(options: AuditRecorderOptions): AuditEventRecorder {
  const { address, certificate, spool, logger, metrics } = options;
  const connect = () =>
    createRpcClient(AuditServiceClient, { address, service: "audit-service", certificate });
  let client = connect();
  const recorder = new Recorder({
    openStream: (handlers) => openRecordStream(client, handlers),
    onStall() {
      // Otherwise a dead connection stays in use until its keepalive fails.
      client.close();
      client = connect();
    },
    spool: spool?.spool,
    producerId: spool?.producerId ?? newProducerId(0),
    newEntryId: uuidv7,
    random: Math.random,
    limits: {
      maxQueuedEntries: options.maxQueuedEntries ?? 10_000,
      reservedForOutcomes: options.reservedForOutcomes ?? 1_000,
      stallTimeoutMs: options.stallTimeoutMs ?? 2_000,
      unreadyAfterMs: options.unreadyAfterMs ?? 1_000,
      spoolAfterMs: options.spoolAfterMs ?? 250,
    },
    logger,
    metrics,
  });
  const resend = {
    openStream: (handlers: RecordStreamHandlers) => openRecordStream(client, handlers),
    random: Math.random,
  };
  const closing = new AbortController();
  const resending = spool?.resendFormer({ ...resend, signal: closing.signal });
  return {
    record: (entry, deadlineMs) => recorder.record(entry, deadlineMs),
    recordEvent: (event, deadlineMs) => recorder.recordEvent(event, deadlineMs),
    enqueue: (entry) => recorder.enqueue(entry),
    assertReady: () => recorder.assertReady(),
    async close(graceMs) {
      const flushed = recorder.close(graceMs);
      const end = new AbortController();
      const timer = setTimeout(() => end.abort(), graceMs);
      closing.abort();
      await resending;
      // After a scale-down there may be no later process to send them.
      await spool?.resendTaken({ ...resend, signal: end.signal });
      await flushed;
      clearTimeout(timer);
      await spool?.close();
      client.close();
    },
  };
}
