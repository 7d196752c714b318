import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..", "..");
const FOLDERS =
  "{audit-service,clients/{api,browser,conformance,examples,node},cli,deploy,event-service,gateway,identity-service,packages,token-service,trials,web}";
const NOT_WRITTEN_HERE = /node_modules|\/dist\/|\/generated\/|\.test\.tsx?$/;

/** Begins like the rest of a sentence that stands elsewhere: "Of the other clock." */
const BEGINS_IN_THE_MIDDLE =
  /^(?:Of|For|Not|Than|Also|Because|So that|Which|Whose|But|Or|And|Until|Unless|With|Without|As|By|From|To|In|On|At|After|Before|Where|While|Only|Within|Between|Beside|Like|Per|Since|Through|Under)\b/;
const HAS_A_VERB =
  /\b(?:is|are|was|were|has|have|had|does|do|did|can|cannot|could|may|might|must|should|would|will|[a-z]+(?:s|ed))\b/;

const isFragment = (sentence: string) =>
  BEGINS_IN_THE_MIDDLE.test(sentence) && !HAS_A_VERB.test(sentence.replaceAll(/`[^`]*`/g, "X"));

/** The first sentence of each comment. */
function commentsOf(text: string): string[] {
  const blocks = [...text.matchAll(/\/\*\*?([\s\S]*?)\*\//g)].map(([, block = ""]) =>
    block.replaceAll(/^\s*\* ?/gm, " "),
  );
  const lines = [...text.matchAll(/(?:^ *\/\/ .*\n)+/gm)].map(([run]) => run.replaceAll(/^ *\/\/ /gm, ""));
  return [...blocks, ...lines]
    .map((comment) => comment.replace(/@(?:param|throws|returns)[\s\S]*/, "").trim())
    .filter((comment) => comment !== "" && !/^(?:biome-ignore|@ts-)/.test(comment))
    .map((comment) => comment.replaceAll(/\s+/g, " ").split(/(?<=[.!?]) /)[0] ?? "");
}

test("of 100 comments fewer than three are the end of a sentence without its beginning", () => {
  const files = globSync(`${FOLDERS}/**/*.{ts,tsx}`, { cwd: ROOT }).filter(
    (path) => !NOT_WRITTEN_HERE.test(path),
  );
  const comments = files.flatMap((path) => commentsOf(readFileSync(join(ROOT, path), "utf8")));
  const fragments = comments.filter(isFragment);
  expect(comments.length).toBeGreaterThan(3_000);
  expect(fragments.length / comments.length, fragments.join("\n")).toBeLessThan(0.03);
});

test("what is looked for is found", () => {
  expect(commentsOf("/** Of the other clock. Seconds. */\n// In JSON.\n// More.\nconst a = 1;")).toEqual([
    "Of the other clock.",
    "In JSON.",
  ]);
  expect(["Of the other clock.", "In JSON.", "As `x`, so it is kept."].map(isFragment)).toEqual([
    true,
    true,
    false,
  ]);
});
