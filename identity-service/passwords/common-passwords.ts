// The package's entry point takes 20 MB instead of 3 MB.
import ranked from "@zxcvbn-ts/language-common/src/passwords.json" with { type: "json" };

/** Minimum of OWASP ASVS 5.0 §6.2.4. */
const COUNT = 3_000;

/** Lower case. `minLength` is in code points. */
export function commonPasswords(minLength: number): ReadonlySet<string> {
  return new Set(ranked.filter((password) => password.length >= minLength).slice(0, COUNT));
}
