import { expect, test } from "vitest";
import { defaultLimitClasses, limitClassesSchema } from "./limit-class.ts";

test("limits are changed one by one", () => {
  const classes = limitClassesSchema.parse("login.address=10/1, admin.user=5/60");
  expect(classes.login).toEqual({
    ...defaultLimitClasses().login,
    address: { calls: 10, perSeconds: 1 },
  });
  expect(classes.admin.user).toEqual({ calls: 5, perSeconds: 60 });
});

test.each([
  ["login", "must be like"],
  ["logins.address=1/1", "must be of login, link"],
  ["login.user=1/1", "must be of address, device, total"],
  ["logout.total=1/1", "must be of address, user"],
  ["login.address=0/1", "must be 1 to"],
  ["login.address=1/3601", "must be 1 to"],
  ["constructor.name=1/1", "must be of"],
  ["-login.address=1/1", "must be like"],
  ["login.address=1/1s", "must be like"],
  ["login.address=10000000000/1", "must be like"],
  ["login.address=1/10000", "must be like"],
])("%s is no limit", (text, problem) => {
  const { error } = limitClassesSchema.safeParse(text);
  expect(error?.issues).toHaveLength(1);
  expect(error?.issues[0]?.message).toContain(`${text}: ${problem}`);
});

test("every class has a limit of a network; what strangers can do without a proof has one for all of them, and a device's own", () => {
  const scopes = Object.entries(defaultLimitClasses()).map(([name, limits]) => [
    name,
    Object.keys(limits).join(" "),
  ]);
  expect(Object.fromEntries(scopes)).toEqual({
    login: "address device total",
    link: "address device total",
    provider: "address device total",
    refresh: "address",
    logout: "address user",
    account: "address user",
    admin: "address user",
    introspection: "address",
    client: "address",
    document: "address",
    page: "address",
    unknown: "address",
  });
  for (const limits of Object.values(defaultLimitClasses()))
    for (const limit of Object.values(limits))
      expect(limitClassesSchema.safeParse(entryOf(limit)).success).toBe(true);
});

function entryOf({ calls, perSeconds }: { calls: number; perSeconds: number }): string {
  return `login.address=${calls}/${perSeconds}`;
}

test("a change is no change of the defaults", () => {
  limitClassesSchema.parse("login.address=7/1");
  const classes = defaultLimitClasses();
  expect(classes.login.address.calls).not.toBe(7);
  classes.refresh.address = { calls: 7, perSeconds: 1 };
  expect(defaultLimitClasses().refresh.address.calls).not.toBe(7);
});
