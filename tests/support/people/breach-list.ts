import { join } from "node:path";
import { hashLines, newFolder, writeTestList } from "#breach-list/test-list.fixture.ts";

/** The only one in the list. */
export const BREACHED = "a password of a breach";

/** @returns the path of a new list, in a folder of its own. */
export async function newBreachList(): Promise<string> {
  const list = join(newFolder(), "breached.list");
  await writeTestList(list, hashLines([BREACHED]));
  return list;
}
