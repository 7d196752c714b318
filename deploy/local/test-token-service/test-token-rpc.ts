import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { TokenServiceService } from "#proto/gatehouse/token/v1/token_service.ts";
import { createTokenRpc, tokenCallers } from "#token-service/token-rpc.ts";
import { certificateFiles, ensureCertificates } from "../certificates.ts";
import { TestTokens } from "./test-tokens.ts";

/** No setting changes it. */
const LOOPBACK = "127.0.0.1";
const SERVICE_UNDER_TEST = "service-under-test";
const orderSchema = z.union([
  z.strictObject({ issue: z.looseObject({}) }),
  z.strictObject({ revoke: z.looseObject({}) }),
  z.strictObject({ available: z.boolean() }),
]);

/**
 * A token-service for the tests of other services: the real gRPC contract over mutual TLS. Its authority and all keys are
 * made for it, and end with it.
 */
export async function startTestTokenService() {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-test-token-service-"));
  await ensureCertificates(folder, new Date(), undefined, [SERVICE_UNDER_TEST]);
  const filesOf = (name: string) => {
    const { certificate: certFile, key: keyFile, authority: caFile } = certificateFiles(folder, name);
    return { certFile, keyFile, caFile };
  };
  const logger = createLogger("test-token-service", "silent");
  const tokens = new TestTokens(logger);
  await tokens.start();
  const certificate = new ProcessCertificate(filesOf("token-service"));
  let server: RpcServer | undefined;
  let port = 0;
  const methods = createTokenRpc(tokens.deps);
  // A connection that is still shaking hands outlives `close`.
  const whileServing = <A extends unknown[], R>(method: (...args: A) => R) => {
    return (...args: A) => {
      if (server === undefined) throw new DomainError("service_unavailable");
      return method(...args);
    };
  };
  const implementation = {
    ...methods,
    verifyToken: whileServing(methods.verifyToken),
    watchRevocations: whileServing(methods.watchRevocations),
  };
  const listen = async () => {
    const address = `${LOOPBACK}:${port}`;
    server = new RpcServer({ address, certificate, logger, metrics: createMetrics("token-service") });
    server.add(TokenServiceService, tokenCallers([SERVICE_UNDER_TEST]), implementation);
    port = await server.listen();
  };
  const leave = async () => {
    const left = server;
    server = undefined;
    await left?.close(0);
  };
  const carryOut = async (text: string): Promise<object> => {
    const order = orderSchema.parse(JSON.parse(text));
    if ("issue" in order) return tokens.issue(order.issue);
    if ("revoke" in order) await tokens.revoke(order.revoke);
    else if (order.available !== (server !== undefined)) await (order.available ? listen() : leave());
    return {};
  };
  await listen();
  const { certFile: TLS_CERT_FILE, keyFile: TLS_KEY_FILE, caFile: TLS_CA_FILE } = filesOf(SERVICE_UNDER_TEST);
  return {
    settings: { TOKEN_SERVICE_ADDRESS: `${LOOPBACK}:${port}`, TLS_CERT_FILE, TLS_KEY_FILE, TLS_CA_FILE },
    /** @param text JSON: `{"issue":…}`, `{"revoke":…}` or `{"available":…}`. @returns an object with `error` if it is refused. */
    order: (text: string) => carryOut(text).catch((error: unknown) => ({ error: problemOf(error) })),
    async stop() {
      await leave();
      tokens.stop();
      certificate.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @throws what is no mistake in an order. */
function problemOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error);
  if (error instanceof DomainError || error instanceof SyntaxError) return error.message;
  throw error;
}
