// Uses a report as a reader would, and writes what it finds into the page.
const found = { width: innerWidth, title: document.title, ready: document.documentElement.dataset.ready };

// Tables: sorting, searching, paging, choosing.
const rowsOf = (box) =>
  [...box.querySelectorAll("tbody tr")].map((tr) => [...tr.cells].map((td) => td.textContent));
const statusOf = (box) => box.querySelector("[role=status]").textContent;
const type = (input, text) => {
  input.value = text;
  input.dispatchEvent(new Event(input.tagName === "SELECT" ? "change" : "input"));
};
found.tables = {};
for (const box of document.querySelectorAll(".table")) {
  const heads = [...box.querySelectorAll("th")];
  const table = { columns: heads.map((h) => h.textContent), sorted: [], first: rowsOf(box), status: statusOf(box) };
  heads.forEach((head, column) => {
    for (let i = 0; i < 2; i++) {
      head.querySelector("button").click();
      const others = heads.filter((h) => h !== head).every((h) => h.getAttribute("aria-sort") === "none");
      const data = JSON.parse(box.querySelector("script").textContent);
      table.sorted.push({
        column,
        aria: head.getAttribute("aria-sort"),
        others,
        kind: data.kinds[column],
        cells: rowsOf(box).map((row) => row[column]),
      });
    }
  });
  const next = box.querySelector(".next");
  if (!next.disabled) {
    next.click();
    table.second = { status: statusOf(box), n: rowsOf(box).length };
    box.querySelector(".previous").click();
  }
  const search = box.querySelector("input");
  const word = rowsOf(box)[0] && rowsOf(box)[0][heads.length > 2 ? 0 : 1];
  type(search, word.toUpperCase());
  table.search = { word, rows: rowsOf(box), status: statusOf(box) };
  type(search, "there is no such name");
  table.nothing = statusOf(box);
  type(search, "");
  table.again = statusOf(box);
  const choose = box.querySelector("select");
  if (choose) {
    type(choose, choose.options[1].value);
    table.chosen = { k: choose.value, rows: rowsOf(box) };
    type(choose, "");
  }
  found.tables[box.id] = table;
}

// Contrast of all text, in both themes; the size of letters.
const parse = (text) => {
  const numbers = text.match(/[\d.]+(e-?\d+)?/g).map(Number);
  const scale = text.startsWith("color(") ? 255 : 1;
  return [...numbers.slice(0, 3).map((x) => x * scale), numbers.length > 3 ? numbers[3] : 1];
};
const over = (top, back) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * back[i]).concat(1);
const backOf = (element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
  return layers.reverse().reduce((back, layer) => over(layer, back), [255, 255, 255, 1]);
};
const luminance = (c) => {
  const [r, g, b] = c.slice(0, 3).map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
found.back = backOf(document.body);
found.themes = {};
for (const theme of ["light", "dark"]) {
  const picker = document.getElementById("theme");
  picker.value = theme;
  picker.dispatchEvent(new Event("change"));
  let [worst, where, smallest] = [99, "", 99];
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!words || element.closest("svg, script, .skip") || !element.getClientRects().length) continue;
    if (element.disabled) continue;
    const [front, back] = [luminance(over(parse(getComputedStyle(element).color), backOf(element))), luminance(backOf(element))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < worst) [worst, where] = [ratio, element.outerHTML.slice(0, 120)];
    smallest = Math.min(smallest, parseFloat(getComputedStyle(element).fontSize));
  }
  found.themes[theme] = { back: backOf(document.body), worst, where, smallest };
}

// The page: its width, its outline, names of pictures and controls, links.
found.overflow = document.documentElement.scrollWidth - innerWidth;
found.headings = [...document.querySelectorAll("h1, h2, h3")].map((h) => Number(h.tagName[1]));
found.unnamed = [...document.querySelectorAll("img:not([alt]), svg:not([aria-label])")].length;
found.unlabelled = [...document.querySelectorAll("input, select")].filter((e) => !e.labels.length).length;
found.dangling = [...document.querySelectorAll("a")]
  .map((a) => a.getAttribute("href"))
  .filter((href) => !href.startsWith("#") || !document.getElementById(href.slice(1)));
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
found.twice = ids.filter((id, i) => ids.indexOf(id) !== i);
const folded = document.querySelector("details [id]");
if (folded) {
  location.hash = folded.id;
  unfold();
  found.unfolded = folded.closest("details").open;
}
// Labels of the map: none lies on a circle of another component, or on another label.
const boxes = [...document.querySelectorAll(".map .circle, .map .word")].map((e) => [e, e.getBoundingClientRect()]);
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
found.labels = boxes.filter(([e]) => e.className === "word").length;
found.covered = boxes.flatMap(([e, a], i) =>
  e.className === "word" ? boxes.filter(([, b], j) => i !== j && meet(a, b)).map(([o]) => `${e.textContent}: ${o.outerHTML}`) : []);
found.scripts = document.scripts.length;
found.elements = document.querySelectorAll("*").length;
found.text = document.querySelector("main").innerText;
found.loaded = performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith("data:"));

const report = () => {
  found.seen = window.seen;
  parent.postMessage(JSON.stringify(found), "*");
};
report();
addEventListener("load", report);
