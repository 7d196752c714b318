import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { z } from "zod";
import { configSchema as auditConfig } from "#audit-service/config.ts";
import { configSchema as paymentsConfig } from "#clients/examples/payments-service/config.ts";
import { schemaConfigSchema } from "#deploy/image/schema-config.ts";
import { configSchema as eventConfig } from "#event-service/config.ts";
import { configSchema as gatewayConfig } from "#gateway/config.ts";
import { configSchema as identityConfig } from "#identity-service/config.ts";
import { configSchema as tokenConfig } from "#token-service/config.ts";

const SCHEMAS: Record<string, z.ZodObject> = {
  gateway: gatewayConfig,
  "identity-service": identityConfig,
  "token-service": tokenConfig,
  "audit-service": auditConfig,
  "event-service": eventConfig,
  "payments-service": paymentsConfig,
  migrate: schemaConfigSchema,
};

/** Files without a secret in them: certificates, what is written, what names secrets or has only their hashes. */
const PUBLIC = [
  "TLS_CERT_FILE",
  "TLS_CA_FILE",
  "DATABASE_CA_FILE",
  "REDIS_CA_FILE",
  "SMTP_CA_FILE",
  "SIEM_CA_FILE",
  "SIEM_SYSLOG_CERT_FILE",
  "ACCESS_FILE",
  "REFUSED_PEOPLE_FILE",
  "PARTS_FILE",
  "LOGS_FILE",
  "ROUTES_FILE",
  "INTROSPECTION_CLIENTS_FILE",
  "OAUTH_PROVIDERS_FILE",
  "CHECKPOINT_FILE",
  "BRAND_STYLE_FILE",
  "BRAND_LOGO_FILE",
  "BREACH_LIST_FILE",
];

const folder = mkdtempSync(join(tmpdir(), "gatehouse-open-"));
const open = join(folder, "open");
writeFileSync(open, "a secret that everybody can read");
chmodSync(open, 0o644);
afterAll(() => rmSync(folder, { recursive: true }));

test.each(Object.entries(SCHEMAS))("%s refuses every secret file that others may read", (_, schema) => {
  const files = Object.keys(schema.shape).filter((name) => name.endsWith("_FILE") && !PUBLIC.includes(name));
  expect(files).not.toEqual([]);
  const refused = files.filter((name) => {
    const { error } = z.safeParse(schema.shape[name] as z.ZodType, open);
    return error?.issues.some(({ message }) => message.startsWith("the file is open to other users"));
  });
  expect(refused).toEqual(files);
});
