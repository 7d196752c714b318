import { z } from "zod";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { clientOf } from "../edge/client-of.ts";
import { deviceTokenOf } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import { principalOf } from "../edge/principal.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { passwordField, tempTokenField } from "./body-fields.ts";
import { loginAnswer } from "./login-answer.ts";
import type { MfaClient } from "./mfa-client.ts";
import { mfaDocs } from "./mfa-docs.ts";

/** Six digits, or a recovery code: 16 letters and digits, between which may be spaces and dashes. */
const CODE = /^(?:[0-9]{6}|[A-Za-z2-7](?:[ \p{Pd}]{0,3}[A-Za-z2-7]){15})$/u;
const codeField = z
  .string()
  .max(64, { abort: true })
  .regex(CODE, "must be six digits or a recovery code")
  .meta({ examples: ["492039"] });
const VerifyBody = z.strictObject({ tempToken: tempTokenField, code: codeField });
const SetupBody = z.strictObject({ password: passwordField });
const CodeBody = z.strictObject({ code: codeField });
const DisableBody = z.strictObject({ password: passwordField, code: codeField });

export interface MfaBackends {
  mfa: MfaClient;
  verifier: Pick<TokenVerifier, "refuseSession">;
}

/** The second factor: complete a login with it, set it up, turn it on and off, renew its recovery codes. */
export function registerMfaRoutes(app: GatewayApp, { mfa, verifier }: MfaBackends): void {
  app.post(
    "/auth/mfa/verify",
    {
      config: { auth: "public", action: "auth.mfa.verify", docs: mfaDocs.completeMfaLogin },
      schema: { body: VerifyBody },
    },
    async (request, reply) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      return loginAnswer(request, reply, await mfa.completeLogin(attempt, request.call));
    },
  );

  app.post(
    "/auth/mfa/setup",
    {
      config: { auth: "authenticated", action: "auth.mfa.setup", docs: mfaDocs.setUpMfa },
      schema: { body: SetupBody },
    },
    async (request) => {
      const { userId } = principalOf(request);
      const enrollment = await mfa.beginEnrollment(
        { userId, ...request.body, clientIp: clientOf(request).clientIp },
        request.call,
      );
      return success({ ...enrollment }, "Confirm with a code of your authenticator app.");
    },
  );

  app.post(
    "/auth/mfa/enable",
    {
      config: { auth: "authenticated", action: "auth.mfa.enable", docs: mfaDocs.enableMfa },
      schema: { body: CodeBody },
    },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
      const confirmation = { userId, sessionId, ...request.body, ...clientOf(request) };
      const { recoveryCodes, endedSessionIds } = await mfa.confirmEnrollment(confirmation, request.call);
      for (const id of endedSessionIds) verifier.refuseSession(id);
      return success({ recoveryCodes }, "The second factor is on. Keep the recovery codes.");
    },
  );

  app.post(
    "/auth/mfa/disable",
    {
      config: { auth: "authenticated", action: "auth.mfa.disable", docs: mfaDocs.disableMfa },
      schema: { body: DisableBody },
    },
    async (request) => {
      const { userId, sessionId } = principalOf(request);
      const proof = { userId, sessionId, ...request.body, ...clientOf(request) };
      const ended = await mfa.disable(proof, request.call);
      for (const id of ended) verifier.refuseSession(id);
      return success({}, "The second factor is off.");
    },
  );

  app.post(
    "/auth/mfa/recovery-codes",
    {
      config: { auth: "authenticated", action: "auth.mfa.recovery_codes", docs: mfaDocs.renewRecoveryCodes },
      schema: { body: CodeBody },
    },
    async (request) => {
      const { userId } = principalOf(request);
      const proof = { userId, ...request.body, ...clientOf(request) };
      const recoveryCodes = await mfa.regenerateRecoveryCodes(proof, request.call);
      return success({ recoveryCodes }, "Keep the recovery codes.");
    },
  );
}
