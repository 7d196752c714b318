import { createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { AuditServiceClient } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { AuditSpool, type SpoolRemains } from "../spool/audit-spool.ts";
import { openRecordStream } from "../stream/record-stream.ts";

export interface DrainOptions {
  /** The processes of this directory have ended. */
  directory: string;
  address: string;
  /** Of the service that wrote the spool, because audit-service deduplicates by producer name. */
  certificate: ProcessCertificate;
  timeoutMs: number;
  logger: Logger;
}

/** @throws if the directory cannot be used. */
export async function drainSpool(options: DrainOptions): Promise<SpoolRemains> {
  const { directory, address, certificate, timeoutMs, logger } = options;
  const spool = await AuditSpool.open({
    directory,
    maxBytes: 0,
    producerIds: [],
    logger,
    metrics: createMetrics("drain-spool"),
  });
  const client = createRpcClient(AuditServiceClient, { address, service: "audit-service", certificate });
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), timeoutMs);
  try {
    return await spool.drain({
      openStream: (handlers) => openRecordStream(client, handlers),
      random: Math.random,
      signal: end.signal,
    });
  } finally {
    clearTimeout(timer);
    await spool.close();
    client.close();
  }
}
