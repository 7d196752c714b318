import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { type JWTPayload, SignJWT } from "jose";
import type { GatewayContext, GatewayPeer, RunningPeer } from "./peer.ts";

const PATH = "/payments/7";
const CALL_MS = 5_000;

/**
 * Sends a running gateway calls with good and bad tokens before it is measured.
 *
 * @param privateKey belongs to the public key of `context`.
 * @throws an error that names every call that the gateway answered wrongly, or answered without its upstream.
 */
export async function checkGateway(
  { name, checksTokens }: GatewayPeer,
  { url }: RunningPeer,
  context: GatewayContext,
  privateKey: KeyObject,
): Promise<void> {
  const body = await call(`http://127.0.0.1:${context.upstreamPort}`).then((answer) => answer.text());
  const wrong: string[] = [];
  // The good one comes first, so that a gateway that remembers it could mistake the next one for it.
  for (const [what, authorization] of await authorizations(context, privateKey)) {
    const answer = await call(url, authorization);
    const answered = await answer.text();
    const mayPass = what.startsWith(GOOD) || !checksTokens;
    const isRight = mayPass
      ? answer.status === 200 && answered === body
      : answer.status === 401 || answer.status === 403;
    if (!isRight) wrong.push(`${what}: answered ${answer.status}`);
  }
  if (wrong.length > 0)
    throw new Error(`${name} is not measured, because it answers wrongly. ${wrong.join("; ")}`);
}

function call(url: string, authorization?: string): Promise<Response> {
  return fetch(url + PATH, {
    headers: authorization === undefined ? {} : { authorization },
    signal: AbortSignal.timeout(CALL_MS),
  });
}

const GOOD = "a valid token";

async function authorizations(
  { issuer, audience, role }: GatewayContext,
  privateKey: KeyObject,
): Promise<[string, string | undefined][]> {
  const nowS = Math.floor(Date.now() / 1_000);
  const claims = {
    iss: issuer,
    aud: audience,
    sub: "check",
    roles: [role],
    iat: nowS - 3_600,
    exp: nowS + 60,
  };
  const bearer = (changes: JWTPayload = {}, key = privateKey) =>
    new SignJWT({ ...claims, ...changes })
      .setProtectedHeader({ alg: "ES256", typ: "at+jwt" })
      .sign(key)
      .then((token) => `Bearer ${token}`);
  const good = await bearer();
  const [header = "", payload = "", signature = ""] = good.split(".");
  const unsigned = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  const otherSignature = (await bearer({ sub: "other" })).split(".")[2];
  const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  return [
    [GOOD, good],
    [`${GOOD} again`, good],
    ["no token", undefined],
    ["an expired token", await bearer({ exp: nowS - 120 })],
    ["a token of another key", await bearer({}, stranger)],
    ["the signature of another token", `${header}.${payload}.${otherSignature}`],
    [
      "other claims under the signature",
      `${(await bearer({ sub: "other" })).split(".", 2).join(".")}.${signature}`,
    ],
    ["no signature", `Bearer ${unsigned}.${payload}.`],
    ["another issuer", await bearer({ iss: "https://other.example" })],
    ["another audience", await bearer({ aud: "https://other.example" })],
    ["another role", await bearer({ roles: [`NOT_${role}`] })],
    ["no role", await bearer({ roles: [] })],
  ];
}
