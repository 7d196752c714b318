import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import type { ManagedUser, Role, UserDetails } from "#clients/api/generated/gatehouse.ts";
import { type Call, useMay, useSession, useUser } from "../../session/session.ts";
import { EmailField, SelectField } from "../../ui/field.tsx";
import { Act, useDone } from "../act.tsx";
import { useClients } from "../clients/clients-page.tsx";
import { useText } from "../text.ts";
import { NameFields } from "./invite.tsx";

interface Props {
  user: ManagedUser;
  details: UserDetails;
  roles: readonly Role[];
  onDeleted: () => void;
}

/** As its row shows it. */
interface Session {
  id: string;
  ip: string;
  /** Of the device. */
  name: string;
}

/** Nobody acts on their own account here, nor on one that may administer more. A role that is gone from the file stops nobody. */
export function useMayActOn(user: ManagedUser, roles: readonly Role[]): boolean {
  const self = useUser();
  return self.id !== user.id && roles.find(({ name }) => name === user.role)?.actable !== false;
}

/** What the signed-in person may do with this account, the harmless first. */
export function Acts(props: Props) {
  const t = useText();
  const self = useUser();
  const may = useMay();
  const owned = useClients({ owner: props.user.id }).data?.pages[0]?.clients;
  // Whoever may not read clients may disable them.
  const withClients = may("clients:write") && owned?.length !== 0;
  const role = props.roles.find(({ name }) => name === props.user.role);
  if (self.id === props.user.id) return <p className="muted small">{t("user.yourself")}</p>;
  // A role that is gone from the file stops nobody.
  if (role?.actable === false)
    return <p className="muted small">{t("user.notYours", { role: role.name })}</p>;
  const helps = [
    may("users:unlock") && <Unlock key="unlock" {...props} />,
    may("users:help") && props.user.status === "active" && <SendReset key="reset" {...props} />,
    may("users:help") && props.user.status === "active" && !props.user.emailVerified && (
      <SendConfirmation key="confirmation" {...props} />
    ),
    may("sessions:end") && <EndSessions key="end" {...props} />,
    may("users:write") && <DemandPassword key="password" {...props} />,
    may("users:write") && <ChangeName key="name" {...props} />,
    may("users:write") && props.user.status === "active" && <ChangeEmail key="email" {...props} />,
    may("users:write") && may("roles:assign") && <ChangeRole key="role" {...props} />,
  ].filter(Boolean);
  const dangers = [
    may("mfa:reset") && props.user.mfaEnabled && <ResetMfa key="mfa" {...props} />,
    may("users:write") && <SetStatus key="status" {...props} withClients={withClients} />,
    may("users:delete") && <Delete key="delete" {...props} withClients={withClients} />,
  ].filter(Boolean);
  if (helps.length + dangers.length === 0) return <p className="muted small">{t("user.noActs")}</p>;
  return (
    <>
      <div className="acts">{helps}</div>
      {dangers.length > 0 && <div className="acts dangers">{dangers}</div>}
    </>
  );
}

/** Calls, loads the account again, and says that it is done. */
function useAct({ user }: Pick<Props, "user">) {
  const { call } = useSession();
  const queries = useQueryClient();
  const done = useDone();
  return async (
    send: (call: Call, path: { id: string }) => Promise<unknown>,
    ...said: Parameters<typeof done>
  ) => {
    await send(call, { id: user.id });
    done(...said);
    await loadPeopleAgain(queries);
  };
}

/** Their clients too: an act on a person may disable them. */
const loadPeopleAgain = (queries: QueryClient) =>
  Promise.all([["users"], ["clients"]].map((queryKey) => queries.invalidateQueries({ queryKey })));

function Unlock({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("unlock.name")}
      effect={t("unlock.effect")}
      act={({ reason }) =>
        act((call, path) => call("POST /admin/users/{id}/unlock", { path, body: { reason } }), "unlock.done")
      }
    />
  );
}

function SendReset({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("sendReset.name")}
      effect={t("sendReset.effect")}
      submit={t("sendLink.submit")}
      act={({ reason }) =>
        act(
          (call, path) => call("POST /admin/users/{id}/mail", { path, body: { link: "reset", reason } }),
          "sendLink.done",
        )
      }
    />
  );
}

function SendConfirmation({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("sendConfirmation.name")}
      effect={t("sendConfirmation.effect")}
      submit={t("sendLink.submit")}
      act={({ reason }) =>
        act(
          (call, path) =>
            call("POST /admin/users/{id}/mail", { path, body: { link: "confirmation", reason } }),
          "sendLink.done",
        )
      }
    />
  );
}

function EndSessions({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("endSessions.name")}
      effect={t("endSessions.effect")}
      act={({ reason }) =>
        act(
          (call, path) => call("POST /admin/users/{id}/sessions/revoke", { path, body: { reason } }),
          "endSessions.done",
        )
      }
    />
  );
}

export function EndSession({ user, session }: Pick<Props, "user"> & { session: Session }) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("endSession.name")}
      label={t("endSession.label", { device: session.name, ip: session.ip })}
      effect={t("endSession.effect", { device: session.name, ip: session.ip })}
      act={({ reason }) =>
        act(
          (call, path) =>
            call("POST /admin/users/{id}/sessions/revoke", { path, body: { sessionId: session.id, reason } }),
          "endSession.done",
        )
      }
    />
  );
}

