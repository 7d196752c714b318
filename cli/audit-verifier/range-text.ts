/** `entry 7`, `entries 7 to 9`. */
export function rangeText(first: number, last: number): string {
  return last <= first ? `entry ${first}` : `entries ${first} to ${last}`;
}
