/** 14 to 16 digits, plain or in printed groups, not within a longer id. */
const CARD = /(?<![\w-])[3-6]\d{3}(?:([ -]?)\d{4}\1\d{4}\1\d{2,4}|([ -])\d{6}\2\d{4,5})(?![\w-])/g;
/** RFC 7519. The look-ahead runs once per word, which keeps matching linear. */
const TOKEN = /(?<![\w-])(?=[\w-]+\.[\w-]*\.)([\w-]*?)eyJ[\w-]{5,}\.[\w-]*\.[\w-]*/g;
const API_KEY = /gh_[0-9a-f]{32}_[\w-]{43}/g;
const MAX_CHARACTERS = 8_192;
const KEPT_AT_START = 6;
const KEPT_AT_END = 4;

/** The first six and last four digits may be shown (PCI DSS 3.4.1). */
export function maskSecrets(text: string): string {
  return text
    .slice(0, MAX_CHARACTERS)
    .replace(TOKEN, "$1[token]")
    .replace(API_KEY, "[api key]")
    .replace(CARD, (match) => {
      const digits = match.replace(/\D/g, "");
      if (!hasCheckDigit(digits)) return match;
      const hidden = digits.length - KEPT_AT_START - KEPT_AT_END;
      return `${digits.slice(0, KEPT_AT_START)}${"*".repeat(hidden)}${digits.slice(-KEPT_AT_END)}`;
    });
}

/** Luhn formula (ISO/IEC 7812-1, annex B). */
function hasCheckDigit(digits: string): boolean {
  const values = Array.from(digits, Number).reverse();
  const sum = values.reduce((total, value, index) => {
    const doubled = index % 2 === 1 ? value * 2 : value;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}
