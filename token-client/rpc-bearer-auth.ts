import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
} from "@grpc/grpc-js";
import { toRpcError } from "../service-kit/rpc-errors.ts";
import { bearerToken, principalOf } from "./bearer-token.ts";
import type { Principal, TokenVerifier } from "./principal.ts";
import { assertAllowed, type RouteAuth } from "./route-auth.ts";

export interface RpcBearerAuthOptions {
  verifier: Pick<TokenVerifier, "verify">;
  /** Who may call each method, by its full path: `/payments.v1.PaymentService/ListPayments`. Others are refused. */
  methods: Readonly<Record<string, RouteAuth>>;
}

const principals = new WeakMap<Metadata, Principal>();

/**
 * A grpc-js server interceptor: verifies the bearer token in a call's `authorization` metadata before the handler
 * sees the call. `principalInMetadata(call.metadata)` says who calls. Failures are UNAUTHENTICATED, PERMISSION_DENIED or
 * UNAVAILABLE with the code as `google.rpc.ErrorInfo.reason`.
 */
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
    const [value] = metadata.get("authorization"); // HTTP/2 in Node has it once at the most
    const principal = await principalOf(verifier, bearerToken(typeof value === "string" ? value : undefined));
    assertAllowed(auth, principal);
    principals.set(metadata, principal);
  }
}

/** Who makes the call with this metadata; undefined for public methods. */
export function principalInMetadata(metadata: Metadata): Principal | undefined {
  return principals.get(metadata);
}
