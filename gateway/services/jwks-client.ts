import { TokenServiceClient } from "../../proto/gen/gatehouse/token/v1/token_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import type { Jwks } from "./jwks-cache.ts";

export interface JwksClient {
  /** The public keys as they are now. */
  fetch(context: CallContext): Promise<Jwks>;
  close(): void;
}

/** @param address `host:port` of token-service. */
export function createJwksClient(address: string, certificate: ProcessCertificate): JwksClient {
  const client = createRpcClient(TokenServiceClient, {
    address,
    service: "token-service",
    certificate,
    idempotentMethods: ["gatehouse.token.v1.TokenService/GetJwks"],
  });
  return {
    async fetch(context) {
      const { jwksJson, maxAgeS } = await callUnary(client, client.getJwks, {}, context);
      return { json: jwksJson, maxAgeS };
    },
    close: () => client.close(),
  };
}
