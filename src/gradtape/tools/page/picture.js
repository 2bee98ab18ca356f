// The picture on the page: draws a scene as SVG and lets the reader move, zoom, hover, choose, search, fold and colour.
// One `mount(element, data, whole)` per picture; several may share a page. It computes no coordinates of boxes.
"use strict";
window.gradtape = window.gradtape || {};

window.gradtape.mount = (function () {
  const SVG = "http://www.w3.org/2000/svg";
  const { element, bytes, seconds, number, count, numbers, tooltip, panel, shortFile } = window.gradtape.details;
  const HUES = [215, 150, 28, 335, 265, 185, 52, 0, 95, 300];
  const VISIBLE = 260, ALL = 700; // boxes shown at first, and at most
  const MEASURES = [["function", "Function"], ["time", "Time"], ["bytes", "Memory"], ["gradient", "Gradient"]];
  const ICONS = {
    panel: "M3 4h14v12H3zM12 4v12", theme: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
    fit: "M3 8V3h5M17 8V3h-5M3 12v5h5M17 12v5h-5",
    plus: "M10 4v12M4 10h12", minus: "M4 10h12",
  };

  function drawn(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    made.append(...children);
    return made;
  }

  function button(name, label, icon, action) {
    const made = element("button", name);
    made.type = "button";
    made.title = label;
    made.setAttribute("aria-label", label);
    made.append(drawn("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, drawn("path", { d: ICONS[icon] })));
    made.addEventListener("click", action);
    return made;
  }

  class Picture {
    constructor(root, data, whole) {
      this.data = data = window.gradtape.opened(data);
      this.whole = whole;
      this.states = new Map();
      this.measure = "function";
      this.at = { x: 0, y: 0, scale: 1 };
      this.chosen = null;
      this.hits = [];
      // colours are those of functions; where there is one function only, of its lines
      this.byLine = new Set(data.nodes.map((node) => this.functionOf(node)).filter((name) => name !== null)).size < 2;
      this.build(root);
      this.startStates();
      this.hues = new Map();
      for (const node of data.nodes) {
        const name = this.coloured(node);
        if (name !== null && !this.hues.has(name)) this.hues.set(name, HUES[this.hues.size % HUES.length]);
      }
      this.draw();
      this.overview();
      this.side.hidden = !(whole && this.root.clientWidth > 900);
      this.fit(true);
      new ResizeObserver(() => this.moved()).observe(this.stage);
      window.addEventListener("gradtape-theme", () => this.paintMap());
      // on paper the whole graph, in whatever room there is
      window.addEventListener("beforeprint", () => this.printed(true));
      window.addEventListener("afterprint", () => this.printed(false));
    }

    printed(paper) {
      this.paper = paper;
      this.moved();
    }

    // What a box has its colour from.
    coloured(node) {
      if (!this.byLine) return this.functionOf(node);
      const site = node.site === null || node.site === undefined ? null : this.data.sites[node.site];
      return site && `${shortFile(site[0])}:${site[1]}  ${site[3]}`;
    }

    functionOf(node) {
      return node.site === null || node.site === undefined ? null : this.data.sites[node.site][2];
    }

    // -- parts of the page ----------------------------------------------------------------------------------------------

    build(root) {
      this.root = root;
      root.classList.add("picture");
      const tape = this.data.tape;
      const about = [count(tape.records) + (tape.records === 1 ? " operation" : " operations"),
        tape.variables ? count(tape.variables) + (tape.variables === 1 ? " variable" : " variables") : "",
        this.data.measures.bytes.total ? bytes(this.data.measures.bytes.total) + " saved" : ""].filter(Boolean).join(" · ");
      this.input = element("input");
      Object.assign(this.input, { type: "search", placeholder: "Search  ( / )", spellcheck: false });
      this.input.setAttribute("aria-label", "Search");
      this.found = element("output", "");
      this.colours = element("div", "colour");
      this.colours.setAttribute("role", "group");
      this.colours.setAttribute("aria-label", "Colour by");
      for (const [key, label] of MEASURES) {
        this.colours.append(this.colourButton(key, key === "function" && this.byLine ? "Line" : label));
      }
      const tools = element("div", "tools");
      if (this.whole) tools.append(button("tool theme", "Light or dark", "theme", () => window.gradtape.theme.turn()));
      tools.append(button("tool", "Overview and details", "panel", () => this.showPanel(this.side.hidden)));
      const title = this.whole ? element("h1", "", this.data.title || "tape") : null;
      const search = element("div", "search", this.input, this.found);
      const bar = element("header", "bar", title, element("span", "about", about), search, this.colours, tools);
      this.stage = element("div", "stage");
      this.svg = drawn("svg", { role: "group", "aria-label": "the recorded operations" });
      this.canvas = drawn("g", {});
      this.svg.append(this.canvas);
      this.map = element("canvas", "map");
      this.tip = element("div", "tip-box");
      this.tip.hidden = true;
      this.tip.setAttribute("role", "tooltip");
      const zoom = element("div", "zoom", button("", "Zoom in", "plus", () => this.zoom(1.35)),
        button("", "Zoom out", "minus", () => this.zoom(1 / 1.35)),
        button("", "Show everything", "fit", () => this.fit(false)));
      this.stage.append(this.svg, zoom, this.map, this.tip);
      this.side = element("aside", "panel");
      this.side.hidden = true;
      root.append(bar, element("div", "main", this.stage, this.side));
      this.listen();
    }

    colourButton(key, label) {
      const made = element("button", "", label);
      const reason = key === "function" ? null : this.data.measures[key] && this.data.measures[key].reason;
      made.type = "button";
      made.dataset.measure = key;
      made.setAttribute("aria-pressed", String(key === this.measure));
      made.title = reason ? "Not available: " + reason : { function: this.byLine ? "Colour by line" :
        "Colour by function", time: "Colour by time",
        bytes: "Colour by bytes kept for the backward pass", gradient: "Colour by the norm of the gradient" }[key];
      if (reason) made.setAttribute("aria-disabled", "true");
      made.addEventListener("click", () => (reason ? this.say(reason) : this.colour(key)));
      return made;
    }

    say(reason) {
      this.choose(null);
      const sentence = reason.charAt(0).toUpperCase() + reason.slice(1) + ".";
      this.side.replaceChildren(this.shut(), element("h2", "", "Not available"), element("p", "", sentence));
      this.showPanel(true);
    }

    shut() {
      const made = element("button", "shut", "×");
      made.type = "button";
      made.setAttribute("aria-label", "Close the panel");
      made.addEventListener("click", () => this.showPanel(false));
      return made;
    }

    showPanel(open) {
      this.side.hidden = !open;
      this.moved();
    }

    // -- which groups are open ------------------------------------------------------------------------------------------

    // When there is too much to see, inner groups start closed.
    startStates() {
      const groups = [];
      (function visit(items, depth) {
        for (const item of items) {
          if (typeof item === "number") continue;
          groups.push([item, depth]);
          visit(item.kind === "call" ? item.items : item.iterations[0], depth + 1);
        }
      })(this.data.groups, 0);
      if (window.gradtape.scene.visible(this.data, this.states) <= VISIBLE) return;
      for (const [item] of groups.sort((a, b) => b[1] - a[1])) {
        this.states.set(item.number, "closed");
        if (window.gradtape.scene.visible(this.data, this.states) <= VISIBLE) return;
      }
    }

    turn(group, state) {
      const before = this.states.get(group.number);
      const anchor = this.screen(group);
      this.states.set(group.number, state);
      if (window.gradtape.scene.visible(this.data, this.states) > ALL && state !== "closed") {
        this.states.set(group.number, before);
        this.say(`${count(ALL)} boxes are as many as can be read; close other groups first`);
        return;
      }
      this.hideTip();
      this.draw();
      const now = [...this.scene.groups, ...this.scene.nodes].find((g) => g.id === group.id || g.id === "n" + group.shut);
      if (now) this.keep(now, anchor);
      if (this.chosen) this.choose(this.scene.nodes.find((n) => n.id === this.chosen.id) || null);
      this.search();
    }

    screen(box) {
      return [box.x * this.at.scale + this.at.x, box.y * this.at.scale + this.at.y];
    }

    keep(box, [x, y]) {
      this.at.x = x - box.x * this.at.scale;
      this.at.y = y - box.y * this.at.scale;
      this.moved();
    }

    // -- drawing --------------------------------------------------------------------------------------------------------

    draw() {
      this.scene = window.gradtape.scene(this.data, this.states);
      const groups = drawn("g", {}), edges = drawn("g", {}), nodes = drawn("g", {}), heads = drawn("g", {});
      for (const group of this.scene.groups) this.drawGroup(group, groups, heads);
      for (const curve of this.scene.curves) edges.append(this.drawCurve(curve));
      for (const box of this.scene.nodes) nodes.append(this.drawNode(box));
      this.canvas.replaceChildren(groups, edges, heads, nodes);
      if (!this.scene.nodes.length) {
        this.stage.append(element("div", "empty", "Nothing was recorded: no operation used a watched tensor or variable."));
      }
      this.paint();
    }

    drawGroup(group, frames, heads) {
      const frame = drawn("g", { class: "group " + group.kind });
      frame.append(drawn("rect", { class: "frame", x: group.x, y: group.y, width: group.w, height: group.h, rx: 12 }));
      frames.append(frame);
      const head = drawn("g", { class: "group " + group.kind });
      const label = drawn("text", { x: group.x + 12, y: group.y + 17 });
      label.append(group.kind === "loop" ? `↻ ×${group.count}  ` : group.kind === "call" ? group.mark : "");
      const title = drawn("tspan", { class: group.kind === "loop" ? "sub" : "" });
      title.append(group.title);
      label.append(title);
      if (group.alarm) label.append(drawn("tspan", { class: "alarm", dx: 8 }, group.alarm));
      const area = drawn("g", { class: "head" }, label);
      area.append(drawn("title", {}, { loop: `a loop of ${group.count} iterations, ${group.title}`,
        call: [(group.mark && "in function ") + group.title, group.where].filter(Boolean).join(", "),
        iteration: `iteration ${group.title}` }[group.kind]));
      head.append(area);
      heads.append(head);
      if (group.kind === "iteration") return;
      const x = group.x + group.w - 28, y = group.y + 5, close = () => this.turn(group, "closed");
      head.append(this.act(x, y, "M4 8h8", "Close into one box", close));
      let main = close;
      if (group.expandable) {
        const open = group.expanded;
        main = () => this.turn(group, open ? "open" : "all");
        head.append(this.act(x - 22, y, open ? "M4 6l4-3 4 3M4 10l4 3 4-3" : "M4 4l4 3 4-3M4 12l4-3 4 3",
          open ? "Fold the iterations" : `Unfold all ${group.size} iterations`, main));
      }
      area.addEventListener("click", () => { if (!this.moving) main(); });
    }

    act(x, y, d, label, action) {
      const made = drawn("g", { class: "act", role: "button", tabindex: "0", "aria-label": label,
        transform: `translate(${x} ${y})` }, drawn("rect", { width: 16, height: 16, rx: 5 }), drawn("path", { d }),
        drawn("title", {}, label));
      made.addEventListener("click", (event) => { event.stopPropagation(); action(); });
      made.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        action();
      });
      return made;
    }

    drawCurve(curve) {
      const kind = "edge" + (curve.carried ? " carried" : "") + (curve.far ? " far" : "") +
        (curve.source.node && curve.source.node.kind === "data" ? " light" : "");
      const made = drawn("g", { class: kind }, drawn("path", { d: curve.d }));
      if (curve.head) {
        const [x, y] = curve.end;
        made.append(drawn("path", { class: "tip", d: `M${x - 4} ${y - 7}L${x + 4} ${y - 7}L${x} ${y}Z` }));
      }
      curve.element = made;
      return made;
    }

    drawNode(box) {
      const kinds = ["node", box.node ? box.node.kind : "closed " + box.kind];
      if (box.leaf) kinds.push("leaf");
      if (box.node && box.node.target) kinds.push("target");
      const made = drawn("g", { class: kinds.join(" "), tabindex: "0", role: "button", "data-id": box.id,
        transform: `translate(${box.x} ${box.y})`, "aria-label": [box.label, box.sub].filter(Boolean).join(", ") });
      const radius = box.leaf ? box.h / 2 : 8;
      if (box.total > 1 || box.closed || box.opens) {
        made.append(drawn("rect", { class: "under", x: 3, y: 3, width: box.w, height: box.h, rx: radius }));
      }
      made.append(drawn("rect", { width: box.w, height: box.h, rx: radius }));
      const middle = box.w / 2;
      if (box.leaf) {
        const text = drawn("text", { x: middle, y: box.h / 2 + 4.5 }, box.label);
        if (box.sub) { const sub = drawn("tspan", { class: "sub", dx: 7 }); sub.append(box.sub); text.append(sub); }
        made.append(text);
      } else {
        const mark = box.closed ? (box.kind === "loop" ? "↻ " : box.mark) : box.opens ? "ƒ " : "";
        made.append(drawn("text", { x: middle, y: box.sub ? 17 : 25 }, mark + box.label));
        if (box.sub) made.append(drawn("text", { class: "sub", x: middle, y: 32 }, box.sub));
      }
      box.element = made;
      made.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") this.hover(box, event); });
      made.addEventListener("pointerleave", () => this.hideTip());
      made.addEventListener("focus", () => { if (made.matches(":focus-visible")) this.hover(box, null); });
      made.addEventListener("blur", () => this.hideTip());
      made.addEventListener("click", (event) => { event.stopPropagation(); if (!this.moving) this.choose(box, true); });
      made.addEventListener("keydown", (event) => { if (event.key === "Enter") this.choose(box, true); });
      made.addEventListener("dblclick", (event) => {
        if (box.closed || box.opens) { event.stopPropagation(); this.open(box); }
      });
      return made;
    }

    open(box) { this.turn(box.opens ? { ...box, number: box.opens, id: "g" + box.opens } : box, "open"); }

    // -- colours --------------------------------------------------------------------------------------------------------

    colour(measure) {
      this.measure = measure;
      for (const made of this.colours.children) made.setAttribute("aria-pressed", String(made.dataset.measure === measure));
      this.paint();
      if (!this.chosen) this.overview();
    }

    value(totals) {
      if (this.measure === "time") return totals.forward === null ? null : totals.forward + totals.backward;
      if (this.measure === "bytes") return totals.bytes;
      return typeof totals.gradient === "number" ? totals.gradient : null;
    }

    paint() {
      const heat = this.measure !== "function", totals = new Map();
      for (const box of this.scene.nodes) totals.set(box, numbers(this.data, box.members));
      const tainted = this.downstream(totals);
      const values = this.scene.nodes.map((box) => this.value(totals.get(box))).filter((v) => v !== null && v > 0);
      const high = Math.max(...values, 0), low = Math.min(...values, high), logarithmic = this.measure === "gradient";
      this.range = [logarithmic ? low : 0, high];
      for (const box of this.scene.nodes) {
        const style = box.element.style, list = box.element.classList, own = totals.get(box);
        const node = box.node || this.data.nodes[box.members[0]], hue = this.hues.get(this.coloured(node));
        if (hue !== undefined) style.setProperty("--h", hue);
        list.toggle("bad", own.bad);
        list.toggle("tainted", tainted.has(box) && !own.bad);
        const v = heat ? this.value(own) : null, known = v !== null && v > 0;
        list.toggle("heat", heat);
        list.toggle("cold", heat && !known);
        if (!known) { list.remove("hot"); style.setProperty("--heat", "var(--heat-low)"); continue; }
        const p = logarithmic ? (high > low ? Math.log(v / low) / Math.log(high / low) : 1) : v / high;
        const mixed = p < 0.5 ? `color-mix(in oklab, var(--heat-low), var(--heat-mid) ${(p * 200).toFixed(0)}%)`
          : `color-mix(in oklab, var(--heat-mid), var(--heat-high) ${((p - 0.5) * 200).toFixed(0)}%)`;
        style.setProperty("--heat", mixed);
        list.toggle("hot", p > 0.7);
      }
      this.paintMap();
    }

    // What was computed from a NaN or an infinity; where the tape has a report of it, its operation is where that begins.
    downstream(totals) {
      const report = this.data.tape.nan, reached = new Set();
      for (const box of this.scene.nodes) {
        const own = totals.get(box), site = box.node && Number.isInteger(box.node.site) ? this.data.sites[box.node.site] : null;
        const here = report && site && box.node.op === report.op && report.at === `${site[0]}:${site[1]}`;
        if (here) own.bad = true;
        if ((here && report.phase === "forward") || box.members.some((m) => (this.data.nodes[m].value ||
          {}).nonfinite)) reached.add(box);
      }
      for (const box of reached) for (const arrow of this.scene.arrows) if (arrow.from === box) reached.add(arrow.to);
      return reached;
    }

    // -- moving ---------------------------------------------------------------------------------------------------------

    fit(first) {
      const w = this.stage.clientWidth, h = this.stage.clientHeight, scene = this.scene, margin = 28;
      if (!scene.width || !w) return;
      const whole = Math.min((w - 2 * margin) / scene.width, (h - 2 * margin) / scene.height, 1.25);
      const scale = first ? Math.max(whole, Math.min((w - 2 * margin) / scene.width, 0.62), 0.3) : whole;
      const left = (w - scene.width * scale) / 2, above = (h - scene.height * scale) / 2;
      this.at = { scale, x: left, y: above > 0 ? above : margin };
      this.moved();
    }

    zoom(factor, x = this.stage.clientWidth / 2, y = this.stage.clientHeight / 2) {
      const least = Math.min(0.05, (this.stage.clientHeight / (this.scene.height || 1)) * 0.8);
      const scale = Math.min(Math.max(this.at.scale * factor, least), 4);
      const ratio = scale / this.at.scale;
      this.at = { scale, x: x - (x - this.at.x) * ratio, y: y - (y - this.at.y) * ratio };
      this.moved();
    }

    moved() {
      const { width, height } = this.scene, at = this.paper ? { x: 12, y: 12, scale: 1 } : this.at;
      if (this.paper) this.svg.setAttribute("viewBox", `0 0 ${width + 24} ${height + 24}`);
      else this.svg.removeAttribute("viewBox");
      this.svg.style.setProperty("--own-width", `${width + 24}px`);
      this.canvas.setAttribute("transform", `translate(${at.x} ${at.y}) scale(${at.scale})`);
      this.svg.classList.toggle("far-away", at.scale < 0.28);
      this.paintMap();
    }

    centre(box) {
      this.at.scale = Math.max(this.at.scale, 0.7);
      this.at.x = this.stage.clientWidth / 2 - (box.x + box.w / 2) * this.at.scale;
      this.at.y = this.stage.clientHeight / 2 - (box.y + box.h / 2) * this.at.scale;
      this.moved();
    }

    listen() {
      window.gradtape.moves(this);
      this.input.addEventListener("input", () => this.search(true));
      this.input.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && this.hits.length) {
          event.preventDefault();
          this.hit = (this.hit + (event.shiftKey ? this.hits.length - 1 : 1)) % this.hits.length;
          this.showHit();
        } else if (event.key === "Escape") { this.input.value = ""; this.search(); }
      });
      this.root.addEventListener("keydown", (event) => {
        if (event.target === this.input) return;
        const keys = { "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8),
          0: () => this.fit(false), "/": () => this.input.focus(), Escape: () => this.choose(null) };
        if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); }
      });
    }

    // -- the small map --------------------------------------------------------------------------------------------------

    paintMap() {
      const scene = this.scene, w = this.stage.clientWidth, h = this.stage.clientHeight, s = this.at.scale;
      if (!scene) return;
      this.map.hidden = scene.width * s <= w * 1.02 && scene.height * s <= h * 1.02;
      if (this.map.hidden) return;
      window.gradtape.paintMap(this.map, scene, this.at, w, h);
    }

    // -- hovering, choosing, searching ----------------------------------------------------------------------------------

    hover(box, event) {
      if (this.moving) return;
      this.near(box);
      this.tip.replaceChildren(tooltip(this.data, box));
      this.tip.hidden = false;
      const stage = this.stage.getBoundingClientRect(), own = box.element.getBoundingClientRect();
      const left = own.left - stage.left, top = own.top - stage.top, w = this.tip.offsetWidth, h = this.tip.offsetHeight;
      let x = left + own.width + 12, y = top - 6;
      if (x + w > stage.width - 8) x = left - w - 12;
      if (x < 8) { x = Math.min(Math.max(8, left), stage.width - w - 8); y = top + own.height + 12; }
      this.tip.style.left = Math.max(8, x) + "px";
      this.tip.style.top = Math.max(8, Math.min(y, stage.height - h - 8)) + "px";
    }

    hideTip() {
      this.tip.hidden = true;
      this.near(this.chosen);
    }

    near(box) {
      for (const curve of this.scene.curves) {
        const touches = box !== null && (curve.source === box || curve.sinks.includes(box));
        curve.element.classList.toggle("near", touches);
      }
    }

    choose(box, open = false) {
      if (this.chosen && this.chosen.element) this.chosen.element.classList.remove("chosen");
      this.chosen = box;
      this.near(box);
      if (!box) { this.overview(); return; }
      box.element.classList.add("chosen");
      const content = panel(this.data, this.scene, box, (next) => { this.choose(next, true); this.centre(next); });
      this.side.replaceChildren(this.shut());
      if (box.closed || box.opens) {
        const made = element("button", "link", box.opens ? "Open the program" : "Open this group");
        made.type = "button";
        made.addEventListener("click", () => this.open(box));
        content.append(element("p", "", made));
      }
      this.side.append(content);
      this.side.scrollTop = 0;
      if (open) this.showPanel(true);
    }

    text(box) {
      if (box.words) return box.words;
      const parts = [box.label, box.sub, box.title || "", box.where || ""];
      for (const m of new Set(box.members.slice(0, 200))) {
        const node = this.data.nodes[m], site = Number.isInteger(node.site) ? this.data.sites[node.site] : null;
        parts.push(node.op, node.name || "", site ? `${shortFile(site[0])}:${site[1]} ${site[2]} ${site[3]}` : "");
        if (!box.closed) break;
      }
      box.words = parts.join(" ").toLowerCase();
      return box.words;
    }

    search(jump = false) {
      // "file.py:12" means line 12, not 120
      const words = this.input.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = words.map((word) => (/:\d+$/.test(word) ? word + " " : word));
      this.hits = wanted.length ? this.scene.nodes.filter((box) => wanted.every((word) => this.text(box).includes(word))) : [];
      this.svg.classList.toggle("dim", wanted.length > 0);
      for (const box of this.scene.nodes) box.element.classList.toggle("hit", this.hits.includes(box));
      this.hit = 0;
      this.found.textContent = wanted.length ? (this.hits.length ? "" : "none") : "";
      if (this.hits.length) this.showHit(jump);
    }

    showHit(move = true) {
      this.found.textContent = `${this.hit + 1} of ${this.hits.length}`;
      const box = this.hits[this.hit];
      if (move) { this.centre(box); this.choose(box); }
    }

    overview() { window.gradtape.overview(this); }
  }

  return (root, data, whole) => new Picture(root, data, whole);
})();
