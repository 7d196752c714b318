import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../run.ts";
import { COMMANDS } from "./commands.ts";

async function script(shell: string): Promise<string> {
  let out = "";
  const code = await run(["completion", shell], COMMANDS, {
    environment: {},
    defaultHome: "/no such home",
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      throw new Error(text);
    },
  });
  expect(code).toBe(0);
  return out;
}

/** What a shell offers for a line. */
function complete(program: string, argv: string[], text: string): string[] {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-completion-"));
  try {
    const file = join(folder, "script");
    writeFileSync(file, text);
    return execFileSync(program, [...argv, file], { encoding: "utf8" })
      .split(/\s+/)
      .filter(Boolean);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function hasShell(name: string): boolean {
  try {
    execFileSync(name, ["-c", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const BASH = (words: string) =>
  `source "$0"; COMP_WORDS=(${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _gatehouse; echo "\${COMPREPLY[@]}"`;

test.runIf(hasShell("bash")).each([
  ["gatehouse ''", ["keys", "users", "sessions", "health", "config", "completion"]],
  ["gatehouse sessions ''", ["list", "issue", "revoke", "revoke-all"]],
  ["gatehouse --json sessions revoke-", ["revoke-all"]],
  ["gatehouse sessions revoke-all --iss", ["--issued-before"]],
  ["gatehouse keys revoke some-kid --rea", ["--reason"]],
  ["gatehouse health --tok", ["--token-service-address", "--token-operations-address"]],
])("bash offers, for %s: %j", async (words, offered) => {
  const found = complete("bash", ["-c", BASH(words)], await script("bash"));
  expect(found).toEqual(offered.length > 3 ? expect.arrayContaining(offered) : offered);
});

test.runIf(hasShell("fish"))("fish offers subcommands and options", async () => {
  const fish = (line: string, text: string) =>
    complete("fish", ["-c", `source $argv[1]; complete -C '${line}' | string replace -r '\\t.*' ''`], text);
  const text = await script("fish");
  expect(fish("gatehouse sessions ", text)).toEqual(["list", "issue", "revoke", "revoke-all"]);
  expect(fish("gatehouse sessions revoke-all --iss", text)).toEqual(["--issued-before"]);
});

test.runIf(hasShell("zsh"))("zsh loads its script without an error", async () => {
  const argv = [
    "-f",
    "-c",
    'autoload -U compinit; compinit -D -u; source "$0" && echo ok $+functions[_gatehouse]',
  ];
  expect(complete("zsh", argv, await script("zsh"))).toEqual(["ok", "1"]);
});

test.each(["bash", "zsh", "fish"])("the script for %s has every command and option", async (shell) => {
  const text = await script(shell);
  for (const { name, options } of COMMANDS) {
    for (const word of name.split(" ")) expect(text).toContain(word);
    for (const option of Object.keys(options)) {
      expect(text).toContain(shell === "fish" ? `-l ${option}` : `--${option}`);
    }
  }
});
