import { freePort } from "../support/system/free-port.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => ({
    MFA_REQUIRED_ROLES: "ADMIN,AUDITOR",
    TRUSTED_DEVICE_DAYS: "30",
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
  }),
  flows: {
    "mfa by role": () => import("./factors/mfa-by-role.ts"),
    passkeys: () => import("./factors/passkeys.ts"),
    "passkey ceremonies": () => import("./factors/passkey-ceremonies.ts"),
    tracing: () => import("./factors/tracing.ts"),
    // It changes the log behind its back.
    "audit verify": () => import("./factors/audit-verify.ts"),
  },
});
