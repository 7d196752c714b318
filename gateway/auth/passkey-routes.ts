import { z } from "zod";
import type { Passkey } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_CREATED } from "../edge/answers/http-errors.ts";
import { clientIp, clientOf, ownerOf, principalOf } from "../edge/request/caller.ts";
import { deviceTokenOf } from "../edge/request/device-cookie.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { optional, textField, textLike } from "../routing/fields.ts";
import { answer, answersWith } from "../routing/route-docs.ts";
import {
  deviceHeader,
  enrolledFields,
  idField,
  loginAnswers,
  loginHeaders,
  recoveryCodesField,
  timeField,
} from "./answer-fields.ts";
import { tempTokenField } from "./body-fields.ts";
import { type AuthDeps, endReplacedSession, enrolledAnswer, loginAnswer } from "./login-answer.ts";
import {
  assertionField,
  attestationField,
  creationOptionsAnswer,
  readOptions,
  requestOptionsAnswer,
  toAssertion,
  toAttestation,
} from "./passkey-fields.ts";

const passkeyNameField = textField(1, 256, {
  description: "For its owner, at most 64 characters.",
  examples: ["My phone"],
});
const NameBody = z.strictObject({ name: passkeyNameField });
const PasskeyParams = z.strictObject({ id: z.uuid().toLowerCase() });

const passkeyAnswer = z
  .strictObject({
    id: idField,
    name: textLike("My phone"),
    createdAt: timeField,
    lastUsedAt: timeField.nullable(),
    backedUp: z.boolean().meta({ description: "Whether it was backed up when it was used last." }),
    transports: z.array(textLike("internal")),
  })
  .meta({ id: "Passkey", description: "A passkey of the user." });
const onePasskey = z.strictObject({ passkey: passkeyAnswer });
const addedAnswer = z
  .strictObject({ passkey: passkeyAnswer, recoveryCodes: recoveryCodesField.optional() })
  .meta({ id: "AddedPasskey", description: "With recovery codes if it is the first second factor." });
const enrolledPasskeyAnswer = z
  .strictObject({ passkey: passkeyAnswer, ...enrolledFields })
  .meta({ id: "EnrolledPasskeyLogin", description: "A session has begun, with a new passkey." });

/** identity-service demands it, too. Here the refusal has its details. */
const FRESH_SESSION = { acr: 1, maxAgeSeconds: 300 } as const;
const ADDED = "Added. Your other sessions have ended.";
const FRESH =
  "Needs a session whose user has proven who they are within five minutes, and at level 2 if they have a second factor: else " +
  "401 `step_up_required`.";

export function registerPasskeyRoutes(app: GatewayApp, deps: AuthDeps): void {
  registerManagement(app, deps);
  registerLogin(app, deps);
}

function registerManagement(app: GatewayApp, deps: AuthDeps): void {
  const { identity, verifier } = deps;
  const route = routeIn(app, "Passkeys");

  route("beginPasskey", "POST", "/auth/passkeys/options", {
    summary: "Begin to add a passkey",
    description:
      `${FRESH} 403 \`email_not_verified\` while the account's credentials are not proven. 409 \`conflict\` beyond 20 ` +
      "passkeys. Without an access token, for a login that answered `requireMfaEnrollment`: its `tempToken`.",
    policy: {
      auth: "authenticated",
      limitClass: "account",
      action: "auth.passkey.options",
      assurance: FRESH_SESSION,
      orTokenInBody: "tempToken",
    },
    schema: { body: z.strictObject({ tempToken: optional(tempTokenField) }).default({}) },
    answers: answersWith("For `navigator.credentials.create()`.", creationOptionsAnswer),
    codes: ["step_up_required", "mfa_token_invalid", "email_not_verified", "conflict"],
    identify: async (request) => {
      const { body, state } = request;
      if (body.tempToken === undefined) {
        const { optionsJson } = await identity.beginPasskeyRegistration(
          { owner: ownerOf(request) },
          state.call,
        );
        return { body: creationAnswer(optionsJson), actor: null };
      }
      const { tempToken } = body;
      const begun = await identity.beginPasskeyRegistrationAtLogin({ tempToken }, state.call);
      return { body: creationAnswer(begun.optionsJson), actor: { userId: begun.userId } };
    },
  });

  route("addPasskey", "POST", "/auth/passkeys", {
    summary: "Add the passkey that the browser has made",
    description:
      "In the session that began; every other session ends, and a mail notifies the owner. The answer has recovery codes if it " +
      "is the user's first second factor. With the `tempToken` of a login that answered `requireMfaEnrollment`, in place of " +
      "an access token, the login is complete, at level 2: the answer has its tokens too.",
    policy: {
      auth: "authenticated",
      limitClass: "account",
      action: "auth.passkey.add",
      orTokenInBody: "tempToken",
      cookies: "session",
    },
    headers: deviceHeader,
    schema: {
      body: z.strictObject({
        tempToken: optional(tempTokenField),
        response: attestationField,
        name: passkeyNameField,
      }),
    },
    answers: {
      201: answer("It can log in.", z.union([addedAnswer, enrolledPasskeyAnswer]), loginHeaders),
    },
    codes: ["step_up_required", "passkey_invalid", "mfa_token_invalid", "email_not_verified", "conflict"],
    identify: async (request, reply) => {
      const { tempToken, name, response } = request.body;
      const { call } = request.state;
      const credential = { name, attestation: toAttestation(response) };
      reply.code(HTTP_CREATED);
      if (tempToken !== undefined) {
        const origin = { ...clientOf(request), deviceToken: deviceTokenOf(request) };
        const enrollment = { tempToken, ...credential, ...origin };
        const enrolled = await identity.completePasskeyRegistrationAtLogin(enrollment, call);
        return endReplacedSession(
          deps,
          request,
          enrolledAnswer(enrolled, ADDED, { passkey: toPasskey(enrolled.passkey) }),
        );
      }
      const added = await identity.registerPasskey({ owner: ownerOf(request), ...credential }, call);
      for (const id of added.endedSessionIds) verifier.refuseSession(id);
      const { recoveryCodes } = added;
      const given = recoveryCodes.length > 0 && { recoveryCodes };
      return { body: success({ passkey: toPasskey(added.passkey), ...given }, ADDED), actor: null };
    },
  });

  route("listPasskeys", "GET", "/auth/passkeys", {
    summary: "List the passkeys",
    policy: { auth: "authenticated", limitClass: "account" },
    answers: answersWith("Oldest first, at most 20.", z.strictObject({ passkeys: z.array(passkeyAnswer) })),
    handler: async (request) => {
      const { userId } = principalOf(request);
      const { passkeys } = await identity.listPasskeys({ userId }, request.state.call);
      return success({ passkeys: passkeys.map(toPasskey) }, "Your passkeys.");
    },
  });

  route("renamePasskey", "PATCH", "/auth/passkeys/:id", {
    summary: "Give a passkey another name",
    policy: { auth: "authenticated", limitClass: "account", action: "auth.passkey.rename" },
    schema: { params: PasskeyParams, body: NameBody },
    answers: answersWith("It has the name.", onePasskey),
    codes: ["not_found"],
    handler: async (request) => {
      const { userId } = principalOf(request);
      const change = { userId, passkeyId: request.params.id, ...request.body };
      const { passkey } = await identity.renamePasskey(change, request.state.call);
      return success({ passkey: toPasskey(passkey) }, "Renamed.");
    },
  });

  route("deletePasskey", "DELETE", "/auth/passkeys/:id", {
    summary: "Remove a passkey",
    description: `${FRESH} Every other session ends, and a mail notifies the owner.`,
    policy: {
      auth: "authenticated",
      limitClass: "account",
      action: "auth.passkey.remove",
      assurance: FRESH_SESSION,
    },
    schema: { params: PasskeyParams },
    answers: answersWith("It opens the account no more."),
    codes: ["step_up_required", "not_found", "last_factor", "mfa_required"],
    handler: async (request) => {
      const removal = { owner: ownerOf(request), passkeyId: request.params.id };
      const { endedSessionIds } = await identity.deletePasskey(removal, request.state.call);
      for (const id of endedSessionIds) verifier.refuseSession(id);
      return success({}, "Removed; your other sessions have ended.");
    },
  });
}

