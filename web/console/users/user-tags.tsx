import type { ManagedUser } from "#clients/api/generated/gatehouse.ts";
import { useText } from "../text.ts";

/** What is not as usual stands out; an active account with a second factor is quiet. */
export function UserTags({ user, isLocked = false }: { user: ManagedUser; isLocked?: boolean }) {
  const t = useText();
  return (
    <span className="tagged">
      {user.status === "active" ? (
        <span className="tag quiet">{t("users.active")}</span>
      ) : (
        <span className="tag bad">{t("users.disabled")}</span>
      )}
      {isLocked && <span className="tag bad">{t("users.locked")}</span>}
      {!user.emailVerified && <span className="tag warn">{t("users.unverified")}</span>}
      {user.mustChangePassword && <span className="tag warn">{t("users.mustChange")}</span>}
      {user.mfaEnabled && <span className="tag quiet">{t("users.mfa")}</span>}
    </span>
  );
}
