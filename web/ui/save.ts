import { useState } from "react";

const REVOKE_MS = 60_000;

/** Offers a file to the person. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  // A browser that asks where to reads it later.
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_MS);
}

/** @returns whether the text has been copied, and what copies it. */
export function useCopy(text: string): [isCopied: boolean, copy: () => void] {
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    void navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => undefined,
    );
  return [isCopied, copy];
}
