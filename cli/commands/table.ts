import { printable } from "../printable.ts";

const GAP = "  ";

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...lines.map((cells) => shown(cells[column]).length)));
  return lines
    .map((cells) =>
      widths
        .map((width, column) => shown(cells[column]).padEnd(width))
        .join(GAP)
        .trimEnd(),
    )
    .join("\n");
}

function shown(cell: string | undefined): string {
  return cell === undefined || cell === "" ? "-" : printable(cell);
}
