import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createPlantedDatabase,
  PLANTED_ROWS,
  type PlantedDatabase,
  plantedHash,
  plantedId,
  type StoreCalls,
  storeFunctions,
} from "#tests/support/database/planted-database.ts";
import * as userAdmin from "./admin/user-admin-store.ts";
import * as approvals from "./approvals/approval-store.ts";
import * as events from "./audit/security-event-store.ts";
import * as clientEnds from "./clients/client-end-store.ts";
import * as clients from "./clients/client-store.ts";
import * as credentials from "./clients/credential-store.ts";
import * as identities from "./identities/external-identity-store.ts";
import * as oauth from "./identities/oauth-store.ts";
import * as imports from "./imports/import-store.ts";
import * as enrollments from "./login/enrollment-store.ts";
import * as passwordChanges from "./login/password-change-store.ts";
import * as links from "./mail/link-store.ts";
import * as mailBudget from "./mail/mail-budget-store.ts";
import * as mails from "./mail/mail-outbox-store.ts";
import * as mfa from "./mfa/mfa-store.ts";
import * as challenges from "./passkeys/passkey-challenge-store.ts";
import * as passkeys from "./passkeys/passkey-store.ts";
import { sampleUsedCosts } from "./passwords/used-cost-store.ts";
import * as sessionEnds from "./sessions/session-end-store.ts";
import * as stepUps from "./step-up/step-up-store.ts";
import * as networks from "./throttle/known-network-store.ts";
import * as guessing from "./throttle/mfa-guessing-store.ts";
import * as trusts from "./throttle/trusted-device-store.ts";
import * as accounts from "./users/account-store.ts";
import * as users from "./users/user-store.ts";

const WAITING = 10;
const isDone = `n <= ${PLANTED_ROWS - WAITING}`;
/** Two rows a user. */
const HALF_ID = "('00000000-0000-7000-8000-' || lpad(to_hex((n + 1) / 2), 12, '0'))::uuid";
const CHALLENGE = { session_epoch: "0" };
const LARGE = {
  users: {
    email: "'user' || n || '@example.com'",
    first_name: "'Ada'",
    last_name: "md5(n::text)",
    role: "case when n <= 5 then 'ADMIN' when n <= 50 then 'AUDITOR' else 'USER' end",
    status: "case when n % 3000 = 0 then 'disabled' else 'active' end",
    password_hash: "'$argon2id$v=19$m=19456,t=2,p=1$' || repeat('s', 22) || '$' || repeat('h', 43)",
    email_verified: "n > 20",
    last_login_at: `case when n % 1000 > 0 then now() - (${PLANTED_ROWS} - n) * interval '1 minute' end`,
    has_second_factor: "n % 2000 = 0",
    first_login_at: `case when n > 20 then now() end`,
    updated_at: "now()",
  },
  external_identities: { issuer: "'https://idp.example'", subject: "n::text", provider: "'idp'" },
  oauth_flows: {
    code_challenge: "null",
    link_user_id: `case when n % 2 = 0 then ${HALF_ID} end`,
    link_session_epoch: "case when n % 2 = 0 then 0 end",
    provider: "'idp'",
  },
  received_events: { event_hash: "sha256(n::text::bytea)" },
  oauth_codes: { code_challenge: "repeat('A', 43)", session_epoch: "0" },
  totp_credentials: {
    secret_encrypted: "substring(sha256(n::text::bytea) || sha256(n::text::bytea) for 48)",
    key_id: "repeat(case n % 4 when 0 then 'a' when 1 then 'b' else 'c' end, 16)",
    confirmed_at: "now()",
  },
  recovery_codes: { user_id: HALF_ID },
  mfa_challenges: { ...CHALLENGE, ip: "''", user_agent: "''" },
  mfa_failures: { user_id: HALF_ID },
  mfa_guessing: {},
  mail_outbox: {
    template: "'verify-email'",
    recipient: `case when not ${isDone} then 'a@example.com' end`,
    data: `case when not ${isDone} then '{}'::jsonb end`,
    sent_at: `case when ${isDone} then now() end`,
  },
  links: {
    user_id: HALF_ID,
    purpose: "case when n % 100 = 0 then 'undo_email_change' else 'verify_email' end",
    new_email: "case when n % 100 = 0 then 'old' || n || '@example.com' end",
    consumed_at: "case when n % 3 = 0 then now() end",
  },
  password_change_challenges: CHALLENGE,
  mfa_enrollment_challenges: CHALLENGE,
  step_ups: CHALLENGE,
  security_events: {
    type: "'user_registered'",
    recorded_at: `case when ${isDone} then now() - (${PLANTED_ROWS} - n) * interval '1 minute' end`,
  },
  known_networks: {
    digest: "substring(sha256(n::text::bytea) for 16)",
    network_digest: "substring(sha256((n / 2)::text::bytea) for 16)",
    user_id: HALF_ID,
    seen_at: "now() - interval '30 days' + (n - 20) * interval '1 minute'",
  },
  counted_mails: { kind: "'stranger'" },
  released_addresses: { until: "now() + (n - 20) * interval '1 second'" },
  former_addresses: { email: "'old' || n || '@example.com'" },
  passkeys: { user_id: HALF_ID },
  passkey_challenges: { purpose: "'registration'", user_id: HALF_ID, session_epoch: "0" },
  approvals: {
    user_id: HALF_ID,
    session_id: HALF_ID,
    digest: "sha256(convert_to('text', 'UTF8'))",
    acr: "2",
    method: "case when n % 10 > 0 then 'totp' end",
    given_at: "case when n % 10 > 0 then now() end",
    used_at: `case when n % 10 > 0 then now() - (${PLANTED_ROWS} - n) * interval '1 minute' end`,
  },
  trusted_devices: {
    user_id: HALF_ID,
    session_epoch: "0",
    last_used_at: "now()",
    ip: "''",
    user_agent: "''",
  },
  client_assertions: { expires_at: "now() - interval '1 hour' + (n - 20) * interval '1 second'" },
  import_batches: {
    import_id: "('00000000-0000-7000-8000-' || lpad(to_hex(n / 1000 + 1), 12, '0'))::uuid",
    first_row: "n",
    refusals: "array['']",
  },
};

