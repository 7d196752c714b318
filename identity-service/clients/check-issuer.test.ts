import { expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createIssuerCheck } from "./check-issuer.ts";

test.each([
  ["https://auth.example.com", 1],
  ["https://www.example.com", 0],
  [undefined, 0], // a version that does not say
])("with the issuer %s and the origin https://www.example.com, errors: %i", async (issuer, errors) => {
  const lines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void lines.push(line) });
  const settings = { askIssuer: async () => issuer, tokenIssuer: "https://www.example.com" };
  await createIssuerCheck(settings, logger)();
  expect(lines).toHaveLength(errors);
  const logged = { level: "error", PUBLIC_ORIGIN: "https://www.example.com", TOKEN_ISSUER: issuer };
  for (const line of lines) expect(JSON.parse(line)).toMatchObject(logged);
});
