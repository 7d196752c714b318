import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import { deleteOldNetworks, findNetworkOfAccount, insertKnownNetwork } from "./known-network-store.ts";
import type { DigestNetwork } from "./network-digests.ts";
import type { Standing } from "./throttle.ts";

export interface KnownNetworkDeps {
  sql: Sql;
  digestNetwork: DigestNetwork;
}

const MAX_BATCH = 1_000;

/**
 * What the network of a guess says about whoever guesses: whether the account, or anybody, has logged in from there
 * within 30 days. The same work for every address.
 *
 * @param account canonical address.
 * @throws {DomainError} `service_unavailable`.
 */
export async function networkStanding(
  deps: KnownNetworkDeps,
  account: string,
  clientIp: string,
): Promise<Standing | undefined> {
  const digests = deps.digestNetwork(account, clientIp);
  if (digests === undefined) return undefined;
  const found = await findNetworkOfAccount(deps.sql, { ...digests, email: account });
  if (found.isOwn) return "own_network";
  return found.isUsed ? "used_network" : undefined;
}

/** Remembers the network of a completed login, as its device is. */
export async function rememberNetwork(
  sql: Sql | TransactionSql,
  { digestNetwork }: Pick<KnownNetworkDeps, "digestNetwork">,
  login: { userId: string; email: string; passwordEpoch: number; clientIp: string },
): Promise<void> {
  const digests = digestNetwork(login.email, login.clientIp);
  if (digests === undefined) return;
  const { userId, passwordEpoch } = login;
  await insertKnownNetwork(sql, { ...digests, userId, passwordEpoch });
}

/** Forgets networks that nobody has logged in from for 30 days. */
export async function forgetOldNetworks({ sql }: Pick<KnownNetworkDeps, "sql">): Promise<void> {
  while ((await deleteOldNetworks(sql, MAX_BATCH)) === MAX_BATCH);
}
