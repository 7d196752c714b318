const REVOKE_MS = 60_000;

/** Offers a file to the person. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  // A browser that asks where to reads it later.
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_MS);
}
