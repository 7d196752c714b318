import type { RecordReading } from "#audit-client/stream/record-reading.ts";
import { traceIdOf } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import {
  type KeyServiceServer,
  type SigningKey as SigningKeyMessage,
  SigningKeyState,
} from "#proto/gatehouse/token/v1/key_service.ts";
import type { KeyRing } from "./keys/key-ring.ts";
import { listKeys, type SigningKeyRow } from "./keys/key-store.ts";
import { type RevokeSigningKeyDeps, revokeSigningKey } from "./keys/revoke-signing-key.ts";
import {
  type KeyEventCause,
  type RotateSigningKeyDeps,
  rotateSigningKey,
} from "./keys/rotate-signing-key.ts";

export const keyCallers: Callers<KeyServiceServer> = {
  listSigningKeys: ["gateway", "operator"],
  rotateSigningKey: ["operator"],
  revokeSigningKey: ["operator"],
};

const STATE: Record<SigningKeyRow["state"], SigningKeyState> = {
  next: SigningKeyState.NEXT,
  active: SigningKeyState.ACTIVE,
  retired: SigningKeyState.RETIRED,
  revoked: SigningKeyState.REVOKED,
};

export interface KeyRpcDeps extends RotateSigningKeyDeps, RevokeSigningKeyDeps {
  keys: Pick<KeyRing, "reload">;
}

export function createKeyRpc(
  deps: KeyRpcDeps,
  recordReading: RecordReading,
): Implementation<KeyServiceServer> {
  return {
    async listSigningKeys(_request, context) {
      await recordReading(context, { action: "key.listed" });
      return { keys: (await listKeys(deps.sql)).map(toMessage) };
    },
    async rotateSigningKey({ force }, context) {
      const active = await rotateSigningKey(deps, { force }, causeOf(context, ""));
      await deps.keys.reload();
      return { active: toMessage(active) };
    },
    async revokeSigningKey({ keyId, reason }, context) {
      const sequence = await revokeSigningKey(deps, keyId, causeOf(context, reason));
      await deps.keys.reload();
      return { sequence };
    },
  };
}

const MAX_REASON_CHARACTERS = 200;

function causeOf(context: RpcContext, reason: string): KeyEventCause {
  const text = reason.replaceAll("\0", "").slice(0, MAX_REASON_CHARACTERS).toWellFormed();
  return {
    reason: text,
    person: context.person,
    requestId: context.requestId,
    traceId: traceIdOf(context),
  };
}

function toMessage(key: SigningKeyRow): SigningKeyMessage {
  return {
    keyId: key.id,
    algorithm: key.algorithm,
    state: STATE[key.state],
    createdAt: key.createdAt,
    activatedAt: key.activatedAt ?? undefined,
    retiredAt: key.retiredAt ?? undefined,
  };
}