/** The statistics say that half of the secrets are of this key. */
const REENCRYPTED = [
  "update totp_credentials set key_id = repeat('b', 16) where key_id = repeat('c', 16)",
  "vacuum totp_credentials",
];

let database: PlantedDatabase;
beforeAll(async () => {
  const small = {
    clients: { rows: 300, columns: { name: "'Shop'", status: "'active'", owner_id: HALF_ID } },
    client_credentials: {
      rows: 600,
      columns: {
        kind: "'api_key'",
        key_id: "'gh_' || n",
        client_id: HALF_ID,
        secret_hash: "sha256(n::text::bytea)",
      },
    },
    imports: { rows: 40, columns: { source: "'keycloak'" } },
    session_ends: { rows: WAITING, columns: { reason: "'logout'" } },
    client_ends: { rows: WAITING, columns: {} },
  };
  database = await createPlantedDatabase("identity-service", { large: LARGE, small, unnoticed: REENCRYPTED });
});
afterAll(() => database.drop());

const now = new Date();
const daysAgo = (days: number) => new Date(now.getTime() - days * 86_400_000);
const LONG_AGO = daysAgo(PLANTED_ROWS / 1_440 - 0.01);
const [LIMIT, ALL] = [10, 500];
const userId = plantedId(1_000);
const id = plantedId(2_000);
const otherId = plantedId(999_999);
const email = "user1000@example.com";
const tokenHash = plantedHash(1_000);
const digests = {
  digest: plantedHash(1_000).subarray(0, 16),
  networkDigest: plantedHash(500).subarray(0, 16),
};
const at = now;
const claim = { leaseMs: 1_000, limit: LIMIT };
const sealed = { secretEncrypted: Buffer.alloc(48), keyId: "b".repeat(16) };
const account = {
  id: otherId,
  email: "new@example.com",
  emailVerified: true,
  firstName: "A",
  lastName: "B",
  role: "USER",
  createdAt: now,
  passwordHash: null,
};
const aTry = { tokenHash, sessionEpoch: 0, now, maxTries: 5 };
const stepUp = { tokenHash, userId, sessionId: id, now };
const shown = { userId, deviceId: id, secretHash: tokenHash, now, createdAfter: daysAgo(30) };
const trust = {
  ...shown,
  id: otherId,
  sessionEpoch: 0,
  createdAt: now,
  expiresAt: new Date(now.getTime() + 1),
  lastUsedAt: now,
  clientIp: "",
  userAgent: "",
};
const mail = {
  id: otherId,
  userId,
  recipient: email,
  template: "password-changed" as const,
  data: { occurredAt: "" },
};
const claimed = {
  id,
  template: "password-changed" as const,
  recipient: email,
  data: {},
  attempts: 1,
  language: null,
  timeZone: null,
};
const client = {
  id: plantedId(10),
  name: "Shop",
  ownerId: userId,
  permissions: ["a"],
  status: "active" as const,
  createdAt: now,
  changedAt: now,
};
const challenge = {
  challengeHash: tokenHash,
  purpose: "registration" as const,
  boundTo: tokenHash,
  user: { id: userId, sessionEpoch: 0 },
  now,
};
const approvalKey = { userId, sessionId: userId, tokenHash };
const importKey = { fileSha256: tokenHash, source: "keycloak", settings: "text" };
const identity = {
  provider: "idp",
  email: null,
  linkedAt: now,
  userId: otherId,
  issuer: "https://idp.example",
  subject: "new",
};

