import type { Secret } from "#kit/config/config.ts";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import type { PasswordHasher } from "../passwords/password-hasher.ts";
import { checkPassword, type PasswordPolicy, refuseBreached } from "../passwords/password-policy.ts";
import type { NewAccount } from "../users/account.ts";
import { hasAdmin, insertUser, lockAddresses, lockAdminBootstrap } from "../users/user-store.ts";

export interface BootstrapDeps extends RecordAuditDeps {
  sql: Sql;
  passwords: Pick<PasswordHasher, "hash">;
  passwordPolicy: PasswordPolicy;
  logger: Logger;
}

export interface FirstAdmin {
  email: string;
  password: Secret<string>;
}

/** Safe to run concurrently. Never promotes an account. */
export async function bootstrapAdmin(deps: BootstrapDeps, admin: FirstAdmin): Promise<void> {
  const { sql, logger } = deps;
  if (await hasAdmin(sql)) return;
  const password = admin.password.reveal();
  if (!(await isAcceptable(deps, password, admin.email))) return;
  const passwordHash = await deps.passwords.hash(password, Number.POSITIVE_INFINITY);
  const user: NewAccount = {
    id: deps.newId(),
    email: admin.email,
    firstName: "First",
    lastName: "Administrator",
    role: "ADMIN",
    emailVerified: true,
    createdAt: deps.now(),
  };
  const outcome = await transaction(sql, async (tx) => {
    await lockAdminBootstrap(tx);
    if (await hasAdmin(tx)) return "exists";
    await lockAddresses(tx, [user.email]);
    if (!(await insertUser(tx, { ...user, passwordHash }))) return "address_taken";
    const event = { type: "admin_bootstrapped", userId: user.id, reason: "by configuration" } as const;
    await recordAudit(tx, deps, event, newCallContext());
    return "created";
  });
  if (outcome === "created") logger.info({ userId: user.id }, "first administrator created");
  if (outcome === "address_taken") {
    logger.error(
      "there is no administrator, and BOOTSTRAP_ADMIN_EMAIL belongs to an account that is not one; it was not " +
        "promoted: set BOOTSTRAP_ADMIN_EMAIL to an address without an account and restart",
    );
  }
}

async function isAcceptable(deps: BootstrapDeps, password: string, email: string): Promise<boolean> {
  try {
    checkPassword(deps.passwordPolicy, password, email);
    await refuseBreached(deps.passwordPolicy, password);
    return true;
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    deps.logger.error(
      { reason: error.code },
      "there is no administrator, and the password in BOOTSTRAP_ADMIN_PASSWORD_FILE is refused by the policy; " +
        "put a better one there and restart",
    );
    return false;
  }
}
