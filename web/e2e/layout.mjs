// Looks for layouts that break: a page wider than its window, and words that are cut off or run into each other.

/** Describes what is broken on the page, at most five things. */
export function brokenLayout(page) {
  return page.evaluate(() => {
    const problems = [];
    const wide = document.documentElement.scrollWidth - window.innerWidth;
    const scrolls = (el) => {
      for (let p = el; p && p !== document.body; p = p.parentElement) {
        const { overflowX, position } = getComputedStyle(p);
        if (overflowX === "auto" || overflowX === "scroll" || overflowX === "hidden" || overflowX === "clip")
          return true;
        if (position === "fixed") return true;
      }
      return false;
    };
    const named = (el) => `<${el.tagName.toLowerCase()}> ${JSON.stringify((el.textContent ?? "").trim().slice(0, 60))}`;
    if (wide > 1) {
      const out = [...document.querySelectorAll("#root *")].find(
        (el) => el.getBoundingClientRect().right > window.innerWidth + 1 && !scrolls(el),
      );
      problems.push(`the page is ${wide} px wider than its window${out ? `: ${named(out)}` : ""}`);
    }
    // A label whose words do not fit, unless it says so with an ellipsis.
    for (const el of document.querySelectorAll("button, .mantine-Badge-label, .number, th")) {
      const style = getComputedStyle(el);
      if (style.textOverflow === "ellipsis" || style.visibility === "hidden" || el.clientWidth === 0) continue;
      if (el.scrollWidth > el.clientWidth + 2 && style.overflowX !== "visible" && style.overflowX !== "auto")
        problems.push(`cut off: ${named(el)}`);
    }
    // A figure that sticks out of its card, which hides what does.
    for (const card of document.querySelectorAll(".card")) {
      const range = document.createRange();
      for (const el of card.querySelectorAll(".number")) {
        if (el.closest("table, [data-chart], [data-treemap]")) continue;
        range.selectNodeContents(el);
        if (range.getBoundingClientRect().right > card.getBoundingClientRect().right + 1)
          problems.push(`sticks out of its card: ${named(el)}`);
      }
    }
    // Headings and figures that lie over each other.
    const boxes = [...document.querySelectorAll("main h1, main h2, main h3, main button, main .number")]
      .filter((el) => el.offsetParent !== null && !el.closest("table, [data-chart], [data-treemap], .editor"))
      .map((el) => ({ el, box: el.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 0 && box.height > 0);
    for (let i = 0; i < boxes.length && problems.length < 5; i++)
      for (let j = i + 1; j < boxes.length; j++) {
        const [a, b] = [boxes[i], boxes[j]];
        if (a.el.contains(b.el) || b.el.contains(a.el)) continue;
        const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (x > 4 && y > 4) {
          problems.push(`${named(a.el)} lies over ${named(b.el)}`);
          break;
        }
      }
    return problems.slice(0, 5);
  });
}
