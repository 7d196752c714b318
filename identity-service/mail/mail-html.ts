import { escapeHtml } from "#kit/values/escape-html.ts";
import { fillIn, type Insert } from "./placeholders.ts";

/** Such as `Browser: {{browser}}`. */
const FACT = /^([^:{}]+): (\{\{[A-Za-z]+\}\})$/;
/** A link on a line of its own, after the label of its button. */
const BUTTON = /^([^{}]+?):?\n\{\{link\}\}$/;

/** Paragraphs, facts and buttons. The template says which is which; values are no more than text in them. */
export function htmlOf(template: string, insert: Insert): string {
  const value = (name: string) => escapeHtml(insert(name));
  const fill = (text: string) =>
    fillIn(text, (name) => (name === "link" ? linkTo(value(name)) : value(name)), escapeHtml);

  const htmlOfBlock = (block: string): string => {
    const facts = block.split("\n").map((line) => FACT.exec(line));
    if (!facts.includes(null)) {
      const rows = facts.map((fact) => {
        const [, name = "", text = ""] = fact ?? [];
        return `<tr><th scope="row">${fill(name)}</th><td>${fill(text)}</td></tr>`;
      });
      return `<table>\n${rows.join("\n")}\n</table>`;
    }
    const label = BUTTON.exec(block)?.[1];
    if (label === undefined) return `<p>${fill(block)}</p>`;
    const button = linkTo(value("link"), escapeHtml(label));
    return `<p class="button">${button}</p>\n<p class="address">${fill("{{link}}")}</p>`;
  };

  return template
    .split(/\n{2,}/)
    .map(htmlOfBlock)
    .join("\n");
}

function linkTo(address: string, label = address): string {
  return `<a href="${address}">${label}</a>`;
}
