import type { FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import type { GatewayApp } from "./request-state.ts";

const FORM = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;

/** Repeated parameters are refused (RFC 6749 §3.2). */
export function registerFormParser(app: GatewayApp): void {
  app.removeAllContentTypeParsers();
  addFormParser(app);
}

export function isForm(request: FastifyRequest): boolean {
  return FORM.test(request.headers["content-type"] ?? "");
}

export function addFormParser(app: GatewayApp): void {
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
