import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { debuggerOf } from "./chromium.ts";

const MAX_PRESSES = 40;
/** Fields of dates have a stop for each of their parts. */
const MAX_STOPS = 250;

/** What a screen reader would call the element with the focus. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const { activeElement: element } = document;
    return element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
  })()`);
}

export async function tabTo(page: Page, name: string | RegExp, key = "Tab"): Promise<void> {
  const isThere = async () => {
    const text = await focused(page);
    return typeof name === "string" ? text === name : name.test(text);
  };
  for (let presses = 0; presses < MAX_PRESSES && !(await isThere()); presses += 1)
    await page.keyboard.press(key);
  expect(await isThere(), `focus on ${name}, not on ${await focused(page)}`).toBe(true);
}

/** The focus stays in the dialog, whichever way it goes. */
export async function expectTrapped(page: Page): Promise<void> {
  const isInside = () => page.evaluate("document.activeElement.closest('[role=dialog]') !== null");
  const visited = new Set<string>();
  for (const key of ["Tab", "Shift+Tab"]) {
    for (let presses = 0; presses < 8; presses += 1) {
      await page.keyboard.press(key);
      expect(await isInside()).toBe(true);
      visited.add(await focused(page));
    }
  }
  expect(visited.size).toBeGreaterThan(1);
}

/**
 * In the page. `controls` is everything that a person can use, without what is there for password managers alone; of a group of radio buttons, the keyboard stops at one. `look` says what is
 * wrong with how the present focus is shown.
 */
const IN_PAGE = `
  window.keyboardWalk = {
    visited: new Set(),
    controls() {
      const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']");
      const groups = new Set();
      return [...all].filter((element) => {
        if (element.disabled || element.closest("[inert], [aria-hidden=true]") || !element.checkVisibility()) return false;
        // Beside a combobox, whose own arrow keys open the list (ARIA Authoring Practices, Combobox).
        if (element.tabIndex < 0 && element.getAttribute("aria-haspopup") === "listbox") return false;
        if (element.type !== "radio") return element.type !== "hidden";
        if (groups.has(element.name) || (!element.checked && document.querySelector(
          "input[type=radio][name=" + JSON.stringify(element.name) + "]:checked"))) return false;
        return groups.add(element.name);
      });
    },
    name: (element) => element.tagName.toLowerCase() + " " + (element.getAttribute("aria-label") ||
      element.labels?.[0]?.textContent || element.textContent || element.name || "").trim().slice(0, 60),
    look() {
      const element = document.activeElement;
      if (element === null || element === document.body) return "";
      this.visited.add(element);
      // A hidden input is drawn by the text beside it.
      const drawn = getComputedStyle(element).opacity === "0" ? element.nextElementSibling : element;
      const { outlineStyle, outlineWidth } = getComputedStyle(drawn);
      const { left, top, right, bottom, width, height } = drawn.getBoundingClientRect();
      const isMarked = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
      const isInside = right > 0 && bottom > 0 && left < innerWidth && top < innerHeight && width > 0 && height > 0;
      return (isMarked ? "" : "no mark: ") + (isInside ? "" : "out of sight: ") + (isMarked && isInside ? "" : this.name(element));
    },
    missed() { return this.controls().filter((element) => !this.visited.has(element)).map(this.name); },
  };
`;

/** Tab alone reaches every control of the page as it stands, and each shows that it has the focus. */
export async function expectReachable(page: Page, state: string): Promise<void> {
  const devtools = await debuggerOf(page);
  const run = async <T>(expression: string): Promise<T> => {
    const { result, exceptionDetails } = await devtools.send("Runtime.evaluate", {
      expression,
      returnByValue: true,
    });
    expect(exceptionDetails?.exception?.description).toBeUndefined();
    return result.value as T;
  };
  await run(IN_PAGE);
  expect((await run<string[]>("keyboardWalk.missed()")).length, state).toBeGreaterThan(3);
  const problems = new Set<string>();
  for (let stops = 0; stops < MAX_STOPS; stops += 1) {
    await page.keyboard.press("Tab");
    const problem = await run<string>("keyboardWalk.look()");
    if (problem !== "") problems.add(problem);
    if (await run<boolean>("keyboardWalk.missed().length === 0")) break;
  }
  expect(await run<string[]>("keyboardWalk.missed()"), `${state}: never reached`).toEqual([]);
  expect([...problems], state).toEqual([]);
}

/** A button opens a dialog by Enter, which takes the focus, keeps it, closes with Escape, and gives the focus back. */
export async function expectDialog(page: Page, button: Locator): Promise<void> {
  await button.focus();
  const name = await focused(page);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await expect
    .poll(() => page.evaluate("document.activeElement.closest('[role=dialog]') !== null"))
    .toBe(true);
  await expectTrapped(page);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await expect.poll(() => focused(page), { message: name }).toBe(name);
}
