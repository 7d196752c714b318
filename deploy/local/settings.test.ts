import { expect, test } from "vitest";
import { LaunchError } from "./launch-error.ts";
import { readSettings, settingsPorts } from "./settings.ts";

function problemsOf(environment: Record<string, string>): LaunchError {
  try {
    readSettings(environment, "/repository");
  } catch (error) {
    if (error instanceof LaunchError) return error;
    throw error;
  }
  throw new Error("accepted");
}

test("an empty environment gives the documented ports and the home in the repository", () => {
  const settings = readSettings({}, "/repository");
  expect(settings).toMatchObject({ GATEWAY_PORT: 8080, POSTGRES_PORT: 15_432, MAILBOX_PORT: 1080 });
  expect(settings.home).toBe("/repository/.gatehouse");
  expect(settingsPorts(settings)).toHaveLength(20);
});

/** Linux gives outgoing connections 32768 and above. One that has just ended keeps its port for up to a minute. */
test("no default port can be held by an outgoing connection", () => {
  const taken = settingsPorts(readSettings({}, "/repository")).filter(({ port }) => port >= 32_768);
  expect(taken).toEqual([]);
});

test("an empty variable counts as unset", () => {
  expect(readSettings({ GATEWAY_PORT: "", GATEHOUSE_HOME: "" }, "/repository").GATEWAY_PORT).toBe(8080);
});

test("all problems are reported at once, one per line", () => {
  const error = problemsOf({ GATEWAY_PORT: "http", SMTP_PORT: "0", TOKEN_PORT: "15051", LOG_LEVEL: "loud" });
  expect(error.exitCode).toBe(78);
  for (const name of [
    "GATEWAY_PORT",
    "SMTP_PORT",
    "TOKEN_PORT: 15051 is also used by IDENTITY_PORT",
    "LOG_LEVEL",
  ]) {
    expect(error.message).toContain(`\n  ${name}`);
  }
});

test.each(["0", "65536", "0x50", "1e3", "-1", "80 ", "8080.5"])("%j is refused as a port", (text) => {
  expect(problemsOf({ GATEWAY_PORT: text }).message).toContain("GATEWAY_PORT");
});

test.each([
  { password: "1234567", accepted: false },
  { password: "Xq4-9kTz", accepted: true },
  { password: "🔑".repeat(128), accepted: true },
  { password: "x".repeat(129), accepted: false },
  { password: "two\nlines of it", accepted: false },
])("password $password: accepted is $accepted, and it is never repeated", ({ password, accepted }) => {
  const read = () => readSettings({ GATEHOUSE_ADMIN_PASSWORD: password }, "/repository");
  if (accepted) expect(read().GATEHOUSE_ADMIN_PASSWORD).toBe(password);
  else expect(problemsOf({ GATEHOUSE_ADMIN_PASSWORD: password }).message).not.toContain(password);
});

test.each([
  ["administrator", /GATEHOUSE_ADMIN/],
  ["password1", /GATEHOUSE_ADMIN/],
])(
  "a first password that identity-service would refuse is refused before anything starts: %s",
  (password, expected) => {
    expect(() => readSettings({ GATEHOUSE_ADMIN_PASSWORD: password }, "/nowhere")).toThrow(expected);
  },
);

test.each([
  ["GATEHOUSE_POSTGRES_URL", "postgres://role:100%@127.0.0.1:5432"],
  ["GATEHOUSE_POSTGRES_URL", "postgres://role:a%ffb@127.0.0.1:5432"],
  ["GATEHOUSE_POSTGRES_URL", "postgres://ro%zzle@127.0.0.1:5432/x"],
  ["GATEHOUSE_REDIS_URL", "redis://:50%off@127.0.0.1"],
])("%s as %s is refused by its name, and not repeated", (name, url) => {
  const error = problemsOf({ [name]: url });
  expect(error.exitCode).toBe(78);
  expect(error.message).toBe(
    `Invalid settings:\n  ${name}: has a % that begins no character: write it as %25`,
  );
  expect(() =>
    readSettings({ [name]: "postgres://r:100%25@h".replace(/^\w+/, url.split(":")[0] ?? "") }, "/r"),
  ).not.toThrow();
});
