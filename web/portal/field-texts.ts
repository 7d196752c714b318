import { visible } from "../ui/format.ts";

/**
 * The codes of ISO 4217 by their number of decimals. Browsers have data of their own, which say how prices are usually written: without
 * decimals for COP, HUF or IDR, of which ISO has two. Read by those, an amount would be a hundred times itself.
 * @see ISO 4217, list one.
 */
const CODES = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
  2: `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK
    DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD
    KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP
    PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH
    USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG`,
  3: "BHD IQD JOD KWD LYD OMR TND",
  4: "CLF UYW",
};
const DECIMALS: ReadonlyMap<unknown, number> = new Map(
  Object.entries(CODES).flatMap(([decimals, codes]) =>
    codes.split(/\s+/).map((code) => [code, Number(decimals)] as const),
  ),
);

/**
 * The amount at a pointer as people write it, if nothing about it is in doubt: a whole, positive number of minor units beside the code of a
 * currency, under the names `amount` and `currency`. Undefined for everything else, which is to be shown as it was sent.
 * @param details values by JSON pointer.
 * @param locale for Intl.
 */
export function moneyText(
  details: Readonly<Record<string, unknown>>,
  pointer: string,
  locale: string,
): string | undefined {
  if (!pointer.endsWith("/amount")) return undefined;
  const amount = details[pointer];
  const currency = details[currencyBeside(pointer)];
  const decimals = DECIMALS.get(currency);
  if (decimals === undefined || !Number.isSafeInteger(amount) || (amount as number) < 0) return undefined;
  const format = new Intl.NumberFormat(locale, {
    ...{ style: "currency", currency: currency as string },
    ...{ minimumFractionDigits: decimals, maximumFractionDigits: decimals },
  });
  // As text it is exact.
  return format.format(`${amount as number}E-${decimals}` as Intl.StringNumericLiteral);
}

/** The pointer of the currency that an amount is of. */
export const currencyBeside = (pointer: string): string => pointer.replace(/\/amount$/, "/currency");

/** Texts that a reader takes for one are one. */
const looks = (name: string) => name.normalize("NFKC").toLowerCase().trim();

/** @param names of the fields at these JSON pointers. @returns them, with the pointer where two are alike. */
export function distinctNames(names: readonly string[], pointers: readonly string[]): string[] {
  return names.map((name, index) => {
    const isAlone = names.every((other, at) => at === index || looks(other) !== looks(name));
    return isAlone ? name : `${name} (${visible(pointers[index] ?? "")})`;
  });
}
