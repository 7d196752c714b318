import { v4 as uuidv4 } from "uuid";
import type { Logger } from "#kit/logger.ts";
import { createMetrics } from "#kit/metrics.ts";
import { createRpcClient } from "#kit/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc-tls.ts";
import { AuditServiceClient } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { openAuditSpool, type SpoolRemains } from "./audit-spool.ts";
import { openRecordStream } from "./record-stream.ts";

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
  const spool = await openAuditSpool({
    directory,
    maxBytes: 0,
    producerId: uuidv4(),
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
