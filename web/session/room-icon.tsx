/** Lines in a square of 20. They have the colour of the text beside them, which says the same. */
const LINES = {
  account: "M10 10a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM3.5 17a6.5 6.5 0 0 1 13 0",
  security: "M10 2.5 4 5v4.5c0 3.8 2.5 6.6 6 8 3.5-1.4 6-4.2 6-8V5Z",
  approvals: "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15ZM6.8 10.2 9 12.4l4.2-4.6",
  sessions: "M3 4h14v9H3ZM7 17h6M10 13v4",
  providers: "m8 12 4-4M9 6.5 10.5 5A3.2 3.2 0 0 1 15 9.5L13.5 11M11 13.5 9.5 15A3.2 3.2 0 0 1 5 10.5L6.5 9",
  console: "M3 4h14v12H3ZM6 8l2.5 2L6 12M10.5 12.5H14",
  overview: "M3.5 17h13M5.5 14V9M10 14V4M14.5 14V7",
  users:
    "M7.5 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2 16.5a5.5 5.5 0 0 1 11 0M13 3.8a3 3 0 0 1 0 5.4M15 11.8a5.5 5.5 0 0 1 3 4.7",
  clients: "M6.5 6 3 10l3.5 4M13.5 6l3.5 4-3.5 4M11.5 4l-3 12",
  webhooks: "M11 2.5 4.5 11.5H10L9 17.5l6.5-9H10Z",
  roles: "M7 13.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM10.5 10H17v3M14 10v2.5",
  audit: "M5 2.5h10v15H5ZM8 6.5h4M8 10h4M8 13.5h2.5",
  system: "M3 3.5h14v5H3ZM3 11.5h14v5H3ZM6 6h.01M6 14h.01",
};

export type RoomName = keyof typeof LINES;

/** Stands before the name of a page in the navigation. */
export function RoomIcon({ of }: { of: RoomName }) {
  return (
    <svg
      width="18"
      height="18"
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={LINES[of]} />
    </svg>
  );
}
