import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError } from "#kit/config/config.ts";
import { appleClientSecret } from "./apple-client-secret.ts";
import { oauthConfigProblems } from "./oauth-config.ts";
import { parseProvidersFile } from "./oauth-providers-file.ts";

const folder = mkdtempSync(join(tmpdir(), "gatehouse-providers-"));
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
writeFileSync(join(folder, "secret"), "the secret\n", { mode: 0o600 });
writeFileSync(join(folder, "open"), "the secret\n", { mode: 0o644 });
writeFileSync(join(folder, "empty"), "\n", { mode: 0o600 });
writeFileSync(join(folder, "apple.p8"), pem, { mode: 0o600 });
afterAll(() => rmSync(folder, { recursive: true }));

const parse = (text: string) => parseProvidersFile(text, folder);
function problemsOf(text: string): string[] {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof ConfigError)
      return error.message
        .split("\n")
        .slice(1)
        .map((line) => line.trim());
    throw error;
  }
  throw new Error("nothing is wrong with it");
}
const one = (lines: string) => `providers:\n  - ${lines.trim().replaceAll("\n", "\n    ")}\n`;
const TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47";

test("every preset, and any other issuer", () => {
  const providers = parse(`
providers:
  - { name: google, preset: google, clientId: g, clientSecretFile: secret }
  - { name: work, preset: microsoft, displayName: Work, tenant: ${TENANT}, clientId: m, clientSecretFile: secret }
  - { name: apple, preset: apple, clientId: a, teamId: ABCDE12345, keyId: FGHIJ67890, privateKeyFile: apple.p8 }
  - { name: gitlab, preset: gitlab, clientId: l, clientSecretFile: ${join(folder, "secret")} }
  - { name: github, preset: github, clientId: h, clientSecretFile: secret }
  - { name: own, issuer: "https://id.example", clientId: o, clientSecretFile: secret, claims: { firstName: vorname } }
  - { name: inside, issuer: "https://10.0.0.5", clientId: i, clientAuthentication: none, allowPrivateNetwork: true }
  - { name: demo, issuer: "http://127.0.0.1:8090", clientId: d, clientSecretFile: secret }
`);
  expect(
    providers.map(({ name, displayName, issuer, protocol, network, clientAuthentication: { kind } }) =>
      [name, displayName, issuer, protocol, network, kind].join(" "),
    ),
  ).toEqual([
    "google Google https://accounts.google.com oidc public client_secret_post",
    `work Work https://login.microsoftonline.com/${TENANT}/v2.0 oidc public client_secret_post`,
    "apple Apple https://appleid.apple.com oidc public apple",
    "gitlab GitLab https://gitlab.com oidc public client_secret_post",
    "github GitHub https://github.com github public client_secret_post",
    "own own https://id.example oidc public client_secret_basic",
    "inside inside https://10.0.0.5 oidc private none",
    "demo demo http://127.0.0.1:8090 oidc loopback client_secret_basic",
  ]);
  expect(providers[2]).toMatchObject({ responseMode: "form_post", takesBooleanText: true });
  expect(providers[5]?.claims).toMatchObject({ firstName: "vorname", email: "email" });
  const [google] = providers;
  expect(google?.clientAuthentication).toHaveProperty("secret");
  expect(JSON.stringify(google)).not.toContain("the secret");
});

test.each([
  ["{ firstName: vorname }", { email: "email", emailVerified: "email_verified" }],
  ["{ email: upn }", { email: "upn", emailVerified: "upn_verified" }],
  ["{ email: upn, emailVerified: xms_edov }", { email: "upn", emailVerified: "xms_edov" }],
])("claims %s: email_verified says nothing of another claim than email", (claims, names) => {
  const [own] = parse(
    one(`name: own\nissuer: "https://id.example"\nclientId: o\nclientSecretFile: secret\nclaims: ${claims}`),
  );
  expect(own?.claims).toMatchObject(names);
});

