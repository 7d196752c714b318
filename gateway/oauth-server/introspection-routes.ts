import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { RecordRepeated } from "#audit-client/stream/record-reading.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { acrOf } from "#token-client/assurance.ts";
import { isApiKey, tokenTypeOf } from "#token-client/bearer-token.ts";
import type { Principal, TokenVerifier } from "#token-client/principal.ts";
import { idField, roleField } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import type { NoteReading } from "../edge/audit.ts";
import { clientIp } from "../edge/request/caller.ts";
import { registerFormParser } from "../edge/request/request-body.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, optional, textField, textLike } from "../routing/fields.ts";
import { FORM_TYPE, JSON_TYPE } from "../routing/route-docs.ts";
import { assertOneProof, clientActor, clientAuthentication } from "./client-authentication.ts";
import type { IntrospectionClients } from "./introspection-clients.ts";

/** Other parameters are ignored (RFC 6749 §3.2). */
const IntrospectionBody = z.looseObject({
  /** Longer than any token. Another text is not active. */
  token: textField(1, 8_192, { examples: ["eyJhbGciOiJFZERTQSJ9.e30.AA"] }),
  /** Ignored: only access tokens are introspected. */
  token_type_hint: optional(textField(0, 100, { examples: ["access_token"] })),
});

const THUMBPRINT = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I";
const seconds = optional(intLike(1_767_322_800, "Seconds since 1970."));
const introspectionAnswer = z
  .strictObject({
    active: z.boolean(),
    iss: optional(textLike("https://gateway.example.com")),
    sub: idField.optional(),
    client_id: optional(textLike("0199a000-0000-7000-8000-000000000001")),
    scope: optional(textLike("payments:read")),
    sid: idField.optional(),
    exp: seconds,
    iat: seconds,
    jti: optional(textLike("0199a000-0000-7000-8000-000000000005")),
    role: roleField.optional(),
    amr: z.array(textLike("pwd")).optional(),
    acr: optional(textLike("urn:gatehouse:acr:2")),
    auth_time: seconds,
    token_type: z.enum(["Bearer", "DPoP"]).optional(),
    cnf: z
      .strictObject({ jkt: optional(textLike(THUMBPRINT)), "x5t#S256": optional(textLike(THUMBPRINT)) })
      .optional()
      .meta({
        description: "The key that the token is bound to (RFC 9449, section 6.2; RFC 8705, section 3.2).",
      }),
  })
  .meta({ id: "Introspection", description: "Of a token that is not active, nothing but that." });

export interface IntrospectionDeps {
  /** Services that may introspect every token. Clients introspect their own. */
  introspectionClients?: IntrospectionClients | undefined;
  verifier: Pick<TokenVerifier, "verify">;
  clients: Pick<Backends["clients"], "authenticateClient">;
  noteReading: NoteReading;
  recordRepeated: RecordRepeated;
  logger: Logger;
}

/** In the audit log, of services in the file. */
const OF_FILE = "client:";

/**
 * RFC 7662, for services without gRPC and signature verification. Successes have the RFC's form, without our
 * envelope. It is audited who has learned of which session, because it discloses others': at once, and again after ten minutes.
 */
export function registerIntrospectionRoutes(app: GatewayApp, deps: IntrospectionDeps): void {
  const { introspectionClients: clients, verifier, noteReading, recordRepeated, logger } = deps;
  /** A service of the file, or a client with a secret. */
  const authenticateClient = async (request: FastifyRequest) => {
    const clientId = clients?.authenticate(request.headers.authorization);
    if (clientId !== undefined) {
      logger.info({ clientId, requestId: request.id }, "introspection client");
      return { userId: `${OF_FILE}${clientId}` };
    }
    const authentication = clientAuthentication(request);
    return clientActor(await deps.clients.authenticateClient({ authentication }, request.state.call));
  };
  app.register(async (scope: GatewayApp) => {
    registerFormParser(scope);
    routeIn(scope, "Services")("introspectToken", "POST", "/oauth/introspect", {
      summary: "Introspect an access token (RFC 7662)",
      description: "For services that can neither speak gRPC nor verify signatures. The answer is the RFC's.",
      // Services authenticate before their body is read.
      policy: { auth: "public", limitClass: "introspection", isAudited: false },
      isForClients: true,
      failureForm: "oauth",
      schema: { body: IntrospectionBody },
      bodyTypes: [FORM_TYPE],
      answers: {
        200: { description: "What is known of it.", content: { [JSON_TYPE]: introspectionAnswer } },
      },
      codes: ["invalid_client"],
      proof: { hook: "onRequest", prove: authenticateClient },
      handler: async (request) => {
        assertOneProof(request); // Who asks has proven itself before its body was read.
        const { token } = request.body;
        const verification = await verifier.verify(token, clientIp(request));
        const asker = request.state.proof?.actor.userId ?? "";
        const resource = verification.kind === "active" ? verification.principal.sessionId : "";
        await recordRepeated(`${asker} ${resource}`, () =>
          noteReading(request, { action: "token.introspect", resource }),
        );
        // The reason is not disclosed (RFC 7662 §2.2).
        if (verification.kind === "inactive") return { active: false };
        const { principal } = verification;
        if (!asker.startsWith(OF_FILE) && asker !== principal.clientId) return { active: false };
        if (principal.kind === "client") return { active: true, ...clientClaims(principal, token) };
        return {
          active: true,
          iss: issuerOf(token),
          sub: principal.userId,
          sid: principal.sessionId,
          exp: secondsOf(principal.expiresAt),
          iat: secondsOf(principal.issuedAt),
          jti: principal.tokenId,
          role: principal.role,
          amr: principal.amr,
          acr: acrOf(principal.acr),
          auth_time: secondsOf(principal.authTime),
          ...binding(principal),
        };
      },
    });
  });
}

function clientClaims(
  { clientId, sessionId, scopes, expiresAt, issuedAt, tokenId, confirmation }: Principal,
  token: string,
) {
  return {
    ...(!isApiKey(token) && { iss: issuerOf(token) }),
    sub: clientId,
    client_id: clientId,
    sid: sessionId,
    scope: scopes.join(" "),
    exp: secondsOf(expiresAt),
    iat: secondsOf(issuedAt),
    jti: tokenId,
    ...binding({ confirmation }),
  };
}

/** Who asks must check the key with each call: RFC 7662 has no way to refuse a bound token to others. */
function binding({ confirmation }: Pick<Principal, "confirmation">) {
  const { jkt = "", x5tS256 = "" } = confirmation ?? {};
  const cnf = { ...(jkt !== "" && { jkt }), ...(x5tS256 !== "" && { "x5t#S256": x5tS256 }) };
  return { token_type: tokenTypeOf(confirmation), ...(confirmation && { cnf }) };
}

function secondsOf(date: Date): number {
  return Math.floor(date.getTime() / 1_000);
}

const Claims = z.object({ iss: z.string() });

/** Of a verified access token. @throws if the text is not a JWT. */
function issuerOf(verifiedToken: string): string {
  const payload = Buffer.from(verifiedToken.split(".")[1] ?? "", "base64url").toString("utf8");
  return Claims.parse(JSON.parse(payload)).iss;
}
