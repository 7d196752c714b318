import { transaction } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { EncryptionKey } from "#kit/values/key-cipher.ts";
import type { MfaDeps } from "./check-mfa-code.ts";
import { countSecretsOfKeys, lockReencryption, lockSecretsOfKey, replaceEncryptions } from "./mfa-store.ts";
import { openTotpSecret, sealTotpSecret } from "./totp-secret.ts";

/** A login waits a few milliseconds for them. */
const BATCH = 500;
const MAX_NAMED_USERS = 10;
const MAX_COUNTED = 1_000_000;
const LOG_EVERY_MS = 10_000;

type Reencryption = Pick<MfaDeps, "sql" | "mfaKeys"> & { logger: Logger };

export interface ReencryptionPass {
  done: number;
  /** Users whose secret no configured key decrypts. */
  unreadable: readonly string[];
}

/** Returns at once while another replica does it. @param onBatch gets what is done in this pass. */
export async function reencryptTotpSecrets(
  deps: Reencryption,
  onBatch: (done: number) => void = () => undefined,
): Promise<ReencryptionPass> {
  const [, ...earlier] = deps.mfaKeys;
  let done = 0;
  const unreadable: string[] = [];
  for (const key of earlier) {
    let afterUserId: string | null = null;
    do {
      const batch: Batch = await reencryptBatch(deps, key, afterUserId);
      done += batch.done;
      unreadable.push(...batch.unreadable);
      afterUserId = batch.lastUserId;
      onBatch(done);
    } while (afterUserId !== null);
  }
  return { done, unreadable };
}

interface Batch extends ReencryptionPass {
  /** Null at the end, or while another replica works. */
  lastUserId: string | null;
}

function reencryptBatch(
  { sql, mfaKeys }: Reencryption,
  key: EncryptionKey,
  afterUserId: string | null,
): Promise<Batch> {
  return transaction(sql, async (tx) => {
    if (!(await lockReencryption(tx))) return { done: 0, unreadable: [], lastUserId: null };
    const secrets = await lockSecretsOfKey(tx, key.id, { afterUserId, limit: BATCH });
    const renewed = secrets.flatMap(({ userId, ...sealed }) => {
      const secret = openOrUndefined(mfaKeys, userId, sealed);
      return secret === undefined ? [] : [{ userId, ...sealTotpSecret(mfaKeys, userId, secret) }];
    });
    await replaceEncryptions(tx, renewed);
    const isRenewed = new Set(renewed.map(({ userId }) => userId));
    const unreadable = secrets.map(({ userId }) => userId).filter((userId) => !isRenewed.has(userId));
    return { done: renewed.length, unreadable, lastUserId: secrets.at(-1)?.userId ?? null };
  });
}

function openOrUndefined(...[keys, userId, sealed]: Parameters<typeof openTotpSecret>): Buffer | undefined {
  try {
    return openTotpSecret(keys, userId, sealed);
  } catch {
    return undefined;
  }
}

export function createReencryption(
  deps: Reencryption,
  metrics: Metrics,
  monotonicMs = () => performance.now(),
): () => Promise<void> {
  const earlierIds = deps.mfaKeys.slice(1).map(({ id }) => id);
  let left = 0;
  let loggedUnreadable = 0;
  metrics.gauge(
    "gatehouse_totp_secrets_under_earlier_key",
    "TOTP secrets encrypted with the previous key. At 0 that key is no longer needed.",
    [],
    (gauge) => gauge.set(left),
  );
  return async () => {
    if (earlierIds.length === 0) return;
    const count = () => countSecretsOfKeys(deps.sql, earlierIds, MAX_COUNTED);
    const total = await count();
    left = total;
    const beginMs = monotonicMs();
    let loggedMs = beginMs;
    const { done, unreadable } = await reencryptTotpSecrets(deps, (doneSoFar) => {
      // There may be more than were counted: only the last count says that none is left.
      left = Math.max(1, total - doneSoFar);
      const nowMs = monotonicMs();
      if (nowMs - loggedMs < LOG_EVERY_MS) return;
      loggedMs = nowMs;
      const perSecond = Math.round((doneSoFar * 1_000) / (nowMs - beginMs));
      const leftS = perSecond === 0 ? undefined : Math.ceil(left / perSecond);
      deps.logger.info(
        { done: doneSoFar, left, perSecond, leftS },
        "encrypting TOTP secrets with the current key",
      );
    });
    left = await count();
    if (done > 0) deps.logger.info({ done, left }, "TOTP secrets encrypted with the current key");
    if (unreadable.length > 0 && unreadable.length !== loggedUnreadable) {
      const userIds = unreadable.slice(0, MAX_NAMED_USERS);
      const message = "TOTP secrets cannot be read; their owners can use recovery codes only";
      deps.logger.error({ count: unreadable.length, userIds }, message);
    }
    loggedUnreadable = unreadable.length;
  };
}
