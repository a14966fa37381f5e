"use strict";
// Tables that can be sorted, searched and paged, and the choice of light or dark.
// Text reaches the page by textContent only: a name is never read as HTML.

const PAGE_ROWS = 25;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function chip(item, labels) {
  const [k, share, deviation] = item;
  const made = element("a", undefined, `chip k${k}`);
  made.href = `#component-${k}`;
  made.append(element("b", String(k)), ` ${labels.get(k)}`);
  const percent = (100 * share).toFixed(0);
  const digits = deviation < 0.01 ? 1 : 0;
  const error = deviation === null ? "" : ` ± ${(100 * deviation).toFixed(digits)}`;
  made.append(element("span", ` ${percent}${error}\u00a0%`, "quiet"));
  return made;
}

function setUp(box) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const labels = new Map(data.components);
  const heads = [...box.querySelectorAll("th")];
  const [search, choose] = [box.querySelector("input"), box.querySelector("select")];
  const [previous, next] = [box.querySelector(".previous"), box.querySelector(".next")];
  const status = box.querySelector("[role=status]");
  const body = box.querySelector("tbody");
  // What is searched: the text of a row, in lower case.
  const texts = data.rows.map((row) =>
    row
      .map((cell, i) => {
        if (data.kinds[i] === "text") return String(cell);
        if (data.kinds[i] === "number") return cell[1];
        return cell.map((item) => `${item[0]} ${labels.get(item[0])}`).join(" ");
      })
      .join("\n")
      .toLowerCase(),
  );
  let order = null; // [column, 1 or -1]
  let first = 0;
  let shown = data.rows.map((_, n) => n);

  const value = (n, column) => {
    const cell = data.rows[n][column];
    if (data.kinds[column] === "number") return cell[0];
    if (data.kinds[column] === "chips") return cell.length ? cell[0][1] : -1;
    return cell;
  };

  const compare = (a, b) => {
    const [column, sign] = order;
    const [x, y] = [value(a, column), value(b, column)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b; // unknown: last
    const numbers = typeof x === "number" && typeof y === "number";
    const difference = numbers ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return sign * difference || a - b;
  };

  const shareOf = (n, k) => {
    for (const [i, kind] of data.kinds.entries())
      if (kind === "chips")
        for (const item of data.rows[n][i]) if (item[0] === k) return item[1];
    return -1;
  };

  function select() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = data.rows.map((_, n) => n).filter((n) => words.every((w) => texts[n].includes(w)));
    if (choose && choose.value !== "") {
      const k = Number(choose.value);
      shown = shown.filter((n) => shareOf(n, k) >= 0);
      if (!order) shown.sort((a, b) => shareOf(b, k) - shareOf(a, k) || a - b);
    }
    if (order) shown.sort(compare);
    first = 0;
    draw();
  }

  function draw() {
    const rows = shown.slice(first, first + PAGE_ROWS).map((n) => {
      const tr = element("tr");
      data.rows[n].forEach((cell, i) => {
        const kind = data.kinds[i];
        const td = element("td", undefined, kind);
        if (kind === "chips") td.append(...cell.map((item) => chip(item, labels)));
        else td.textContent = kind === "number" ? cell[1] : cell;
        tr.append(td);
      });
      return tr;
    });
    body.replaceChildren(...rows);
    const last = Math.min(first + PAGE_ROWS, shown.length);
    const count = (n) => n.toLocaleString("en");
    status.textContent = shown.length
      ? `${count(first + 1)} to ${count(last)} of ${count(shown.length)}`
      : "Nothing found";
    previous.disabled = first === 0;
    next.disabled = last >= shown.length;
  }

  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const numbers = data.kinds[column] !== "text"; // the largest first
      const again = order && order[0] === column;
      order = [column, again ? -order[1] : numbers ? -1 : 1];
      heads.forEach((h) => h.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending");
      select();
    });
  });
  search.addEventListener("input", select);
  if (choose)
    choose.addEventListener("change", () => {
      order = null; // the samples with most of it come first
      heads.forEach((h) => h.setAttribute("aria-sort", "none"));
      select();
    });
  previous.addEventListener("click", () => { first -= PAGE_ROWS; draw(); });
  next.addEventListener("click", () => { first += PAGE_ROWS; draw(); });
  draw();
}

// A link to what is folded away unfolds it; so does printing.
function unfold() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const folded = target && target.closest("details");
  if (folded && !folded.open) {
    folded.open = true;
    target.scrollIntoView();
  }
}

document.querySelectorAll(".table").forEach(setUp);
const theme = document.getElementById("theme");
theme.addEventListener("change", () => { document.documentElement.dataset.theme = theme.value; });
theme.value = "auto"; // some browsers keep the choice when the page is loaded again
addEventListener("hashchange", unfold);
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
});
unfold();
document.documentElement.dataset.ready = "yes";
