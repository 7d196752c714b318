import { freePort } from "../support/system/free-port.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => {
    const port = await freePort();
    // Of the same site as `localhost`, and of another one.
    return { ALLOWED_ORIGINS: `http://localhost:${port},http://127.0.0.1:${port}` };
  },
  flows: {
    sessions: () => import("./browser/sessions.ts"),
    "sessions in Chromium": () => import("./browser/sessions-in-chromium.ts"),
    "client library": () => import("./browser/client-library.ts"),
    "client library where something fails": () => import("./browser/client-library-faults.ts"),
  },
});
