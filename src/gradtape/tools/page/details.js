// What is said about a box of a picture: its numbers, put together from its members, and the text of tooltip and panel.
// Everything the user wrote goes through textContent, never through markup.
"use strict";
window.gradtape = window.gradtape || {};

window.gradtape.details = (function () {
  const SVG = "http://www.w3.org/2000/svg";

  // element("p", "quiet", "text" or children...)
  function element(tag, name, ...content) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    for (const item of content) if (item !== null && item !== undefined) made.append(item);
    return made;
  }

  function bytes(n) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let k = 0;
    while (n >= 1000 && k < units.length - 1) { n /= 1000; k++; }
    return (k && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[k];
  }

  function seconds(s) {
    if (s >= 1) return s.toFixed(2) + " s";
    if (s >= 1e-3) return (s * 1e3).toFixed(s < 1e-2 ? 2 : 1) + " ms";
    return (s * 1e6).toFixed(1) + " µs";
  }

  function number(v) {
    if (typeof v === "string") return v;
    if (v === 0) return "0";
    const size = Math.abs(v);
    if (size >= 1e5 || size < 1e-3) return v.toExponential(2).replace("e+", "e").replace("-", "−").replace("e-", "e−");
    return String(Number(v.toPrecision(4))).replace("-", "−");
  }

  function count(n) { return n.toLocaleString("en-US"); }

  // The numbers of a box: sums over its members, the largest gradient, and its course over the iterations.
  function numbers(data, members) {
    const found = { bytes: null, forward: null, backward: null, gradient: null, largest: null, series: null, bad: false,
      total: 0 };
    const norms = [];
    for (const m of members) {
      const node = data.nodes[m];
      found.total += node.count || 1;
      if (node.bytes !== undefined) found.bytes = (found.bytes || 0) + node.bytes;
      if (node.seconds) {
        found.forward = (found.forward || 0) + node.seconds[0];
        found.backward = (found.backward || 0) + node.seconds[1];
      }
      if (node.value && node.value.nonfinite) found.bad = true;
      if (!node.gradient) continue;
      const norm = node.gradient.norm;
      if (typeof norm === "string") { found.bad = true; found.gradient = found.gradient || norm; continue; }
      norms.push(norm);
      if (found.gradient === null || typeof found.gradient === "string" || norm > found.gradient) found.gradient = norm;
      found.largest = Math.max(found.largest || 0, node.gradient.max);
    }
    if (members.length === 1 && data.nodes[members[0]].series) found.series = data.nodes[members[0]].series;
    else if (norms.length > 2) found.series = thinned(norms, 64);
    return found;
  }

  function thinned(list, most) {
    if (list.length <= most) return list;
    return Array.from({ length: most }, (_, i) => list[Math.floor((i * (list.length - 1)) / (most - 1))]);
  }

  // A small curve of gradient norms over the iterations, on a logarithmic scale.
  function sparkline(series) {
    const logs = series.map((v) => (typeof v === "number" && v > 0 ? Math.log10(v) : null));
    const known = logs.filter((v) => v !== null);
    if (known.length < 2) return null;
    const low = Math.min(...known), high = Math.max(...known), span = high - low || 1, w = 250, h = 62, left = 54;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
    svg.setAttribute("class", "spark");
    const line = document.createElementNS(SVG, "polyline");
    const across = (w - left - 4) / (logs.length - 1), floor = h - 15;
    const points = logs.map((v, i) => [left + i * across, v === null ? floor : floor - ((v - low) / span) * (floor - 5)]);
    const axis = document.createElementNS(SVG, "path");
    axis.setAttribute("d", `M${left} 3V${floor + 2}H${w - 2}`);
    svg.append(axis);
    line.setAttribute("points", points.map((p) => p.map((c) => c.toFixed(1)).join(",")).join(" "));
    svg.append(line);
    const label = (x, y, words, end) => {
      const made = document.createElementNS(SVG, "text");
      made.setAttribute("x", x);
      made.setAttribute("y", y);
      if (end) made.setAttribute("text-anchor", "end");
      made.append(words);
      svg.append(made);
    };
    label(left - 4, 9, number(10 ** high), true);
    label(left - 4, h - 14, number(10 ** low), true);
    label(left, h - 2, "iteration 1");
    label(w - 2, h - 2, "last", true);
    const text = `first ${number(series[0])} → last ${number(series[series.length - 1])}`;
    return element("div", "course", svg, element("div", "quiet", "over the iterations: " + text));
  }

  function source(data, index) {
    if (index === null || index === undefined) return null;
    const [file, line, inside, text, column, end] = data.sites[index];
    const where = element("div", "where", element("span", "file", shortFile(file) + ":" + line));
    if (inside && inside !== "<module>") where.append(element("span", "quiet", "in " + inside.replace("<locals>.", "")));
    where.title = file + ":" + line;
    const made = element("div", "source", where);
    if (text) {
      const code = element("code", "");
      if (end > column) code.append(text.slice(0, column), element("mark", "", text.slice(column, end)), text.slice(end));
      else code.append(text);
      made.append(code);
    }
    return made;
  }

  function shortFile(file) { return file.split(/[\\/]/).pop(); }

  function row(table, name, ...value) {
    table.append(element("div", "key", name), element("div", "fact", ...value));
  }

  function valueRows(table, node) {
    const value = node.value;
    if (!value) return;
    if (value.min !== undefined) {
      const scalar = Array.isArray(node.shape) && node.shape.every((d) => d === 1);
      const range = `${number(value.min)} … ${number(value.max)}`, mean = number(value.mean);
      if (scalar) row(table, "value", mean);
      else row(table, "value", range, element("span", "quiet", " mean " + mean));
      if (!scalar) {
        const more = Array.isArray(node.shape) && node.shape.reduce((a, b) => a * b, 1) > value.first.length;
        row(table, "first", value.first.map(number).join(", ") + (more ? ", …" : ""));
      }
    }
    if (value.nonfinite) row(table, "", element("span", "alarm", count(value.nonfinite) + " NaN or infinite"));
  }

  function facts(data, box, totals) {
    const table = element("div", "facts");
    const node = box.node;
    if (node && node.ops) row(table, "ops", node.ops.map(([name, n]) => (n > 1 ? `${name} ×${count(n)}` : name)).join(", "));
    else if (node) {
      const shape = window.gradtape.scene.shapeText(node);
      row(table, "shape", shape, node.dtype ? element("span", "quiet", " " + node.dtype) : null);
      if (node.name && node.name !== node.op) row(table, "name", node.name);
    }
    if (totals.total > 1) row(table, node ? "ran" : "operations", count(totals.total) + (node ? " times" : ""));
    if (node) valueRows(table, node);
    if (totals.gradient !== null) {
      const bad = typeof totals.gradient === "string";
      const parts = [bad ? element("span", "alarm", totals.gradient) : "‖g‖ " + number(totals.gradient)];
      if (totals.largest !== null) parts.push(element("span", "quiet", ` largest entry ${number(totals.largest)}`));
      row(table, totals.total > 1 && !box.leaf ? "gradient, at most" : "gradient", ...parts);
    }
    if (totals.forward !== null) {
      row(table, "time", seconds(totals.forward + totals.backward),
        element("span", "quiet", ` forward ${seconds(totals.forward)}, backward ${seconds(totals.backward)}`));
    }
    if (totals.bytes) row(table, "saved", bytes(totals.bytes));
    return table;
  }

  const KINDS = { data: "not watched", variable: "variable", watched: "watched", function: "compiled function",
    gradient: "gradient",
    assign: "assignment", stop: "not differentiable", line: "source line" };

  function heading(box) {
    const made = element("div", "heading", element("strong", "", box.label));
    const node = box.node;
    if (node && KINDS[node.kind]) made.append(element("span", "badge " + node.kind, KINDS[node.kind]));
    if (node && node.target) made.append(element("span", "badge target", "target"));
    if (box.total > 1 && !box.leaf) made.append(element("span", "badge", "×" + count(box.total)));
    return made;
  }

  // The content of the tooltip: a document fragment.
  function tooltip(data, box) {
    const made = document.createDocumentFragment(), totals = numbers(data, box.members);
    made.append(heading(box));
    if (box.node) {
      const place = source(data, box.node.site);
      if (place) made.append(place);
    } else if (box.where) made.append(element("div", "where", box.where));
    made.append(facts(data, box, totals));
    const spark = totals.series && sparkline(totals.series);
    if (spark) made.append(spark);
    return made;
  }

  // The content of the panel: the tooltip's, with neighbours, programs and what is missing. `go(box)` selects another box.
  function panel(data, scene, box, go) {
    const made = tooltip(data, box), node = box.node;
    const ins = scene.arrows.filter((a) => a.to === box), outs = scene.arrows.filter((a) => a.from === box);
    const constants = node && node.constants ? node.constants : [];
    if (ins.length || constants.length) {
      const list = element("ul", "near");
      const rows = ins.map((a) => [a.slot, neighbour(data, a.from, a.carrier ? "from the iteration before" : "", go)]);
      for (const [slot, text] of constants) {
        rows.push([slot, element("li", "constant", text || "a value", element("span", "quiet", " constant"))]);
      }
      rows.sort((p, q) => p[0] - q[0]).forEach((r) => list.append(r[1]));
      made.append(element("h3", "", "computed from"), list);
    }
    if (outs.length) {
      const list = element("ul", "near");
      for (const a of outs.slice(0, 12)) list.append(neighbour(data, a.to, a.carrier ? "in the next iteration" : "", go));
      if (outs.length > 12) list.append(element("li", "quiet", `and ${outs.length - 12} more`));
      made.append(element("h3", "", "used by"), list);
    }
    if (node && node.program !== undefined) {
      const text = element("pre", "", data.programs[node.program]);
      const fold = element("details", "program", element("summary", "", "the compiled program"), text);
      fold.open = box.opens === undefined; // what can be opened is drawn
      made.append(fold);
    } else if (node && node.kind === "function") {
      made.append(element("p", "quiet", "The program is not kept after the tape was used up."));
    }
    const why = data.measures.values && data.measures.values.reason;
    if (why && node) made.append(element("p", "quiet", "No values: " + why + "."));
    return made;
  }

  function neighbour(data, box, note, go) {
    const button = element("button", "link", box.label);
    button.type = "button";
    button.addEventListener("click", () => go(box));
    const node = box.node, at = node && node.site !== null && node.site !== undefined ? data.sites[node.site] : null;
    const more = [box.sub, at ? shortFile(at[0]) + ":" + at[1] : "", note].filter(Boolean).join(" · ");
    return element("li", "", button, element("span", "quiet", " " + more));
  }

  return { element, bytes, seconds, number, count, numbers, tooltip, panel, shortFile };
})();
