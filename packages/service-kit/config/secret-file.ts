import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";

/** The group may read: Kubernetes mounts a Secret as 0440 of root and the pod's group. */
const REFUSED_MODE = 0o027;
const MIN_CHARACTERS = 8;
const MIN_DIFFERENT_CHARACTERS = 4;
const PLACEHOLDERS =
  /^(?:changeme|changeit|changethis|replaceme|insert.*here|your.*(?:password|secret|key)|my(?:password|secret)|password\d*|secret\d*|topsecret|example|postgres|administrator|qwertyui.*|12345678\d*)$/;

/** A problem contains no file content. */
export type FileContent = { bytes: Buffer; problem?: never } | { problem: string; bytes?: never };

export function readAnyFile(path: string): FileContent {
  return reading(() => ({ bytes: readFileSync(path) }));
}

/** Follows links: Kubernetes mounts secrets as links. */
export function readPrivateFile(path: string): FileContent {
  return reading(() => {
    const file = openSync(path, "r");
    try {
      // Checks the open file: the path may be replaced. Windows has no such modes.
      const isOpen = process.platform !== "win32" && (fstatSync(file).mode & REFUSED_MODE) !== 0;
      if (isOpen)
        return { problem: "the file is open to other users: make its mode 0400, or 0440 for a group" };
      return { bytes: readFileSync(file) };
    } finally {
      closeSync(file);
    }
  });
}

function reading(read: () => FileContent): FileContent {
  try {
    return read();
  } catch (error) {
    return { problem: `the file cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"})` };
  }
}

/** Contains nothing of the secret. */
export function secretProblem(secret: string): string | undefined {
  if (secret === "") return "the file is empty";
  if (secret.length < MIN_CHARACTERS) return `the secret is shorter than ${MIN_CHARACTERS} characters`;
  const isPlaceholder = PLACEHOLDERS.test(secret.toLowerCase().replaceAll(/[^a-z\d]/g, ""));
  if (isPlaceholder || new Set(secret).size < MIN_DIFFERENT_CHARACTERS)
    return "the secret is an example, not a secret";
  return undefined;
}
