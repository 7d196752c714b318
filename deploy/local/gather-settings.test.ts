import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { gatherSettings } from "./gather-settings.ts";
import { type Home, openHome } from "./home.ts";
import { processPlan } from "./processes.ts";

let home: Home;
beforeEach(async () => {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-home-"));
  onTestFinished(() => rm(path, { recursive: true }));
  home = await openHome(path);
});

const file = (service: string, ...lines: string[]) =>
  writeFile(join(home.services, `${service}.env`), lines.join("\n"));
const gather = (sets: string[] = [], environment: NodeJS.ProcessEnv = {}) =>
  gatherSettings(home, { environment, sets, folder: "/of/the/user", root: "/repository" });
const refusal = async (sets: string[] = []) =>
  gather(sets).then(
    () => ({ exitCode: 0, message: "accepted" }),
    (error: { exitCode: number; message: string }) => error,
  );

test("a service gets what its file says, --set is stronger, and both are stronger than npm start's own", async () => {
  await file("gateway", "# a comment", "CALL_BUDGET_MS=2000", "RATE_LIMITS=login.address=9/60", "LOG_LEVEL=");
  const settings = await gather(["gateway.CALL_BUDGET_MS=3000"], { CALL_BUDGET_MS: "4000" });
  const administrator = { email: "admin@gatehouse.example", passwordFile: "/nowhere" };
  const [gateway] = processPlan(settings, home, administrator).flat();
  expect(gateway?.environment).toMatchObject({
    CALL_BUDGET_MS: "3000",
    RATE_LIMITS: "login.address=9/60",
    LOG_LEVEL: "",
  });
});

test("settings of npm start: --set, then the environment, then the home's file", async () => {
  await writeFile(home.settingsFile, "GATEWAY_PORT=1001\nTOKEN_PORT=1002\nAUDIT_PORT=1003\n");
  const settings = await gather(["AUDIT_PORT=3003"], {
    TOKEN_PORT: "2002",
    AUDIT_PORT: "2003",
    PATH: "/bin",
  });
  expect(settings).toMatchObject({ GATEWAY_PORT: 1001, TOKEN_PORT: 2002, AUDIT_PORT: 3003 });
});

test("a relative path begins at the home, with --set where the user is", async () => {
  await file("identity-service", "BREACH_LIST_FILE=lists/breached");
  expect((await gather()).services["identity-service"]?.BREACH_LIST_FILE).toBe(
    join(home.path, "lists/breached"),
  );
  const { services } = await gather(["identity-service.BREACH_LIST_FILE=mine"]);
  expect(services["identity-service"]?.BREACH_LIST_FILE).toBe("/of/the/user/mine");
});

test("every unknown name is reported at once, with the one that is meant or the service that reads it", async () => {
  await file("gateway", "ALOWED_ORIGINS=http://a", "TOKEN_ISSUER=http://a", "FOO=1");
  await file("mailbox");
  await writeFile(home.settingsFile, "GATEWAY_PROT=1\n");
  const { exitCode, message } = await refusal(["GATEHOUSE_HOME=/tmp"]);
  expect(exitCode).toBe(78);
  for (const problem of [
    "gateway reads no ALOWED_ORIGINS: did you mean ALLOWED_ORIGINS?",
    "gateway reads no TOKEN_ISSUER: token-service reads it",
    "gateway reads no FOO",
    "npm start reads no GATEWAY_PROT: did you mean GATEWAY_PORT?",
    "set GATEHOUSE_HOME in the environment",
  ]) {
    expect(message).toContain(problem);
  }
});

test.each([
  ["gateway", "LISTEN_ADDRESS", "set GATEWAY_PORT"],
  ["token-service", "HEALTH_ADDRESS", "set TOKEN_HEALTH_PORT"],
  ["gateway", "AUDIT_SERVICE_ADDRESS", "set AUDIT_PORT"],
  ["audit-service", "TLS_KEY_FILE", "it issues the certificates"],
  ["identity-service", "DATABASE_URL", "POSTGRES_URL"],
  ["gateway", "ROUTES_FILE", "routes.yaml"],
  ["identity-service", "OAUTH_PROVIDERS_FILE", "providers.yaml"],
])(
  "%s: what npm start sets itself is refused, with what to do instead: %s",
  async (service, name, instead) => {
    const { exitCode, message } = await refusal([`${service}.${name}=x`]);
    expect(exitCode).toBe(78);
    expect(message).toMatch(new RegExp(`npm start sets ${name} of ${service} itself: .*${instead}`));
  },
);

test("values are never printed", async () => {
  await file("identity-service", "SMTP_PASWORD_FILE=treasure", "treasure without a name");
  const { message } = await refusal();
  expect(message).toContain("did you mean SMTP_PASSWORD_FILE?");
  expect(message).toContain("line 2 is not NAME=value");
  expect(message).not.toContain("treasure");
});

test.each(["gateway", "gateway.=1", "=1", "gate way.X=1"])(
  "--set %s is a wrong command line",
  async (text) => {
    expect(await refusal([text])).toMatchObject({ exitCode: 64 });
  },
);

test("pages that the gateway does not serve are not built", async () => {
  await file("gateway", "WEB=off");
  expect((await gather()).WEB).toBe("off");
});
