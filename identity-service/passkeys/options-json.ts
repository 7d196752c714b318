/** WebAuthn Level 3 §5.1.9, §5.1.10. Empty without options. */
export function optionsJson(options: object | undefined): string {
  return options === undefined ? "" : JSON.stringify(options);
}
