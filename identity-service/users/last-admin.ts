import type { ActiveAdmin } from "./account-store.ts";

/** Who cannot log in is no other administrator. */
export function isLastAdmin(admins: readonly ActiveAdmin[], userId: string): boolean {
  return (
    admins.some(({ id }) => id === userId) && !admins.some(({ id, canLogIn }) => id !== userId && canLogIn)
  );
}
