import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import type { BrowserContext } from "playwright-core";
import { stringify } from "yaml";
import type { SystemOptions } from "../system/system.ts";

const CLIENT = { id: "gatehouse", secret: "the client secret of the tests, long enough" };

type Path = "/.well-known/openid-configuration" | "/token" | "/jwks" | "/userinfo" | "/user" | "/user/emails";

/** How this provider lies. Everything that is not here is as it should be. */
export interface Lies {
  /** Over the right claims; undefined takes one away. */
  claims?: Record<string, unknown>;
  signature?: "none" | "hs256" | "of another key" | "broken";
  /** Instead of the right answer of a path. */
  answers?: Partial<Record<Path, (response: ServerResponse) => void>>;
  /** Over the right discovery document. */
  discovery?: Record<string, unknown>;
  userinfo?: Record<string, unknown>;
  /** Minimum response time of the token and key endpoints. */
  delayMs?: number;
}

export const SESSION_REVOKED = "https://schemas.openid.net/secevent/caep/event-type/session-revoked";

/** Over a right security event. */
export interface EventLies {
  header?: Record<string, unknown>;
  claims?: Record<string, unknown>;
  key?: CryptoKey | Uint8Array;
}

/** What a browser brings back from a provider. */
export interface Answer {
  code: string;
  state: string;
  iss: string;
  error: string;
}

