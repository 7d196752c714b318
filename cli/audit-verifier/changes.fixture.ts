import type { EntryLine } from "./export-line.ts";

type Members = Record<string, unknown>;

/** Changes each member to another value or type, and removes it. */
export function changesOf(line: EntryLine): ((target: EntryLine) => void)[] {
  const changes: ((target: EntryLine) => void)[] = [];
  const add = (path: readonly string[], members: Members) => {
    for (const [name, value] of Object.entries(members)) {
      const set = (to: unknown) => (target: EntryLine) => {
        let owner = target as unknown as Members;
        for (const step of path) owner = owner[step] as Members;
        if (to === undefined) delete owner[name];
        else owner[name] = to;
      };
      if (typeof value === "object") add([...path, name], value as Members);
      else if (typeof value === "number") changes.push(set(value + 1), set(String(value)));
      else changes.push(set(`${value} `), set(value === "" ? "x" : ""), set(0));
      if (name !== "claimedEmail") changes.push(set(undefined), set(null));
    }
    changes.push((target) => {
      let owner = target as unknown as Members;
      for (const step of path) owner = owner[step] as Members;
      owner.more = "";
    });
  };
  const { type: _type, ...members } = line;
  add([], members);
  return changes;
}
