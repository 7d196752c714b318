import { openedAt } from "./processes.ts";
import type { FirstAdministrator } from "./secrets.ts";
import type { Settings } from "./settings.ts";

export interface SummaryRow {
  name: string;
  address: string;
  /** Undefined for what was not started here. */
  pid: number | undefined;
}

/** Scripts may wait for the first line. At most 80 columns wide, but for long paths. */
export function summary(
  settings: Settings,
  rows: readonly SummaryRow[],
  administrator: FirstAdministrator,
  {
    seconds,
    isDetached,
    logs,
    logKey,
  }: { seconds: number; isDetached: boolean; logs: string; logKey: string },
): string {
  const url = openedAt(settings.GATEWAY_PORT);
  const { email, password, passwordFile, isFirstStart } = administrator;
  const isShown = isFirstStart && !isDetached; // Not in a log.
  return [
    `Gatehouse ready: ${url}`,
    "",
    row("NAME", "ADDRESS", "PID"),
    ...rows.map(({ name, address, pid }) => row(name, address, String(pid ?? "not started here"))),
    `Logs: ${logs}/<name>.log`,
    "",
    "In a browser:",
    ...pages(settings, logKey).map(([path, what]) => {
      const isLong = path.length > PATH_COLUMNS;
      return `  ${isLong ? `${path}\n  ` : ""}${(isLong ? "" : path).padEnd(PATH_COLUMNS)} ${what}`;
    }),
    "",
    mails(settings),
    `First administrator: ${email}, with the password`,
    `  ${isShown ? password : `of the first start: in ${passwordFile}`}`,
    "",
    "Try it, or as a program (docs/clients.md):",
    ...curlLines(url),
    "",
    `Started in ${seconds.toFixed(1)} s. ${isDetached ? "`npm start -- stop`" : "Ctrl-C"} stops everything.`,
  ].join("\n");
}

const PATH_COLUMNS = 32;

/** @param logKey with which the console's browser compares the key of the audit log. */
function pages(
  { GATEWAY_PORT, MAILBOX_PORT, WEB, services }: Settings,
  logKey: string,
): [url: string, what: string][] {
  const url = openedAt(GATEWAY_PORT);
  return [
    ...(WEB === "on"
      ? ([
          [`${url}/account`, "Register and log in"],
          [`${url}/console#log=${logKey}`, "Support, auditors, administrators"],
        ] satisfies [string, string][])
      : []),
    [`${url}/docs`, "API documentation"],
    [`${url}/auth/demo`, "Log in at the demo identity provider"],
    ...(services["identity-service"]?.SMTP_URL === undefined
      ? ([[openedAt(MAILBOX_PORT), "Mails, which are kept and not sent"]] satisfies [string, string][])
      : []),
  ];
}

function mails({ services, MAILBOX_PORT, SMTP_PORT }: Settings): string {
  const server = services["identity-service"]?.SMTP_URL;
  if (server === "") return "Mails wait in the outbox, because SMTP_URL is empty.";
  if (server !== undefined) return `Mails are sent through ${server}`;
  return `Mails as JSON: ${openedAt(MAILBOX_PORT)}/email, SMTP on ${SMTP_PORT}`;
}

function row(name: string, address: string, pid: string): string {
  return `  ${name.padEnd(16)}  ${address.padEnd(15)}  ${pid}`;
}

/** Each command is a paragraph that a shell takes as it is. */
function curlLines(url: string): string[] {
  const json = "-H 'content-type: application/json'";
  const login = `"email":"ada@example.com","password":"Correct-Horse-42"`;
  return [
    `  curl -s ${url}/auth/register \\`,
    `    ${json} \\`,
    `    -d '{${login},`,
    `         "firstName":"Ada","lastName":"Lovelace"}'`,
    `  TOKEN=$(curl -s ${url}/auth/login \\`,
    `    ${json} \\`,
    `    -d '{${login}}' |`,
    `    sed -E 's/.*"accessToken":"([^"]+)".*/\\1/'); echo "$TOKEN"`,
    `  curl -s ${url}/payments -H "authorization: Bearer $TOKEN"`,
  ];
}
