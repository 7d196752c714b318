import { z } from "zod";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import type { Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";

const uuid = z.uuid();
const named = z.looseObject({
  userId: uuid.optional(),
  sessionId: z.union([uuid, z.literal("")]).optional(),
  eventId: uuid.optional(),
  passkeyId: uuid.optional(),
  trustedDeviceId: uuid.optional(),
  clientId: uuid.optional(),
  credentialId: uuid.optional(),
  importId: uuid.optional(),
  ownerUserId: z.union([uuid, z.literal("")]).optional(),
  owner: z.looseObject({ userId: uuid.optional() }).optional(),
});

type Method = (request: unknown, context: RpcContext) => Promise<unknown>;

/** Rejects invalid ids, for which the database would report an internal error. */
export function withCheckedIds<S>(methods: Implementation<S>): Implementation<S> {
  const checked = Object.entries(methods as Record<string, Method>).map(
    ([name, method]): [string, Method] => [
      name,
      async (request, context) => {
        assertIds(request);
        return method(request, context);
      },
    ],
  );
  return Object.fromEntries(checked) as Implementation<S>;
}

function assertIds(request: unknown): void {
  const { error } = named.safeParse(request);
  if (error === undefined) return;
  const fields = error.issues.map(({ path, code, message }) => ({ field: path.join("."), code, message }));
  throw new DomainError("validation_failed", undefined, { fields });
}
