import encodeQR from "qr";

/** `data:image/svg+xml;base64,…` with a quiet zone of 4 modules (ISO/IEC 18004 §6.3.8). */
export function qrCodeDataUrl(text: string): string {
  const svg = encodeQR(text, "svg", { ecc: "medium", border: 4 });
  return `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`;
}
