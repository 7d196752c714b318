import type { Accent, ColorPair } from "#kit/config/brand-config.ts";
import { ConfigError } from "#kit/config/config.ts";
import { contrast, EDGE_CONTRAST, TEXT_CONTRAST } from "#kit/values/contrast.ts";

/** As in `web/ui/style.css`. */
export const COLORS = {
  paper: ["#faf9f7", "#151614"],
  surface: ["#ffffff", "#1d1f1c"],
  ink: ["#1c1b19", "#eceae5"],
  muted: ["#5f5b55", "#a9a69d"],
  line: ["#e4e0d9", "#31332f"],
  edge: ["#87827a", "#7d8077"],
  accent: ["#0b6655", "#5cc5ab"],
  "accent-deep": ["#084e41", "#7ed6bf"],
  "on-accent": ["#ffffff", "#08231d"],
  tint: ["#e9f3f0", "#1c2e29"],
  danger: ["#a8261c", "#f2938a"],
  "danger-deep": ["#861c14", "#f6aca5"],
  "danger-tint": ["#fbeeec", "#331e1b"],
  "on-danger": ["#ffffff", "#2d0906"],
} as const satisfies Record<string, ColorPair>;

type ColorName = keyof typeof COLORS;
type Colors = Readonly<Partial<Record<ColorName, ColorPair>>>;

/** What stands on what. */
const GROUNDS: readonly [ColorName, readonly ColorName[], number][] = [
  ["ink", ["paper", "surface", "tint", "danger-tint"], TEXT_CONTRAST],
  ["muted", ["paper", "surface"], TEXT_CONTRAST],
  ["accent", ["paper", "surface", "tint"], TEXT_CONTRAST],
  ["accent-deep", ["paper", "surface"], TEXT_CONTRAST],
  ["on-accent", ["accent", "accent-deep"], TEXT_CONTRAST],
  ["danger", ["paper", "surface", "danger-tint"], TEXT_CONTRAST],
  ["on-danger", ["danger", "danger-deep"], TEXT_CONTRAST],
  ["edge", ["paper", "surface"], EDGE_CONTRAST],
];

/** Of an operator's style sheet. */
export interface BrandStyle {
  colors: Colors;
  /** Ready to be written: the fonts and the radius. */
  others: readonly string[];
}

const MAX_CHARACTERS = 65_536;
const COLOR_VALUE = /^(?:(#[0-9a-f]{6})|light-dark\((#[0-9a-f]{6}), ?(#[0-9a-f]{6})\))$/i;
const OTHERS: Readonly<Record<string, (value: string) => boolean>> = {
  font: isFontList,
  mono: isFontList,
  radius: (value) => /^(?:0|\d{1,2}(?:\.\d{1,2})?(?:px|rem))$/.test(value),
};

function isFontList(value: string): boolean {
  return value.split(",").every((font) => /^(?:"[\w -]{1,60}"|[\w-]{1,60})$/.test(font.trim()));
}

/** A subset of CSS, one declaration a line, so that nothing is served that was not understood. @throws {ConfigError} */
export function parseBrandStyle(text: string): BrandStyle {
  if (text.length > MAX_CHARACTERS) throw new ConfigError(`has more than ${MAX_CHARACTERS} characters`);
  const colors: Partial<Record<ColorName, ColorPair>> = {};
  const others: string[] = [];
  let isOpen = false;
  for (const [index, written] of withoutComments(text).split("\n").entries()) {
    const line = written.trim();
    const [, name = "", value = ""] = /^--([a-z-]{1,20}):([^;]{1,300});$/.exec(line) ?? [];
    const found = isOpen ? declared(name, value.trim()) : undefined;
    if (line === "") continue;
    if (line === ":root {" && !isOpen) isOpen = true;
    else if (line === "}" && isOpen) isOpen = false;
    else if (typeof found === "string") others.push(found);
    else if (found !== undefined) colors[name as ColorName] = found;
    else throw new ConfigError(`line ${index + 1} is ${lineProblem(name, isOpen)}`);
  }
  if (isOpen) throw new ConfigError("ends before the } of :root");
  return { colors, others };
}

/** Undefined: it is none that the pages have. */
function declared(name: string, value: string): ColorPair | string | undefined {
  if (Object.hasOwn(OTHERS, name)) return OTHERS[name]?.(value) ? `--${name}:${value}` : undefined;
  const [, both, light = both, dark = both] = COLOR_VALUE.exec(value) ?? [];
  if (!Object.hasOwn(COLORS, name) || light === undefined || dark === undefined) return undefined;
  return [light.toLowerCase(), dark.toLowerCase()];
}

function lineProblem(name: string, isOpen: boolean): string {
  if (name === "" || !isOpen) return "none of `:root {`, `--name: value;` and `}`";
  if (Object.hasOwn(COLORS, name)) return `no colour: --${name} is #rrggbb or light-dark(#rrggbb, #rrggbb)`;
  if (Object.hasOwn(OTHERS, name)) return `no value of --${name}`;
  return `no property of the pages: these are ${[...Object.keys(COLORS), ...Object.keys(OTHERS)].join(", ")}`;
}

/** Lines stay lines. */
function withoutComments(text: string): string {
  const [start = "", ...rest] = text.split("/*");
  const after = rest.map((part) => {
    const end = part.indexOf("*/");
    if (end < 0) throw new ConfigError("has a comment without an end");
    return part.slice(0, end).replace(/[^\n]/g, "") + part.slice(end + 2);
  });
  return start + after.join("");
}

/** Each colour of text that cannot be read on what is behind it. */
export function contrastProblems(changed: Colors): string[] {
  const colors: Readonly<Record<ColorName, ColorPair>> = { ...COLORS, ...changed };
  return GROUNDS.flatMap(([name, grounds, least]) =>
    grounds.flatMap((ground) =>
      (["light", "dark"] as const).flatMap((where, index) => {
        const [one = "", other = ""] = [colors[name][index], colors[ground][index]];
        const ratio = contrast(one, other);
        if (ratio >= least) return [];
        return [
          `--${name} ${one} has a contrast of ${ratio.toFixed(1)} on --${ground} ${other} of ${where} pages, ${least} is the least (WCAG 2.2 AA)`,
        ];
      }),
    ),
  );
}

/** Declarations of custom properties; empty if nothing is changed. */
export function declarationsOf(colors: Colors, others: readonly string[] = []): string {
  const declarations = Object.entries(colors).map(
    ([name, [light, dark]]) => `--${name}:light-dark(${light},${dark})`,
  );
  return [...declarations, ...others].join(";");
}

/** Of what the operator has set. What the file says is stronger. */
export function colorsOf(accent: Accent | undefined, style: BrandStyle | undefined): Colors {
  return { ...accent, ...style?.colors };
}
