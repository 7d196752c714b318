import { expect, test } from "vitest";
import { COMMANDS } from "./commands/commands.ts";
import { GLOBAL_OPTIONS } from "./global-options.ts";
import { helpText } from "./help-text.ts";
import { parseCommandLine } from "./parse-command-line.ts";

const parse = (text: string) => parseCommandLine(text.split(" ").filter(Boolean), COMMANDS);

test.each([
  "keys revoke abc --reason leaked --json --home h",
  "--json --home h keys revoke --reason=leaked abc",
  "--reason leaked keys --json revoke --home=h abc",
  "--home h --json --reason leaked keys revoke -- abc",
])("options may have any position: %s", (text) => {
  const request = parse(text);
  if (request.kind !== "run") throw new Error("not run");
  expect(request.command.name).toBe("keys revoke");
  expect(request.input).toEqual({
    positionals: ["abc"],
    flags: new Set(["json"]),
    values: new Map([
      ["reason", "leaked"],
      ["home", "h"],
    ]),
    lists: new Map(),
  });
});

test("repeatable options and optional arguments are accepted", () => {
  const request = parse("audit verify --key k --checkpoints a --checkpoints b --live");
  expect(request).toMatchObject({
    input: { positionals: [], lists: new Map([["checkpoints", ["a", "b"]]]), flags: new Set(["live"]) },
  });
});

test("an address names a user only where the command says so", () => {
  expect(parse("sessions issue ada@example.com")).toMatchObject({
    input: { positionals: ["ada@example.com"] },
  });
  expect(() => parse("sessions list ada@example.com")).toThrow("ada@example.com is no id of a user");
});

test("a key id that begins with a dash is accepted after two dashes", () => {
  const request = parse("keys revoke --reason leaked -- -abc");
  expect(request).toMatchObject({ kind: "run", input: { positionals: ["-abc"] } });
});

test.each([
  ["", "A command is missing"],
  ["--json", "A command is missing"],
  ["nonsense", "Unknown command: nonsense"],
  ["keys", "\nKnown: keys list, keys rotate, keys revoke"],
  ["keys nonsense", "\nKnown: keys list, keys rotate, keys revoke"],
  ["keys rotat now", "Did you mean gatehouse keys rotate?"],
  ["list key", "Did you mean gatehouse keys list?"],
  ["keys list --force", "Unknown option: --force\nTry:"],
  ["keys list -x", "Unknown option: -x\nTry:"],
  ["keys revoke abc --reson leaked", "Unknown option: --reson\nDid you mean --reason?\nTry:"],
  ["keys list extra", "Too many arguments: extra"],
  ["keys rotate --force=yes", "'--force' does not take an argument"],
  ["keys list --jsn --help-", "Unknown option: --jsn\nDid you mean --json?"],
  ["keys revoke", "Missing: <kid> --reason"],
  ["keys revoke abc", "Missing: --reason"],
  ["keys revoke --reason leaked", "Missing: <kid>"],
  ["keys revoke abc --reason", "--reason"],
  ["keys revoke abc --reason=", "Empty: --reason"],
  ["keys revoke abc --reason --json", "--reason"],
  ["keys list --home=", "Empty: --home"],
  ["nonsense --help", "Unknown command: nonsense"],
  ["help nonsense", "Unknown command: nonsense"],
  ["options", "Unknown command: options"],
  ["users set-role ada@example.com ADMIN", "Try: gatehouse users list --query ada@example.com"],
  ["clients create Shop --permission p --owner ada@example.com", "ada@example.com is no id of a user"],
  ["users disable --from a --reason left --from=b", "--from is given twice"],
  ["audit verify --key k one two", "Too many arguments: two"],
  ["audit verify file --key k --checkpoints a --checkpoints=", "Empty: --checkpoints"],
])("%j is refused: %s", (text, message) => {
  expect(() => parse(text)).toThrow(
    expect.objectContaining({ exitCode: 64, message: expect.stringContaining(message) }),
  );
});

test.each([
  ["--help", COMMANDS.map(({ name }) => name)],
  ["keys --help", ["keys list", "keys rotate", "keys revoke"]],
  ["--help keys", ["keys list", "keys rotate", "keys revoke"]],
  ["keys revoke --help", ["keys revoke"]],
  ["help", COMMANDS.map(({ name }) => name)],
  ["help keys", ["keys list", "keys rotate", "keys revoke"]],
  ["--json help keys revoke", ["keys revoke"]],
])("%j shows the help of %j, even if arguments are missing", (text, names) => {
  const request = parse(text);
  expect(request).toEqual({
    kind: "help",
    about: names.map((name) => expect.objectContaining({ name })),
  });
});

test("the first help is a line for each command, whose own help names every argument and option", () => {
  const rows = helpText(COMMANDS).split("\n");
  expect(rows.length).toBeLessThan(COMMANDS.length + 10);
  for (const command of COMMANDS) {
    expect(rows).toContainEqual(expect.stringMatching(new RegExp(`^ {2}${command.name} {2,}[A-Z].{9}`)));
    const one = helpText([command]);
    expect(one.replaceAll(/\s+/g, " ")).toContain(command.summary);
    for (const positional of command.positionals) expect(one).toContain(`<${positional}>`);
    for (const option of [...Object.keys(command.options), "json", "home"]) {
      expect(one).toContain(`--${option}`);
    }
  }
});

test("the options of every command are a help of their own, which the others name", () => {
  expect(parse("help options")).toEqual({ kind: "help", about: "options" });
  expect(parse("options --help")).toEqual({ kind: "help", about: "options" });
  for (const option of Object.keys(GLOBAL_OPTIONS)) expect(helpText("options")).toContain(`--${option}`);
  for (const text of [helpText(COMMANDS), helpText(COMMANDS.slice(0, 1))]) {
    expect(text).toMatch(/gatehouse help options$/);
  }
});

test("every help fits a terminal of 80 columns", () => {
  const groups = new Set(COMMANDS.map(({ name }) => name.split(" ")[0] ?? ""));
  const texts = [
    helpText(COMMANDS),
    helpText("options"),
    ...COMMANDS.map((command) => helpText([command])),
    ...[...groups].map((group) => helpText(COMMANDS.filter(({ name }) => name.startsWith(group)))),
  ];
  const wide = texts.flatMap((text) => text.split("\n").filter((line) => line.length > 80));
  expect(wide).toEqual([]);
  expect(texts[0]?.split("\n").filter((line) => line === line.trimEnd())).toEqual(texts[0]?.split("\n"));
});

test("an option has the same type in every command, so that it may precede the command", () => {
  const types = new Map<string, string>();
  for (const { options } of COMMANDS) {
    for (const [name, { type }] of Object.entries(options)) {
      expect(types.get(name) ?? type, name).toBe(type);
      types.set(name, type);
    }
  }
});
