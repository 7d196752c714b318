/** Accepts canonical, padded base64 of exactly `length` bytes, otherwise undefined. */
export function bytesOfBase64(text: string, length: number): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.length === length && bytes.toString("base64") === text ? bytes : undefined;
}
