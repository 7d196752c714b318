import { createHash } from "node:crypto";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { findIdentityUser } from "../identities/external-identity-store.ts";
import { insertReceivedEvent } from "../identities/oauth-store.ts";
import { endSessionsSoon, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { judgeTry } from "../throttle/count-guess.ts";
import { lockAccount } from "../users/account-store.ts";
import { type OAuthDeps, relyingPartyOf } from "./begin-oauth-login.ts";
import type { RelyingParty } from "./relying-party.ts";
import type { SecurityEventSource } from "./security-event-source.ts";
import { CLOCK_SKEW_S, MAX_AGE_S, type SecurityEvent } from "./security-event-token.ts";

interface PushedEvent {
  provider: string;
  /** A Security Event Token (RFC 8417). */
  event: string;
  bearerToken: string;
  clientIp: string;
}

export function createCountSecurityEvent(metrics: Metrics): OAuthDeps["countSecurityEvent"] {
  const events = metrics.counter(
    "gatehouse_provider_events_total",
    "Security events that identity providers pushed, by what came of them.",
    ["provider", "result"],
  );
  return (provider, result) => events.inc({ provider, result });
}

/**
 * Ends the sessions of the linked account, once for each event (RFC 8935). Returns the ids of ended sessions.
 * @throws {DomainError} `provider_not_found`, `too_many_requests`, `service_unavailable`, or as `refusedEvent`.
 */
export async function receiveSecurityEvent(
  deps: OAuthDeps,
  { provider, ...pushed }: PushedEvent,
  context: CallContext,
): Promise<readonly string[]> {
  const party = relyingPartyOf(deps, provider);
  const source = party.securityEvents;
  if (source === undefined) throw new DomainError("provider_not_found");
  try {
    const event = await proven(deps, { party, source, ...pushed }, context);
    const outcome = await take(deps, { party, source, event }, context);
    if (typeof outcome === "string") {
      deps.countSecurityEvent(party.name, outcome);
      return [];
    }
    deps.countSecurityEvent(party.name, "ended");
    return endSessionsSoon(deps, outcome, context);
  } catch (error) {
    const isRefused = error instanceof DomainError && error.code === "validation_failed";
    deps.countSecurityEvent(party.name, isRefused ? "refused" : "failed");
    if (isRefused)
      deps.logger.info({ provider: party.name, reason: error.fields[0] }, "security event refused");
    throw error;
  }
}

async function proven(
  deps: OAuthDeps,
  pushed: Omit<PushedEvent, "provider"> & { party: RelyingParty; source: SecurityEventSource },
  { deadlineMs }: CallContext,
): Promise<SecurityEvent> {
  const { party, source, event: text, bearerToken, clientIp } = pushed;
  const event = source.read(text, bearerToken, deps.now());
  const name = `provider ${party.name}`;
  const attempt = deps.clientLimits.begin({ clientId: name, clientIp });
  await judgeTry(() => source.verify(text, deadlineMs), attempt.giveBack);
  attempt.succeeded(name);
  return event;
}

/** Written together: an event that was remembered has had its effect. */
async function take(
  deps: OAuthDeps,
  arrived: { party: RelyingParty; source: SecurityEventSource; event: SecurityEvent },
  context: CallContext,
): Promise<SessionEnd | "no_account" | "repeated" | "no_effect"> {
  const { party, source, event } = arrived;
  const { id, issuedAtS, ends } = event;
  if (ends === undefined) return "no_effect";
  const eventHash = createHash("sha256")
    .update(JSON.stringify([source.issuer, id]))
    .digest();
  const expiresAt = new Date((issuedAtS + MAX_AGE_S + CLOCK_SKEW_S) * 1_000);
  return transaction(deps.sql, async (tx: TransactionSql) => {
    if (!(await insertReceivedEvent(tx, { eventHash, expiresAt }))) return "repeated";
    const { subject } = ends;
    const userId = await findIdentityUser(tx, { issuer: party.issuer, subject: subject.sub });
    const account = userId === undefined ? undefined : await lockAccount(tx, userId);
    if (account === undefined) return "no_account";
    const reason = `${party.name}: ${ends.kind}`;
    await recordAudit(tx, deps, { type: "sessions_ended", userId: account.id, reason }, context);
    return owesSessionEnd(tx, deps, { userId: account.id, reason: "ended_by_provider" });
  });
}
