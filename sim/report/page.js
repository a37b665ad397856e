"use strict";

// Colours that follow the page: light, dark, printed.
function theme(layout) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const changes = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font.color": colour("--ink"),
    "hoverlabel.bgcolor": colour("--raised"),
    "hoverlabel.font.color": colour("--ink"),
    "hoverlabel.bordercolor": colour("--line"),
  };
  for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    changes[axis + ".gridcolor"] = colour("--line");
    changes[axis + ".linecolor"] = colour("--faint");
    changes[axis + ".zerolinecolor"] = colour("--line");
    changes[axis + ".tickcolor"] = colour("--faint");
  }
  return changes;
}

const CONFIG = {responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"]};
const ABOVE_PX = 28; // for the title of the first panel
const plots = [];

// A legend of several lines needs more room above the panels, which keep their size.
function fit(plot) {
  const legend = plot.querySelector(".legend");
  const top = (legend ? legend.getBBox().height : 0) + ABOVE_PX;
  const grown = top - plot.layout.margin.t;
  return {"margin.t": top, "height": plot.layout.height + grown, ...theme(plot.layout)};
}

for (const element of document.querySelectorAll("script.figure")) {
  const {data, layout} = JSON.parse(element.textContent);
  const plot = document.getElementById(element.dataset.plot);
  Plotly.newPlot(plot, data, layout, CONFIG).then(() => Plotly.relayout(plot, fit(plot)));
  plots.push(plot);
}

function recolour() {
  for (const plot of plots) Plotly.relayout(plot, theme(plot.layout));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
matchMedia("print").addEventListener("change", () => {
  for (const plot of plots) Plotly.Plots.resize(plot);
  recolour();
});

// A click on a heading sorts by it; another one turns the order round.
function order(row, column) {
  const cell = row.cells[column];
  return cell.dataset.order === undefined ? cell.textContent.trim() : Number(cell.dataset.order);
}

function compare(left, right) {
  if (typeof left === "number" && typeof right === "number") return left - right;
  return String(left).localeCompare(String(right), undefined, {numeric: true});
}

function sort(heading) {
  const body = heading.closest("table").tBodies[0];
  const descending = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const sign = descending ? -1 : 1;
  const column = heading.cellIndex;
  const rows = [...body.rows].sort((a, b) => sign * compare(order(a, column), order(b, column)));
  body.append(...rows);
}

for (const table of document.querySelectorAll("table")) {
  for (const heading of table.tHead.rows[0].cells) {
    const cell = table.tBodies[0].rows[0]?.cells[heading.cellIndex];
    heading.classList.toggle("number", cell?.classList.contains("number") ?? false);
    if (cell?.querySelector(".bar")) continue; // nothing to sort by
    heading.addEventListener("click", () => sort(heading));
  }
}
