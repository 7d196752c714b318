import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError, type FieldProblem, invalidField } from "#kit/values/errors.ts";
import {
  countOwnerless,
  findClient,
  type MachineClient,
  selectClients,
  selectClientsWith,
} from "./client-store.ts";
import { type ClientCredential, deleteExpiredAssertions, selectCredentials } from "./credential-store.ts";

const MAX_LIMIT = 100;
const MAX_BATCH = 1_000;
/** Of a list: those whose owner is gone or disabled. */
const NONE = "none";

export interface ClientPage {
  clients: MachineClient[];
  nextCursor: string | undefined;
}

/** Newest first. @throws {DomainError} `validation_failed`. */
export async function listClients(
  deps: { sql: Sql },
  { owner, cursor, limit }: { owner: string; cursor: string; limit: number },
): Promise<ClientPage> {
  const problem = (field: string, message: string): FieldProblem => ({
    field,
    code: "invalid_format",
    message,
  });
  const fields = [
    ...(owner === "" || owner === NONE || isUuid(owner) ? [] : [problem("owner", "must be a UUID or none")]),
    ...(cursor === "" || isUuid(cursor) ? [] : [problem("cursor", "is invalid")]),
    ...(limit >= 1 && limit <= MAX_LIMIT ? [] : [problem("limit", `must be 1 to ${MAX_LIMIT}`)]),
  ];
  if (fields.length > 0) throw new DomainError("validation_failed", undefined, { fields });
  const found = await selectClients(deps.sql, {
    ownerId: owner === "" || owner === NONE ? undefined : owner,
    isOwnerless: owner === NONE,
    before: cursor === "" ? undefined : cursor,
    limit: limit + 1,
  });
  const clients = found.slice(0, limit);
  return { clients, nextCursor: found.length > limit ? clients.at(-1)?.id : undefined };
}

/** @throws {DomainError} `not_found`. */
export async function getClient(
  deps: { sql: Sql },
  clientId: string,
): Promise<{ client: MachineClient; credentials: ClientCredential[] }> {
  const client = await findClient(deps.sql, clientId);
  if (client === undefined) throw new DomainError("not_found");
  return { client, credentials: await selectCredentials(deps.sql, clientId) };
}

/** @returns those that are active and hold the permission. @throws {DomainError} `validation_failed`. */
export async function filterClients(
  deps: { sql: Sql },
  clientIds: readonly string[],
  permission: string,
): Promise<string[]> {
  if (clientIds.length > MAX_LIMIT || !clientIds.every((id) => isUuid(id)))
    throw invalidField("client_ids", "invalid_format", `must be at most ${MAX_LIMIT} UUIDs`);
  return selectClientsWith(deps.sql, clientIds, permission);
}

/** To be repeated. */
export function createOwnerlessCount(deps: { sql: Sql }, metrics: Metrics): () => Promise<void> {
  let count = 0;
  metrics.gauge(
    "gatehouse_clients_without_owner",
    "Active clients whose owner's account is gone or disabled, counted up to 10,000.",
    [],
    (gauge) => gauge.set(count),
  );
  return async () => {
    count = await countOwnerless(deps.sql);
  };
}

export async function deleteOldAssertions(deps: { sql: Sql }): Promise<void> {
  while ((await deleteExpiredAssertions(deps.sql, MAX_BATCH)) === MAX_BATCH);
}