/** A part of statements, a statement that asks for no row, and one that counts all rows, for a part of the time only. */
const OTHERS = ["columnsWithoutHash", "readUsersTable", "selectUserFigures"];
const CALLS: StoreCalls = {
  "selectUsers: newest": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51 }),
  "selectUsers: a later page": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, after: { id: plantedId(5_000), lastLoginAt: null } }),
  "selectUsers: last login": async (_tx, sql) => {
    const after = { id: plantedId(5_000), lastLoginAt: daysAgo(5) };
    for (const lastLogin of ["never", daysAgo(3), undefined] as const)
      for (const from of [undefined, after])
        await userAdmin.selectUsers(sql, { limit: 51, sort: "last_login", lastLogin, after: from });
    await userAdmin.selectUsers(sql, { limit: 51, lastLogin: "never" });
  },
  "selectUsers: oldest": (_tx, sql) =>
    userAdmin.selectUsers(sql, {
      limit: 51,
      sort: "oldest",
      after: { id: plantedId(5_000), lastLoginAt: null },
    }),
  "selectUsers: with a second factor": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, hasSecondFactor: true }),
  "selectUsers: without a second factor": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, hasSecondFactor: false }),
  "selectUsers: words": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, query: "example ser1000@ ada" }),
  countUsers: async (_tx, sql) => {
    for (const filter of [{}, { role: "ADMIN" }, { hasSecondFactor: true }, { query: "ser1000@" }])
      await userAdmin.countUsers(sql, filter, 1_000);
  },
  "selectUsers: text": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, query: "ser1000@" }),
  "selectUsers: a short name": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, query: "bo" }),
  "selectUsers: text of nobody": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, query: "nobody" }),
  "selectUsers: text of all": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, query: "example.com" }),
  "selectUsers: address": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 1, email }),
  "selectUsers: address of another role": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 1, email, role: "ADMIN" }),
  "selectUsers: rare role": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, role: "ADMIN" }),
  "selectUsers: unknown role": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, role: "NOBODY" }),
  "selectUsers: common role": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, role: "USER" }),
  "selectUsers: disabled": (_tx, sql) => userAdmin.selectUsers(sql, { limit: 51, status: "disabled" }),
  "selectUsers: disabled of a role": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, status: "disabled", role: "USER" }),
  "selectUsers: disabled and text": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, status: "disabled", query: "example.com" }),
  "selectUsers: role and text": (_tx, sql) =>
    userAdmin.selectUsers(sql, { limit: 51, role: "ADMIN", query: "example.com" }),
  countUsersOfOtherRoles: (tx) => userAdmin.countUsersOfOtherRoles(tx, ["USER", "ADMIN"]),
  "countUsersOfOtherRoles: of an access file without USER": (tx) =>
    userAdmin.countUsersOfOtherRoles(tx, ["CUSTOMER", "ADMIN"]),
  setAccess: (tx) =>
    userAdmin.setAccess(
      tx,
      {
        id: userId,
        role: "USER",
        status: "active",
        mustChangePassword: false,
        firstName: "Ada",
        lastName: "",
      },
      at,
    ),
  keepNewestUnused: (tx) => approvals.keepNewestUnused(tx, userId, 1),
  findApproval: (tx) => approvals.findApproval(tx, approvalKey),
  "findApproval: by id": (tx) => approvals.findApproval(tx, { userId, sessionId: userId, id }),
  findOwnApproval: (tx) => approvals.findOwnApproval(tx, { id, userId }),
  selectOwnApprovals: async (tx) => {
    for (const past of [false, true])
      await approvals.selectOwnApprovals(tx, { userId, past }, { now, maxTries: 5, limit: LIMIT });
  },
  markRefused: (tx) => approvals.markRefused(tx, { id, userId }, now),
  countApprovalTry: (tx) => approvals.countApprovalTry(tx, approvalKey, { now, maxTries: 5 }),
  giveApproval: (tx) => approvals.giveApproval(tx, id, { method: "totp", now }),
  consumeApproval: (tx) =>
    approvals.consumeApproval(tx, { ...approvalKey, digest: tokenHash, acr: 2, idempotencyHash: null, now }),
  "selectUsedApprovals: all": (tx) =>
    approvals.selectUsedApprovals(tx, { after: undefined, from: undefined, to: undefined, limit: LIMIT }),
  "selectUsedApprovals: a later page": (tx) =>
    approvals.selectUsedApprovals(tx, {
      after: { usedAt: daysAgo(5), id },
      from: daysAgo(9),
      to: now,
      limit: LIMIT,
    }),
  deleteUnusedApprovals: (tx) => approvals.deleteUnusedApprovals(tx, now, ALL),
  deleteUsedApprovals: (tx) => approvals.deleteUsedApprovals(tx, LONG_AGO, ALL),
  claimDueEvents: (tx) => events.claimDueEvents(tx, claim),
  markEventsRecorded: (tx) => events.markEventsRecorded(tx, [id], now),
  selectEventIds: (tx) => events.selectEventIds(tx, [id, otherId]),
  findEventBefore: (tx) => events.findEventBefore(tx, id),
  selectWaitingEvents: (tx) => events.selectWaitingEvents(tx),
  deleteRecordedEvents: (tx) => events.deleteRecordedEvents(tx, LONG_AGO, ALL),
  claimClientEnds: (tx) => clientEnds.claimClientEnds(tx, claim),
  deleteClientEnd: (tx) => clientEnds.deleteClientEnd(tx, id),
  countClientEnds: (tx) => clientEnds.countClientEnds(tx),
  findClient: (tx) => clients.findClient(tx, client.id),
  lockClient: (tx) => clients.lockClient(tx, client.id),
  selectClientsWith: (tx) => clients.selectClientsWith(tx, [plantedId(20)], "signals:receive"),
  selectClients: (tx) => clients.selectClients(tx, { isOwnerless: false, limit: LIMIT }),
  "selectClients: without an owner": (tx) => clients.selectClients(tx, { isOwnerless: true, limit: LIMIT }),
  "selectClients: of an owner": (tx) =>
    clients.selectClients(tx, { ownerId: plantedId(20), isOwnerless: false, limit: LIMIT }),
  lockOwnedClients: (tx) => clients.lockOwnedClients(tx, plantedId(20), LIMIT),
  updateClient: (tx) => clients.updateClient(tx, client),
  touchClient: (tx) => clients.touchClient(tx, client.id, now),
  deleteClientRow: (tx) => clients.deleteClientRow(tx, client.id),
  lockActiveOwner: (tx) => clients.lockActiveOwner(tx, userId),
  countOwnerless: (tx) => clients.countOwnerless(tx),
  selectLiveCredentials: (tx) => credentials.selectLiveCredentials(tx, client.id, "secret"),
  findApiKey: (tx) => credentials.findApiKey(tx, "gh_7"),
  selectCredentials: (tx) => credentials.selectCredentials(tx, client.id),
  deleteCredential: (tx) => credentials.deleteCredential(tx, client.id, plantedId(20)),
  replaceCredentialIds: (tx) => credentials.replaceCredentialIds(tx, client.id),
  noteCredentialUse: (tx) => credentials.noteCredentialUse(tx, plantedId(20), now),
  insertAssertion: (tx) =>
    credentials.insertAssertion(tx, { clientId: client.id, jtiHash: tokenHash, expiresAt: now }),
  deleteExpiredAssertions: (tx) => credentials.deleteExpiredAssertions(tx, ALL),
  readApiKeyMark: (tx) => credentials.readApiKeyMark(tx),
  findIdentityUser: (tx) => identities.findIdentityUser(tx, identity),
  insertIdentity: (tx) => identities.insertIdentity(tx, { ...identity, userId: plantedId(7) }),
  findLinkedIdentities: (tx) =>
    identities.findLinkedIdentities(tx, [identity, { ...identity, subject: "7" }]),
  listIdentities: (tx) => identities.listIdentities(tx, userId),
  deleteIdentity: (tx) => identities.deleteIdentity(tx, { userId, provider: "idp" }),
  deleteIdentitiesSince: (tx) => identities.deleteIdentitiesSince(tx, userId, daysAgo(1)),
  deleteOtherIdentities: (tx) => identities.deleteOtherIdentities(tx, userId, null),
  takeFlow: (tx) =>
    oauth.takeFlow(tx, { stateHash: tokenHash, browserHash: tokenHash, provider: "idp", now }),
  takeCode: (tx) => oauth.takeCode(tx, { codeHash: tokenHash, now }),
  deleteFlowsOfUser: (tx) => oauth.deleteFlowsOfUser(tx, userId),
  deleteExpired: (tx) => oauth.deleteExpired(tx, now, ALL),
  findImportByKey: (tx) => imports.findImportByKey(tx, importKey),
  findImport: (tx) => imports.findImport(tx, plantedId(7)),
  lockImport: (tx) => imports.lockImport(tx, plantedId(7)),
  insertBatch: (tx) =>
    imports.insertBatch(tx, plantedId(7), { firstRow: 99_999, userIds: [id], refusals: [""] }),
  endImport: (tx) => imports.endImport(tx, plantedId(7), now),
  selectBatches: (tx) => imports.selectBatches(tx, { importId: plantedId(7), firstRow: 6_500, limit: LIMIT }),
  deleteImportsBefore: (tx) => imports.deleteImportsBefore(tx, daysAgo(99)),
  findEnrollment: (tx) => enrollments.findEnrollment(tx, tokenHash),
  countEnrollmentTry: (tx) => enrollments.countEnrollmentTry(tx, aTry),
  consumeEnrollment: (tx) => enrollments.consumeEnrollment(tx, tokenHash, now),
  deleteEndedEnrollments: (tx) => enrollments.deleteEndedEnrollments(tx, now, ALL),
  findOpenPasswordChange: (tx) => passwordChanges.findOpenPasswordChange(tx, aTry),
  countPasswordChangeTry: (tx) => passwordChanges.countPasswordChangeTry(tx, aTry),
  givePasswordChangeTryBack: (_tx, sql) => passwordChanges.givePasswordChangeTryBack(sql, aTry),
  consumePasswordChange: (tx) => passwordChanges.consumePasswordChange(tx, aTry),
  deletePasswordChangesOfUser: (tx) => passwordChanges.deletePasswordChangesOfUser(tx, userId),
  deleteEndedPasswordChanges: (tx) => passwordChanges.deleteEndedPasswordChanges(tx, now, ALL),
  findOpenLink: (tx) => links.findOpenLink(tx, { tokenHash, purpose: "verify_email", now }),
  consumeLink: (tx) => links.consumeLink(tx, id, now),
  killLinks: (tx) => links.killLinks(tx, { userId, purposes: ["verify_email", "reset_password"], now }),
  findOwnUndo: (tx) => links.findOwnUndo(tx, { userId, email, now }),
  countLinksSince: (tx) => links.countLinksSince(tx, { userId, purpose: "verify_email", since: daysAgo(1) }),
  countOpenLinks: (tx) =>
    links.countOpenLinks(tx, { userId, purpose: "verify_email", now, madeAfter: daysAgo(1) }),
  deleteEndedLinks: (tx) => links.deleteEndedLinks(tx, now, ALL),
  lockRecipient: (tx) => mailBudget.lockRecipient(tx, email),
  isNoticeCounted: (tx) => mailBudget.isNoticeCounted(tx, { id, userId: plantedId(7) }),
  listCountedMails: (tx) =>
    mailBudget.listCountedMails(tx, { kind: "stranger", recipient: email }, daysAgo(1)),
  insertCountedMail: (tx) =>
    mailBudget.insertCountedMail(tx, { id: otherId, kind: "stranger", recipient: email, createdAt: now }),
  releaseAddress: (tx) => mailBudget.releaseAddress(tx, email, now),
  isReleasedLately: (tx) => mailBudget.isReleasedLately(tx, email, now),
  deleteOldCounts: (tx) => mailBudget.deleteOldCounts(tx, { countedBefore: LONG_AGO, limit: ALL }),
  enqueueMail: (tx) => mails.enqueueMail(tx, mail, now),
  hasMail: (tx) => mails.hasMail(tx, id),
  claimDueMails: (tx) =>
    mails.claimDueMails(tx, { ...claim, createdAfter: daysAgo(1), templates: ["verify-email"] }),
  markMailSent: (tx) => mails.markMailSent(tx, id, now),
  postponeMail: (tx) => mails.postponeMail(tx, claimed, { attemptAt: now, reason: "x" }),
  giveUpMail: (tx) => mails.giveUpMail(tx, claimed, { now, reason: "x" }),
  giveUpOverdueMails: (tx) => mails.giveUpOverdueMails(tx, { now, createdUntil: now, limit: ALL }),
  deleteDoneMails: (tx) => mails.deleteDoneMails(tx, LONG_AGO, ALL),
  listMailsOfUser: (tx) => mails.listMailsOfUser(tx, userId, LIMIT),
  oldestWaitingMail: (tx) => mails.oldestWaitingMail(tx),
  replaceUnconfirmedSecret: (tx) => mfa.replaceUnconfirmedSecret(tx, { ...sealed, userId, createdAt: now }),
  findTotpCredential: (tx) => mfa.findTotpCredential(tx, userId),
  findTotpSince: (tx) => mfa.findTotpSince(tx, userId),
  confirmTotpCredential: (tx) => mfa.confirmTotpCredential(tx, userId, now),
  consumeTotpStep: (tx) => mfa.consumeTotpStep(tx, userId, 7),
  lockSecretsOfKey: (tx) => mfa.lockSecretsOfKey(tx, "a".repeat(16), { afterUserId: null, limit: LIMIT }),
  "lockSecretsOfKey: further on": (tx) =>
    mfa.lockSecretsOfKey(tx, "a".repeat(16), { afterUserId: plantedId(5_000), limit: LIMIT }),
  "lockSecretsOfKey: of no more": (tx) =>
    mfa.lockSecretsOfKey(tx, "c".repeat(16), { afterUserId: null, limit: LIMIT }),
  replaceEncryptions: (tx) =>
    mfa.replaceEncryptions(tx, [
      { ...sealed, userId },
      { ...sealed, userId: id },
    ]),
  lockReencryption: (tx) => mfa.lockReencryption(tx),
  countSecretsOfKeys: (tx) => mfa.countSecretsOfKeys(tx, ["c".repeat(16)], LIMIT),
  replaceRecoveryCodes: (tx) => mfa.replaceRecoveryCodes(tx, userId, [tokenHash], now),
  deleteRecoveryCodesSince: (tx) => mfa.deleteRecoveryCodesSince(tx, userId, daysAgo(1)),
  deleteIdleRecoveryCodes: (tx) => mfa.deleteIdleRecoveryCodes(tx, userId),
  consumeRecoveryCode: (tx) => mfa.consumeRecoveryCode(tx, userId, tokenHash),
  countRecoveryCodes: (tx) => mfa.countRecoveryCodes(tx, userId),
  deleteTotp: (tx) => mfa.deleteTotp(tx, userId),
  findChallenge: (tx) => mfa.findChallenge(tx, tokenHash),
  countChallengeTry: (tx) => mfa.countChallengeTry(tx, aTry),
  consumeChallenge: (tx) => mfa.consumeChallenge(tx, tokenHash),
  deleteEndedChallenges: (tx) => mfa.deleteEndedChallenges(tx, now, ALL),
  insertPasskeyChallenge: (tx) =>
    challenges.insertPasskeyChallenge(tx, {
      ...challenge,
      createdAt: now,
      expiresAt: new Date(now.getTime() + 1),
    }),
  hasPasskeyChallenge: (tx) => challenges.hasPasskeyChallenge(tx, challenge),
  takePasskeyChallenge: (tx) => challenges.takePasskeyChallenge(tx, challenge),
  deleteExpiredChallenges: (tx) => challenges.deleteExpiredChallenges(tx, now, ALL),
  listPasskeys: (tx) => passkeys.listPasskeys(tx, userId),
  findPasskey: (tx) => passkeys.findPasskey(tx, tokenHash),
  notePasskeyUse: (tx) => passkeys.notePasskeyUse(tx, { id, signCount: 7, isBackedUp: false, at }),
  setPasskeyName: (tx) => passkeys.setPasskeyName(tx, { userId, id, name: "x" }),
  deletePasskey: (tx) => passkeys.deletePasskey(tx, { userId, id }),
  deletePasskeysSince: (tx) => passkeys.deletePasskeysSince(tx, userId, daysAgo(1)),
  sampleUsedCosts: (tx) => sampleUsedCosts(tx),
  insertSessionEnd: (tx) =>
    sessionEnds.insertSessionEnd(
      tx,
      { id: otherId, userId, exceptSessionId: null, reason: "x", createdAt: now },
      now,
    ),
  claimSessionEnds: (tx) => sessionEnds.claimSessionEnds(tx, claim),
  deleteSessionEnd: (tx) => sessionEnds.deleteSessionEnd(tx, id),
  countSessionEnds: (tx) => sessionEnds.countSessionEnds(tx),
  findSessionEpoch: (tx) => sessionEnds.findSessionEpoch(tx, userId),
  noteLogin: (_tx, sql) => sessionEnds.noteLogin(sql, { userId, epoch: 0, at }),
  countStepUpTry: (tx) => stepUps.countStepUpTry(tx, { ...stepUp, maxTries: 5, reaches: 2 }),
  giveStepUpTryBack: (_tx, sql) => stepUps.giveStepUpTryBack(sql, stepUp),
  consumeStepUp: (tx) => stepUps.consumeStepUp(tx, stepUp),
  deleteEndedStepUps: (tx) => stepUps.deleteEndedStepUps(tx, now, ALL),
  findNetworkOfAccount: (tx) => networks.findNetworkOfAccount(tx, { ...digests, email }),
  isNetworkUsed: (tx) => networks.isNetworkUsed(tx, digests.networkDigest),
  insertKnownNetwork: (tx) => networks.insertKnownNetwork(tx, { ...digests, userId, passwordEpoch: 1 }),
  deleteOldNetworks: (tx) => networks.deleteOldNetworks(tx, ALL),
  readWrongCodes: (tx) => guessing.readWrongCodes(tx, { userId, isKnownDevice: false, since: daysAgo(1) }),
  insertWrongCode: (tx) =>
    guessing.insertWrongCode(tx, { id: otherId, userId, isKnownDevice: false, failedAt: now }),
  endWrongRows: (tx) => guessing.endWrongRows(tx, userId),
  forgiveWrongCodes: (tx) => guessing.forgiveWrongCodes(tx, { userId, now, forgivenBefore: daysAgo(1) }),
  deleteWrongCodes: (tx) => guessing.deleteWrongCodes(tx, LONG_AGO, ALL),
  findTrust: (tx) => trusts.findTrust(tx, shown),
  renewTrust: (tx) => trusts.renewTrust(tx, shown, trust),
  deleteTrustOfReplacedSecret: (tx) => trusts.deleteTrustOfReplacedSecret(tx, shown),
  insertTrust: (tx) => trusts.insertTrust(tx, trust, 10),
  listTrusts: (tx) => trusts.listTrusts(tx, shown),
  deleteTrust: (tx) => trusts.deleteTrust(tx, { userId, id }),
  deleteTrustsOfUser: (tx) => trusts.deleteTrustsOfUser(tx, userId),
  deleteEndedTrusts: (tx) => trusts.deleteEndedTrusts(tx, now, ALL),
  findAccountById: (tx) => accounts.findAccountById(tx, userId),
  findAccountByEmail: (tx) => accounts.findAccountByEmail(tx, email),
  findAccountForLogin: (tx) => accounts.findAccountForLogin(tx, email),
  "findAccountForLogin: of nobody": (tx) => accounts.findAccountForLogin(tx, "nobody@example.com"),
  lockAccount: (tx) => accounts.lockAccount(tx, userId),
  lockAccountByEmail: (tx) => accounts.lockAccountByEmail(tx, email),
  lockAccountForMfa: (tx) => accounts.lockAccountForMfa(tx, userId),
  setPasswordHash: (tx) =>
    accounts.setPasswordHash(tx, { userId, passwordHash: `$argon2id$${"x".repeat(9)}`, at }),
  setEmailVerified: (tx) => accounts.setEmailVerified(tx, userId, at),
  setCredentialsProven: (tx) => accounts.setCredentialsProven(tx, userId, at),
  clearCredentialsProof: (tx) => accounts.clearCredentialsProof(tx, userId, at),
  setEmail: (tx) => accounts.setEmail(tx, { userId, email: "new@example.com", at }),
  listFormerAddresses: (tx) => accounts.listFormerAddresses(tx, userId),
  clearPassword: (tx) => accounts.clearPassword(tx, userId, at),
  isAddressTaken: (tx) => accounts.isAddressTaken(tx, { userId, email: "old700@example.com", now }),
  setProfile: (tx) =>
    accounts.setProfile(tx, {
      userId,
      firstName: "A",
      lastName: undefined,
      language: "de",
      timeZone: undefined,
      at,
    }),
  isAdmin: (tx) => accounts.isAdmin(tx, userId),
  lockActiveAdmins: (tx) => accounts.lockActiveAdmins(tx),
  listUnusedAccounts: (tx) =>
    accounts.listUnusedAccounts(
      tx,
      { madeBefore: now, role: "USER", after: { createdAt: daysAgo(400).toISOString(), id }, now },
      ALL,
    ),
  lockUnusedAccounts: (tx) => accounts.lockUnusedAccounts(tx, [userId, plantedId(7)], { role: "USER", now }),
  eraseUser: (tx) => accounts.eraseUser(tx, userId),
  insertUser: (tx) => users.insertUser(tx, account),
  findTakenAddresses: (tx) => users.findTakenAddresses(tx, [email, "nobody@example.com"], now),
  lockAddresses: (tx) => users.lockAddresses(tx, [email]),
  replacePasswordHash: (tx) => users.replacePasswordHash(tx, { userId, oldHash: "x", newHash: "y", at }),
  findDeviceAccount: (tx) => users.findDeviceAccount(tx, userId),
  lockDeviceOwner: (tx) => users.lockDeviceOwner(tx, userId),
  noteFirstLogin: (tx) => users.noteFirstLogin(tx, plantedId(7), at),
  lockAdminBootstrap: (tx) => users.lockAdminBootstrap(tx),
  hasAdmin: (tx) => users.hasAdmin(tx),
};

test("every function that reads or changes rows is looked at", async () => {
  const called = new Set(Object.keys(CALLS).map((name) => name.split(":")[0]));
  for (const name of OTHERS) called.add(name);
  expect((await storeFunctions(import.meta.dirname)).filter((name) => !called.has(name))).toEqual([]);
});

test("no statement reads a large table, or a large part of it", async () => {
  expect(await database.findOffences(CALLS)).toEqual([]);
});
