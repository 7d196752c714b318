import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { deleteOldNetworks, findNetworkOfAccount, insertKnownNetwork } from "./known-network-store.ts";
import type { Standing } from "./throttle.ts";
import type { ThrottleDeps } from "./throttle-deps.ts";

const MAX_BATCH = 1_000;

/** Looks back 30 days. Does equal work for every address. */
export async function networkStanding(
  deps: Pick<ThrottleDeps, "sql" | "digestNetwork">,
  account: string,
  clientIp: string,
): Promise<Standing | undefined> {
  const digests = deps.digestNetwork(account, clientIp);
  if (digests === undefined) return undefined;
  const found = await findNetworkOfAccount(deps.sql, { ...digests, email: account });
  if (found.isOwn) return "own_network";
  return found.isUsed ? "used_network" : undefined;
}

export async function rememberNetwork(
  sql: Sql | TransactionSql,
  { digestNetwork }: Pick<ThrottleDeps, "digestNetwork">,
  login: { userId: string; email: string; passwordEpoch: number; clientIp: string },
): Promise<void> {
  const digests = digestNetwork(login.email, login.clientIp);
  if (digests === undefined) return;
  const { userId, passwordEpoch } = login;
  await insertKnownNetwork(sql, { ...digests, userId, passwordEpoch });
}

export async function forgetOldNetworks({ sql }: Pick<ThrottleDeps, "sql">): Promise<void> {
  while ((await deleteOldNetworks(sql, MAX_BATCH)) === MAX_BATCH);
}
