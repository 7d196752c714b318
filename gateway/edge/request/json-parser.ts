import type { FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import { parseStrictJson } from "#kit/values/strict-json.ts";
import type { GatewayApp } from "./request-state.ts";

const CHARSET = /;\s*charset\s*=\s*"?([^";\s]+)/i;

export function registerJsonParser(app: GatewayApp): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/json",
    { parseAs: "buffer" },
    async (request: FastifyRequest, body: Buffer) => {
      const charset = CHARSET.exec(request.headers["content-type"] ?? "")?.[1];
      if (charset !== undefined && charset.toLowerCase() !== "utf-8") {
        throw new DomainError("unsupported_media_type", "JSON is read in UTF-8 only.");
      }
      return parseStrictJson(body);
    },
  );
}
