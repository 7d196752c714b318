import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => ({ LOG_LEVEL: "debug" }),
  flows: {
    oauth: () => import("./calls/oauth.ts"),
    approvals: () => import("./calls/approvals.ts"),
    clients: () => import("./calls/clients.ts"),
    "a wrong clock": () => import("./calls/wrong-clock.ts"),
    signals: () => import("./calls/signals.ts"),
    streaming: () => import("./calls/streaming.ts"),
    // It does everything that an administrator can, and it looks for secrets in all that the others left.
    canary: () => import("./calls/canary.ts"),
  },
});
