import type { FirstAdministrator } from "./first-administrator.ts";
import type { Settings } from "./settings.ts";

/** One line of the table of what runs where. */
export interface SummaryRow {
  name: string;
  address: string;
  pid: number;
  logFile: string;
}

/** What `npm start` prints once everything is ready; the first line is for scripts that wait for it. */
export function summary(
  settings: Settings,
  rows: readonly SummaryRow[],
  administrator: FirstAdministrator,
  seconds: number,
): string {
  const url = `http://127.0.0.1:${settings.GATEWAY_PORT}`;
  return [
    `Gatehouse ready: ${url}`,
    "",
    ...table([
      ["NAME", "ADDRESS", "PID", "LOG"],
      ...rows.map(({ name, address, pid, logFile }) => [name, address, String(pid), logFile]),
    ]),
    "",
    `Mail is kept, not sent: http://127.0.0.1:${settings.MAILBOX_PORT} (as JSON at /email, SMTP on ${settings.SMTP_PORT})`,
    `The API, to read and to try, in a browser: ${url}/docs`,
    `Log in at the demo identity provider, in a browser: ${url}/auth/demo`,
    ...administratorLines(administrator),
    "",
    "Try it:",
    ...curlLines(url),
    "",
    `Up in ${seconds.toFixed(1)} s. Ctrl-C stops everything.`,
  ].join("\n");
}

function administratorLines({ email, password, passwordFile, isFirstStart }: FirstAdministrator): string[] {
  if (isFirstStart) return [`First administrator: ${email}  password: ${password}`];
  return [`First administrator: ${email}  password as first set: in ${passwordFile}`];
}

function curlLines(url: string): string[] {
  const post = (path: string, body: object) =>
    `curl -s ${url}${path} -H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
  const login = { email: "ada@example.com", password: "Correct-Horse-42" };
  return [
    post("/auth/register", { ...login, firstName: "Ada", lastName: "Lovelace" }),
    `TOKEN=$(${post("/auth/login", login)} | sed -E 's/.*"accessToken":"([^"]+)".*/\\1/'); echo "$TOKEN"`,
    `curl -s ${url}/payments -H "authorization: Bearer $TOKEN"`,
  ].map((line) => `  ${line}`);
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd(),
  );
}
