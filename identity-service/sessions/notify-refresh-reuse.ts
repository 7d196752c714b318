import { validate as isUuid } from "uuid";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { DomainError, type FieldProblem } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { describeOrigin } from "../mail/describe-origin.ts";
import type { NewMail } from "../mail/mail.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { lockAccountForMfa } from "../users/account-store.ts";

export interface RefreshReuse extends ClientOrigin {
  /** UUID, for deduplication. */
  eventId: string;
  userId: string;
  occurredAt: Date | undefined;
}

/** Idempotent. Ignores deleted users. @throws {DomainError} `validation_failed`. */
export async function notifyRefreshReuse(
  deps: { sql: Sql; now: () => Date; wakeMailWorker: () => void },
  event: RefreshReuse,
): Promise<void> {
  const { eventId, userId, occurredAt } = event;
  if (!isUuid(eventId) || !isUuid(userId) || occurredAt === undefined) throw invalid(event);
  const data = describeOrigin(event, occurredAt);
  const isNew = await transaction(deps.sql, async (tx) => {
    // An erasure meanwhile would leave the address in the outbox.
    const user = await lockAccountForMfa(tx, userId);
    if (user === undefined) return false;
    const mail: NewMail = { id: eventId, userId, recipient: user.email, template: "refresh-reuse", data };
    return enqueueMail(tx, mail, deps.now());
  });
  if (isNew) deps.wakeMailWorker();
}

function invalid({ eventId, userId, occurredAt }: RefreshReuse): DomainError {
  const notUuid = (field: string): FieldProblem => ({
    field,
    code: "invalid_format",
    message: "must be a UUID",
  });
  const fields = [
    ...(isUuid(eventId) ? [] : [notUuid("eventId")]),
    ...(isUuid(userId) ? [] : [notUuid("userId")]),
    ...(occurredAt === undefined ? [{ field: "occurredAt", code: "required", message: "is required" }] : []),
  ];
  return new DomainError("validation_failed", undefined, { fields });
}
