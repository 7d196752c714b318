import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";

/**
 * The group may not write, others may do nothing. It may read: a Kubernetes Secret is mounted as 0440 of root and the pod's
 * group, which is how a user who is not root reads it.
 */
const REFUSED_MODE = 0o027;
const MIN_CHARACTERS = 8;
const MIN_DIFFERENT_CHARACTERS = 4;
/** What examples on the web have in the place of a secret, without case and punctuation. */
const PLACEHOLDERS =
  /^(?:changeme|changeit|changethis|replaceme|insert.*here|your.*(?:password|secret|key)|my(?:password|secret)|password\d*|secret\d*|topsecret|example|postgres|administrator|qwertyui.*|12345678\d*)$/;

/** What a file holds, or what is wrong with it, in words for the operator that have nothing of it in them. */
export type FileContent = { bytes: Buffer; problem?: never } | { problem: string; bytes?: never };

/** Reads a file. */
export function readAnyFile(path: string): FileContent {
  return reading(() => ({ bytes: readFileSync(path) }));
}

/** Reads a file that nobody but its owner and readers of its group may open. Links are followed: Kubernetes mounts them. */
export function readPrivateFile(path: string): FileContent {
  return reading(() => {
    const file = openSync(path, "r");
    try {
      // Of the file that is open, so that it cannot be another one by then. Windows has no such modes.
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

/** What is wrong with a secret, in words that have nothing of it in them; undefined if nothing is. */
export function secretProblem(secret: string): string | undefined {
  if (secret === "") return "the file is empty";
  if (secret.length < MIN_CHARACTERS) return `the secret is shorter than ${MIN_CHARACTERS} characters`;
  const isPlaceholder = PLACEHOLDERS.test(secret.toLowerCase().replaceAll(/[^a-z\d]/g, ""));
  if (isPlaceholder || new Set(secret).size < MIN_DIFFERENT_CHARACTERS)
    return "the secret is an example, not a secret";
  return undefined;
}
