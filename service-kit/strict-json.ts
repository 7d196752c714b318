import { DomainError, type FieldProblem } from "./errors.ts";

/** Deeper nesting than any body of ours; a bound on what a validator may have to walk. */
const MAX_DEPTH = 32;
const MAX_PROBLEMS = 100;
/** Keys that reach the prototype when an object is later merged into another. */
const FORBIDDEN_KEY = "__proto__";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parses a JSON text as strictly as I-JSON asks: UTF-8 without a byte order mark, well-formed strings, no
 * repeated keys. `JSON.parse` alone takes the last of two equal keys, where another parser takes the first.
 *
 * @returns undefined for an empty text: whether a body is needed is the schema's decision.
 * @throws {DomainError} `bad_request` if it is no such text; `validation_failed` naming every repeated key.
 * @see RFC 8259, RFC 7493 §2.
 */
export function parseStrictJson(bytes: Uint8Array): unknown {
  if (bytes.byteLength === 0) return undefined;
  const text = decode(bytes);
  const value = parse(text);
  const problems = keyProblems(text);
  if (problems.length > 0) throw new DomainError("validation_failed", undefined, { fields: problems });
  return value;
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new DomainError("bad_request", "The body is not UTF-8.", { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without the cause: V8's message quotes the text, which may hold a password.
    throw new DomainError("bad_request", "The body is not well-formed JSON.");
  }
}

interface Frame {
  path: string;
  /** Keys seen so far; undefined in an array. */
  keys: Set<string> | undefined;
  /** In an object: whether the next string is a key. */
  expectsKey: boolean;
  /** Key or index of the member being read. */
  member: string | number;
}

/** Walks a text that is known to be JSON, so that only strings and brackets have to be told apart. */
function keyProblems(text: string): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const frames: Frame[] = [];
  const hasEscapes = text.includes("\\u");
  for (let at = 0; at < text.length && problems.length < MAX_PROBLEMS; at += 1) {
    const frame = frames.at(-1);
    const character = text[at];
    if (character === '"') {
      const end = endOfString(text, at);
      if (hasEscapes || frame?.expectsKey) {
        const string = JSON.parse(text.slice(at, end)) as string;
        if (!string.isWellFormed())
          throw new DomainError("bad_request", "The body is not well-formed Unicode.");
        if (frame?.expectsKey) problems.push(...enterMember(frame, string));
      }
      at = end - 1;
    } else if (character === "{" || character === "[") {
      if (frames.length === MAX_DEPTH) throw new DomainError("bad_request", "The body is nested too deeply.");
      frames.push(openFrame(character === "{", frame));
    } else if (character === "}" || character === "]") {
      frames.pop();
    } else if (character === "," && frame !== undefined) {
      if (frame.keys === undefined) frame.member = Number(frame.member) + 1;
      else frame.expectsKey = true;
    }
  }
  return problems;
}

function openFrame(isObject: boolean, parent: Frame | undefined): Frame {
  const path = parent === undefined ? "" : pathOf(parent);
  return { path, keys: isObject ? new Set() : undefined, expectsKey: isObject, member: 0 };
}

function enterMember(frame: Frame, key: string): FieldProblem[] {
  frame.member = key;
  frame.expectsKey = false;
  if (key === FORBIDDEN_KEY)
    return [{ field: pathOf(frame), code: "unknown_key", message: "is not allowed" }];
  if (frame.keys?.has(key)) {
    return [{ field: pathOf(frame), code: "duplicate_key", message: "appears more than once" }];
  }
  frame.keys?.add(key);
  return [];
}

function pathOf(frame: Frame): string {
  return frame.path === "" ? String(frame.member) : `${frame.path}.${frame.member}`;
}

/** The position after the closing quote of the string that opens at `start`. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}
