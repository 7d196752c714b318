import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HEADER_BYTES } from "#breach-list/list-format.ts";
import { hashLines, writeTestList } from "#breach-list/test-list.fixture.ts";
import { type Answer, type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { BREACHED } from "../../support/people/breach-list.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, launch, type System } from "../../support/system/system.ts";

const GOOD = "an entirely new password";

let list: string;
let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  list = system.environment.BREACH_LIST_FILE ?? "";
  api = apiClient(system.url);
});
afterAll(() => rm(dirname(list), { recursive: true }));

const answered = ({ status, body }: Answer) => [status, body.error?.code];
const REFUSED = [400, "password_too_common"];
const person = (email: string, password: string) => ({
  email,
  password,
  firstName: "Ada",
  lastName: "Lovelace",
});

test("a breached password is refused at registration, change, reset and a demanded change", async () => {
  const registration = await api.post("/auth/register", person("ada@example.com", BREACHED));
  expect(answered(registration)).toEqual(REFUSED);

  const user = await api.newUser();
  const { accessToken: token, email, password: currentPassword } = user;
  const change = (newPassword: string) =>
    api.post("/auth/change-password", { currentPassword, newPassword }, { token });
  expect(answered(await change(BREACHED))).toEqual(REFUSED);

  await api.post("/auth/forgot-password", { email });
  const link = linkIn(await mailAbout(system, email, "Set a new password"));
  const linkToken = link.searchParams.get("token");
  const reset = (newPassword: string) => api.post("/auth/reset-password", { token: linkToken, newPassword });
  expect(answered(await reset(BREACHED))).toEqual(REFUSED);

  const admin = await api.logIn(ADMIN);
  const demand = { token: admin.accessToken, body: { mustChangePassword: true } };
  await api.call("PATCH", `/admin/users/${user.user.id}`, demand);
  const { tempToken } = (await api.post("/auth/login", { email, password: currentPassword })).body.data;
  const demanded = (newPassword: string) =>
    api.post("/auth/login/change-password", { tempToken, newPassword });
  expect(answered(await demanded(BREACHED))).toEqual(REFUSED);
  expect((await demanded(GOOD)).status).toBe(200);
});

test("a replaced list is used while the service runs", async () => {
  await writeTestList(`${list}.new`, hashLines([GOOD]));
  await rename(`${list}.new`, list);
  let attempt = 0;
  await expect
    .poll(
      async () => {
        attempt += 1;
        return answered(await api.post("/auth/register", person(`grace-${attempt}@example.com`, GOOD)))[1];
      },
      { interval: 1_000 },
    )
    .toBe("password_too_common");
  expect((await api.post("/auth/register", person("grace@example.com", BREACHED))).status).toBe(201);
});

test("a damaged list stops the start, and the log names it", async () => {
  await system.stop();
  const bytes = await readFile(list);
  await writeFile(list, bytes.fill((bytes[HEADER_BYTES] ?? 0) ^ 1, HEADER_BYTES, HEADER_BYTES + 1));
  const { home, ports } = system;
  const launcher = launch({ home, ports, environment: { BREACH_LIST_FILE: list } });
  await expect(launcher.ready).rejects.toThrow("identity-service");
  await launcher.end("SIGTERM");
  const log = await readFile(join(home, "logs", "identity-service.log"), "utf8");
  expect(log).toContain(`${list} cannot be used: it is damaged: its checksum is wrong`);
});
