/** Recovery codes, which are shown once. */
export interface GivesCodes {
  onCodes: (codes: readonly string[]) => void;
}
