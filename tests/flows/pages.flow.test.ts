import { freePort } from "../support/system/free-port.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => ({ PORTAL_RETURN_TO: `Shop=http://localhost:${await freePort()}/shop/` }),
  flows: {
    portal: () => import("./pages/portal.ts"),
    approvals: () => import("./pages/approvals.ts"),
    consoleAudit: () => import("./pages/console-audit.ts"),
    consoleSupport: () => import("./pages/console-support.ts"),
    consoleAdmin: () => import("./pages/console-admin.ts"),
    consoleWebhooks: () => import("./pages/console-webhooks.ts"),
    tasks: () => import("./pages/tasks.ts"),
    screenshots: () => import("./pages/screenshots.ts"),
  },
});
