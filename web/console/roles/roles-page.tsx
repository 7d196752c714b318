import type { Role } from "#clients/api/generated/gatehouse.ts";
import { useUser } from "../../session/session.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Found } from "../../ui/states.tsx";
import { Fact, Panel } from "../panel.tsx";
import { Danger, PermissionList } from "../permissions.tsx";
import { useText } from "../text.ts";
import { useRoles } from "../users/users-page.tsx";

/** With one of these a role acts on accounts. */
const ACTS = /^(?:users:(?:write|unlock|help|delete)|sessions:end|mfa:reset)$/;
/** The access file demands `*` of it, so who may act on it holds `*`. */
const ADMIN = "ADMIN";

export function RolesPage() {
  const t = useText();
  const query = useRoles();
  return (
    <>
      <PageTitle lead={t("roles.lead")}>{t("roles.title")}</PageTitle>
      <Found query={query}>
        {({ roles }) => (
          <div className="panels">
            {roles.map((role) => (
              <RolePanel key={role.name} role={role} />
            ))}
          </div>
        )}
      </Found>
    </>
  );
}

function RolePanel({ role: { name, permissions, mayActOn } }: { role: Role }) {
  const t = useText();
  const isOwn = useUser().role === name;
  return (
    <Panel title={name} beside={isOwn && <span className="tag quiet">{t("roles.yours")}</span>}>
      {permissions.length === 0 && <p className="muted">{t("roles.nothing")}</p>}
      {mayActOn.includes(ADMIN) ? (
        <>
          <div className="permissions">
            <p>
              <code>*</code> {t("roles.all")}
            </p>
            <Danger name="*" />
          </div>
          <details className="permissions-of">
            <summary>{t("roles.allOf")}</summary>
            <PermissionList names={permissions} />
          </details>
        </>
      ) : (
        <PermissionList names={permissions} />
      )}
      {permissions.some((permission) => ACTS.test(permission)) ? (
        <dl className="details">
          <Fact name={t("roles.actsOn")}>{mayActOn.join(", ")}</Fact>
        </dl>
      ) : (
        <p className="muted">{t("roles.actsOnNobody")}</p>
      )}
    </Panel>
  );
}
