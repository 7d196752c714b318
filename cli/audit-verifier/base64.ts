/** The bytes of standard base64 with padding, in its one form; undefined for anything else or for another length. */
export function bytesOfBase64(text: string, length: number): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.length === length && bytes.toString("base64") === text ? bytes : undefined;
}
