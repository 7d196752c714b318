/** The id's 16 bytes, which say nothing about the person (WebAuthn Level 3 §14.6.1). */
export function userHandleOf(userId: string): Buffer {
  return Buffer.from(userId.replaceAll("-", ""), "hex");
}