/** An OpenID provider on loopback whose answers a test decides on. */
export async function startHostileProvider() {
  let lies: Lies = {};
  let keys = await newKeys();
  const counts: Record<string, number> = {};
  const codes = new Map<string, { nonce: string | null; challenge: string | null }>();
  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").split("?")[0] as Path;
    counts[path] = (counts[path] ?? 0) + 1;
    const body = await text(request);
    const json = (value: unknown, status = 200) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const lie = lies.answers?.[path];
    if (path === "/token" || path === "/jwks") await sleep(lies.delayMs ?? 0);
    if (lie !== undefined) lie(response);
    else if (path === "/.well-known/openid-configuration") json({ ...discovery(), ...lies.discovery });
    else if (path === "/jwks") json({ keys: [keys.jwk] });
    else if (path === "/userinfo") json({ sub: "sub-1", email: "ada@example.com", ...lies.userinfo });
    else if (path === "/token") await token(new URLSearchParams(body), json);
    else json({}, 404);
  }

  const discovery = () => ({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    response_types_supported: ["code"],
    id_token_signing_alg_values_supported: ["ES256", "HS256", "none"],
    authorization_response_iss_parameter_supported: true,
  });

  async function token(
    form: URLSearchParams,
    json: (value: unknown, status?: number) => void,
  ): Promise<void> {
    const known = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (known === undefined || known.challenge !== challenge) return json({ error: "invalid_grant" }, 400);
    json({
      access_token: "provider access token",
      token_type: "bearer",
      id_token: await idToken({ nonce: known.nonce }),
    });
  }

  async function idToken(own: Record<string, unknown>): Promise<string> {
    const nowS = Math.floor(Date.now() / 1_000);
    const right = {
      iss: issuer,
      aud: CLIENT.id,
      sub: "sub-1",
      iat: nowS,
      exp: nowS + 300,
      email: "ada@example.com",
      email_verified: true,
      given_name: "Ada",
      family_name: "Lovelace",
      ...own,
    };
    const claims = JSON.parse(JSON.stringify({ ...right, ...lies.claims })) as JWTPayload;
    if (lies.signature === "none") return new UnsecuredJWT(claims).encode();
    const signer = new SignJWT(claims);
    if (lies.signature === "hs256") {
      return signer.setProtectedHeader({ alg: "HS256" }).sign(new TextEncoder().encode(CLIENT.secret));
    }
    const key = lies.signature === "of another key" ? (await newKeys()).privateKey : keys.privateKey;
    const jwt = await signer.setProtectedHeader({ alg: "ES256", kid: keys.jwk.kid ?? "" }).sign(key);
    // The first character: of the last one not all bits count.
    const [head, payload, [first, ...rest] = ""] = jwt.split(".");
    return lies.signature === "broken"
      ? `${head}.${payload}.${first === "A" ? "B" : "A"}${rest.join("")}`
      : jwt;
  }

  return {
    issuer,
    counts,
    lie(next: Lies) {
      lies = next;
    },
    /** Signs with another key from now on, and publishes it. */
    async rotate() {
      keys = await newKeys();
    },
    /** A Security Event Token (RFC 8417) about `sub-1`; undefined takes a claim away. */
    async securityEvent({
      header = {},
      claims = {},
      key = keys.privateKey,
    }: EventLies = {}): Promise<string> {
      const right = {
        iss: issuer,
        aud: [CLIENT.id],
        iat: Math.floor(Date.now() / 1_000),
        jti: randomUUID(),
        sub_id: { format: "iss_sub", iss: issuer, sub: "sub-1" },
        events: { [SESSION_REVOKED]: {} },
      };
      const payload = JSON.parse(JSON.stringify({ ...right, ...claims })) as JWTPayload;
      return new SignJWT(payload)
        .setProtectedHeader({ alg: "ES256", kid: keys.jwk.kid, typ: "secevent+jwt", ...header })
        .sign(key);
    },
    publicJwk: () => keys.jwk,
    /** The user says yes. @returns what the browser brings back. */
    authorize(authorizationUrl: string): Answer {
      const { searchParams } = new URL(authorizationUrl);
      const code = randomUUID();
      codes.set(code, {
        nonce: searchParams.get("nonce"),
        challenge: searchParams.get("code_challenge"),
      });
      return { code, state: searchParams.get("state") ?? "", iss: issuer, error: "" };
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type HostileProvider = Awaited<ReturnType<typeof startHostileProvider>>;

async function newKeys() {
  const { publicKey, privateKey } = await generateKeyPair("ES256");
  return {
    privateKey,
    jwk: { ...(await exportJWK(publicKey)), kid: randomUUID(), use: "sig", alg: "ES256" },
  };
}

/** Never ends, and says a little all the time. */
export function drip(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" });
  const timer = setInterval(() => response.write(" "), 20);
  response.on("close", () => clearInterval(timer));
}

/** 50 MiB of nothing. */
export function flood(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" });
  const chunk = Buffer.alloc(1024 * 1024, " ");
  let left = 50;
  const pour = () => {
    while (left > 0) {
      left -= 1;
      if (!response.write(chunk)) return void response.once("drain", pour);
    }
    response.end("{}");
  };
  pour();
}

export const hang = () => undefined;

export function redirectTo(location: string) {
  return (response: ServerResponse) => response.writeHead(302, { location }).end();
}

const NAME = "evil";

let running: HostileProvider | undefined;

/** A second identity provider beside the demo one, shown by this name, which may be hostile. @returns files of the home. */
export async function homeWithEvilProvider(
  displayName: string,
): Promise<NonNullable<SystemOptions["files"]>> {
  const provider = await startHostileProvider();
  running = provider;
  const evil = {
    name: NAME,
    displayName,
    issuer: provider.issuer,
    clientId: CLIENT.id,
    clientSecretFile: "evil-client-secret",
  };
  return ({ DEMO_PROVIDER_PORT }) => ({
    "evil-client-secret": CLIENT.secret,
    "providers.yaml": stringify({
      providers: [
        {
          name: "demo",
          displayName: "Demo",
          issuer: `http://127.0.0.1:${DEMO_PROVIDER_PORT}`,
          clientId: "gatehouse",
          clientSecretFile: "secrets/demo-client-secret",
        },
        evil,
      ],
    }),
  });
}

export function evilProvider(): HostileProvider {
  if (running === undefined) throw new Error("no evil provider was started");
  return running;
}

/** Whoever comes to it from this browser is sent back at once, with a code. @param origin the gateway's. */
export async function sendBack(context: BrowserContext, origin: string): Promise<void> {
  const provider = evilProvider();
  await context.route(`${provider.issuer}/authorize*`, (route) => {
    const { code, state, iss } = provider.authorize(route.request().url());
    const query = new URLSearchParams({ code, state, iss });
    return route.fulfill({
      status: 302,
      headers: { location: `${origin}/auth/${NAME}/callback?${query}` },
    });
  });
}
