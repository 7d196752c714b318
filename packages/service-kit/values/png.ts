const SIGNATURE = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
const END = Buffer.from("\0\0\0\0IEND\xaeB`\x82", "latin1");
const MAX_BYTES = 65_536;
const MAX_PIXELS = 2_048;

export const isPng = (content: Buffer): boolean => content.subarray(0, SIGNATURE.length).equals(SIGNATURE);

/** Undefined: none. @see PNG (third edition) §5.2, §11.2.1. */
export function pngProblem(content: Buffer): string | undefined {
  if (content.length > MAX_BYTES) return `has more than ${MAX_BYTES} bytes`;
  const isWhole = content.length >= 45 && content.toString("latin1", 12, 16) === "IHDR";
  if (!isWhole || !content.subarray(-END.length).equals(END))
    return "is no whole PNG, or has something behind it";
  const sides = [content.readUInt32BE(16), content.readUInt32BE(20)];
  if (sides.every((side) => side >= 1 && side <= MAX_PIXELS)) return undefined;
  return `has ${sides.join(" x ")} pixels: each side is 1 to ${MAX_PIXELS}`;
}
