import { newBreachList } from "../support/people/breach-list.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

flowsOnOneSystem({
  environment: async () => ({ BREACH_LIST_FILE: await newBreachList() }),
  flows: {
    "main path": () => import("./accounts/main-path.ts"),
    "account ownership": () => import("./accounts/account-ownership.ts"),
    mfa: () => import("./accounts/mfa.ts"),
    openapi: () => import("./accounts/openapi.ts"),
    "password change": () => import("./accounts/password-change.ts"),
    logout: () => import("./accounts/logout.ts"),
    "tokens of a key": () => import("./accounts/tokens-of-a-key.ts"),
    "mail links": () => import("./accounts/mail-links.ts"),
    "user import": () => import("./accounts/user-import.ts"),
    "throttling and administration": () => import("./accounts/throttling-and-admin.ts"),
    "who may call": () => import("./accounts/who-may-call.ts"),
    // It stops the system.
    "breach list": () => import("./accounts/breach-list.ts"),
  },
});
