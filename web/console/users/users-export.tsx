import { useRef } from "react";
import type { Answer, Body } from "#clients/api/endpoint.ts";
import type { ManagedUser } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../../session/session.ts";
import { useLanguage } from "../../ui/text.ts";
import { csvOf } from "../export/csv.ts";
import { ExportSheet, type PartWanted } from "../export/export-sheet.tsx";
import { useText } from "../text.ts";
import { patiently } from "./bulk-acts.tsx";

const MAX_PART_USERS = 10_000;
const PAGE = 100;
const COLUMNS = [
  "id",
  "email",
  "firstName",
  "lastName",
  "role",
  "status",
  "emailVerified",
  "mfaEnabled",
  "mustChangePassword",
  "createdAt",
  "lastLoginAt",
] as const satisfies (keyof ManagedUser)[];

const TEXTS = {
  title: "users.export",
  lead: "usersExport.lead",
  whole: "usersExport.whole",
  more: "usersExport.more",
} as const;
const COUNTS = {
  exact: "usersExport.exact",
  about: "usersExport.about",
  over: "usersExport.over",
} as const;

/** @param search Newest first: in the order of the last login an account would move while it is read. */
export function UsersExport({
  search,
  onClose,
}: {
  search: Omit<Body<"POST /admin/user-search">, "sort" | "cursor">;
  onClose: () => void;
}) {
  const t = useText();
  const language = useLanguage();
  const { call } = useSession();
  const first = useRef<Answer<"POST /admin/user-search">>(undefined);
  const countOf = (read: number) => {
    const number = (count: number) => new Intl.NumberFormat(language).format(count);
    const { total, totalIs } = first.current ?? {};
    if (total === undefined || totalIs === undefined) return number(read);
    return t(COUNTS[totalIs], { read: number(read), total: number(total) });
  };
  const readPart = async ({ cursor, entries, signal, onProgress }: PartWanted) => {
    const users: ManagedUser[] = [];
    for (let next = cursor; ; ) {
      const body = { ...search, limit: PAGE, cursor: next };
      const page = await patiently(() => call("POST /admin/user-search", { body }), signal);
      signal.throwIfAborted();
      if (next === undefined) first.current = page;
      users.push(...page.users);
      onProgress(t("usersExport.reading", { count: countOf(entries + users.length) }));
      next = page.nextCursor ?? undefined;
      if (next === undefined || users.length >= MAX_PART_USERS)
        return { file: csvOf(users, COLUMNS), entries: users.length, nextCursor: next };
    }
  };
  return (
    <ExportSheet
      name="users"
      texts={TEXTS}
      formats={["csv"]}
      countOf={countOf}
      readPart={readPart}
      onClose={onClose}
    />
  );
}
