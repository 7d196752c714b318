import { DomainError, type FieldProblem } from "./errors.ts";

/** Bounds the work of validators. */
const MAX_DEPTH = 32;
const MAX_PROBLEMS = 100;
/** Can pollute the prototype when objects are merged. */
const FORBIDDEN_KEY = "__proto__";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * I-JSON, without repeated keys, on which parsers disagree. An empty text is undefined.
 * @throws {DomainError} `bad_request` or `validation_failed`. @see RFC 8259, RFC 7493 §2.
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
    // Has no cause: V8's message quotes the text, which may hold a password.
    throw new DomainError("bad_request", "The body is not well-formed JSON.");
  }
}

interface Frame {
  path: string;
  keys: Set<string> | undefined;
  expectsKey: boolean;
  member: string | number;
}

/** The text must be valid JSON. */
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

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}
