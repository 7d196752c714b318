import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { SERVICES } from "../../cli/backend-settings.ts";
import { COMMANDS } from "../../cli/commands/commands.ts";
import { EXIT } from "../../cli/exit-code.ts";
import { OPERATIONS } from "../../cli/operations-addresses.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const page = readFileSync(join(ROOT, "docs", "cli.md"), "utf8");

test("docs/cli.md names every command, exit code and address, and no command that there is not", () => {
  for (const { name } of COMMANDS) expect(page).toContain(`\`${name}`);
  for (const code of Object.values(EXIT)) expect(page).toMatch(new RegExp(`^\\| ${code} +\\|`, "m"));
  for (const { address } of [...Object.values(SERVICES), ...Object.values(OPERATIONS)]) {
    expect(page).toContain(`\`${address}\``);
  }
});

test("what runbooks and papers of operations tell an operator to type exists, options included", () => {
  const folder = join(ROOT, "docs", "operations");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".md"),
  );
  const wrong = files.flatMap((name) =>
    [...readFileSync(join(folder, name), "utf8").matchAll(/\bgatehouse ((?:[a-z-]+)(?: [a-z-]+)?)([^`\n]*)/g)]
      .filter(([whole]) =>
        /^gatehouse (?:keys|users|sessions|audit|health|config|completion|breach-list)\b/.test(whole),
      )
      .flatMap(([whole, words = "", rest = ""]) => {
        const command = COMMANDS.find(({ name }) => name === words || name === words.split(" ")[0]);
        if (command === undefined) return [`${name}: ${whole}`];
        const known = [...Object.keys(command.options), "json", "token-operations-address"];
        const options = [...rest.matchAll(/--([a-z-]+)/g)].map(([, option = ""]) => option);
        return options
          .filter((option) => !known.includes(option))
          .map((option) => `${name}: ${whole} (--${option})`);
      }),
  );
  expect(wrong).toEqual([]);
});
