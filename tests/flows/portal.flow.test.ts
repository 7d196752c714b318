import { ALARM } from "../support/browser/portal.ts";
import { homeWithEvilProvider } from "../support/people/hostile-provider.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => ({ TRUSTED_DEVICE_DAYS: "30", MFA_REQUIRED_ROLES: "AUDITOR" }),
  files: () => homeWithEvilProvider(`Evil <img src=x onerror=${ALARM}(8)>`),
  flows: {
    journey: () => import("./pages/journey.ts"),
    security: () => import("./pages/security.ts"),
    keyboard: () => import("./pages/keyboard.ts"),
    "keyboard everywhere": () => import("./pages/keyboard-pages.ts"),
    "hostile texts": () => import("./pages/hostile-texts.ts"),
    "hostile texts in lists": () => import("./pages/hostile-texts-in-lists.ts"),
    logins: () => import("./pages/logins.ts"),
    "one person": () => import("./pages/one-person.ts"),
  },
});
