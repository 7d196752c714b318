import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { EXIT } from "../../exit-code.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-languages-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function languages(...argv: string[]) {
  const printed: Record<"out" | "error", string[]> = { out: [], error: [] };
  const code = await run(["languages", ...argv], COMMANDS, {
    environment: {},
    defaultHome: folder,
    writeOut: (line) => void printed.out.push(line),
    writeError: (line) => void printed.error.push(line),
  });
  return { code, out: printed.out.join(""), error: printed.error.join("") };
}

test("a template with every text is a language that is complete, with the plural forms that it needs", async () => {
  const template = await languages("template", "--language", "pl");
  const texts = JSON.parse(template.out);
  expect([texts.name, texts.dir]).toEqual(["polski", "ltr"]);
  expect(Object.keys(texts.ui.errors).filter((key) => key.startsWith("wait_"))).toEqual([
    "wait_one",
    "wait_few",
    "wait_many",
    "wait_other",
  ]);
  writeFileSync(join(folder, "pl.json"), template.out);
  const checked = await languages("check", folder);
  expect([checked.code, checked.out]).toEqual([EXIT.ok, "pl (polski): complete\n"]);
  expect(JSON.parse((await languages("template", "--language", "fr")).out).portal.login.title).toBe(
    "Connexion",
  );
});

test("missing texts are listed, and are no error; a text that the pages do not have is one", async () => {
  const texts = { name: "Italiano", portal: { login: { title: "Accedi" } } };
  writeFileSync(join(folder, "it.json"), JSON.stringify(texts));
  const { code, out } = await languages("check", folder);
  expect(code).toBe(EXIT.ok);
  expect(out).toMatch(/^it \(Italiano\): \d+ missing\n {2}ui\.tools\.language\n/);
  expect(out).toContain("  console.system.title\n");
  expect(out).not.toContain("portal.login.title");

  writeFileSync(
    join(folder, "fr.json"),
    JSON.stringify({ name: "Français", portal: { logn: { title: "X" } } }),
  );
  const refused = await languages("check", folder);
  expect([refused.code, refused.out]).toEqual([EXIT.config, ""]);
  expect(refused.error).toContain(
    "fr.json has the unknown text portal.logn.title: did you mean portal.login.title?",
  );
});

test("without a folder, the built-in languages are checked", async () => {
  const { out } = await languages("check");
  expect(out.split("\n").map((line) => line.split(":")[0])).toEqual(
    expect.arrayContaining(["en (English)", "de (Deutsch)", "es (Español)", "fr (Français)"]),
  );
});

test("a tag that is none is refused", async () => {
  const { code, error } = await languages("template", "--language", "klingon_x");
  expect(code).toBe(EXIT.usage);
  expect(error).toContain("is no BCP 47 tag");
});
