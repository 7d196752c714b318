/**
 * Reserved because `/auth/<name>` is another route of the gateway. `tests/house/provider-names.test.ts` compares the
 * lists.
 */
export const RESERVED_PROVIDER_NAMES: ReadonlySet<string> = new Set([
  "change-email",
  "change-password",
  "confirm-email-change",
  "disown-account",
  "forgot-password",
  "login",
  "logout",
  "me",
  "mfa",
  "oauth",
  "providers",
  "refresh",
  "register",
  "resend-verification",
  "reset-password",
  "sessions",
  "undo-access-change",
  "undo-email-change",
  "verify-email",
]);
