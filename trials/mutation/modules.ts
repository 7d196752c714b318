/** A part of the code that carries a promise, and the tests that must notice when one line of it changes. */
export interface MutationModule {
  /** Files to mutate, from the root. */
  mutate: readonly string[];
  /** Test files that hold them, from the root. Few and fast ones: each mutant runs those that reach it. */
  tests: readonly string[];
}

/** Files of a service, whichever room they stand in. */
const filesOf =
  (service: string) =>
  (...names: string[]) =>
    names.map((name) => `${service}/**/${name}.ts`);
const identity = filesOf("identity-service");
const gateway = filesOf("gateway");
const token = filesOf("token-service");
const audit = filesOf("audit-service");
/** These test files exactly. */
const tests = (folder: string, ...names: string[]) => names.map((name) => `${folder}/**/${name}.test.ts`);
/** These and every longer name: the ones with a database among them. */
const testsIn = (folder: string, ...names: string[]) => names.map((name) => `${folder}/**/${name}*.test.ts`);

export const MODULES: Readonly<Record<string, MutationModule>> = {
  "token-service": {
    mutate: token(
      "access-token",
      "housekeeping",
      "issue-session",
      "key-ring",
      "leaf-marker",
      "refresh-session",
      "refresh-token",
      "revocation-feed",
      "revocation-store",
      "revoke-all-sessions",
      "revoke-session",
      "revoke-signing-key",
      "rotate-signing-key",
      "session-store",
      "sign-pair",
      "verify-token",
    ),
    tests: testsIn(
      "token-service",
      "access-token",
      "bound-sessions",
      "client-tokens",
      "exchange-token",
      "housekeeping",
      "jws-corpora",
      "jws-signature",
      "key-ring",
      "leaf-marker",
      "prove-refresh-token",
      "refresh-session",
      "refresh-token",
      "revocation-feed",
      "revoke-all-sessions",
      "session-limits",
      "sessions",
      "sign-pair",
      "signing-keys",
      "verify-token",
    ),
  },
  "token-client": {
    mutate: [
      "packages/token-client/*.ts",
      "!packages/token-client/*.test.ts",
      "!packages/token-client/*.fixture.ts",
    ],
    tests: ["packages/token-client/*.test.ts"],
  },
  login: {
    mutate: identity(
      "complete-login",
      "change-password-at-login",
      "complete-mfa-login",
      "count-guess",
      "log-in",
      "register",
    ),
    tests: testsIn(
      "identity-service",
      "log-in",
      "register",
      "mfa",
      "change-password-at-login",
      "count-guess",
      "enroll-at-login",
      "passkey-factor",
      "trust-device",
    ),
  },
  owner: {
    mutate: identity("last-admin", "prove-owner", "reauthenticate"),
    tests: testsIn(
      "identity-service",
      "prove-owner",
      "user-admin",
      "account-changes",
      "account-ownership",
      "oauth-login",
    ),
  },
  links: {
    mutate: identity(
      "change-email",
      "confirm-email-change",
      "link-store",
      "links",
      "mail-a-link",
      "make-link",
      "reset-password",
      "undo-change",
      "use-link",
      "verify-email",
    ),
    tests: testsIn("identity-service", "links", "mail-links", "account-changes", "verify-email"),
  },
  mfa: {
    mutate: identity(
      "begin-totp-enrollment",
      "check-mfa-code",
      "complete-mfa-login",
      "confirm-totp-enrollment",
      "disable-totp",
      "mfa-store",
      "mfa-token",
      "mfa-tries",
      "recovery-code",
      "give-recovery-codes",
      "totp",
      "totp-secret",
    ),
    tests: testsIn("identity-service", "mfa", "totp", "totp-secret", "recovery-code"),
  },
  oauth: {
    mutate: [
      ...identity(
        "open-account",
        "begin-oauth-login",
        "complete-oauth-login",
        "exchange-oauth-code",
        "external-identity-store",
        "link-identity",
        "oauth-store",
        "unlink-identity",
      ),
      "packages/outbound-http/outbound-http.ts",
    ],
    tests: [
      ...testsIn("identity-service", "oauth", "open-account"),
      "packages/outbound-http/outbound-http.test.ts",
    ],
  },
  throttle: {
    mutate: [
      ...identity("hash-share", "memory-throttle", "throttle", "throttle-counters"),
      "packages/service-kit/values/turns.ts",
    ],
    tests: [
      ...tests("identity-service", "hash-share", "memory-throttle", "throttle", "throttle-counters"),
      "packages/service-kit/values/turns.test.ts",
    ],
  },
  guard: {
    mutate: gateway("authority", "mask-secrets", "request-guard"),
    tests: tests("gateway", "authority", "mask-secrets", "request-guard"),
  },
  "client-ip": {
    mutate: gateway("caller", "trusted-proxies"),
    tests: tests("gateway", "caller", "link-routes", "passkey-routes", "trusted-proxies"),
  },
  "upstream-headers": {
    mutate: gateway("downstream-headers", "forwarded-headers", "public-references", "upstream-headers"),
    tests: tests(
      "gateway",
      "downstream-headers",
      "forwarded-headers",
      "public-references",
      "upstream-headers",
    ),
  },
  "rate-limit": {
    mutate: [
      "packages/rate-limit/gcra.ts",
      "packages/rate-limit/memory-source.ts",
      "packages/rate-limit/redis-source.ts",
    ],
    tests: ["packages/rate-limit/*.test.ts"],
  },
  limits: {
    mutate: gateway(
      "bucket",
      "call-limiter",
      "connection-limit",
      "known-callers",
      "share-counts",
      "used-proofs",
    ),
    tests: tests(
      "gateway",
      "bucket",
      "call-limiter",
      "connection-limit",
      "known-callers",
      "shared-limits.db",
      "share-counts",
      "used-proofs",
      "used-proofs.db",
    ),
  },
  "limit-classes": {
    mutate: gateway("limit-class", "rate-limits"),
    tests: tests("gateway", "limit-class", "rate-limits"),
  },
  recorder: {
    mutate: [
      "packages/audit-client/record/entry-backlog.ts",
      "packages/audit-client/record/record-connection.ts",
      "packages/audit-client/record/recorder.ts",
      "packages/audit-client/spool/resend-run.ts",
      "packages/audit-client/stream/record-stream.ts",
      "packages/audit-client/spool/spool-queue.ts",
    ],
    tests: testsIn("packages/audit-client", "recorder", "resend-run", "record-stream", "entry-backlog"),
  },
  spool: {
    mutate: [
      "packages/audit-client/spool/spool*.ts",
      "!packages/audit-client/spool/*.test.ts",
      "!packages/audit-client/spool/*.fixture.ts",
    ],
    tests: testsIn("packages/audit-client", "spool", "recorder-spool", "resend-run"),
  },
  sequencer: {
    mutate: audit("sequencer", "sequencer-store", "sequencer-term", "merkle-tree", "checkpoint"),
    tests: testsIn("audit-service", "sequencer", "merkle-tree", "leaf", "checkpoint"),
  },
  retention: {
    mutate: audit("remove-old-partitions", "retention-store", "maintain-log"),
    tests: testsIn("audit-service", "partitions", "leaf-partitions", "maintain-log"),
  },
  "rpc-server": {
    mutate: [
      "packages/service-kit/rpc/rpc-server.ts",
      "packages/service-kit/rpc/rpc-admission.ts",
      "packages/service-kit/rpc/rpc-handlers.ts",
      "packages/service-kit/rpc/rpc-errors.ts",
      "packages/service-kit/rpc/rpc-metadata.ts",
      "packages/service-kit/rpc/call-context.ts",
    ],
    tests: [
      ...testsIn("packages/service-kit", "rpc", "call-context"),
      ...tests("tests", "rpc-boundary", "rpc-serving"),
    ],
  },
  lifecycle: {
    mutate: ["packages/service-kit/process/lifecycle.ts"],
    tests: testsIn("packages/service-kit", "lifecycle"),
  },
  postgres: {
    mutate: [
      "packages/service-kit/database/connection-pool.ts",
      "packages/service-kit/database/database-socket.ts",
      "packages/service-kit/database/database-failure.ts",
      "packages/service-kit/database/postgres.ts",
      "packages/service-kit/database/postgres-js-internals.ts",
      "packages/service-kit/values/call-deadline.ts",
    ],
    tests: testsIn(
      "packages/service-kit",
      "connection-pool",
      "database-failure",
      "database-socket",
      "postgres",
      "postgres-js-internals",
      "call-deadline",
    ),
  },
  verifier: {
    mutate: ["cli/audit-verifier/*.ts", "!cli/audit-verifier/*.test.ts", "!cli/audit-verifier/*.fixture.ts"],
    tests: ["cli/audit-verifier/*.test.ts"],
  },
};
