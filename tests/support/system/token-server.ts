import { pino } from "pino";
import type { RecordReading } from "#audit-client/stream/record-reading.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { SessionServiceService } from "#proto/gatehouse/token/v1/session_service.ts";
import { TokenServiceService } from "#proto/gatehouse/token/v1/token_service.ts";
import { createSessionRpc, sessionCallers } from "#token-service/session-rpc.ts";
import { createTokenRpc, tokenCallers } from "#token-service/token-rpc.ts";
import type { TestCertificates } from "./certificates.ts";
import type { TokenReplica } from "./token-service.ts";

/** For tests without an audit log. */
const readingNobody: RecordReading = async () => undefined;

/** A replica of token-service behind real gRPC over mutual TLS. */
export async function startTokenServer(
  replica: TokenReplica,
  certificates: Pick<TestCertificates, "of">,
  port = 0,
  options: { recordReading?: RecordReading; verifiers?: readonly string[] } = {},
) {
  const calls = { verifyToken: 0, watchRevocations: 0 };
  /** Set by a test: what every answer of VerifyToken waits for before it is sent. */
  const hold: { answers?: Promise<void> } = {};
  const server = new RpcServer({
    address: `127.0.0.1:${port}`,
    certificate: certificates.of("token-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
  });
  // What a test changes in the replica later, changes here.
  const deps = Object.assign(Object.create(replica.deps), { revocations: replica.deps.parts });
  const methods = createTokenRpc(deps);
  server.add(TokenServiceService, tokenCallers(options.verifiers ?? ["payments-service"]), {
    ...methods,
    async verifyToken(request, context) {
      calls.verifyToken += 1;
      const answer = await methods.verifyToken(request, context);
      await hold.answers;
      return answer;
    },
    watchRevocations(request, context) {
      calls.watchRevocations += 1;
      return methods.watchRevocations(request, context);
    },
  });
  server.add(
    SessionServiceService,
    sessionCallers,
    createSessionRpc(replica.deps, options.recordReading ?? readingNobody),
  );
  const boundPort = await server.listen();
  return { port: boundPort, address: `127.0.0.1:${boundPort}`, calls, hold, stop: () => server.close(0) };
}

export type TokenServer = Awaited<ReturnType<typeof startTokenServer>>;
