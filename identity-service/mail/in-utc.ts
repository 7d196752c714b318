/** `2031-01-02 03:04:05 UTC`. */
export function inUtc(time: Date): string {
  return `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
