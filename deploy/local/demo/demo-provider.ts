import { generateKeyPairSync, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import Provider, { interactionPolicy } from "oidc-provider";
import { z } from "zod";
import { loginPage, PAGE_HEADERS, signedInPage } from "./demo-pages.ts";
import { DEMO_USERS, demoUserOf } from "./demo-users.ts";

/**
 * The identity provider of a local Gatehouse: a real one (npm `oidc-provider`), with two users and without passwords. A
 * process of its own, on loopback. It also has the page on which a browser lands afterwards.
 */
const {
  DEMO_PROVIDER_PORT: port,
  CLIENT_SECRET_FILE,
  GATEWAY_URL,
} = z
  .object({
    DEMO_PROVIDER_PORT: z.coerce.number().int(),
    CLIENT_SECRET_FILE: z.string().min(1),
    GATEWAY_URL: z.url(),
  })
  .parse(process.env);

const issuer = `http://127.0.0.1:${port}`;
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

/** Asked at each login, so that one can be one user and then the other. */
const policy = interactionPolicy.base();
policy
  .get("login")
  ?.checks.add(
    new interactionPolicy.Check("who", "Who are you?", ({ oidc }) => oidc.result?.login === undefined),
  );

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "gatehouse",
      client_secret: readFileSync(CLIENT_SECRET_FILE, "utf8").trim(),
      redirect_uris: [`${GATEWAY_URL}/auth/demo/callback`],
      id_token_signed_response_alg: "ES256",
    },
  ],
  // New at each start: as for any provider, keys that change are picked up.
  jwks: {
    keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "ES256", kid: `demo-${Date.now()}` }],
  },
  cookies: { keys: [randomBytes(32).toString("base64url")] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["given_name", "family_name"] },
  features: { devInteractions: { enabled: false } },
  pkce: { required: () => true },
  interactions: { policy, url: (_context, interaction) => `/login/${interaction.uid}` },
  findAccount: (_context, id) => {
    const user = demoUserOf(id);
    return user && { accountId: id, claims: () => ({ ...user.claims, sub: id }) };
  },
  // There is one client and it is ours: nobody is asked for consent.
  loadExistingGrant: async (context) => {
    const { client, session } = context.oidc;
    if (client === undefined || session?.accountId === undefined) return undefined;
    const grant = new context.oidc.provider.Grant({
      clientId: client.clientId,
      accountId: session.accountId,
    });
    grant.addOIDCScope("openid email profile");
    await grant.save();
    return grant;
  },
  ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 600, IdToken: 600, AuthorizationCode: 60 },
});

const callback = provider.callback();

/** `POST /login/<uid>/<user>`: a button of the page. */
async function logIn(request: IncomingMessage, response: ServerResponse, accountId: string): Promise<void> {
  const result = demoUserOf(accountId)
    ? { login: { accountId, remember: false } }
    : { error: "access_denied", error_description: "The user said no." };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

const server = createServer((request, response) => {
  serve(request, response).catch((error: unknown) => {
    console.error(error);
    response.writeHead(400, { "content-type": "text/plain" }).end("This login is over. Begin again.");
  });
});

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = ""] = (request.url ?? "").split("?", 1);
  const [, first, uid, accountId] = path.split("/");
  if (request.method === "GET" && path === "/signed-in") {
    response.writeHead(200, PAGE_HEADERS).end(signedInPage(GATEWAY_URL));
  } else if (first === "login" && uid !== undefined && request.method === "GET") {
    await provider.interactionDetails(request, response);
    response.writeHead(200, PAGE_HEADERS).end(loginPage(uid, DEMO_USERS));
  } else if (first === "login" && accountId !== undefined && request.method === "POST") {
    await logIn(request, response, accountId);
  } else {
    await callback(request, response);
  }
}

server.requestTimeout = 10_000;
server.listen(port, "127.0.0.1");

for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => process.exit(0));
// The launcher is gone.
process.on("disconnect", () => process.exit(0));
