import type { FastifyRequest } from "fastify";
import type { TokenVerifier } from "#token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import { HTTP_ACCEPTED } from "../edge/answers/http-errors.ts";
import { clientIp } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textField } from "../routing/fields.ts";
import { SECURITY_EVENT_TYPE } from "../routing/route-docs.ts";
import { ProviderParams } from "./oauth-routes.ts";

const BEARER = /^bearer ([\x21-\x7e]{1,4096})$/i;

const EventBody = textField(1, 16_384, { examples: ["eyJ0eXAiOiJzZWNldmVudCtqd3QifQ.e30.AA"] });

interface SecurityEventDeps extends Pick<Backends, "identity"> {
  verifier: Pick<TokenVerifier, "refuseSession">;
}

/** Push delivery of Security Event Tokens (RFC 8935). */
export function registerSecurityEventRoutes(
  app: GatewayApp,
  { identity, verifier }: SecurityEventDeps,
): void {
  app.register(async (scope: GatewayApp) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      SECURITY_EVENT_TYPE,
      { parseAs: "string" },
      async (_: unknown, body: string) => body,
    );
    routeIn(scope, "Identity providers")("receiveSecurityEvent", "POST", "/auth/:provider/events", {
      summary: "Push a provider's security event (RFC 8935)",
      description:
        "For transmitters of Shared Signals. `session-revoked` and `account-disabled` end sessions.",
      // No total, which strangers could use up: the transmitter is one of them.
      policy: { auth: "public", limitClass: "client", action: "auth.security_event" },
      schema: { params: ProviderParams, body: EventBody },
      bodyTypes: [SECURITY_EVENT_TYPE],
      failureForm: "securityEvent",
      answers: { 202: { description: "Taken. It has had its effect, or has none." } },
      codes: ["provider_not_found", "not_found"],
      handler: async (request, reply) => {
        const pushed = { ...request.params, event: request.body, bearerToken: bearerOf(request) };
        const asked = { ...pushed, clientIp: clientIp(request) };
        const { endedSessionIds } = await identity.receiveSecurityEvent(asked, request.state.call);
        for (const id of endedSessionIds) verifier.refuseSession(id);
        return reply.code(HTTP_ACCEPTED).send();
      },
    });
  });
}

function bearerOf({ headers }: FastifyRequest): string {
  return BEARER.exec(headers.authorization ?? "")?.[1] ?? "";
}
