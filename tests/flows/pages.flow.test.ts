import { flowsOnOneSystem } from "../support/one-system.ts";

flowsOnOneSystem({
  flows: {
    portal: () => import("./pages/portal.ts"),
    screenshots: () => import("./pages/screenshots.ts"),
  },
});
