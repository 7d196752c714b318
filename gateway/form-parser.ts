import type { FastifyRequest } from "fastify";
import { DomainError } from "../service-kit/errors.ts";
import type { GatewayApp } from "./request-state.ts";

/**
 * Reads `application/x-www-form-urlencoded` in UTF-8, and nothing else. A parameter that comes twice is refused
 * (RFC 6749 §3.2): two readers could take different ones.
 */
export function registerFormParser(app: GatewayApp): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string" },
    async (_request: FastifyRequest, body: string) => {
      const parameters = [...new URLSearchParams(body)];
      const form = Object.fromEntries(parameters);
      if (Object.keys(form).length !== parameters.length) {
        throw new DomainError("bad_request", "A parameter appears more than once.");
      }
      return form;
    },
  );
}
