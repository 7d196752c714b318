import { generateKeyPairSync, randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { exportJWK, SignJWT } from "jose";
import { checkGateway } from "../peers/check-gateway.ts";
import { GATEWAYS } from "../peers/gateways.ts";
import type { GatewayContext, RunningPeer } from "../peers/peer.ts";
import type { Bench } from "./bench.ts";
import { writeRequests } from "./send-load.ts";

const TOKENS_LIVE = "2 h";

export interface RunningGateway extends RunningPeer {
  name: string;
  /** GETs with tokens of its own kind, as many as ours get. */
  requests: string;
}

/** Starts the gateways that are installed. @returns also what the others miss. They end with the bench. */
export async function startGatewayPeers(
  bench: Bench,
  { path, tokens, isWanted }: { path: string; tokens: number; isWanted: (name: string) => boolean },
): Promise<{ running: RunningGateway[]; missing: string[] }> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const folder = join(bench.folder, `gateways-${randomUUID()}`);
  await mkdir(folder, { mode: 0o700 });
  const [jwksFile, pemFile] = [join(folder, "jwks.json"), join(folder, "key.pem")];
  const kid = "bench";
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: "ES256", use: "sig" };
  await writeFile(jwksFile, JSON.stringify({ keys: [jwk] }));
  await writeFile(pemFile, publicKey.export({ type: "spki", format: "pem" }));
  const shared = { issuer: "https://gatehouse.example", audience: "payments", role: "USER" };
  const tokenOf = () =>
    new SignJWT({ roles: [shared.role], sid: randomUUID() })
      .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid })
      .setIssuer(shared.issuer)
      .setAudience(shared.audience)
      .setSubject(randomUUID())
      .setJti(randomUUID())
      .setIssuedAt()
      .setExpirationTime(TOKENS_LIVE)
      .sign(privateKey);
  const made = await Promise.all(Array.from({ length: tokens }, tokenOf));
  const requests = await writeRequests(
    folder,
    "peers",
    made.map((token) => ({ method: "GET", path, authorization: `Bearer ${token}` })),
  );
  const wanted = GATEWAYS.filter(({ name }) => isWanted(name));
  const running: RunningGateway[] = [];
  for (const [index, peer] of wanted.entries()) {
    if (peer.missing() !== undefined) continue;
    const own = join(folder, String(index));
    await mkdir(own, { mode: 0o700 });
    const context: GatewayContext = {
      ...shared,
      folder: own,
      upstreamPort: bench.upstreamPort,
      jwksFile,
      pemFile,
    };
    const started = await peer.start(context);
    bench.atEnd(() => started.stop());
    await checkGateway(peer, started, context, privateKey);
    running.push({ ...started, name: peer.name, requests });
  }
  const missing = wanted.flatMap((peer) => peer.missing() ?? []);
  return { running, missing };
}
