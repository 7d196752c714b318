import { flowsOnOneSystem } from "../support/system/one-system.ts";

const GATEWAY = `
ADMIN_ASSURANCE=2:900
BRAND_STYLE_FILE=brand.css
PRIVACY_URL=https://shop.example/privacy
TERMS_URL=https://shop.example/terms
`;

const STYLE = ":root {\n  --paper: light-dark(#fffdf0, #101010);\n  --radius: 2px;\n}\n";

// As in production.
flowsOnOneSystem({
  environment: async () => ({
    MFA_REQUIRED_ROLES: "ADMIN,SUPPORT",
    BRAND_NAME: "Müller & Söhne",
    BRAND_COLOR: "7a1f5c",
    SUPPORT_URL: "mailto:help@shop.example",
  }),
  files: async () => () => ({ "services/gateway.env": GATEWAY, "brand.css": STYLE }),
  flows: {
    brand: () => import("./pages/brand.ts"),
    "console assurance": () => import("./pages/console-assurance.ts"),
  },
});