function registerLogin(app: GatewayApp, deps: AuthDeps): void {
  const { identity } = deps;
  const route = routeIn(app, "Passkeys");

  route("beginPasskeyLogin", "POST", "/auth/passkeys/login/options", {
    summary: "Begin a login with a passkey",
    description: "The answer is the same for everybody: the authenticator knows the account.",
    policy: {
      auth: "public",
      limitClass: "login",
      // Each view of a login page stores a challenge. Only its use is in the audit log (docs/decisions/passkeys.md).
      isAudited: false,
      cookies: "device",
    },
    headers: deviceHeader,
    schema: { body: z.strictObject({}) },
    answers: answersWith(
      "For `navigator.credentials.get()`.",
      z.strictObject({
        challengeToken: textLike("cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E", "Send it with the answer."),
        options: requestOptionsAnswer,
      }),
    ),
    handler: async (request) => {
      const asked = { clientIp: clientIp(request), deviceToken: deviceTokenOf(request) };
      const { challengeToken, optionsJson } = await identity.beginPasskeyLogin(asked, request.state.call);
      const options = readOptions(requestOptionsAnswer, optionsJson);
      return success({ challengeToken, options }, "Sign the challenge.");
    },
  });

  route("logInWithPasskey", "POST", "/auth/passkeys/login", {
    summary: "Log in with a passkey",
    description:
      "No second factor is asked for: a passkey is two. 401 `passkey_invalid`, whatever is wrong, and whether or not an " +
      "account has this passkey.",
    policy: {
      auth: "public",
      limitClass: "login",
      action: "auth.passkey.login",
      cookies: "session",
      issuesTokens: true,
    },
    headers: deviceHeader,
    schema: { body: z.strictObject({ challengeToken: tempTokenField, response: assertionField }) },
    answers: answersWith("A session.", loginAnswers.afterPasskey, loginHeaders),
    codes: ["passkey_invalid", "role_not_defined"],
    identify: async (request) => {
      const { challengeToken, response } = request.body;
      const assertion = toAssertion(response);
      const origin = { ...clientOf(request), deviceToken: deviceTokenOf(request) };
      const login = { challengeToken, assertion, ...origin };
      const { result } = await identity.completePasskeyLogin(login, request.state.call);
      return endReplacedSession(deps, request, loginAnswer(result?.result));
    },
  });
}

function creationAnswer(optionsJson: string) {
  return success(readOptions(creationOptionsAnswer, optionsJson), "Make a passkey with them.");
}

/** @throws without a time. */
function toPasskey(message: Passkey | undefined): z.output<typeof passkeyAnswer> {
  if (message?.createdAt === undefined) {
    throw new Error("identity-service sent a passkey that this gateway cannot read");
  }
  const { id, name, createdAt, lastUsedAt, backedUp, transports } = message;
  return {
    id,
    name,
    createdAt: createdAt.toISOString(),
    lastUsedAt: lastUsedAt?.toISOString() ?? null,
    backedUp,
    transports,
  };
}
