import { builtInLanguages, PageLanguages, type Texts } from "#kit/config/page-languages.ts";
import { flowsOnOneSystem } from "../support/system/one-system.ts";

const GATEWAY = `
ADMIN_ASSURANCE=2:900
BRAND_STYLE_FILE=brand.css
BRAND_LOGO_FILE=logo.svg
PAGE_LANGUAGES_DIR=languages
PRIVACY_URL=https://shop.example/privacy
TERMS_URL=https://shop.example/terms
`;

const STYLE = ":root {\n  --paper: light-dark(#fffdf0, #101010);\n  --radius: 2px;\n}\n";

const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 44 22"><style>.s{fill:#7a1f5c}</style><path class="s" d="M0 0h44v22H0z"/></svg>';

/** Every word is longer by the half, in letters that run from right to left. */
function pseudoLanguage(): object {
  const { texts } = new PageLanguages(builtInLanguages()).language("ar");
  const turned = (tree: Texts): Texts =>
    Object.fromEntries(
      Object.entries(tree).map(([key, text]) => [
        key,
        typeof text === "string" ? pseudo(text) : turned(text),
      ]),
    );
  return { name: "بديل", ...turned(texts) };
}

const LETTERS = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي";

function pseudo(text: string): string {
  const turned = (word: string) =>
    [...word, ...word.slice(0, word.length / 2)].map(
      (letter) => LETTERS[letter.charCodeAt(0) % LETTERS.length],
    );
  return text.replaceAll(/\{\{\w+\}\}|[a-z]+/gi, (piece) =>
    piece.startsWith("{") ? piece : turned(piece).join(""),
  );
}

// As in production.
flowsOnOneSystem({
  environment: async () => ({
    MFA_REQUIRED_ROLES: "ADMIN,SUPPORT",
    BRAND_NAME: "Müller & Söhne",
    BRAND_COLOR: "7a1f5c",
    SUPPORT_URL: "mailto:help@shop.example",
  }),
  files: async () => () => ({
    "services/gateway.env": GATEWAY,
    "brand.css": STYLE,
    "logo.svg": LOGO,
    "languages/ar.json": JSON.stringify(pseudoLanguage()),
    "languages/en.json": JSON.stringify({
      name: "English",
      portal: { login: { forgot: "Lost your <i>password</i>?" } },
    }),
  }),
  flows: {
    brand: () => import("./pages/brand.ts"),
    languages: () => import("./pages/languages.ts"),
    "console assurance": () => import("./pages/console-assurance.ts"),
  },
});
