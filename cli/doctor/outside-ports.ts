import { once } from "node:events";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { request } from "undici";
import { checking, type Finding, failed, ok, reasonOf, unchecked } from "./finding.ts";
import type { Environment, KnownSystem } from "./known-system.ts";

const TIMEOUT_MS = 8_000;
const JWKS = "/.well-known/jwks.json";

/** What clients call, and where mails go. */
export async function checkOutsidePorts({ environments }: KnownSystem): Promise<readonly Finding[]> {
  const identity = environments.get("identity-service");
  const origin = identity?.PUBLIC_ORIGIN || environments.get("gateway")?.PUBLIC_ORIGIN;
  return (
    await Promise.all([
      checking("port", "gateway", () => checkGateway(origin)),
      identity === undefined ? [] : checking("port", "mail server", () => checkMailServer(identity)),
    ])
  ).flat();
}

/** As a client does, through whatever is in front. */
async function checkGateway(origin: string | undefined): Promise<Finding[]> {
  if (!origin) return [unchecked("port", "gateway", "PUBLIC_ORIGIN is not known here")];
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const { statusCode, body } = await request(`${origin}${JWKS}`, { signal });
    const keys = ((await body.json()) as { keys?: unknown[] }).keys ?? [];
    if (statusCode === 200 && keys.length > 0) {
      return [ok("port", "gateway", `${origin}${JWKS} has ${keys.length} keys`)];
    }
    const action = "See gatehouse health, and the log of the gateway";
    return [failed("port", "gateway", `${origin}${JWKS} is answered ${statusCode}`, action)];
  } catch (error) {
    const action = "Start the gateway, or correct PUBLIC_ORIGIN or the balancer";
    return [failed("port", "gateway", `${origin} cannot be reached (${reasonOf(error)})`, action)];
  }
}

/** Up to its greeting (RFC 5321 §3.1). */
async function checkMailServer(environment: Environment): Promise<Finding[]> {
  const { SMTP_URL: url } = environment;
  if (!url || !URL.canParse(url)) {
    return [
      unchecked("port", "mail server", "SMTP_URL is not set: mails wait in the outbox", "Set SMTP_URL"),
    ];
  }
  const { protocol, hostname, port } = new URL(url);
  const isTls = protocol === "smtps:";
  const at = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (isTls ? 465 : 587)) };
  const name = `${at.host}:${at.port}`;
  const socket = isTls ? connectTls({ ...at, servername: at.host, rejectUnauthorized: false }) : connect(at);
  try {
    const [greeting] = await once(socket, "data", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (String(greeting).startsWith("220")) return [ok("port", "mail server", `greets at ${name}`)];
    return [failed("port", "mail server", `${name} answers, but not as SMTP`, "Correct SMTP_URL")];
  } catch (error) {
    const action = "Start the mail server, or correct SMTP_URL: mails wait in the outbox meanwhile";
    return [failed("port", "mail server", `${name} cannot be reached (${reasonOf(error)})`, action)];
  } finally {
    socket.on("error", () => undefined);
    socket.destroy();
  }
}
