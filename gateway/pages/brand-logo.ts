import { type SaxesAttributeNS, SaxesParser, type SaxesTagNS } from "saxes";
import { ConfigError } from "#kit/config/config.ts";
import { isPng, pngProblem } from "#kit/values/png.ts";

/** The operator's image. */
export interface BrandLogo {
  content: Buffer;
  mediaType: string;
}

const MAX_BYTES = 65_536;

/** An image is refused, never changed: nothing is served that was not understood. @throws {ConfigError} */
export function parseBrandLogo(content: Buffer): BrandLogo {
  if (content.length > MAX_BYTES) throw new ConfigError(`has more than ${MAX_BYTES} bytes`);
  if (isPng(content)) {
    const problem = pngProblem(content);
    if (problem !== undefined) throw new ConfigError(problem);
    return { content, mediaType: "image/png" };
  }
  checkSvg(content);
  return { content, mediaType: "image/svg+xml; charset=utf-8" };
}

const SVG = "http://www.w3.org/2000/svg";
const XLINK = "http://www.w3.org/1999/xlink";
const XMLNS = "http://www.w3.org/2000/xmlns/";

/** Shapes and paints. `use` is not allowed, because nested ones take a browser's time without limit. */
const ELEMENTS = new Set(
  (
    "svg g defs symbol title desc style path rect circle ellipse line polyline polygon text tspan " +
    "linearGradient radialGradient stop clipPath mask"
  ).split(" "),
);
const ATTRIBUTES = new Set(
  (
    "aria-hidden aria-label aria-labelledby baseProfile class clip-path clip-rule clipPathUnits color " +
    "color-interpolation cx cy d direction display dx dy fill fill-opacity fill-rule focusable font-family font-size " +
    "font-style font-weight fr fx fy gradientTransform gradientUnits height id lang letter-spacing mask mask-type " +
    "maskContentUnits maskUnits offset opacity overflow paint-order pathLength points preserveAspectRatio r role rx ry " +
    "shape-rendering spreadMethod stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset stroke-linecap " +
    "stroke-linejoin stroke-miterlimit stroke-opacity stroke-width style text-anchor text-rendering transform type " +
    "vector-effect version viewBox visibility width word-spacing x x1 x2 xml:space y y1 y2"
  ).split(" "),
);

/** Begins what CSS can load or hide: an escape could spell any of the others. Own parts (`url(#id)`) are none of it. */
const LOADING_CSS = /\\|@|(?:url|src|image|image-set|cross-fade)\((?!(["']?)#[\w.-]+\1\))/i;

/** By a parser of XML, which refuses what a browser would. */
function checkSvg(content: Buffer): void {
  const parser = new SaxesParser({ xmlns: true, position: true });
  const refuse = (what: string): never => {
    throw new ConfigError(`line ${parser.line}: ${what}`);
  };
  let isRoot = true;
  /** The content of an open `<style>`. Text, CDATA and comments may take turns in it. */
  let css: string | undefined;
  parser.on("error", (error) => refuse(`is no SVG and no PNG: ${error.message.replace(/^\d+:\d+: /, "")}`));
  parser.on("xmldecl", ({ encoding = "utf-8" }) => {
    if (!/^utf-8$/i.test(encoding)) refuse(`the encoding ${encoding} is not allowed, but UTF-8`);
  });
  parser.on("doctype", () => refuse("DOCTYPE is not allowed"));
  parser.on("processinginstruction", ({ target }) => refuse(`<?${target}?> is not allowed`));
  parser.on("opentag", (tag) => {
    const problem = (isRoot ? rootProblem(tag) : undefined) ?? tagProblem(tag);
    if (problem !== undefined) refuse(`${problem}: export it as plain SVG`);
    if (css !== undefined) refuse(`<${tag.name}> within <style> is not allowed`);
    isRoot = false;
    if (tag.local === "style") css = "";
  });
  const addCss = (text: string) => {
    if (css !== undefined) css += text;
  };
  parser.on("text", addCss);
  parser.on("cdata", addCss);
  parser.on("closetag", ({ local }) => {
    if (local !== "style") return;
    if (LOADING_CSS.test(css ?? "")) refuse("<style> has @, \\ or what is not within the file");
    css = undefined;
  });
  parser.write(utf8Of(content)).close();
}

function utf8Of(content: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch (cause) {
    throw new ConfigError("is no PNG and no SVG in UTF-8", { cause });
  }
}

function rootProblem({ local, uri, attributes }: SaxesTagNS): string | undefined {
  if (uri !== SVG || local !== "svg") return `<${local}> is no <svg xmlns="${SVG}">`;
  return Object.hasOwn(attributes, "viewBox") ? undefined : "<svg> has no viewBox";
}

function tagProblem({ name, local, uri, attributes }: SaxesTagNS): string | undefined {
  if (uri !== SVG || !ELEMENTS.has(local)) return `<${name}> is not allowed`;
  for (const attribute of Object.values(attributes)) {
    const problem = attributeProblem(attribute);
    if (problem !== undefined) return `${attribute.name} of <${name}> ${problem}`;
  }
  return undefined;
}

function attributeProblem({ name, local, uri, value }: SaxesAttributeNS): string | undefined {
  // A namespace of which nothing is used is harmless.
  if (uri === XMLNS) return undefined;
  const isLink = local === "href" && (uri === "" || uri === XLINK);
  if (isLink) return /^#[\w.-]+$/.test(value) ? undefined : "leads out of the file";
  if (!ATTRIBUTES.has(name)) return "is not allowed";
  return LOADING_CSS.test(value) ? "has @, \\ or what is not within the file" : undefined;
}
