import { flowsOnOneSystem } from "../support/system/one-system.ts";

const GATEWAY = `
ADMIN_ASSURANCE=2:900
SUPPORT_URL=mailto:help@shop.example
PRIVACY_URL=https://shop.example/privacy
TERMS_URL=https://shop.example/terms
`;

// As in production.
flowsOnOneSystem({
  environment: async () => ({ MFA_REQUIRED_ROLES: "ADMIN,SUPPORT", BRAND_NAME: "Müller & Söhne" }),
  files: async () => () => ({ "services/gateway.env": GATEWAY }),
  flows: {
    brand: () => import("./pages/brand.ts"),
    "console assurance": () => import("./pages/console-assurance.ts"),
  },
});
