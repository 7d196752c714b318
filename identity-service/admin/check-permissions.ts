import type { BuiltInPermission } from "#access-file/access-file.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import type { Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type AuthorizeDeps, assertHolds } from "./authorize.ts";

/** What a user's role must hold, by method. Null: certificates of persons only. */
export type MethodPermissions<S> = Record<keyof Implementation<S>, BuiltInPermission | null>;

type Method = (request: unknown, context: RpcContext) => Promise<unknown>;

/** Checks again what the gateway has checked: its file may be another one. */
export function withPermissions<S>(
  deps: AuthorizeDeps,
  permissions: MethodPermissions<S>,
  methods: Implementation<S>,
): Implementation<S> {
  const demanded = new Map(Object.entries<BuiltInPermission | null>(permissions));
  const checked = Object.entries(methods as Record<string, Method>).map(
    ([name, method]): [string, Method] => [
      name,
      async (request, context) => {
        assertMayCall(deps, context, demanded.get(name) ?? null);
        return method(request, context);
      },
    ],
  );
  return Object.fromEntries(checked) as Implementation<S>;
}

function assertMayCall(
  deps: AuthorizeDeps,
  context: CallContext,
  permission: BuiltInPermission | null,
): void {
  if (permission !== null) assertHolds(deps, context, permission);
  else if (context.person === undefined) throw new DomainError("forbidden");
}
