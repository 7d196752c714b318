import { DomainError, type FieldProblem } from "../service-kit/errors.ts";
import { orUnavailable, type Sql } from "../service-kit/postgres.ts";
import { canonicalEmail } from "./canonical-email.ts";
import type { PasswordHasher } from "./password-hasher.ts";
import { checkPassword, type PasswordPolicy } from "./password-policy.ts";
import { personalName } from "./personal-name.ts";
import type { User } from "./user.ts";
import { insertUser } from "./user-store.ts";

export interface RegisterDeps {
  sql: Sql;
  passwords: Pick<PasswordHasher, "hash">;
  passwordPolicy: PasswordPolicy;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
}

/** As typed. */
export interface Registration {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
}

/**
 * Creates an account with the role USER, its address not proven yet. A taken address costs a hash as well.
 *
 * @param deadlineMs in milliseconds since the epoch.
 * @throws {DomainError} `validation_failed` with every failing field, `password_too_short`,
 *   `password_too_common`, `password_contains_email`, `email_already_registered`, `busy`,
 *   `service_unavailable`.
 */
export async function register(deps: RegisterDeps, typed: Registration, deadlineMs: number): Promise<User> {
  const person = validated(typed);
  checkPassword(deps.passwordPolicy, typed.password, person.email);
  const passwordHash = await deps.passwords.hash(typed.password, deadlineMs);
  const user: User = {
    id: deps.newId(),
    ...person,
    role: "USER",
    emailVerified: false,
    createdAt: deps.now(),
  };
  const isNew = await orUnavailable(insertUser(deps.sql, { ...user, passwordHash }));
  if (!isNew) throw new DomainError("email_already_registered");
  return user;
}

function validated(typed: Registration): Pick<User, "email" | "firstName" | "lastName"> {
  const email = canonicalEmail(typed.email);
  const first = personalName("firstName", typed.firstName);
  const last = personalName("lastName", typed.lastName);
  if (email !== undefined && first.problem === undefined && last.problem === undefined) {
    return { email, firstName: first.name, lastName: last.name };
  }
  const badEmail: FieldProblem = {
    field: "email",
    code: "invalid_format",
    message: "must be an e-mail address",
  };
  const fields = [email === undefined ? badEmail : undefined, first.problem, last.problem];
  throw new DomainError("validation_failed", undefined, {
    fields: fields.filter((problem) => problem !== undefined),
  });
}
