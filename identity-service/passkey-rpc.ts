import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  IdentityServiceServer,
  Passkey as ProtoPasskey,
} from "#proto/gatehouse/identity/v1/identity_service.ts";
import {
  beginPasskeyRegistrationAtLogin,
  completePasskeyRegistrationAtLogin,
} from "./login/enroll-passkey-at-login.ts";
import { beginPasskeyLogin, logInWithPasskey } from "./login/log-in-with-passkey.ts";
import type { LoginDeps } from "./login/login-deps.ts";
import { encodeLoginResult } from "./login-rpc.ts";
import { deletePasskey } from "./passkeys/delete-passkey.ts";
import { listOwnPasskeys, renamePasskey } from "./passkeys/own-passkeys.ts";
import { optionsJson } from "./passkeys/passkey-ceremony.ts";
import type { Passkey } from "./passkeys/passkey-store.ts";
import { beginPasskeyRegistration, registerPasskey } from "./passkeys/register-passkey.ts";
import { decodeOwner } from "./passwords/prove-owner.ts";

export const PASSKEY_CALLERS = {
  beginPasskeyRegistration: ["gateway"],
  registerPasskey: ["gateway"],
  beginPasskeyRegistrationAtLogin: ["gateway"],
  completePasskeyRegistrationAtLogin: ["gateway"],
  listPasskeys: ["gateway"],
  renamePasskey: ["gateway"],
  deletePasskey: ["gateway"],
  beginPasskeyLogin: ["gateway"],
  completePasskeyLogin: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createPasskeyRpc(
  deps: LoginDeps,
): Pick<Implementation<IdentityServiceServer>, keyof typeof PASSKEY_CALLERS> {
  return {
    beginPasskeyRegistration: async ({ owner }) => ({
      optionsJson: optionsJson(await beginPasskeyRegistration(deps, decodeOwner(owner))),
    }),
    registerPasskey: async ({ owner, name, attestation }, context) => {
      const registration = { owner: decodeOwner(owner), name, attestation: required(attestation) };
      const { passkey, recoveryCodes, endedSessionIds } = await registerPasskey(deps, registration, context);
      return { passkey: encodePasskey(passkey), recoveryCodes, endedSessionIds: [...endedSessionIds] };
    },
    beginPasskeyRegistrationAtLogin: async ({ tempToken }) => {
      const { options, userId } = await beginPasskeyRegistrationAtLogin(deps, tempToken);
      return { optionsJson: optionsJson(options), userId };
    },
    completePasskeyRegistrationAtLogin: async (request, context) => {
      const attempt = { ...request, attestation: required(request.attestation) };
      const enrolled = await completePasskeyRegistrationAtLogin(deps, attempt, context);
      const { added, ...login } = enrolled;
      const { recoveryCodes, passkey } = added;
      return { result: { result: encodeLoginResult(login) }, recoveryCodes, passkey: encodePasskey(passkey) };
    },
    listPasskeys: async ({ userId }) => ({
      passkeys: (await listOwnPasskeys(deps, userId)).map(encodePasskey),
    }),
    renamePasskey: async (request) => ({ passkey: encodePasskey(await renamePasskey(deps, request)) }),
    deletePasskey: async ({ owner, passkeyId }, context) => {
      const endedSessionIds = await deletePasskey(deps, { owner: decodeOwner(owner), passkeyId }, context);
      return { endedSessionIds: [...endedSessionIds] };
    },
    beginPasskeyLogin: async (request) => {
      const { challengeToken, options } = await beginPasskeyLogin(deps, request);
      return { challengeToken, optionsJson: optionsJson(options) };
    },
    completePasskeyLogin: async (request, context) => {
      const attempt = { ...request, assertion: required(request.assertion) };
      return { result: { result: encodeLoginResult(await logInWithPasskey(deps, attempt, context)) } };
    },
  };
}

function required<T>(part: T | undefined): T {
  if (part === undefined) throw new DomainError("validation_failed", "a part of the request is missing");
  return part;
}

function encodePasskey({ id, name, createdAt, lastUsedAt, isBackedUp, transports }: Passkey): ProtoPasskey {
  return {
    id,
    name,
    createdAt,
    lastUsedAt: lastUsedAt ?? undefined,
    backedUp: isBackedUp,
    transports: [...transports],
  };
}
