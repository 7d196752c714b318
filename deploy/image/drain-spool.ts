import { drainSpool } from "#audit-client/record/drain-spool.ts";
import { loadConfig } from "#kit/config/config.ts";
import { ProcessCertificate, tlsFilesOf } from "#kit/rpc/rpc-tls.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { drainConfigSchema } from "./drain-config.ts";

const config = loadConfig(drainConfigSchema, process.env);
const { AUDIT_SPOOL_DIRECTORY: directory, AUDIT_SERVICE_ADDRESS: address, DRAIN_TIMEOUT_S } = config;
const logger = createLogger("drain-spool", "info");
const certificate = new ProcessCertificate(tlsFilesOf(config), (error) =>
  logger.error({ err: error }, "certificate files cannot be used; the last good ones stay"),
);
try {
  const { sentEntries, unsentFiles, damagedFiles } = await drainSpool({
    directory,
    address,
    certificate,
    timeoutMs: DRAIN_TIMEOUT_S * 1_000,
    logger,
  });
  console.log(`${directory}: ${sentEntries} audit entries were sent`);
  if (unsentFiles > 0) {
    fail(
      `not empty after ${DRAIN_TIMEOUT_S} s: ${unsentFiles} files hold entries that could not be sent to ${address}`,
    );
  }
  if (damagedFiles > 0) {
    fail(
      `${damagedFiles} files in .damaged/ hold entries that cannot be read; keep the claim for inspection`,
    );
  }
  if (unsentFiles === 0 && damagedFiles === 0) console.log(`${directory}: empty`);
} catch (error) {
  logger.error({ err: error }, "the spool cannot be drained");
  process.exitCode = 1;
} finally {
  certificate.close();
}

function fail(reason: string): void {
  console.error(`${directory}: ${reason}`);
  process.exitCode = 1;
}
