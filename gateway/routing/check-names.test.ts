import { expect, test } from "vitest";
import { parseAccessFile } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { checkNames, hintAtOrigins } from "./check-names.ts";
import { ProxyTable } from "./proxy-table.ts";

const accessWith = (...permissions: string[]) =>
  parseAccessFile(`permissions: [${permissions}]\nroles: { ADMIN: ["*"], USER: [] }\ndefaultRole: USER`);
const routesWith = (permission: string) =>
  parseRoutesFile(
    `routes: [{ prefix: /things, upstream: 'http://a', methods: { GET: { permissions: [${permission}] } } }]`,
  );

test("a misspelt permission is logged at the start, and after a change of either file; both are in force all the same", () => {
  const lines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void lines.push(line) });
  const warned = () => lines.splice(0).map((line) => JSON.parse(line).problems);
  const access = new AccessTable(accessWith("things:read"));
  const proxies = new ProxyTable(routesWith("things:raed"), createMetrics("test"));
  const checked = checkNames(routesWith("things:raed"), { proxies, access, logger });
  const problem = (name: string, hint: string) => [
    `GET /things names ${name}, which the access file does not have; is it ${hint}?`,
  ];
  expect(warned()).toEqual([problem("things:raed", "things:read")]);
  checked.proxies.replace(routesWith("things:read"));
  expect(warned()).toEqual([]);
  expect(proxies.find("/things")).toBeDefined();
  checked.access.replace(accessWith("thing:read"));
  expect(access.isPermission("thing:read")).toBe(true);
  expect(warned()).toEqual([problem("things:read", "thing:read")]);
});

test("an allowed origin that no forwarded route allows is logged in one line", () => {
  const lines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void lines.push(line) });
  const [app, other] = ["https://app.example", "https://other.example"];
  const hinted = (...routes: { allowedOrigins: string[] }[]) => {
    hintAtOrigins(new Set([app, other]), routes, logger);
    return lines.splice(0).map((line) => JSON.parse(line));
  };
  expect(hinted({ allowedOrigins: [app] }, { allowedOrigins: [] })).toMatchObject([
    { level: "warn", origins: [other], msg: expect.stringMatching(/routes add --origin.*allowedOrigins/) },
  ]);
  expect(hinted({ allowedOrigins: [app] }, { allowedOrigins: [other] })).toEqual([]);
  expect(hinted({ allowedOrigins: ["*"] })).toEqual([]);
  expect(hinted()).toEqual([]);
});
