import { z } from "zod";
import { COLOR, contrast, mixed, TEXT_CONTRAST } from "../values/contrast.ts";

/** Also for headers of mails and for authenticator apps, which end an issuer at a colon. */
export const brandNameSchema = z
  .string()
  .regex(
    /^[\p{L}\p{N}][\p{L}\p{N} &.,'’!+_-]{0,63}$/u,
    "must be 1 to 64 letters, digits, spaces and &.,'’!+_-, a letter or digit first",
  );

const MAX_URL_CHARACTERS = 500;

/** Escaped as a browser would. */
export const linkSchema = (protocol: RegExp) => z.url({ protocol, normalize: true }).max(MAX_URL_CHARACTERS);

/** `#rrggbb` on light pages and on dark ones. */
export type ColorPair = readonly [light: string, dark: string];

/** Of links and buttons. */
export interface Accent {
  accent: ColorPair;
  /** The accent under the pointer. */
  "accent-deep": ColorPair;
  /** Text on both. */
  "on-accent": ColorPair;
  /** Behind what is marked, with text of the accent. */
  tint: ColorPair;
}

const [WHITE, BLACK] = ["#ffffff", "#000000"];
const DARK_SURFACE = "#1d1f1c";
const TINT = 0.08;
const STEPS = 20;

const tintsOf = ([light, dark]: ColorPair): ColorPair => [
  mixed(light, WHITE, TINT),
  mixed(dark, DARK_SURFACE, TINT),
];

/** With the nearest colour for dark pages that can be read on them. */
function lightened(color: string): string {
  const steps = Array.from({ length: STEPS + 1 }, (_, step) => mixed(WHITE, color, step / STEPS));
  const isReadable = (dark: string) => contrast(dark, tintsOf([dark, dark])[1]) >= TEXT_CONTRAST;
  return steps.find(isReadable) ?? WHITE;
}

const textOn = (color: string) => (contrast(WHITE, color) >= TEXT_CONTRAST ? WHITE : BLACK);

function accentOf([light, dark]: ColorPair): Accent {
  return {
    accent: [light, dark],
    "accent-deep": [mixed(light, BLACK, 0.75), mixed(dark, WHITE, 0.75)],
    "on-accent": [textOn(light), textOn(dark)],
    tint: tintsOf([light, dark]),
  };
}

/** `0b6655`, or with another colour for dark pages `0b6655,5cc5ab`. A `#` may begin each; in a file of settings it would begin a comment. */
const accentSchema = z.string().transform((text, context): Accent => {
  const [light = "", dark = lightened(light), ...rest] = text
    .toLowerCase()
    .split(",")
    .map((color) => color.replace(/^#?/, "#"));
  if (![light, dark].every((color) => COLOR.test(color)) || rest.length > 0) {
    context.addIssue({
      code: "custom",
      message: "must be rrggbb, or rrggbb,rrggbb for light and dark pages",
    });
    return z.NEVER;
  }
  const accent = accentOf([light, dark]);
  for (const [index, where] of ["light", "dark"].entries()) {
    const color = accent.accent[index] ?? light;
    const ratio = contrast(color, accent.tint[index] ?? WHITE);
    if (ratio >= TEXT_CONTRAST) continue;
    const change = index === 0 ? "darker" : "lighter";
    const message = `${color} has a contrast of ${ratio.toFixed(1)} on ${where} pages, where text needs ${TEXT_CONTRAST} (WCAG 2.2 AA): take a ${change} one`;
    context.addIssue({ code: "custom", message });
  }
  return accent;
});

/** What people see of the operator. The same in every service that has it. */
export const brandConfig = {
  BRAND_NAME: brandNameSchema.default("Gatehouse"),
  BRAND_COLOR: accentSchema.optional(),
  SUPPORT_URL: linkSchema(/^(?:https?|mailto)$/).optional(),
};