test.each<[string, string, string[]]>([
  [
    "an unknown preset",
    "name: x\npreset: facebook\nclientId: c",
    ["line 3, providers.0.preset: must be google, microsoft, apple, gitlab, github, or unset"],
  ],
  [
    "a secret file that is not there",
    "name: x\npreset: google\nclientId: c\nclientSecretFile: nowhere",
    ["line 5, providers.0.clientSecretFile: the file cannot be read (ENOENT)"],
  ],
  [
    "a secret file that others may read",
    "name: x\npreset: google\nclientId: c\nclientSecretFile: open",
    [
      "line 5, providers.0.clientSecretFile: the file is open to other users: make its mode 0400, or 0440 for a group",
    ],
  ],
  [
    "an empty secret file",
    "name: x\npreset: google\nclientId: c\nclientSecretFile: empty",
    ["line 5, providers.0.clientSecretFile: the file is empty"],
  ],
  [
    "no secret file",
    "name: x\nissuer: https://id.example\nclientId: c",
    ["line 2, providers.0.clientSecretFile: is required"],
  ],
  [
    "an http issuer outside loopback",
    "name: x\nissuer: http://id.example\nclientId: c\nclientSecretFile: secret",
    ["line 3, providers.0.issuer: must be https, or http on a loopback address"],
  ],
  [
    "an issuer at a private address",
    "name: x\nissuer: https://10.0.0.5\nclientId: c\nclientSecretFile: secret",
    ["line 3, providers.0.issuer: must be https, and not a private address"],
  ],
  [
    "a link-local issuer, allowed or not",
    "name: x\nissuer: https://169.254.169.254\nallowPrivateNetwork: true\nclientId: c\nclientSecretFile: secret",
    ["line 3, providers.0.issuer: must be https, and not a private address"],
  ],
  [
    "an http endpoint",
    "name: x\nissuer: https://id.example\nclientId: c\nclientSecretFile: secret\nendpoints:\n  authorization: https://id.example/a\n  token: http://id.example/t\n  jwks: https://id.example/k",
    ["line 8, providers.0.endpoints.token: must be https, at an address that is allowed for the issuer"],
  ],
  [
    "a name that is a path",
    "name: login\npreset: google\nclientId: c\nclientSecretFile: secret",
    ["line 2, providers.0.name: is the name of a path under /auth"],
  ],
  [
    "a name that is none",
    "name: Google!\npreset: google\nclientId: c\nclientSecretFile: secret",
    ["line 2, providers.0.name: must be 1 to 32 lower-case letters, digits and dashes, a letter first"],
  ],
  [
    "any directory of Microsoft's",
    "name: x\npreset: microsoft\ntenant: common\nclientId: c\nclientSecretFile: secret",
    ["line 4, providers.0.tenant: must be the tenant id of one directory, in lower case"],
  ],
  [
    "a key that is none of Apple's",
    "name: x\npreset: apple\nclientId: c\nteamId: ABCDE12345\nkeyId: FGHIJ67890\nprivateKeyFile: secret",
    ["line 7, providers.0.privateKeyFile: must hold Apple's .p8 key"],
  ],
  [
    "a key that we do not know",
    "name: x\npreset: google\nclientId: c\nclientSecretFile: secret\nclientSecret: oops",
    ["line 6, providers.0.clientSecret: is not known"],
  ],
  [
    "several things",
    "name: me\npreset: google",
    [
      "line 2, providers.0.name: is the name of a path under /auth",
      "line 2, providers.0.clientId: is required",
      "line 2, providers.0.clientSecretFile: is required",
    ],
  ],
])("%s is refused, with its line and key", (_name, lines, problems) => {
  expect(problemsOf(one(lines))).toEqual(problems);
});

test("two of one name are refused", () => {
  const line = "  - { name: google, preset: google, clientId: c, clientSecretFile: secret }\n";
  expect(problemsOf(`providers:\n${line}${line}`)).toEqual([
    "line 3, providers.1.name: google appears twice",
  ]);
});

