const PLACEHOLDER = /\{\{([A-Za-z]+)\}\}/;

export type Insert = (placeholder: string) => string;

/** Replaces `{{name}}`. What is inserted is not searched again. @param asText for what stands between. */
export function fillIn(text: string, insert: Insert, asText = (piece: string) => piece): string {
  return text
    .split(PLACEHOLDER)
    .map((piece, index) => (index % 2 === 0 ? asText(piece) : insert(piece)))
    .join("");
}

export function placeholderProblems(text: string, known: readonly string[]): string[] {
  const pieces = text.split(PLACEHOLDER);
  const unknown = pieces.filter((piece, index) => index % 2 === 1 && !known.includes(piece));
  const isMalformed = pieces.some((piece, index) => index % 2 === 0 && piece.includes("{{"));
  return [
    ...unknown.map((name) => `has the unknown placeholder {{${name}}}`),
    ...(isMalformed ? ["has a {{ that does not begin a placeholder"] : []),
  ];
}
