import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { SERVICES } from "#cli/backend-settings.ts";
import { COMMANDS } from "#cli/commands/commands.ts";
import { EXIT } from "#cli/exit-code.ts";
import { OPERATIONS } from "#cli/operations-addresses.ts";
import { parseCommandLine } from "#cli/parse-command-line.ts";
import { UsageError } from "#cli/usage-error.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const page = readFileSync(join(ROOT, "docs", "cli.md"), "utf8");

test("docs/cli.md names every command, exit code and address, and no command that there is not", () => {
  for (const { name } of COMMANDS) expect(page).toContain(`\`${name}`);
  for (const code of Object.values(EXIT)) expect(page).toMatch(new RegExp(`^\\| ${code} +\\|`, "m"));
  for (const { address } of [...Object.values(SERVICES), ...Object.values(OPERATIONS)]) {
    expect(page).toContain(`\`${address}\``);
  }
});

/** In a code block, or in text between backticks, where a command may be named without its arguments. */
const IN_BLOCK =
  /^ *(?:[A-Z]+=\$\()?(?:npm exec (?:--silent )?(?:-- )?)?gatehouse (?=[a-z])((?:[^\n\\]|\\[\s\S])*)/gm;
const IN_TEXT = /`(?:npm exec (?:-- )?)?gatehouse (?:-- )?(?=[a-z])([^`]*)`/g;

interface Typed {
  words: string[];
  isWhole: boolean;
}

/** What a shell would pass: without comments, pipes and redirections. `…` stands for arguments that are left out. */
function typed(text: string): Typed {
  const joined = text
    .replaceAll("\\\n", " ")
    .replaceAll(/<[^<>]+>/g, "placeholder")
    .replaceAll(/"[^"]*"/g, "quoted");
  const [command = ""] = joined.split(/ #|[|>;&)]|\\$/);
  const words = command.split(/\s+/).filter((word) => word !== "");
  const isLeftOut = (word: string, index: number) => word === "…" && !words[index - 1]?.startsWith("--");
  return { words: words.filter((word, index) => !isLeftOut(word, index)), isWhole: !words.some(isLeftOut) };
}

function commandsOf(document: string): Typed[] {
  const blocks = [...document.matchAll(/^ *```[^\n]*\n([\s\S]*?)^ *```/gm)].map(([, block = ""]) => block);
  const text = document.replaceAll(/^ *```[^\n]*\n[\s\S]*?^ *```/gm, "");
  return [
    ...blocks.flatMap((block) => [...block.matchAll(IN_BLOCK)]).map(([, line = ""]) => typed(line)),
    ...[...text.matchAll(IN_TEXT)].map(([, span = ""]) => ({ ...typed(span), isWhole: false })),
  ];
}

function problemOf({ words, isWhole }: Typed): string | undefined {
  try {
    parseCommandLine(words, COMMANDS);
    return undefined;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const isGroup = COMMANDS.some(({ name }) => words.length === 1 && name.startsWith(`${words[0]} `));
    const isShortened =
      error.message.startsWith("Missing: ") || isGroup || error.message.includes("argument missing");
    return !isWhole && isShortened ? undefined : error.message;
  }
}

const documents = execFileSync("git", ["ls-files", "*.md", "*.yaml"], { cwd: ROOT, encoding: "utf8" })
  .trim()
  .split("\n")
  .map((file) => ({ file, text: readFileSync(join(ROOT, file), "utf8") }));

test("of a checkpoint that a document keeps it keeps the last line: audit verify refuses the others", () => {
  const kept = documents.flatMap(({ text }) => text.match(/gatehouse audit checkpoint[^`\n]*>>/g) ?? []);
  expect(kept.length).toBeGreaterThan(1);
  expect(kept.filter((command) => !command.endsWith("| tail -n 1 >>"))).toEqual([]);
});

test("the command line parses every command that a document, a manifest or an alert names", () => {
  const found = documents.flatMap(({ file, text }) =>
    commandsOf(text).map((command) => ({ file, ...command })),
  );
  expect(found.length).toBeGreaterThan(130);
  const wrong = found.flatMap(({ file, ...command }) => {
    const problem = problemOf(command);
    return problem === undefined ? [] : [`${file}: gatehouse ${command.words.join(" ")}: ${problem}`];
  });
  expect(wrong).toEqual([]);
});

test.each([
  ["`gatehouse sessions revoke --all`", "Unknown option: --all"],
  ["`gatehouse sessions end`", "Unknown or incomplete command"],
  ["`npm exec gatehouse -- docter`", "Unknown command"],
  ["```sh\ngatehouse keys revoke\n```", "Missing: <kid>"],
  ["```sh\ngatehouse users import a.json --from keycloak \\\n  --nothing\n```", "Unknown option: --nothing"],
])("a document that says %j is refused", (document, problem) => {
  expect(commandsOf(document).map(problemOf)).toEqual([expect.stringContaining(problem)]);
});
