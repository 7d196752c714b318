import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
} from "@grpc/grpc-js";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import { verifyAuthorization } from "./bearer-token.ts";
import { clientAddress } from "./client-address.ts";
import type { Principal, RequestVerifier } from "./principal.ts";
import { assertAllowed, type RouteAuth } from "./route-auth.ts";

export interface RpcBearerAuthOptions {
  verifier: RequestVerifier;
  /** Keyed by method path (`/payments.v1.PaymentService/ListPayments`). Refuses other methods. */
  methods: Readonly<Record<string, RouteAuth>>;
  /**
   * The address of the client, never of a proxy: one network may have a share of the calls of token-service. Default: that of the
   * connection, unless it is of a private network.
   * @param peer `address:port` of the connection.
   */
  clientIp?: (metadata: Metadata, peer: string) => string | undefined;
}

const peerAddress = (_metadata: Metadata, peer: string) =>
  clientAddress(peer.slice(0, peer.lastIndexOf(":")).replace(/^\[|\]$/g, ""));

const principals = new WeakMap<Metadata, Principal>();

/** Reads `authorization` metadata. The error code is the `google.rpc.ErrorInfo.reason`. */
export function rpcBearerAuth({
  verifier,
  methods,
  clientIp = peerAddress,
}: RpcBearerAuthOptions): ServerInterceptor {
  return ({ path }, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        const listener = new ServerListenerBuilder().withOnReceiveMetadata((metadata, pass) => {
          const auth = Object.hasOwn(methods, path) ? methods[path] : undefined;
          admit(metadata, auth, call.getPeer()).then(
            () => pass(metadata),
            (error: unknown) => call.sendStatus(toRpcError(error)),
          );
        });
        next(listener.build());
      },
    });

  async function admit(metadata: Metadata, auth: RouteAuth | undefined, peer: string): Promise<void> {
    if (auth === "public") return;
    const authorization = metadata.get("authorization").map(String);
    const principal = await verifyAuthorization(verifier, authorization, clientIp(metadata, peer));
    assertAllowed(auth, principal);
    principals.set(metadata, principal);
  }
}

export function principalInMetadata(metadata: Metadata): Principal | undefined {
  return principals.get(metadata);
}
