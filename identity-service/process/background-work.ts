import type { AccessTable } from "#access-file/access-rules.ts";
import type { ServiceProcess } from "#kit/process/service-process.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { deleteUnusedAccounts } from "../accounts/delete-account.ts";
import type { AccountsDeps } from "../accounts/register.ts";
import { countUsersOfOtherRoles } from "../admin/user-admin-store.ts";
import { deleteOldApprovals } from "../approvals/delete-old-approvals.ts";
import { createLostCommitsLook, createSecurityEventWorker } from "../audit/security-event-worker.ts";
import { createIssuerCheck } from "../clients/check-issuer.ts";
import { createClientEndWorker, type EndClientTokensDeps } from "../clients/end-client-tokens.ts";
import { createOwnerlessCount, deleteOldAssertions } from "../clients/managed-clients.ts";
import { deleteOldImports } from "../imports/list-imported-rows.ts";
import { deleteEndedLogins } from "../login/delete-ended-logins.ts";
import { deleteOldMailCounts } from "../mail/mail-budget.ts";
import { deleteOldLinks } from "../mail/make-link.ts";
import { createReencryption } from "../mfa/reencrypt-totp-secrets.ts";
import { deleteExpiredOAuth } from "../oauth/begin-oauth-login.ts";
import { deleteOldChallenges } from "../passkeys/passkey-ceremony.ts";
import type { PasswordHasher } from "../passwords/password-hasher.ts";
import { sampleUsedCosts } from "../passwords/used-cost-store.ts";
import { createSessionEndWorker } from "../sessions/session-end-worker.ts";
import { deleteOldStepUps } from "../step-up/begin-step-up.ts";
import { forgetOldNetworks } from "../throttle/known-caller.ts";
import { deleteOldWrongCodes } from "../throttle/mfa-tries.ts";

const CLEAN_UP_INTERVAL_MS = 10 * 60_000;
const COST_SAMPLING_INTERVAL_MS = 10 * 60_000;
/** A shorter one would make replicas with the old and the new key order re-encrypt in turn. */
const REENCRYPTION_INTERVAL_MS = 15 * 60_000;
const COUNT_INTERVAL_MS = 60_000;
const LOST_COMMITS_INTERVAL_MS = 5_000;
const ISSUER_CHECK_INTERVAL_MS = 60_000;

type Reencryption = Parameters<typeof createReencryption>[0];
type Delivery = Pick<Parameters<typeof createSecurityEventWorker>[0], "record" | "eraseClaimedEmail">;

type Background = AccountsDeps &
  EndClientTokensDeps &
  Reencryption & {
    access: AccessTable;
    passwords: Pick<PasswordHasher, "useCosts">;
    approvalRetentionMonths: number;
    tokenIssuer: string;
    askIssuer: (context: CallContext) => Promise<string | undefined>;
    delivery: Delivery;
  };

/** What the calls have left to do: rows of the outboxes, and what has ended. */
export function startWorkers(service: ServiceProcess, deps: Background): void {
  const { metrics } = service;
  service.run("session ends", createSessionEndWorker(deps, metrics));
  service.run("client ends", createClientEndWorker(deps, metrics));
  service.run("security events", createSecurityEventWorker({ ...deps, ...deps.delivery }, metrics));
  const cleanUps = {
    links: () => deleteOldLinks(deps),
    "ended logins": () => deleteEndedLogins(deps),
    approvals: () => deleteOldApprovals(deps),
    "step-ups": () => deleteOldStepUps(deps),
    "wrong codes": () => deleteOldWrongCodes(deps),
    networks: () => forgetOldNetworks(deps),
    "mail counts": () => deleteOldMailCounts(deps),
    "unused accounts": () => deleteUnusedAccounts(deps),
    flows: () => deleteExpiredOAuth(deps),
    "client assertions": () => deleteOldAssertions(deps),
    "passkey challenges": () => deleteOldChallenges(deps),
    imports: () => deleteOldImports(deps),
  };
  for (const [what, cleanUp] of Object.entries(cleanUps)) service.every(CLEAN_UP_INTERVAL_MS, what, cleanUp);
}

/** What is looked at again and again, from the start. */
export function startLooks(service: ServiceProcess, deps: Background): void {
  const { logger, metrics } = service;
  const look = (intervalMs: number, what: string, task: () => Promise<void>) =>
    service.every(intervalMs, what, task, { atOnce: true });
  look(LOST_COMMITS_INTERVAL_MS, "lost commits", createLostCommitsLook(deps));
  look(COUNT_INTERVAL_MS, "clients without an owner", createOwnerlessCount(deps, metrics));
  look(ISSUER_CHECK_INTERVAL_MS, "the issuer of tokens", createIssuerCheck(deps, logger));
  look(COST_SAMPLING_INTERVAL_MS, "costs of stored hashes", async () =>
    deps.passwords.useCosts(await sampleUsedCosts(deps.sql)),
  );
  const withoutRole = metrics.gauge(
    "gatehouse_users_without_defined_role",
    "Users whose role is not in the access file. They may do nothing.",
  );
  look(COUNT_INTERVAL_MS, "users without a defined role", async () =>
    withoutRole.set(await countUsersOfOtherRoles(deps.sql, deps.access.roles)),
  );
  look(REENCRYPTION_INTERVAL_MS, "re-encryption of TOTP secrets", createReencryption(deps, metrics));
}
