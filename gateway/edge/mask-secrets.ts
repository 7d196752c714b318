/** 14 to 16 digits as cards have them, plain or in the groups they are printed in, and not part of a longer id. */
const CARD = /(?<![\w-])[3-6]\d{3}(?:([ -]?)\d{4}\1\d{4}\1\d{2,4}|([ -])\d{6}\2\d{4,5})(?![\w-])/g;
/**
 * A signed token (RFC 7519): its first part is JSON in base64url, so it begins with `eyJ`. Linear: a match begins only where a
 * word begins, and the two dots are looked for once a word, not once for each `eyJ` in it.
 */
const TOKEN = /(?<![\w-])(?=[\w-]+\.[\w-]*\.)([\w-]*?)eyJ[\w-]{5,}\.[\w-]*\.[\w-]*/g;
/** The longest text that is read, a URL. */
const MAX_CHARACTERS = 8_192;
const KEPT_AT_START = 6;
const KEPT_AT_END = 4;

/**
 * Text of a client's choice, as far as it may be kept: card numbers keep their first six and last four digits, which is
 * what PCI DSS 3.4.1 lets be shown; tokens are taken out.
 */
export function maskSecrets(text: string): string {
  return text
    .slice(0, MAX_CHARACTERS)
    .replace(TOKEN, "$1[token]")
    .replace(CARD, (match) => {
      const digits = match.replace(/\D/g, "");
      if (!hasCheckDigit(digits)) return match;
      const hidden = digits.length - KEPT_AT_START - KEPT_AT_END;
      return `${digits.slice(0, KEPT_AT_START)}${"*".repeat(hidden)}${digits.slice(-KEPT_AT_END)}`;
    });
}

/** By the Luhn formula (ISO/IEC 7812-1, annex B). */
function hasCheckDigit(digits: string): boolean {
  const values = Array.from(digits, Number).reverse();
  const sum = values.reduce((total, value, index) => {
    const doubled = index % 2 === 1 ? value * 2 : value;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}
