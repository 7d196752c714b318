import { DomainError } from "#kit/values/errors.ts";
import { parseAcr } from "#token-client/assurance.ts";
import type { OwnerSession } from "./prove-owner.ts";

/** A session whose proof is not dated is an old one. @throws {DomainError} `validation_failed` without an owner. */
export function decodeOwner<T extends { authTime?: Date | undefined; acr: string }>(
  message: T | undefined,
): Omit<T, keyof OwnerSession> & OwnerSession {
  if (message === undefined) throw new DomainError("validation_failed", "the owner is required");
  const { authTime = new Date(0), acr, ...rest } = message;
  return { ...rest, authTime, acr: parseAcr(acr) ?? 1 };
}
