import { expect, test } from "vitest";
import { parseOptions } from "./options.ts";

const KNOWN = ["forwarded", "login"];
const DEFAULTS = { names: [], rounds: 5, peers: false, help: false };

test("without arguments: all figures, five rounds, no peers", () => {
  expect(parseOptions([], KNOWN)).toEqual(DEFAULTS);
});

test("names and options stand in any order", () => {
  const args = ["login", "--against", "v0.1.0", "--rounds=7", "--peers", "--json", "out.json", "forwarded"];
  const expected = {
    names: ["login", "forwarded"],
    against: "v0.1.0",
    rounds: 7,
    peers: true,
    json: "out.json",
  };
  expect(parseOptions(args, KNOWN)).toEqual({ ...DEFAULTS, ...expected });
});

test.each([
  [["logout"], "no figure logout"],
  [["--rounds", "0"], "1 to 100, not 0"],
  [["--rounds", "2.5"], "1 to 100"],
  [["--rounds", "many"], "1 to 100"],
  [["--rounds", "101"], "1 to 100"],
  [["--json", ""], "--json takes a value"],
  [["--json"], "argument missing"],
  [["--fast"], "Unknown option '--fast'"],
])("%j is refused", (args, message) => {
  expect(() => parseOptions(args, KNOWN)).toThrow(message);
});
