import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { hasText, textOf } from "./text.ts";

export interface Explained {
  /** Of docs/errors.md; empty for a failure of the browser. */
  code: string;
  message: string;
  /** Keyed by the field's name. */
  fields: Readonly<Record<string, string>>;
}

/** Which fields a code may be about. A form has one of them. */
const FIELDS_OF: Readonly<Record<string, readonly string[]>> = {
  password_too_short: ["newPassword"],
  password_too_common: ["newPassword"],
  password_contains_email: ["newPassword"],
  password_unchanged: ["newPassword"],
  mfa_code_invalid: ["code"],
  wrong_password: ["password", "currentPassword"],
  email_already_registered: ["email", "newEmail"],
};

/** A text for people, in their language; a bug, too, gets one. */
export function explain(error: unknown): Explained {
  if (!(error instanceof GatehouseError)) return { code: "", message: passkeyText(error), fields: {} };
  const { code } = error;
  if (code === "validation_failed")
    return { code, message: textOf("errors.validation_failed"), fields: fieldTexts(error.details) };
  const message = apiText(error);
  return {
    code,
    message,
    fields: Object.fromEntries((FIELDS_OF[code] ?? []).map((name) => [name, message])),
  };
}

function apiText({ code, status, retryAfterS, requestId, details }: GatehouseError): string {
  const { retryAfter } = (details ?? {}) as { retryAfter?: unknown };
  if (code === "invalid_credentials" && typeof retryAfter === "number")
    return textOf("errors.tries", { count: Math.ceil(retryAfter / 60) });
  if (status === 429) return textOf("errors.wait", { count: Math.max(1, retryAfterS) });
  if (hasText(`errors.${code}`)) return textOf(`errors.${code}`);
  if (status === 503 || status === 504) return textOf("errors.unavailable");
  return textOf("errors.other", { requestId: requestId || "–" });
}

function fieldTexts(details: unknown): Record<string, string> {
  if (!Array.isArray(details)) return {};
  return Object.fromEntries(
    details.map(({ field: name = "", message = "" }: { field?: string; message?: string }) => [
      name,
      // The code of both is `invalid_format`. A test holds identity-service's message to this.
      textOf(/ASCII/.test(message) ? problemKey("emailAscii") : fieldKey(name)),
    ]),
  );
}

const fieldKey = (name: string) => (/email/i.test(name) ? "form.email" : problemKey(name));

/** Of a field that was filled in wrongly: the page's own text, if it has one. */
export const problemKey = (name: string): string =>
  hasText(`problems.${name}`) ? `problems.${name}` : "form.invalid";

/** Thrown by `navigator.credentials`. @see WebAuthn §5.1. */
function passkeyText(error: unknown): string {
  switch ((error as { name?: string }).name) {
    case "NotAllowedError":
    case "AbortError":
      return textOf("errors.passkey_cancelled");
    case "InvalidStateError":
      return textOf("errors.passkey_exists");
    case "SecurityError":
    case "NotSupportedError":
      return textOf("errors.passkey_unsupported");
    default:
      return textOf("errors.other", { requestId: "–" });
  }
}