function DemandPassword({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  const { mustChangePassword } = user;
  return (
    <Act
      // Never turned round while somebody looks at it.
      key={String(mustChangePassword)}
      name={t(mustChangePassword ? "demandPassword.undo" : "demandPassword.name")}
      effect={t(mustChangePassword ? "demandPassword.undoEffect" : "demandPassword.effect")}
      act={({ reason }) =>
        act(
          (call, path) =>
            call("PATCH /admin/users/{id}", {
              path,
              body: { reason, mustChangePassword: !mustChangePassword },
            }),
          "demandPassword.done",
        )
      }
    />
  );
}

function ChangeName({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("changeName.name")}
      effect={t("changeName.effect")}
      act={({ firstName = "", lastName = "", reason }) =>
        act(
          (call, path) => call("PATCH /admin/users/{id}", { path, body: { firstName, lastName, reason } }),
          "changeName.done",
        )
      }
    >
      <NameFields firstName={user.firstName} lastName={user.lastName} />
    </Act>
  );
}

function ChangeEmail({ user }: Props) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("changeEmail.name")}
      effect={t("changeEmail.effect")}
      submit={t("sendLink.submit")}
      act={({ email = "", reason }) =>
        act(
          (call, path) => call("PATCH /admin/users/{id}", { path, body: { email, reason } }),
          "changeEmail.done",
          { email },
        )
      }
    >
      <EmailField label={t("changeEmail.new")} autoComplete="off" />
    </Act>
  );
}

function ChangeRole({ user, roles }: Props) {
  const t = useText();
  const act = useAct({ user });
  const others = roles.filter(({ name, assignable }) => assignable && name !== user.role);
  if (others.length === 0) return null;
  return (
    <Act
      name={t("changeRole.name")}
      effect={t("changeRole.effect", { role: user.role })}
      act={({ role = "", reason }) =>
        act(
          (call, path) => call("PATCH /admin/users/{id}", { path, body: { role, reason } }),
          "changeRole.done",
          { role },
        )
      }
    >
      <SelectField
        name="role"
        label={t("changeRole.role")}
        options={others.map(({ name }) => [name, name])}
        hint={t("changeRole.hint")}
      />
    </Act>
  );
}

function ResetMfa({ user, details }: Props) {
  const t = useText();
  const act = useAct({ user });
  const count = details.passkeys.length + (details.totpSince === null ? 0 : 1);
  return (
    <Act
      name={t("resetMfa.name")}
      kind="danger"
      effect={t("resetMfa.effect", { count })}
      typed={user.email}
      act={({ reason }) =>
        act(
          (call, path) => call("POST /admin/users/{id}/mfa/reset", { path, body: { reason } }),
          "resetMfa.done",
        )
      }
    />
  );
}

export function RemovePasskey({
  user,
  passkey: { id, name },
}: Pick<Props, "user"> & { passkey: { id: string; name: string } }) {
  const t = useText();
  const act = useAct({ user });
  return (
    <Act
      name={t("removePasskey.name")}
      label={t("removePasskey.label", { name })}
      kind="danger"
      effect={t("removePasskey.effect", { name })}
      act={({ reason }) =>
        act(
          (call, path) =>
            call("DELETE /admin/users/{id}/passkeys/{passkeyId}", {
              path: { ...path, passkeyId: id },
              body: { reason },
            }),
          "removePasskey.done",
        )
      }
    />
  );
}

interface WithClients extends Props {
  withClients: boolean;
}

function SetStatus({ user, withClients }: WithClients) {
  const t = useText();
  const act = useAct({ user });
  // Different acts: none becomes the other while somebody looks at it.
  if (user.status === "disabled")
    return (
      <Act
        key="enable"
        name={t("enable.name")}
        effect={t("enable.effect")}
        act={({ reason }) =>
          act(
            (call, path) => call("PATCH /admin/users/{id}", { path, body: { status: "active", reason } }),
            "enable.done",
          )
        }
      />
    );
  return (
    <Act
      key="disable"
      name={t("disable.name")}
      kind="danger"
      effect={t("disable.effect")}
      act={({ reason, clients }) =>
        act(
          (call, path) =>
            call("PATCH /admin/users/{id}", {
              path,
              body: { status: "disabled", reason, clients: whatOfClients(clients) },
            }),
          "disable.done",
        )
      }
    >
      {withClients && <ClientsToo />}
    </Act>
  );
}

function Delete({ user, withClients, onDeleted }: WithClients) {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  return (
    <Act
      name={t("deleteUser.name")}
      kind="danger"
      effect={t("deleteUser.effect")}
      typed={user.email}
      act={async ({ reason, clients }) => {
        await call("DELETE /admin/users/{id}", {
          path: { id: user.id },
          body: { reason, clients: whatOfClients(clients) },
        });
        onDeleted();
        await loadPeopleAgain(queries);
      }}
    >
      {withClients && <ClientsToo />}
    </Act>
  );
}

/** As the box of `ClientsToo` says. */
const whatOfClients = (chosen?: string) => (chosen === "disable" ? chosen : undefined);

/** What becomes of the programs of whom the person answers. */
function ClientsToo() {
  const t = useText();
  return (
    <label className="check">
      <input type="checkbox" name="clients" value="disable" />
      <span>{t("user.clientsToo")}</span>
    </label>
  );
}
