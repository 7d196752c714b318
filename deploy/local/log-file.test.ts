import { expect, test } from "vitest";
import { complaintsIn, reasonIn } from "./log-file.ts";

test("the reason is the last fatal entry, else the last error, with its cause", () => {
  const error = '{"level":50,"msg":"retrying","err":{"message":"connect ECONNREFUSED"}}';
  const fatal = '{"level":60,"msg":"uncaught error","err":{"message":"no key"}}';
  expect(reasonIn(['{"level":30,"msg":"ready"}', error])).toBe("retrying: connect ECONNREFUSED");
  expect(reasonIn([fatal, error])).toBe("uncaught error: no key");
  expect(reasonIn(['{"level":"error","msg":"by name"}'])).toBe("by name");
});

test("without entries the reason is the message of the error that Node printed, without the stack", () => {
  expect(
    reasonIn(["file:///main.ts:9", "TypeError: x is undefined", "    at main.ts:9", "Node.js v24.0.0"]),
  ).toBe("TypeError: x is undefined");
});

test("an error that a warning mentions is not the reason, but what a process that is not ready complains of", () => {
  const warning = (msg: string, message: string) =>
    JSON.stringify({ level: "warn", err: { type: "RangeError", message }, msg });
  const refused = warning(
    "token-service refuses this service",
    "7 PERMISSION_DENIED: add its name to VERIFIERS",
  );
  const lines = [
    warning("old", "a"),
    warning("older", "b"),
    refused,
    refused,
    warning("not ready", "revocations"),
  ];
  expect(reasonIn(lines)).toBeUndefined();
  expect(complaintsIn(lines)).toBe(
    "older: b; token-service refuses this service: 7 PERMISSION_DENIED: add its name to VERIFIERS; not ready: revocations",
  );
  expect(complaintsIn(['{"level":30,"msg":"ready"}', "serving"])).toBe("");
});

test("a log without errors gives no reason", () => {
  expect(reasonIn([])).toBeUndefined();
  expect(reasonIn(['{"level":30,"msg":"ready"}', "{broken", "serving"])).toBeUndefined();
});
