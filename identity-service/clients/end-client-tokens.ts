import { OutboxWorker } from "#kit/database/outbox.ts";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import {
  type ClientEnd,
  claimClientEnds,
  countClientEnds,
  deleteClientEnd,
  insertClientEnd,
} from "./client-end-store.ts";

export interface EndClientTokensDeps {
  sql: Sql;
  tokenService: Pick<TokenService, "revokeClientTokens">;
  now: () => Date;
  newId: () => string;
  logger: Logger;
}

/** Longer than a call, which tries first. */
const FIRST_RETRY_MS = 2_000;

/** Call in the transaction of the cause, and `endClientTokens` after the commit. The worker takes over after a crash. */
export async function owesClientEnd(
  tx: TransactionSql,
  deps: Pick<EndClientTokensDeps, "now" | "newId">,
  credentialIds: string[],
): Promise<ClientEnd | undefined> {
  if (credentialIds.length === 0) return undefined;
  const createdAt = deps.now();
  const end = { id: deps.newId(), credentialIds, createdAt };
  await insertClientEnd(tx, end, new Date(createdAt.getTime() + FIRST_RETRY_MS));
  return end;
}

/** @throws {DomainError} `service_unavailable`; the worker retries. */
export async function endClientTokens(
  deps: EndClientTokensDeps,
  end: ClientEnd | undefined,
  context: CallContext,
): Promise<void> {
  if (end === undefined) return;
  await deps.tokenService.revokeClientTokens(end.credentialIds, context);
  try {
    await deleteClientEnd(deps.sql, end.id);
  } catch (error) {
    deps.logger.warn({ err: error }, "credentials revoked, but not marked as revoked; they will be again");
  }
}

/** For ends left by a crash or an absent token-service. */
export function createClientEndWorker(deps: EndClientTokensDeps, metrics: Metrics): OutboxWorker<ClientEnd> {
  const { sql, tokenService, now, logger } = deps;
  const worker = new OutboxWorker({
    what: "client ends",
    pollIntervalMs: 1_000,
    leaseMs: 5_000,
    maxBatch: 20,
    claim: (lease) => claimClientEnds(sql, { ...lease, now: now() }),
    async deliver({ credentialIds }) {
      await tokenService.revokeClientTokens(credentialIds, newCallContext());
      logger.info({ credentialIds }, "credentials revoked late");
    },
    mark: ({ id }) => deleteClientEnd(sql, id),
    backlog: async () => ({ count: await countClientEnds(sql) }),
    now,
    logger,
  });
  metrics.gauge(
    "gatehouse_client_ends_waiting",
    "Revocations of clients' credentials that token-service has not confirmed, counted up to 10,000.",
    [],
    (gauge) => gauge.set(worker.backlogCount),
  );
  return worker;
}
