import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { brandConfig } from "#kit/config/brand-config.ts";
import { ConfigError } from "#kit/config/config.ts";
import { contrast } from "#kit/values/contrast.ts";
import { COLORS, colorsOf, contrastProblems, declarationsOf, parseBrandStyle } from "./brand-style.ts";

const accentSchema = brandConfig.BRAND_COLOR.unwrap();

test("the colours are those of the pages' own style sheet, and each can be read", () => {
  const css = readFileSync(resolve(import.meta.dirname, "..", "..", "web", "ui", "style.css"), "utf8");
  const written = [...css.matchAll(/^ {2}--([a-z-]+): light-dark\((#\w{6}), (#\w{6})\);$/gm)];
  expect(Object.fromEntries(written.map(([, name, light, dark]) => [name, [light, dark]]))).toEqual(COLORS);
  expect(contrastProblems({})).toEqual([]);
});

test.each([
  ["#000000", "#ffffff", 21],
  ["#777777", "#ffffff", 4.48],
  ["#ff0000", "#00ff00", 2.91],
])("%s and %s have a contrast of %d", (one, other, ratio) => {
  expect(contrast(one, other)).toBeCloseTo(ratio, 2);
  expect(contrast(other, one)).toBeCloseTo(ratio, 2);
});

test("every colour is refused, or can be read on every page in both schemes", () => {
  const steps = ["00", "33", "66", "99", "cc", "ff"];
  const all = steps.flatMap((red) => steps.flatMap((green) => steps.map((blue) => `#${red}${green}${blue}`)));
  const accepted = all.flatMap((color) => accentSchema.safeParse(color).data ?? []);
  expect(accepted.length).toBeGreaterThan(50);
  expect(accepted.length).toBeLessThan(150);
  expect(accepted.flatMap((accent) => contrastProblems(colorsOf(accent, undefined)))).toEqual([]);
});

test.each([
  [
    "#ffcc00",
    "#ffcc00 has a contrast of 1.5 on light pages, where text needs 4.5 (WCAG 2.2 AA): take a darker one",
  ],
  [
    "#0b6655,#0b6655",
    "#0b6655 has a contrast of 2.3 on dark pages, where text needs 4.5 (WCAG 2.2 AA): take a lighter one",
  ],
  ["green", "must be rrggbb, or rrggbb,rrggbb for light and dark pages"],
  ["#0b6655,#5cc5ab,#000000", "must be rrggbb, or rrggbb,rrggbb for light and dark pages"],
  ["#0b6655;}", "must be rrggbb, or rrggbb,rrggbb for light and dark pages"],
])("the colour %s is refused, and why is said", (text, message) => {
  expect(accentSchema.safeParse(text).error?.issues.map((issue) => issue.message)).toEqual([message]);
});

test("a style sheet of custom properties is read, and is stronger than the colour", () => {
  const style = parseBrandStyle(
    '/* Ours,\n of today */\n:root {\n  --paper: light-dark(#FFFFFF, #101010); /* plain */\n  --tint: #eeeeee;\n  --font: "Open Sans", sans-serif;\r\n  --radius: 2px;\n}\n',
  );
  const colors = colorsOf(accentSchema.parse("7a1f5c,#F0A0D0"), style);
  expect(declarationsOf(colors, style.others)).toMatch(
    /^--accent:light-dark\(#7a1f5c,#f0a0d0\);.*;--tint:light-dark\(#eeeeee,#eeeeee\);--paper:light-dark\(#ffffff,#101010\);--font:"Open Sans", sans-serif;--radius:2px$/,
  );
  expect(contrastProblems(colors)).toEqual([
    "--ink #eceae5 has a contrast of 1.0 on --tint #eeeeee of dark pages, 4.5 is the least (WCAG 2.2 AA)",
    "--accent #f0a0d0 has a contrast of 1.7 on --tint #eeeeee of dark pages, 4.5 is the least (WCAG 2.2 AA)",
  ]);
});

test.each([
  [":root {\n  --paper: url(https://evil.example/x);\n}", "line 2 is no colour: --paper is #rrggbb or"],
  [":root {\n  --paper: #ffffff; } body { display: none;\n}", "line 2 is none of"],
  [":root {\n  --font: x; } body { display: none;\n}", "line 2 is none of"],
  [':root {\n  --font: "a;\n}', "line 2 is no value of --font"],
  [":root {\n  --font: url(x);\n}", "line 2 is no value of --font"],
  [":root {\n  --radius: 99999px;\n}", "line 2 is no value of --radius"],
  [":root {\n  --constructor: #ffffff;\n}", "line 2 is no property of the pages: these are paper,"],
  ['@import "x.css";', "line 1 is none of"],
  ["body {\n}", "line 1 is none of"],
  ["--paper: #ffffff;", "line 1 is none of"],
  ["/* one\n two */\n\n:root {\n:root {\n}", "line 5 is none of"],
  [":root {\n  color: red;\n}", "line 2 is none of"],
  [":root {\n  --pa/**/per: #fff;\n}", "line 2 is no colour"],
  [":root {", "ends before the }"],
  [":root {\n}\n/* x", "has a comment without an end"],
  ["x".repeat(65_537), "has more than 65536 characters"],
])("%j is refused, and the line is named", (text, message) => {
  expect(() => parseBrandStyle(text)).toThrow(ConfigError);
  expect(() => parseBrandStyle(text)).toThrow(message);
});
