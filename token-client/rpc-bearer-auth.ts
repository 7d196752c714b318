import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
} from "@grpc/grpc-js";
import { toRpcError } from "../service-kit/rpc-errors.ts";
import { verifyAuthorization } from "./bearer-token.ts";
import type { Principal, TokenVerifier } from "./principal.ts";
import { assertAllowed, type RouteAuth } from "./route-auth.ts";

export interface RpcBearerAuthOptions {
  verifier: Pick<TokenVerifier, "verify">;
  /** Keyed by method path (`/payments.v1.PaymentService/ListPayments`). Refuses other methods. */
  methods: Readonly<Record<string, RouteAuth>>;
}

const principals = new WeakMap<Metadata, Principal>();

/** Reads `authorization` metadata. The error code is the `google.rpc.ErrorInfo.reason`. */
export function rpcBearerAuth({ verifier, methods }: RpcBearerAuthOptions): ServerInterceptor {
  return ({ path }, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        const listener = new ServerListenerBuilder().withOnReceiveMetadata((metadata, pass) => {
          admit(metadata, Object.hasOwn(methods, path) ? methods[path] : undefined).then(
            () => pass(metadata),
            (error: unknown) => call.sendStatus(toRpcError(error)),
          );
        });
        next(listener.build());
      },
    });

  async function admit(metadata: Metadata, auth: RouteAuth | undefined): Promise<void> {
    if (auth === "public") return;
    const [value] = metadata.get("authorization");
    const authorization = typeof value === "string" ? value : undefined;
    const principal = await verifyAuthorization(verifier, authorization);
    assertAllowed(auth, principal);
    principals.set(metadata, principal);
  }
}

export function principalInMetadata(metadata: Metadata): Principal | undefined {
  return principals.get(metadata);
}
