// The package's data itself: its entry point unpacks every dictionary by regular expression, which costs 20 MB of
// memory for good instead of 3.
import ranked from "@zxcvbn-ts/language-common/src/passwords.json" with { type: "json" };

/** OWASP ASVS 5.0 §6.2.4 asks for at least this many. */
const COUNT = 3_000;

/**
 * The 3,000 most common passwords that are long enough to be chosen here, in lower case. Shorter ones are
 * refused for their length, so counting them would only thin the list.
 *
 * @param minLength in code points.
 */
export function commonPasswords(minLength: number): ReadonlySet<string> {
  // The most common first, and all lower case ASCII.
  return new Set(ranked.filter((password) => password.length >= minLength).slice(0, COUNT));
}
