import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { parseIntrospectionClients } from "./introspection-clients.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const basic = (id: string, secret: string) => `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`;

const clients = parseIntrospectionClients(`
clients:
  - { id: ledger, secretSha256: ${sha256("old secret/%:é")} }
  - { id: ledger, secretSha256: ${sha256("new")} }
  - { id: reports, secretSha256: ${sha256("reports'")} }
`);

test.each([
  ["ledger", "old+secret%2F%25%3A%C3%A9"],
  ["ledger", "old%20secret%2f%25:é"],
  ["ledger", "new"],
  ["reports", "reports'"],
])("%s proves itself with %s, form-encoded as OAuth asks", (id, secret) => {
  expect(clients.authenticate(basic(id, secret))).toBe(id);
  expect(clients.authenticate(basic(id, secret).replace("Basic", "bASIC"))).toBe(id);
});

test.each([
  undefined,
  "",
  "Basic",
  "Basic ",
  "Basic !!!",
  `Basic ${Buffer.from("ledger").toString("base64")}`,
  basic("", "new"),
  basic("ledger", ""),
  basic("ledger", "New"),
  basic("ledger", "new "),
  basic("ledger", "reports'"), // another client's
  basic("reports", "new"),
  basic("nobody", "new"),
  basic("ledger", sha256("new")), // what the file says is not the secret
  basic("ledger", "%"),
  basic("ledger", "%FF"),
  `${basic("ledger", "new")}, ${basic("ledger", "new")}`,
  basic("ledger", "new").replace("Basic", "Bearer"),
])("%j authenticates no client", (header) => {
  expect(clients.authenticate(header)).toBeUndefined();
});

test("JSON is read too", () => {
  const file = { clients: [{ id: "a", secretSha256: sha256("s") }] };
  expect(parseIntrospectionClients(JSON.stringify(file)).authenticate(basic("a", "s"))).toBe("a");
});

const good = sha256("s");
test.each([
  ["", "(all)"],
  ["clients: []", "must name a client"],
  [`clients: [{ id: a, secretSha256: ${good}, secret: s3cret }]`, "clients.0"],
  ["clients: [{ id: a, secretSha256: s3cret }]", "64 hexadecimal digits"],
  [`clients: [{ id: a, secretSha256: ${good.toUpperCase()} }]`, "64 hexadecimal digits"],
  [`clients: [{ id: "a:b", secretSha256: ${good} }]`, "clients.0.id"],
  [`clients: [{ secretSha256: ${good} }]`, "clients.0.id"],
  [`[{ id: a, secretSha256: ${good} }]`, "(all)"],
  ["clients: [s3cret: }", "is not YAML"],
  [`clients: [${Array(101).fill(`{ id: a, secretSha256: ${good} }`).join(", ")}]`, "clients"],
])("the file %j is refused, without its secrets in the error", (text, message) => {
  expect(() => parseIntrospectionClients(text)).toThrow(message);
  expect(() => parseIntrospectionClients(text)).not.toThrow("s3cret");
});
