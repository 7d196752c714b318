import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import type { ManagedUser } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { useSession } from "../../session/session.ts";
import { Field, SelectField } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { fullName } from "../../ui/format.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Found } from "../../ui/states.tsx";
import { DoneArea } from "../act.tsx";
import { More, pages, Table } from "../table.tsx";
import { useText } from "../text.ts";
import { Invite } from "./invite.tsx";

export interface Wanted {
  query?: string;
  role?: string;
  status?: "active" | "disabled";
}

/** What is looked for stays with the entry of the history: not in the address, since it may name a person. */
function useWanted(): [Wanted, (wanted: Wanted) => void] {
  const wanted = useLocation({ select: ({ state }) => state.wanted });
  const navigate = useNavigate();
  return [
    wanted ?? {},
    (next) => void navigate({ to: "/users", replace: true, state: (old) => ({ ...old, wanted: next }) }),
  ];
}

export function useRoles() {
  return useReading({
    queryKey: ["roles"],
    read: (call) => call("GET /admin/roles"),
    staleTime: 60_000,
  });
}

export function UsersPage() {
  const t = useText();
  const { call } = useSession();
  const [wanted, setWanted] = useWanted();
  const roles = useRoles().data?.roles ?? [];
  const query = useInfiniteQuery({
    queryKey: ["users", "list", wanted],
    ...pages((cursor) => call("POST /admin/user-search", { body: { ...wanted, ...cursor } })),
  });
  return (
    <DoneArea>
      <PageTitle lead={t("users.lead")}>{t("users.title")}</PageTitle>
      <div className="acts">
        <Invite roles={roles} />
      </div>
      <Search wanted={wanted} onWanted={setWanted} />
      <div className="panel">
        <Found query={query}>
          {({ pages: found }) => (
            <>
              <Table
                name={t("users.title")}
                rows={found.flatMap(({ users }) => users)}
                keyOf={({ id }) => id}
                empty={t("users.none")}
                columns={[
                  { head: t("users.person"), kind: "main", cell: (user) => <Person user={user} /> },
                  { head: t("users.role"), cell: ({ role }) => role },
                  { head: t("users.state"), cell: (user) => <UserTags user={user} /> },
                  { head: t("users.since"), time: ({ createdAt }) => createdAt },
                ]}
              />
              <More query={query} />
            </>
          )}
        </Found>
      </div>
    </DoneArea>
  );
}

function Person({ user }: { user: ManagedUser }) {
  const { id, email } = user;
  return (
    <>
      <Link to="/users/$id" params={{ id }}>
        {email}
      </Link>
      <span className="muted small">{fullName(user)}</span>
    </>
  );
}

function Search({ wanted, onWanted }: { wanted: Wanted; onWanted: (wanted: Wanted) => void }) {
  const t = useText();
  const roles = useRoles().data?.roles ?? [];
  const any = ["", t("users.any")] as const;
  return (
    <search className="finder">
      <ActionForm
        submit={t("users.search")}
        action={async (entered) =>
          onWanted(
            Object.fromEntries(
              Object.entries(entered)
                .map(([name, text]) => [name, text.trim()] as const)
                .filter(([, text]) => text !== ""),
            ),
          )
        }
      >
        <Field
          name="query"
          label={t("users.query")}
          defaultValue={wanted.query ?? ""}
          type="search"
          pattern="\s*(?:\S.{1,252}\S)?\s*"
          maxLength={254}
          autoComplete="off"
          spellCheck={false}
        />
        <SelectField
          // Its choice needs its options.
          key={roles.length}
          name="role"
          label={t("users.role")}
          defaultValue={wanted.role ?? ""}
          options={[any, ...roles.map(({ name }) => [name, name] as const)]}
        />
        <SelectField
          name="status"
          label={t("users.state")}
          defaultValue={wanted.status ?? ""}
          options={[any, ["active", t("users.active")], ["disabled", t("users.disabled")]]}
        />
      </ActionForm>
    </search>
  );
}

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
