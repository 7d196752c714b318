import { expect, test } from "vitest";
import { sampleLog } from "./log.fixture.ts";
import { entryProblem, type LoggedEntry, leafDataOf } from "./logged-entry.ts";

const [line] = sampleLog(1).entries;
const GOOD = line?.entry as LoggedEntry;
const { actor: ACTOR, ...MEMBERS } = GOOD;

const problemOf = (entry: unknown) => entryProblem(entry as LoggedEntry);
const withMember = (name: string, value: unknown) => problemOf({ ...GOOD, [name]: value });

test("an entry as the log writes it has no problem", () => {
  expect(entryProblem(GOOD)).toBeUndefined();
  for (const kind of ["intent", "outcome", "event", "unspecified"])
    expect(withMember("kind", kind), kind).toBeUndefined();
  for (const outcome of ["", "success", "failure", "unknown"])
    expect(withMember("outcome", outcome), outcome).toBeUndefined();
  expect(withMember("httpStatus", Number.MAX_SAFE_INTEGER)).toBeUndefined();
});

test.each([null, undefined, "text", 5])("%j is no entry", (entry) => {
  expect(problemOf(entry)).toBe("is not an object");
});

test.each(Object.keys(MEMBERS))("an entry needs its %s, of the right type", (name) => {
  const isText = typeof MEMBERS[name as keyof typeof MEMBERS] === "string";
  const wrong = isText ? [undefined, null, 0, [""]] : [undefined, null, "1", -1, 0.5, -0, 2 ** 53];
  for (const value of wrong) expect(withMember(name, value)).toBe(`has no proper ${name}`);
});

test.each(Object.keys(ACTOR))("an entry needs its actor's %s as a string", (name) => {
  for (const value of [undefined, null, 0])
    expect(withMember("actor", { ...ACTOR, [name]: value })).toBe(`has no proper actor.${name}`);
});

test.each([null, undefined, "text"])("%j is no actor", (actor) => {
  expect(withMember("actor", actor)).toBe("has no proper actor");
});

test("an entry of another version, or with members that are not known, is not understood", () => {
  expect(withMember("v", 2)).toBe("is of version 2, which this version does not know");
  const unknown = "has members that this version does not know";
  expect(withMember("more", "")).toBe(unknown);
  expect(withMember("actor", { ...ACTOR, more: "" })).toBe(unknown);
});

test.each(["id", "kind", "occurredAt", "receivedAt"] as const)("nothing stands around the %s", (name) => {
  for (const value of [`x${GOOD[name]}`, `${GOOD[name]}x`, `${GOOD[name]}\n`, ""])
    expect(withMember(name, value)).toBe(`has no proper ${name}`);
});

test("nothing stands around an outcome or the hash of a claimed address", () => {
  for (const outcome of ["xsuccess", "successx", "x"])
    expect(withMember("outcome", outcome)).toBe("has no proper outcome");
  const hash = "0123456789abcdef".repeat(4);
  const withHash = (claimedEmailHash: string) => withMember("actor", { ...ACTOR, claimedEmailHash });
  expect(withHash(hash)).toBeUndefined();
  for (const bad of [`x${hash}`, `${hash}x`, hash.toUpperCase(), hash.slice(1)])
    expect(withHash(bad)).toBe("has no proper actor.claimedEmailHash");
});

test("an entry with a lone surrogate in any string has no leaf data; with a pair, or a backslash, it has", () => {
  const surrogate = "\ud800";
  expect(leafDataOf({ ...GOOD, resource: surrogate })).toBeUndefined();
  expect(leafDataOf({ ...GOOD, actor: { ...ACTOR, userId: surrogate } })).toBeUndefined();
  expect(leafDataOf({ ...GOOD, resource: "\\ud800 😀 \u0001" })).toContain(
    String.raw`"resource":"\\ud800 😀 \u0001"`,
  );
});