test("plain HTTP is for development; providers need a place to send browsers to", () => {
  const settings = parse(
    "providers: [{ name: demo, issuer: 'http://localhost:1', clientId: d, clientSecretFile: secret }]",
  );
  const file = { path: "", marked: "", providers: settings };
  const config = { OAUTH_PROVIDERS_FILE: file, OAUTH_RETURN_TO: ["https://app.example/"] };
  expect(oauthConfigProblems({ ...config, PUBLIC_ORIGIN: "http://127.0.0.1:8080" })).toEqual([]);
  expect(oauthConfigProblems({ ...config, PUBLIC_ORIGIN: "https://gatehouse.example" })).toEqual([
    { key: "OAUTH_PROVIDERS_FILE", message: "demo: the issuer must be https, as PUBLIC_ORIGIN is" },
  ]);
  const without = { OAUTH_PROVIDERS_FILE: file, OAUTH_RETURN_TO: undefined };
  expect(oauthConfigProblems({ ...without, PUBLIC_ORIGIN: "http://127.0.0.1:8080" })).toMatchObject([
    { key: "OAUTH_RETURN_TO" },
  ]);
});

test.each([
  ["https://app.example/", true],
  ["http://localhost:5173/", true],
  ["http://127.0.0.1/", true],
  ["http://[::1]:3000/", true],
  ["com.example.app:/signed-in", true],
  ["http://app.example/", false],
  ["http://localhost.app.example/", false],
])("beside a gateway with TLS, tokens go to %s: %s", (address, isAllowed) => {
  const config = { OAUTH_PROVIDERS_FILE: undefined, OAUTH_RETURN_TO: ["https://app.example/", address] };
  const problems = [{ key: "OAUTH_RETURN_TO", message: "must be https, or http on this machine" }];
  expect(oauthConfigProblems({ ...config, PUBLIC_ORIGIN: "https://gatehouse.example" })).toEqual(
    isAllowed ? [] : problems,
  );
  expect(oauthConfigProblems({ ...config, PUBLIC_ORIGIN: "http://gatehouse.test" })).toEqual([]);
});

test("Apple's client secret is a JWT that its key has signed", async () => {
  const jwt = appleClientSecret(
    { teamId: "ABCDE12345", keyId: "FGHIJ67890", clientId: "com.example.web", privateKey: pem },
    1_800_000_000,
  );
  const { jwtVerify } = await import("jose");
  const { payload, protectedHeader } = await jwtVerify(jwt, publicKey, {
    currentDate: new Date(1_800_000_000_000),
    audience: "https://appleid.apple.com",
  });
  expect(protectedHeader).toEqual({ alg: "ES256", kid: "FGHIJ67890" });
  expect(payload).toMatchObject({ iss: "ABCDE12345", sub: "com.example.web", exp: 1_800_000_300 });
});

test("security events of a provider: by default of its issuer and by its keys; no other addresses than the issuer may have", () => {
  const own = (events: string, more = "") =>
    one(
      `{ name: own, issuer: "https://id.example", clientId: o, clientAuthentication: none${more}${events} }`,
    );
  const [plain] = parse(own(", securityEvents: { audience: a }"));
  expect(plain?.securityEvents).toEqual({
    audience: "a",
    issuer: "https://id.example",
    jwks: undefined,
    token: undefined,
  });
  const [full] = parse(
    own(
      ', securityEvents: { audience: a, issuer: "https://e.example/", jwks: "https://e.example/k", tokenFile: secret }',
    ),
  );
  expect(full?.securityEvents).toMatchObject({ issuer: "https://e.example/", jwks: "https://e.example/k" });
  expect(full?.securityEvents?.token?.reveal()).toBe("the secret");
  expect(parse(own(""))[0]?.securityEvents).toBeUndefined();
  const problems = problemsOf(
    own(', securityEvents: { audience: a, jwks: "https://10.0.0.1/k", tokenFile: open }'),
  );
  expect(problems.join("\n")).toContain("securityEvents.jwks: must be https, at an address that is allowed");
  expect(problems.join("\n")).toContain("securityEvents.tokenFile: the file is open to other users");
  expect(problemsOf(own(", securityEvents: {}")).join()).toContain("securityEvents.audience");
});
