import { flowsOnOneSystem } from "../support/system/one-system.ts";

// As in production.
flowsOnOneSystem({
  environment: async () => ({ MFA_REQUIRED_ROLES: "ADMIN,SUPPORT" }),
  files: async () => () => ({ "services/gateway.env": "ADMIN_ASSURANCE=2:900\n" }),
  flows: { "console assurance": () => import("./pages/console-assurance.ts") },
});
