import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Answer } from "#clients/api/endpoint.ts";
import type { ManagedUser } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Field, SelectField } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { fullName } from "../../ui/format.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Found } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { DoneArea } from "../act.tsx";
import { More, pages, Table } from "../table.tsx";
import { useText } from "../text.ts";
import { BulkActs, useBulkActs } from "./bulk-acts.tsx";
import { Invite } from "./invite.tsx";
import { UsersExport } from "./users-export.tsx";

export interface Wanted {
  query?: string;
  role?: string;
  status?: "active" | "disabled";
  secondFactor?: "yes" | "no";
  /** Never, or so many days ago. */
  lastLogin?: string;
  sort?: "newest" | "oldest" | "last_login";
}

/** Nothing, or what `identity-service/admin/managed-users.ts` can look for: two characters, or one that is a word or syllable. */
const SEARCHABLE =
  "\\s*|.*(?:\\S\\S|[\\p{Script=Han}\\p{Script=Hangul}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Bopomofo}\\p{Script=Yi}]).*";

const DAYS_AGO = [30, 90, 365];
const DAY_MS = 86_400_000;

/** The same time for all pages of a day. */
function filterOf<W extends Wanted>({ lastLogin, ...wanted }: W) {
  if (lastLogin === undefined || lastLogin === "never") return { ...wanted, ...(lastLogin && { lastLogin }) };
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  return { ...wanted, lastLogin: new Date(today - Number(lastLogin) * DAY_MS).toISOString() };
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
  const { sort: _order, ...filter } = wanted;
  const roles = useRoles().data?.roles ?? [];
  const query = useInfiniteQuery({
    queryKey: ["users", "list", wanted],
    ...pages((cursor) => call("POST /admin/user-search", { body: { ...filterOf(wanted), ...cursor } })),
  });
  const bulkActs = useBulkActs();
  const [isExporting, setExporting] = useState(false);
  const [chosen, setChosen] = useState<ReadonlyMap<string, ManagedUser>>(new Map());
  const choose = (users: readonly ManagedUser[], isChosen: boolean) =>
    setChosen((old) => {
      const gone = new Set(users.map(({ id }) => id));
      const others = [...old].filter(([id]) => !gone.has(id));
      return new Map([...others, ...(isChosen ? users.map((user) => [user.id, user] as const) : [])]);
    });
  return (
    <DoneArea>
      <PageTitle lead={t("users.lead")}>{t("users.title")}</PageTitle>
      <div className="buttons">
        <Invite roles={roles} />
        <Button kind="quiet" size="slim" onClick={() => setExporting(true)}>
          {t("users.export")}
        </Button>
      </div>
      <Search
        wanted={wanted}
        onWanted={(next) => {
          setChosen(new Map());
          setWanted(next);
        }}
      />
      <div className="panel">
        <Found query={query}>
          {({ pages: found }) => (
            <>
              <Shown pages={found} />
              {bulkActs.length > 0 && found[0]?.users.length !== 0 && (
                <div className="choosing">
                  <Choice
                    users={found.flatMap(({ users }) => users)}
                    chosen={chosen}
                    onChoose={choose}
                    label={t("bulk.all", { count: chosen.size })}
                  />
                  <BulkActs
                    chosen={[...chosen.values()]}
                    roles={roles}
                    onDone={(users) => choose(users, false)}
                  />
                </div>
              )}
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
                  {
                    head: t("users.lastLogin"),
                    time: ({ lastLoginAt }) => lastLoginAt,
                    never: t("list.never"),
                  },
                  ...(bulkActs.length === 0
                    ? []
                    : [
                        {
                          head: t("bulk.choose"),
                          kind: "acts" as const,
                          cell: (user: ManagedUser) => (
                            <Choice
                              users={[user]}
                              chosen={chosen}
                              onChoose={choose}
                              aria-label={t("bulk.one", { email: user.email })}
                            />
                          ),
                        },
                      ]),
                ]}
              />
              <More query={query} />
            </>
          )}
        </Found>
      </div>
      {isExporting && <UsersExport search={filterOf(filter)} onClose={() => setExporting(false)} />}
    </DoneArea>
  );
}

type Page = Answer<"POST /admin/user-search">;

const TOTALS = {
  exact: "users.total.exact",
  about: "users.total.about",
  over: "users.total.over",
} as const;

/** How many of how many. */
function Shown({ pages: [first, ...others] }: { pages: readonly Page[] }) {
  const t = useText();
  const language = useLanguage();
  if (first === undefined) return null;
  // The table says that nobody was found.
  if (first.users.length === 0) return null;
  const number = (count: number) => new Intl.NumberFormat(language).format(count);
  const shown = number([first, ...others].reduce((sum, { users }) => sum + users.length, 0));
  const { total, totalIs } = first;
  return (
    <p className="muted small" role="status">
      {total === undefined || totalIs === undefined
        ? t("users.shown", { shown })
        : t(TOTALS[totalIs], { shown, total: number(total) })}
    </p>
  );
}

function Choice({
  users,
  chosen,
  onChoose,
  label,
  ...named
}: {
  users: readonly ManagedUser[];
  chosen: ReadonlyMap<string, ManagedUser>;
  onChoose: (users: readonly ManagedUser[], isChosen: boolean) => void;
  label?: string;
  "aria-label"?: string;
}) {
  return (
    <label className="check">
      <input
        {...named}
        type="checkbox"
        checked={users.length > 0 && users.every(({ id }) => chosen.has(id))}
        onChange={({ target }) => onChoose(users, target.checked)}
      />
      {label}
    </label>
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
          hint={t("users.queryHint")}
          defaultValue={wanted.query ?? ""}
          type="search"
          pattern={SEARCHABLE}
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
        <SelectField
          name="secondFactor"
          label={t("users.mfa")}
          defaultValue={wanted.secondFactor ?? ""}
          options={[any, ["yes", t("users.with")], ["no", t("users.without")]]}
        />
        <SelectField
          name="lastLogin"
          label={t("users.lastLogin")}
          defaultValue={wanted.lastLogin ?? ""}
          options={[
            any,
            ["never", t("list.never")],
            ...DAYS_AGO.map((days) => [String(days), t("users.daysAgo", { days })] as const),
          ]}
        />
        <SelectField
          name="sort"
          label={t("users.sort")}
          defaultValue={wanted.sort ?? ""}
          options={[
            ["", t("users.newest")],
            ["oldest", t("users.oldest")],
            ["last_login", t("users.byLastLogin")],
          ]}
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
