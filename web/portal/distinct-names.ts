import { visible } from "../ui/visible.ts";

/** Texts that a reader takes for one are one. */
const looks = (name: string) => name.normalize("NFKC").toLowerCase().trim();

/** @param names of the fields at these JSON pointers. @returns them, with the pointer where two are alike. */
export function distinctNames(names: readonly string[], pointers: readonly string[]): string[] {
  return names.map((name, index) => {
    const isAlone = names.every((other, at) => at === index || looks(other) !== looks(name));
    return isAlone ? name : `${name} (${visible(pointers[index] ?? "")})`;
  });
}
