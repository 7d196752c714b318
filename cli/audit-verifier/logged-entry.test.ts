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

test.each([null, undefined, "text", 5])("%j is refused as an entry", (entry) => {
  expect(problemOf(entry)).toBe("is not an object");
});

test.each(Object.keys(MEMBERS))("an entry needs its %s, of the right type", (name) => {
  const isText = typeof MEMBERS[name as keyof typeof MEMBERS] === "string";
  const wrong = isText ? [undefined, null, 0, [""]] : [undefined, null, "1", -1, 0.5, -0, 2 ** 53];
  for (const value of wrong) expect(withMember(name, value)).toBe(`has no valid ${name}`);
});

test.each(Object.keys(ACTOR))("an entry needs its actor's %s as a string", (name) => {
  for (const value of [undefined, null, 0])
    expect(withMember("actor", { ...ACTOR, [name]: value })).toBe(`has no valid actor.${name}`);
});

test.each([null, undefined, "text"])("%j is refused as an actor", (actor) => {
  expect(withMember("actor", actor)).toBe("has no valid actor");
});

test("an entry with another version or unknown members is refused", () => {
  expect(withMember("v", 2)).toBe("has the unknown version 2");
  const unknown = "has unknown members";
  expect(withMember("more", "")).toBe(unknown);
  expect(withMember("actor", { ...ACTOR, more: "" })).toBe(unknown);
});

test.each(["id", "kind", "occurredAt", "receivedAt"] as const)(
  "no text is accepted around the %s",
  (name) => {
    for (const value of [`x${GOOD[name]}`, `${GOOD[name]}x`, `${GOOD[name]}\n`, ""])
      expect(withMember(name, value)).toBe(`has no valid ${name}`);
  },
);

test("no text is accepted around an outcome or the hash of a claimed address", () => {
  for (const outcome of ["xsuccess", "successx", "x"])
    expect(withMember("outcome", outcome)).toBe("has no valid outcome");
  const hash = "0123456789abcdef".repeat(4);
  const withHash = (claimedEmailHash: string) => withMember("actor", { ...ACTOR, claimedEmailHash });
  expect(withHash(hash)).toBeUndefined();
  for (const bad of [`x${hash}`, `${hash}x`, hash.toUpperCase(), hash.slice(1)])
    expect(withHash(bad)).toBe("has no valid actor.claimedEmailHash");
});

test("an entry with a lone surrogate has no leaf data; one with a pair or a backslash has", () => {
  const surrogate = "\ud800";
  expect(leafDataOf({ ...GOOD, resource: surrogate })).toBeUndefined();
  expect(leafDataOf({ ...GOOD, actor: { ...ACTOR, userId: surrogate } })).toBeUndefined();
  expect(leafDataOf({ ...GOOD, resource: "\\ud800 😀 \u0001" })).toContain(
    String.raw`"resource":"\\ud800 😀 \u0001"`,
  );
});
