/** `USER`, `MERCHANT_CLERK`. */
export const ROLE_NAME = /^[A-Z][A-Z0-9_]{0,31}$/;

/** `payments:read`, `audit:read:user`. At most 100 characters. */
export const PERMISSION_NAME = /^(?=.{1,100}$)[a-z][a-z0-9-]*(?::[a-z][a-z0-9-]*){1,3}$/;

/** Of all permissions of a client, with a space between two: its tokens must fit into 4,096 characters. */
export const MAX_GRANT_CHARACTERS = 2_000;

export function isRoleName(text: unknown): text is string {
  return typeof text === "string" && ROLE_NAME.test(text);
}
