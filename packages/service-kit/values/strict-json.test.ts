import { expect, test } from "vitest";
import { DomainError } from "./errors.ts";
import { parseStrictJson } from "./strict-json.ts";

function parse(text: string | Uint8Array): unknown {
  return parseStrictJson(typeof text === "string" ? Buffer.from(text) : text);
}

function failureOf(text: string | Uint8Array): DomainError {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
  throw new Error("was accepted");
}

test.each([
  '{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}',
  '{"a":"{\\"a\\":1,\\"a\\":2}","b":"\\\\"}',
  '{"\\ud83d\\ude00":"\\ud83d\\ude00"}',
  '[[],{},"",null,true,-1.5e3]',
  '"text"',
  ' {\n"a" : [ 1 , 2 ] }\t',
])("well-formed JSON is what JSON.parse says: %s", (text) => {
  expect(parse(text)).toEqual(JSON.parse(text));
});

test("an empty text is no value: whether one is needed is the schema's decision", () => {
  expect(parse("")).toBeUndefined();
});

test.each([
  { text: '{"a":1,"a":2}', fields: ["a"] },
  { text: '{"a":1,"\\u0061":2}', fields: ["a"] },
  { text: '{"a":{"b":1,"b":2},"c":[{"d":1},{"d":1,"d":2}],"a":3}', fields: ["a.b", "c.1.d", "a"] },
  { text: '{"a":"x\\"","a":2}', fields: ["a"] },
])("every repeated key is named: $text", ({ text, fields }) => {
  const error = failureOf(text);
  expect(error.code).toBe("validation_failed");
  expect(error.fields.map(({ field, code }) => [field, code])).toEqual(
    fields.map((field) => [field, "duplicate_key"]),
  );
});

test("a key that reaches the prototype is refused, however it is spelt", () => {
  for (const text of ['{"__proto__":{"role":"ADMIN"}}', '{"a":{"\\u005f_proto__":1}}']) {
    expect(failureOf(text).fields[0]?.code).toBe("unknown_key");
  }
});

test.each([
  ["a byte order mark", Buffer.from('\ufeff{"a":1}')],
  ["bytes that are no UTF-8", Buffer.from([0x22, 0xff, 0x22])],
  ["an overlong encoding", Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
  ["half a surrogate pair", '{"a":"\\ud800"}'],
  ["a trailing comma", '{"a":1,}'],
  ["two values", "{}{}"],
  ["a comment", "{}//"],
  ["single quotes", "{'a':1}"],
  ["NaN", '{"a":NaN}'],
  ["a raw control character", '{"a":"\u0001"}'],
  ["white space only", "  "],
  ["33 levels", `${"[".repeat(33)}${"]".repeat(33)}`],
  ["a flood of brackets", "[".repeat(16_000)],
])("%s is not JSON here", (_name, text) => {
  expect(failureOf(text).code).toBe("bad_request");
});

test("32 levels are read", () => {
  expect(() => parse(`${"[".repeat(32)}${"]".repeat(32)}`)).not.toThrow();
});

test("no error quotes the text: it may hold a password", () => {
  const error = failureOf('{"password":"hunter2" oops');
  expect(error.cause).toBeUndefined();
  expect(error.message).not.toContain("hunter2");
});
