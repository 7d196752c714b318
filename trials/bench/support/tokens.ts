import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { certificateFiles, type Identity } from "#deploy/local/certificates.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { openRpcChannel } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { SessionServiceService } from "#proto/gatehouse/token/v1/session_service.ts";
import type { Gatehouse } from "./gatehouse.ts";
import { runMany } from "./workbench.ts";

const IN_PARALLEL = 32;
/** Fewer than the most that a user may have. */
const SESSIONS_OF_USER = 10;

/** With the certificate of a service of a running system. Must be closed. */
export function certificateOf({ home }: Gatehouse, identity: Identity): ProcessCertificate {
  const {
    certificate: certFile,
    key: keyFile,
    authority: caFile,
  } = certificateFiles(join(home, "tls"), identity);
  return new ProcessCertificate({ certFile, keyFile, caFile });
}

/** Access tokens of so many sessions, which token-service makes as for identity-service. */
export async function issueTokens(system: Gatehouse, count: number): Promise<string[]> {
  const certificate = certificateOf(system, "identity-service");
  const address = `127.0.0.1:${system.ports.TOKEN_PORT}`;
  const channel = openRpcChannel({ address, service: "token-service", certificate });
  const { issueSession } = channel.methodsOf(SessionServiceService);
  const users = Array.from({ length: Math.ceil(count / SESSIONS_OF_USER) }, () => randomUUID());
  const tokens: string[] = [];
  try {
    await runMany(count, IN_PARALLEL, async (index) => {
      const session = {
        userId: users[index % users.length] ?? "",
        role: "USER",
        amr: ["pwd"],
        acr: "urn:gatehouse:acr:1",
        authTime: new Date(),
        userAgent: "gatehouse-bench/1.0",
        ip: "127.0.0.1",
        limits: undefined,
        confirmation: undefined,
      };
      const { tokens: issued } = await issueSession(session, newCallContext({ budgetMs: 30_000 }));
      tokens.push(issued?.accessToken ?? "");
    });
  } finally {
    channel.close();
    certificate.close();
  }
  return tokens;
}
