import { expect, test } from "vitest";
import { parseRoutesFile } from "./routes-file.ts";
import { unknownNames } from "./unknown-names.ts";

const known = { permissions: ["payments:read", "payments:write", "users:read"], roles: ["USER", "ADMIN"] };
const route = (methods: string) =>
  parseRoutesFile(`routes: [{ prefix: /payments, upstream: 'http://a', methods: { ${methods} } }]`);

test.each([
  ["GET: { permissions: [payments:read] }", []],
  ["GET: { auth: authenticated }", []],
  ["GET: { roles: [USER, ADMIN] }", []],
  [
    "GET: { permissions: [payments:raed, users:read] }",
    ["GET /payments names payments:raed, which the access file does not have; is it payments:read?"],
  ],
  [
    "GET: { roles: [USR] }, POST: { permissions: [refunds:make], action: a.b }",
    [
      "GET /payments names USR, which the access file does not have; is it USER?",
      "POST /payments names refunds:make, which the access file does not have",
    ],
  ],
])("%s", (methods, expected) => {
  expect(unknownNames(route(methods), known)).toEqual(expected);
});
