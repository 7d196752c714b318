/** Of text. @see WCAG 2.2, 1.4.3. */
export const TEXT_CONTRAST = 4.5;
/** Of the edges of fields. @see WCAG 2.2, 1.4.11. */
export const EDGE_CONTRAST = 3;

/** `#rrggbb`. */
export const COLOR = /^#[0-9a-f]{6}$/i;

/** From 1 to 21. @see WCAG 2.2, "contrast ratio". */
export function contrast(one: string, other: string): number {
  const [lighter = 0, darker = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (lighter + 0.05) / (darker + 0.05);
}

/** @see WCAG 2.2, "relative luminance". */
function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = channelsOf(color).map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param share of the first, 0 to 1. */
export function mixed(one: string, other: string, share: number): string {
  const others = channelsOf(other);
  const channels = channelsOf(one).map((channel, index) =>
    Math.round(channel * share + (others[index] ?? 0) * (1 - share)),
  );
  return `#${Buffer.from(channels).toString("hex")}`;
}

const channelsOf = (color: string) => [...Buffer.from(color.slice(1), "hex")];
