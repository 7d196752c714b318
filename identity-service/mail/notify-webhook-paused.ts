import { validate as isUuid } from "uuid";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { enqueueMail } from "./mail-outbox-store.ts";

export interface WebhookPause {
  /** UUID, for deduplication. */
  eventId: string;
  /** The webhook's owner. */
  userId: string;
  webhookName: string;
  pausedAt: Date | undefined;
}

/** Idempotent. Ignores deleted users. @throws {DomainError} `validation_failed`. */
export async function notifyWebhookPaused(
  deps: { sql: Sql; now: () => Date; wakeMailWorker: () => void },
  { eventId, userId, webhookName, pausedAt }: WebhookPause,
): Promise<void> {
  if (!isUuid(eventId) || !isUuid(userId) || pausedAt === undefined)
    throw new DomainError("validation_failed");
  const data = { webhook: webhookName, occurredAt: pausedAt.toISOString() };
  const isNew = await transaction(deps.sql, async (tx) => {
    // An erasure meanwhile would leave the address in the outbox.
    const user = await lockAccountForMfa(tx, userId);
    if (user === undefined) return false;
    const mail = { id: eventId, userId, recipient: user.email, template: "webhook-paused", data } as const;
    return enqueueMail(tx, mail, deps.now());
  });
  if (isNew) deps.wakeMailWorker();
}
