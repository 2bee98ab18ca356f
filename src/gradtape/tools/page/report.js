// A report: tables that sort, and graphs that start when they come into view.
"use strict";
(function () {
  document.getElementById("theme").addEventListener("click", () => window.gradtape.theme.turn());

  function start(graph) {
    watcher.unobserve(graph);
    const data = JSON.parse(document.getElementById(graph.dataset.graph).textContent);
    const inner = document.createElement("div");
    graph.append(inner);
    const picture = window.gradtape.mount(inner, data, false);
    // a small graph needs little room
    const bar = inner.firstElementChild.offsetHeight, most = graph.offsetHeight;
    graph.style.height = Math.min(most, Math.max(160, picture.scene.height * 1.1 + bar + 50)) + "px";
    picture.fit(true);
    waiting.delete(graph);
    return picture;
  }

  const waiting = new Set(document.querySelectorAll(".graph"));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) start(entry.target);
  }, { rootMargin: "300px" });
  waiting.forEach((graph) => watcher.observe(graph));
  // those that nobody has seen yet; their own listeners come too late for this
  window.addEventListener("beforeprint", () => [...waiting].forEach((graph) => start(graph).printed(true)));

  function key(row, column) {
    const cell = row.cells[column], text = cell.dataset.v || cell.textContent;
    const number = Number(text.replace(/,/g, ""));
    return Number.isNaN(number) ? text : number;
  }

  document.querySelectorAll("table").forEach((table) => {
    table.querySelectorAll("th").forEach((head, column) => {
      const first = table.tBodies[0].rows[0];
      if (first && first.cells[column] && first.cells[column].classList.contains("n")) head.classList.add("n");
      head.tabIndex = 0;
      const sort = () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        // lines of a compiled function stay below its row
        const blocks = [];
        for (const row of table.tBodies[0].rows) {
          if (row.classList.contains("inner") && blocks.length) blocks[blocks.length - 1].push(row);
          else blocks.push([row]);
        }
        blocks.sort((a, b) => {
          const x = key(a[0], column), y = key(b[0], column);
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
          return down ? -order : order;
        });
        table.tBodies[0].append(...blocks.flat());
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  });
})();
