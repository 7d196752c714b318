import { newCallContext } from "#kit/rpc/call-context.ts";
import { openBidiStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { backOffMs } from "#kit/values/back-off.ts";
import type { DomainError } from "#kit/values/errors.ts";
import type { AuditServiceClient, RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";

export interface RecordStream {
  /** Returns false if the stream is backed up. */
  send(request: RecordRequest): boolean;
  cancel(): void;
}

export interface RecordStreamHandlers {
  onAcknowledged(sequence: number): void;
  onDrain(): void;
  /** Undefined if the peer ended the stream. */
  onEnd(error: DomainError | undefined): void;
}

export function openRecordStream(client: AuditServiceClient, handlers: RecordStreamHandlers): RecordStream {
  const call = openBidiStream(client, client.record, newCallContext());
  let isOver = false;
  const end = (error: DomainError | undefined) => {
    if (isOver) return;
    isOver = true;
    handlers.onEnd(error);
  };
  call.on("data", ({ acknowledgedSequence }) => {
    if (!isOver) handlers.onAcknowledged(acknowledgedSequence);
  });
  call.on("drain", () => {
    if (!isOver) handlers.onDrain();
  });
  call.on("error", (error) => end(fromRpcError(error)));
  call.on("end", () => end(undefined));
  return {
    send: (request) => call.write(request),
    cancel() {
      isOver = true;
      call.cancel();
    },
  };
}

const QUICK_MS = 20;
const FIRST_MS = 50;
const MAX_MS = 500;

/** Short after the first failure, which is often a restart. */
export function retryDelayMs(failures: number, random: number): number {
  if (failures <= 1) return QUICK_MS * random;
  return backOffMs({ attempt: failures - 1, firstMs: FIRST_MS, maxMs: MAX_MS, random, range: [0.5, 1] });
}
