/** `gh_<public id>_<secret>`: a lookup id that its issuer can recognise, and 256 bits in base64url. */
const API_KEY = /^gh_([0-9a-f]{32})_[A-Za-z0-9_-]{43}$/;

export function isApiKey(text: string): boolean {
  return text.startsWith("gh_") && API_KEY.test(text);
}

/** @throws if the text is not an API key. */
export function publicIdOf(apiKey: string): string {
  const [, publicId] = API_KEY.exec(apiKey) ?? [];
  if (publicId === undefined) throw new Error("not an API key");
  return publicId;
}
