import type { Sql } from "../../service-kit/postgres.ts";
import { type LinkedIdentity, listIdentities } from "../identities/external-identity-store.ts";
import type { OAuthDeps } from "./oauth-deps.ts";

/** The identity providers that users can log in at, in the order of the configuration. */
export function listProviders(
  deps: Pick<OAuthDeps, "relyingParties">,
): { name: string; displayName: string }[] {
  return [...deps.relyingParties.values()].map(({ name, displayName }) => ({ name, displayName }));
}

/** A user's accounts at identity providers. @throws {DomainError} `service_unavailable`. */
export function listLinkedIdentities(deps: { sql: Sql }, userId: string): Promise<LinkedIdentity[]> {
  return listIdentities(deps.sql, userId);
}
