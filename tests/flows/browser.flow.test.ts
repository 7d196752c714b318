import { freePort } from "../support/system/free-port.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => {
    const port = await freePort();
    // Of the same site as `localhost`, and of another one.
    return { ALLOWED_ORIGINS: `http://localhost:${port},http://127.0.0.1:${port}` };
  },
  files: async () => () => ({ "services/gateway.env": "DEVICE_BOUND_SESSIONS=true\n" }),
  flows: {
    sessions: () => import("./browser/sessions.ts"),
    "sessions in Chromium": () => import("./browser/sessions-in-chromium.ts"),
    "device-bound sessions": () => import("./browser/device-bound-sessions.ts"),
    "client library": () => import("./browser/client-library.ts"),
    "client library where something fails": () => import("./browser/client-library-faults.ts"),
  },
});
