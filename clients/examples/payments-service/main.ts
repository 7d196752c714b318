import { loadConfig, splitAddress } from "#kit/config/config.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { TokenVerifier } from "#token-client/token-verifier.ts";
import { configSchema } from "./config.ts";
import { createPaymentStore } from "./payment-store.ts";
import { buildPaymentsApp } from "./payments-app.ts";

const MAX_PAYMENTS = 10_000;

const config = loadConfig(configSchema, process.env);
const { logger, metrics, lifecycle, certificate } = await startProcess("payments-service", config);

const verifier = new TokenVerifier({
  address: config.TOKEN_SERVICE_ADDRESS,
  certificate,
  logger,
  metrics,
  audience: config.TOKEN_AUDIENCE,
  // Calls come through the gateway, which forwards those alone whose proof it has checked.
  boundTokens: "checked",
});
lifecycle.onStop("token verifier", () => verifier.close());
lifecycle.addReadinessCheck("token-service", () => verifier.assertReady());

const store = createPaymentStore(MAX_PAYMENTS);
const app = await buildPaymentsApp({
  verifier,
  store,
  logger,
  now: () => new Date(),
  isDraining: () => lifecycle.isDraining,
});
await app.listen(splitAddress(config.LISTEN_ADDRESS));
lifecycle.onStop("HTTP server", () => app.close());
lifecycle.ready();
