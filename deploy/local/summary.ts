import type { FirstAdministrator } from "./secrets.ts";
import type { Settings } from "./settings.ts";

export interface SummaryRow {
  name: string;
  address: string;
  pid: number;
  logFile: string;
}

/** Scripts may wait for the first line. */
export function summary(
  settings: Settings,
  rows: readonly SummaryRow[],
  administrator: FirstAdministrator,
  seconds: number,
): string {
  const url = `http://127.0.0.1:${settings.GATEWAY_PORT}`;
  const { email, password, passwordFile, isFirstStart } = administrator;
  return [
    `Gatehouse ready: ${url}`,
    "",
    row("NAME", "ADDRESS", "PID", "LOG"),
    ...rows.map(({ name, address, pid, logFile }) => row(name, address, String(pid), logFile)),
    "",
    `Mails are kept and not sent: http://127.0.0.1:${settings.MAILBOX_PORT} (as JSON at /email, SMTP on ${settings.SMTP_PORT})`,
    ...(settings.WEB === "on" ? [`Register and log in, in a browser: ${url}/account`] : []),
    `API documentation, in a browser: ${url}/docs`,
    `Log in at the demo identity provider, in a browser: ${url}/auth/demo`,
    `First administrator: ${email}  password${isFirstStart ? `: ${password}` : ` of the first start: in ${passwordFile}`}`,
    `Programs have accounts too: npm exec gatehouse -- clients create --help, and docs/clients.md`,
    "",
    "Try it:",
    ...curlLines(url),
    "",
    `Started in ${seconds.toFixed(1)} s. Ctrl-C stops everything.`,
  ].join("\n");
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
