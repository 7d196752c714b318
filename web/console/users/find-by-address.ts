import type { ManagedUser } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../../session/session.ts";

/**
 * Finds the user with an address, which is in no URL. Each search is in the audit log. Needs `users:read`.
 * @returns undefined if there is none.
 */
export function useFindByAddress(): (
  typed: string,
  status?: "active" | "disabled",
) => Promise<ManagedUser | undefined> {
  const { call } = useSession();
  return async (typed, status) => {
    const query = typed.trim().toLowerCase();
    const { users } = await call("POST /admin/user-search", { body: { query, status } });
    return users.find(({ email }) => email.toLowerCase() === query);
  };
}
