/** Returns undefined unless the base64 is canonical, padded and of `length` bytes. */
export function bytesOfBase64(text: string, length: number): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.length === length && bytes.toString("base64") === text ? bytes : undefined;
}
