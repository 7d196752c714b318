import { useState } from "react";

const REVOKE_MS = 60_000;

/** Offers a file to the person. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  // A browser that asks where to reads it later.
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_MS);
}

/** @returns what came of copying the text, as a key of `form`, once it was tried; and what copies it. */
export function useCopy(
  text: string,
): [outcome: "form.copied" | "form.notCopied" | undefined, copy: () => void] {
  const [outcome, setOutcome] = useState<"form.copied" | "form.notCopied">();
  const copy = async () => {
    try {
      // Absent at an address without TLS; refused by the person, or by a policy.
      await navigator.clipboard.writeText(text);
      setOutcome("form.copied");
    } catch {
      setOutcome("form.notCopied");
    }
  };
  return [outcome, () => void copy()];
}
