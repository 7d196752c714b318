import { generateKeyPairSync, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import Provider, { interactionPolicy } from "oidc-provider";

// An OpenID provider with two users and no passwords, on loopback. It also serves the landing page after a login.
const { DEMO_PROVIDER_PORT, CLIENT_SECRET_FILE = "", GATEWAY_URL = "" } = process.env;

/** Claims by `sub`. `login.html` has a button for each user. */
const USERS = new Map([
  [
    "grace",
    { email: "grace@demo.example", email_verified: true, given_name: "Grace", family_name: "Hopper" },
  ],
  ["alan", { email: "alan@demo.example", email_verified: false, given_name: "Alan", family_name: "Turing" }],
]);

const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'",
};
const page = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");
const loginPage = page("login.html");
const signedInPage = page("signed-in.html").replaceAll("{{gateway}}", GATEWAY_URL);

/** Asks at each login, so that the user can be changed. */
const policy = interactionPolicy.base();
policy
  .get("login")
  ?.checks.add(
    new interactionPolicy.Check("who", "Who are you?", ({ oidc }) => oidc.result?.login === undefined),
  );

const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });

const provider = new Provider(`http://127.0.0.1:${DEMO_PROVIDER_PORT}`, {
  clients: [
    {
      client_id: "gatehouse",
      client_secret: readFileSync(CLIENT_SECRET_FILE, "utf8").trim(),
      redirect_uris: [`${GATEWAY_URL}/auth/demo/callback`],
      id_token_signed_response_alg: "ES256",
    },
  ],
  jwks: { keys: [{ ...key, use: "sig", alg: "ES256", kid: `demo-${Date.now()}` }] },
  cookies: { keys: [randomBytes(32).toString("base64url")] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["given_name", "family_name"] },
  features: { devInteractions: { enabled: false } },
  pkce: { required: () => true },
  interactions: { policy, url: (_context, { uid }) => `/login/${uid}` },
  findAccount: (_context, id) =>
    USERS.has(id) ? { accountId: id, claims: () => ({ ...USERS.get(id), sub: id }) } : undefined,
  // The only client needs no consent.
  loadExistingGrant: async ({ oidc: { client, session } }) => {
    if (client === undefined || session?.accountId === undefined) return undefined;
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope("openid email profile");
    await grant.save();
    return grant;
  },
  ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 600, IdToken: 600, AuthorizationCode: 60 },
});
const protocol = provider.callback();

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = ""] = (request.url ?? "").split("?", 1);
  const [, first, uid = "", user = ""] = path.split("/");
  if (path === "/signed-in") {
    response.writeHead(200, PAGE_HEADERS).end(signedInPage);
  } else if (first !== "login") {
    await protocol(request, response);
  } else if (request.method === "GET") {
    await provider.interactionDetails(request, response);
    response.writeHead(200, PAGE_HEADERS).end(loginPage.replaceAll("{{uid}}", encodeURIComponent(uid)));
  } else {
    const result = USERS.has(user)
      ? { login: { accountId: user, remember: false } }
      : { error: "access_denied" };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }
}

createServer((request, response) => {
  serve(request, response).catch((error: unknown) => {
    console.error(error);
    response.writeHead(400, { "content-type": "text/plain" }).end("This login has ended. Start again.");
  });
}).listen(Number(DEMO_PROVIDER_PORT), "127.0.0.1");

for (const event of ["SIGTERM", "SIGINT"] as const) process.on(event, () => process.exit(0));
// The launcher has ended.
process.on("disconnect", () => process.exit(0));
