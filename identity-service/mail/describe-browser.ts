/** In this order: most browsers also name the ones they descend from. */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Chrome|CriOS)\//, "Chrome"],
  [/\bSafari\//, "Safari"],
  [/^curl\//, "curl"],
];

const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, "Android"],
  [/\b(?:iPhone|iPad|iPod)\b/, "iOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bLinux\b/, "Linux"],
];

/**
 * A User-Agent in words for its owner: "Firefox on Windows". Nothing of the header itself is ever shown: whoever
 * stole a token chooses it, and a mail of ours must not carry their text.
 *
 * @returns "unknown" if nothing in it is known.
 */
export function describeBrowser(userAgent: string): string {
  const nameIn = (table: typeof BROWSERS) => table.find(([pattern]) => pattern.test(userAgent))?.[1];
  const known = [nameIn(BROWSERS), nameIn(SYSTEMS)].filter((name) => name !== undefined);
  return known.length === 0 ? "unknown" : known.join(" on ");
}
