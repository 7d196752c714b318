import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import { countRecoveryCodes, findTotpSince } from "../mfa/mfa-store.ts";
import type { Account } from "../users/account.ts";
import { setProfile } from "../users/account-store.ts";
import { getAccount } from "../users/get-account.ts";
import { changedNames } from "../users/personal-name.ts";
import { readerFields } from "../users/reader-fields.ts";

export interface OwnAccount {
  account: Account;
  /** Undefined without a second factor. */
  recoveryCodesLeft: number | undefined;
  totpSince: Date | undefined;
}

/** @throws {DomainError} `not_found`. */
export async function getOwnAccount(deps: { sql: Sql }, userId: string): Promise<OwnAccount> {
  const account = await getAccount(deps, userId);
  const [recoveryCodesLeft, totpSince] = await Promise.all([
    account.mfaEnabled ? countRecoveryCodes(deps.sql, userId) : undefined,
    account.hasTotp ? findTotpSince(deps.sql, userId) : undefined,
  ]);
  return { account, recoveryCodesLeft, totpSince };
}

/** @throws {DomainError} `validation_failed`, `not_found`. */
export async function updateProfile(
  deps: RecordAuditDeps & { sql: Sql },
  change: {
    userId: string;
    firstName?: string | undefined;
    lastName?: string | undefined;
    language?: string | undefined;
    timeZone?: string | undefined;
  },
  context: CallContext,
): Promise<Account> {
  const { userId } = change;
  const { names, problems: ofNames } = changedNames(change);
  const { language, timeZone, problems } = readerFields(change);
  const fields = [...ofNames, ...problems];
  if (fields.length > 0) throw new DomainError("validation_failed", undefined, { fields });
  const profile = { userId, ...names, language, timeZone, at: deps.now() };
  await transaction(deps.sql, async (tx) => {
    if (!(await setProfile(tx, profile))) throw new DomainError("not_found");
    await recordAudit(tx, deps, { type: "profile_updated", userId, byOwner: true }, context);
  });
  return getAccount(deps, userId);
}
