import { ApiError } from "./api.ts";
import { hasText, textOf } from "./text.ts";

export interface Explained {
  message: string;
  /** By the field's name. */
  fields: Readonly<Record<string, string>>;
}

/** Which field a code is about. */
const FIELD_OF: Readonly<Record<string, string>> = {
  password_too_short: "newPassword",
  password_too_common: "newPassword",
  password_contains_email: "newPassword",
  password_unchanged: "newPassword",
  mfa_code_invalid: "code",
  wrong_password: "password",
  email_already_registered: "email",
};

/** A text for people, in their language; a bug, too, gets one. */
export function explain(error: unknown): Explained {
  if (!(error instanceof ApiError)) return { message: passkeyText(error), fields: {} };
  if (error.code === "validation_failed")
    return { message: textOf("errors.validation_failed"), fields: fieldTexts(error.details) };
  const message = apiText(error);
  const field = FIELD_OF[error.code];
  return { message, fields: field === undefined ? {} : { [field]: message } };
}

function apiText({ code, status, retryAfterS, requestId }: ApiError): string {
  if (status === 429) return textOf("errors.wait", { count: Math.max(1, retryAfterS) });
  if (hasText(`errors.${code}`)) return textOf(`errors.${code}`);
  if (status === 503 || status === 504) return textOf("errors.unavailable");
  return textOf("errors.other", { requestId: requestId || "–" });
}

function fieldTexts(details: unknown): Record<string, string> {
  if (!Array.isArray(details)) return {};
  const names = details.map((problem: { field?: string; code?: string }) => problem.field ?? "");
  return Object.fromEntries(
    names.map((name) => [name, textOf(/email/i.test(name) ? "form.email" : "form.invalid")]),
  );
}

/** Of `navigator.credentials`. @see WebAuthn §5.1. */
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
