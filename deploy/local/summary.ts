import { openedAt } from "./processes.ts";
import type { FirstAdministrator } from "./secrets.ts";
import type { Settings } from "./settings.ts";

export interface SummaryRow {
  name: string;
  address: string;
  /** Undefined for what was not started here. */
  pid: number | undefined;
  logFile: string;
}

/** Scripts may wait for the first line. */
export function summary(
  settings: Settings,
  rows: readonly SummaryRow[],
  administrator: FirstAdministrator,
  { seconds, isDetached }: { seconds: number; isDetached: boolean },
): string {
  const url = openedAt(settings.GATEWAY_PORT);
  const { email, password, passwordFile, isFirstStart } = administrator;
  const isShown = isFirstStart && !isDetached; // Not in a log.
  return [
    `Gatehouse ready: ${url}`,
    "",
    row("NAME", "ADDRESS", "PID", "LOG"),
    ...rows.map(({ name, address, pid, logFile }) => row(name, address, String(pid ?? "-"), logFile)),
    "",
    mails(settings),
    ...(settings.WEB === "on"
      ? [
          `Register and log in, in a browser: ${url}/account`,
          `Console for support, auditors and administrators: ${url}/console`,
        ]
      : []),
    `API documentation, in a browser: ${url}/docs`,
    `Log in at the demo identity provider, in a browser: ${url}/auth/demo`,
    `First administrator: ${email}  password${isShown ? `: ${password}` : ` of the first start: in ${passwordFile}`}`,
    `Programs have accounts too: npm exec gatehouse -- clients create --help, and docs/clients.md`,
    "",
    "Try it:",
    ...curlLines(url),
    "",
    `Started in ${seconds.toFixed(1)} s. ${isDetached ? "`npm start -- stop`" : "Ctrl-C"} stops everything.`,
  ].join("\n");
}

function mails({ services, MAILBOX_PORT, SMTP_PORT }: Settings): string {
  const server = services["identity-service"]?.SMTP_URL;
  if (server === "") return "Mails wait in the outbox, because SMTP_URL is empty.";
  if (server !== undefined) return `Mails are sent through ${server}`;
  return `Mails are kept and not sent: ${openedAt(MAILBOX_PORT)} (as JSON at /email, SMTP on ${SMTP_PORT})`;
}

function row(name: string, address: string, pid: string, logFile: string): string {
  return `  ${name.padEnd(16)}  ${address.padEnd(15)}  ${pid.padEnd(7)}  ${logFile}`;
}

function curlLines(url: string): string[] {
  const post = (path: string, body: object) =>
    `curl -s ${url}${path} -H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
  const login = { email: "ada@example.com", password: "Correct-Horse-42" };
  return [
    `  ${post("/auth/register", { ...login, firstName: "Ada", lastName: "Lovelace" })}`,
    `  TOKEN=$(${post("/auth/login", login)} | sed -E 's/.*"accessToken":"([^"]+)".*/\\1/'); echo "$TOKEN"`,
    `  curl -s ${url}/payments -H "authorization: Bearer $TOKEN"`,
  ];
}
