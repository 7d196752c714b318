import { expect, test } from "vitest";
import { ConfigError } from "#kit/config/config.ts";
import { parseBrandLogo } from "./brand-logo.ts";

const SVG = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"';
const logoOf = (text: string) => parseBrandLogo(Buffer.from(text));
const svg = (content: string, attributes = "") => `<svg ${SVG} ${attributes}>\n${content}\n</svg>`;
const xlink = 'xmlns:xlink="http://www.w3.org/1999/xlink"';

/** Of `width` x `height` pixels, as far as it is read. */
function png(width: number, height: number): Buffer {
  const start = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1");
  const rest = Buffer.alloc(17);
  rest.writeUInt32BE(width, 0);
  rest.writeUInt32BE(height, 4);
  return Buffer.concat([start, rest, Buffer.from("\0\0\0\0IEND\xaeB`\x82", "latin1")]);
}

test.each([
  svg('<path d="M0 0h8v8z" fill="#7a1f5c"/>'),
  `<?xml version="1.0" encoding="UTF-8"?>\n<!-- by a program -->${svg("<g/>", xlink)}`,
  svg(
    '<defs><linearGradient id="a"><stop offset="0"/></linearGradient><linearGradient id="b" xlink:href="#a"/></defs>' +
      '<style type="text/css"><![CDATA[.x{fill:url(#b);image-rendering:auto}]]></style>' +
      '<circle class="x" r="4" style="fill:url(#a);stroke:none"/><text font-family="Inter">Müller &amp; Söhne</text>',
    xlink,
  ),
])("%s is served as it is", (text) => {
  expect(logoOf(text)).toEqual({ content: Buffer.from(text), mediaType: "image/svg+xml; charset=utf-8" });
});

test.each([
  [svg("<script>alert(1)</script>"), "line 2: <script> is not allowed"],
  [svg('<script href="https://evil.example/x.js"/>'), "line 2: <script> is not allowed"],
  [svg('<s:script xmlns:s="http://www.w3.org/2000/svg"/>'), "<s:script> is not allowed"],
  [svg('<h:script xmlns:h="http://www.w3.org/1999/xhtml"/>'), "<h:script> is not allowed"],
  [svg("<g/>", 'onload="alert(1)"'), "line 1: onload of <svg> is not allowed"],
  [svg('<g\nonclick="alert(1)"/>'), "onclick of <g> is not allowed"],
  [svg("<foreignObject><p/></foreignObject>"), "<foreignObject> is not allowed"],
  [svg('<a href="javascript:alert(1)"><g/></a>'), "<a> is not allowed"],
  [svg('<image href="https://evil.example/x.png"/>'), "<image> is not allowed"],
  [svg('<use href="#a"/>'), "<use> is not allowed"],
  [svg('<set attributeName="href" to="javascript:alert(1)"/>'), "<set> is not allowed"],
  [svg('<animate attributeName="d"/>'), "<animate> is not allowed"],
  [svg('<filter><feImage href="//evil.example"/></filter>'), "<filter> is not allowed"],
  [svg('<linearGradient href="https://evil.example/#a"/>'), "href of <linearGradient> leads out of the file"],
  [
    svg('<linearGradient xlink:href="//evil.example/#a"/>', xlink),
    "xlink:href of <linearGradient> leads out",
  ],
  [svg('<linearGradient q:href="data:x"/>', xlink.replace("xlink", "q")), "q:href of <linearGradient> leads"],
  [svg('<g xml:base="https://evil.example/"/>'), "xml:base of <g> is not allowed"],
  [svg('<g fill="url(https://evil.example/#a)"/>'), "fill of <g> has @, \\ or what is not within"],
  [svg('<g style="fill:u\\72l(//evil.example)"/>'), "style of <g> has @, \\ or what is not within"],
  [svg('<g style="fill:URL( //evil.example)"/>'), "style of <g> has"],
  [svg('<g style="fill:&#117;rl(//evil.example)"/>'), "style of <g> has"],
  [svg("<g style=\"background:image-set('//evil.example' 1x)\"/>"), "style of <g> has"],
  [svg('<style>@import "https://evil.example/x.css";</style>'), "<style> has @, \\ or what is not within"],
  [svg('<style>&#64;import "//evil.example";</style>'), "<style> has @"],
  [svg("<style>g{fill:u<!-- -->rl(//evil.example)}</style>"), "<style> has @"],
  [svg("<style>g{fill:u<![CDATA[rl(//evil]]>.example)}</style>"), "<style> has @"],
  [svg('<style>@import "//evil.example";<g/></style>'), "<g> within <style> is not allowed"],
  [`<!DOCTYPE svg SYSTEM "https://evil.example/x.dtd">${svg("")}`, "line 1: DOCTYPE is not allowed"],
  [`<!DOCTYPE svg [<!ENTITY a "&a;&a;">]>${svg("&a;")}`, "DOCTYPE is not allowed"],
  [svg("&a;"), "line 2: is no SVG and no PNG: undefined entity"],
  [`<?xml-stylesheet href="//evil.example"?>${svg("")}`, "<?xml-stylesheet?> is not allowed"],
  [`<?xml version="1.0" encoding="UTF-7"?>${svg("")}`, "the encoding UTF-7 is not allowed"],
  [`<svg viewBox="0 0 8 8"/>`, "<svg> is no <svg xmlns="],
  [`<html xmlns="http://www.w3.org/1999/xhtml"/>`, "<html> is no <svg xmlns="],
  [`<svg xmlns="http://www.w3.org/2000/svg"/>`, "<svg> has no viewBox"],
  [svg("<g>"), "is no SVG and no PNG: unexpected close tag"],
  [`${svg("")}<script/>`, "is no SVG and no PNG"],
  ["", "is no SVG and no PNG"],
  ["GIF89a", "is no SVG and no PNG"],
  [svg("x".repeat(65_536)), "has more than 65536 bytes"],
])("%s is refused, and the first thing is named", (text, message) => {
  expect(() => logoOf(text)).toThrow(ConfigError);
  expect(() => logoOf(text)).toThrow(message);
});

test("a PNG is known by its signature, and has a size and an end", () => {
  expect(parseBrandLogo(png(64, 32)).mediaType).toBe("image/png");
  for (const [bytes, message] of [
    [png(4_096, 32), "has 4096 x 32 pixels: each side is 1 to 2048"],
    [png(0, 32), "has 0 x 32 pixels"],
    [png(64, 32).subarray(0, -1), "is no whole PNG"],
    [Buffer.concat([png(64, 32), Buffer.from("<script>")]), "or has something behind it"],
    [png(64, 32).subarray(0, 8), "is no whole PNG"],
    [Buffer.from(svg(""), "utf16le"), "is no SVG and no PNG"],
    [Buffer.from([0xff, 0xd8, 0xff]), "is no PNG and no SVG in UTF-8"],
  ] as const) {
    expect(() => parseBrandLogo(bytes)).toThrow(ConfigError);
    expect(() => parseBrandLogo(bytes)).toThrow(message);
  }
});
