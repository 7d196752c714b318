import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  TotalIs,
  UserAdminServiceClient,
  UserSort,
  UserStatus,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Backend } from "../../backend.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import {
  CSV_DETAILS,
  csvLines,
  EXPORT_OPTIONS,
  type Export,
  jsonLines,
  writeExport,
} from "../export-output.ts";
import { oneOf } from "../one-of.ts";
import { patiently } from "../patient-call.ts";
import { table } from "../table.ts";
import { timeOf } from "../time-of.ts";
import { roleNamed, STATUSES, userView } from "./user-view.ts";

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;
const WORDS = { exact: "", about: "about ", over: "more than " } as const;
const YES_NO = new Map([
  ["yes", true],
  ["no", false],
]);
const SORTS = new Map([
  ["newest", UserSort.NEWEST],
  ["oldest", UserSort.OLDEST],
  ["last-login", UserSort.LAST_LOGIN],
]);
const TOTALS = new Map<TotalIs, keyof typeof WORDS>([
  [TotalIs.EXACT, "exact"],
  [TotalIs.ABOUT, "about"],
  [TotalIs.OVER, "over"],
]);

const FILTER_OPTIONS = {
  query: { type: "string", value: "text", description: "only users with these words in address or name" },
  role: { type: "string", value: "role", description: "only users of this role" },
  status: { type: "string", value: "status", description: "only active or disabled" },
  "second-factor": { type: "string", value: "yes|no", description: "only users with one, or without" },
  "last-login": { type: "string", value: "when", description: "never, or before this time" },
} as const;
const COLUMNS = Object.keys(userView(undefined));

export const usersList: Command = {
  name: "users list",
  summary: "Show users, newest first, a page at a time",
  details: "The first page says how many there are: exactly up to 10,000, then about.",
  positionals: [],
  options: {
    ...FILTER_OPTIONS,
    sort: { type: "string", value: "order", description: "newest (default), oldest or last-login first" },
    limit: { type: "string", value: "count", description: `1 to ${MAX_LIMIT}; default ${DEFAULT_LIMIT}` },
    cursor: { type: "string", value: "id", description: "continue after the previous page" },
  },
  async run({ values }, backend) {
    const request = {
      ...filterOf(values),
      sort: values.has("sort") ? oneOf("--sort", SORTS, values.get("sort")) : UserSort.NEWEST,
      cursor: values.get("cursor") ?? "",
      limit: limitOf(values.get("limit")),
    };
    const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.listUsers, request, context),
    );
    const users = answer.users.map(userView);
    const nextCursor = answer.nextCursor || null;
    const rows = users.map(({ id, email, role, status, createdAt, lastLoginAt }) => [
      id,
      email,
      role,
      status,
      createdAt ?? "",
      lastLoginAt ?? "never",
    ]);
    const page = table(["ID", "E-MAIL", "ROLE", "STATUS", "CREATED", "LAST LOGIN"], rows);
    const more = nextCursor === null ? "" : `\nMore: --cursor ${nextCursor}`;
    const is = TOTALS.get(answer.totalIs);
    const total = is && { total: answer.total, totalIs: is };
    const of =
      total && `\n${users.length} of ${WORDS[total.totalIs]}${total.total.toLocaleString("en")} users`;
    return { text: `${page}${of ?? ""}${more}`, json: { users, nextCursor, ...total } };
  },
};

export const usersExport: Command = {
  name: "users export",
  summary: "Write the users that fit, newest first, to a file or to standard output",
  details: `Each hundred of them is a reading in the audit log. ${CSV_DETAILS}`,
  positionals: [],
  options: { ...FILTER_OPTIONS, ...EXPORT_OPTIONS },
  run(input, backend, terminal) {
    const filter = filterOf(input.values);
    return writeExport(input, terminal, "users", (to) => copyUsers(backend, filter, to));
  },
};

/** In the order of the last login, a user would move while the others are read. */
function copyUsers(
  backend: Backend,
  filter: ReturnType<typeof filterOf>,
  { format, write, progress, signal }: Export,
): Promise<number> {
  return backend.call("identity-service", UserAdminServiceClient, async (client, { requestId }) => {
    let [count, total, cursor] = [0, 0, ""];
    if (format === "csv") await write(csvLines([COLUMNS], COLUMNS));
    do {
      const request = { ...filter, sort: UserSort.NEWEST, cursor, limit: MAX_LIMIT };
      const page = await patiently({ client, requestId, signal }, client.listUsers, request);
      const users = page.users.map(userView);
      await write(format === "csv" ? csvLines(users, COLUMNS) : jsonLines(users));
      count += users.length;
      if (cursor === "") total = page.total;
      progress.show(count, total);
      cursor = page.nextCursor;
    } while (cursor !== "");
    return count;
  });
}

function filterOf(values: ReadonlyMap<string, string>) {
  return {
    query: values.get("query") ?? "",
    role: values.has("role") ? roleNamed("--role", values.get("role")) : "",
    status: values.has("status") ? oneOf("--status", STATUSES, values.get("status")) : UserStatus.UNSPECIFIED,
    hasSecondFactor: values.has("second-factor")
      ? oneOf("--second-factor", YES_NO, values.get("second-factor"))
      : undefined,
    ...lastLoginOf(values),
    ids: [],
  };
}

function lastLoginOf(values: ReadonlyMap<string, string>) {
  const neverLoggedIn = values.get("last-login") === "never";
  return { neverLoggedIn, lastLoginBefore: neverLoggedIn ? undefined : timeOf(values, "last-login") };
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = Number(text);
  if (/^\d+$/.test(text) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new UsageError(`--limit must be 1 to ${MAX_LIMIT}`);
}
