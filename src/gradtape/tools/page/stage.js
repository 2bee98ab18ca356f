// Parts of a picture that stand on their own: moving it with mouse, wheel and fingers, the small map, and the overview panel.
"use strict";
window.gradtape = window.gradtape || {};

// Drag to move, wheel or two fingers to zoom. In a report the wheel scrolls the page until the picture was clicked.
window.gradtape.moves = function (picture) {
  const stage = picture.stage, fingers = new Map();
  let start = null, awake = picture.whole;
  stage.addEventListener("wheel", (event) => {
    if (!awake && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const area = stage.getBoundingClientRect(), unit = event.deltaMode === 1 ? 18 : 1;
    if (event.shiftKey) { picture.at.x -= (event.deltaY || event.deltaX) * unit; picture.moved(); return; }
    picture.hideTip();
    picture.zoom(Math.exp(-event.deltaY * unit * 0.0016), event.clientX - area.left, event.clientY - area.top);
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    if (event.target.closest(".zoom, .map, .act")) return;
    awake = true;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    start = { x: event.clientX, y: event.clientY, at: { ...picture.at }, spread: spread() };
    picture.moving = false;
  });
  window.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId) || !start) return;
    const before = fingers.get(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (fingers.size > 1) {
      const now = spread(), area = stage.getBoundingClientRect(), middle = centre();
      if (start.spread) picture.zoom(now / start.spread, middle[0] - area.left, middle[1] - area.top);
      start.spread = now;
      picture.moving = true;
      return;
    }
    if (!picture.moving && Math.hypot(event.clientX - start.x, event.clientY - start.y) < 5) return;
    picture.moving = true;
    picture.hideTip();
    stage.classList.add("dragging");
    picture.at.x += event.clientX - before[0];
    picture.at.y += event.clientY - before[1];
    picture.moved();
  });
  function ended(event) {
    if (!fingers.delete(event.pointerId)) return;
    stage.classList.remove("dragging");
    const still = !picture.moving && event.type === "pointerup";
    if (still && !event.target.closest(".node, .head, .act, .zoom, .map, .panel, .bar")) picture.choose(null);
    window.setTimeout(() => { picture.moving = false; }, 0);
    start = fingers.size ? { x: event.clientX, y: event.clientY, at: { ...picture.at }, spread: spread() } : null;
  }
  window.addEventListener("pointerup", ended);
  window.addEventListener("pointercancel", ended);

  function spread() {
    const [a, b] = [...fingers.values()];
    return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
  }

  function centre() {
    const [a, b] = [...fingers.values()];
    return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  }

  let held = false;
  function travel(event) {
    const area = picture.map.getBoundingClientRect(), map = picture.map.mapping;
    if (!map) return;
    const x = (event.clientX - area.left - map.x) / map.scale, y = (event.clientY - area.top - map.y) / map.scale;
    picture.at.x = stage.clientWidth / 2 - x * picture.at.scale;
    picture.at.y = stage.clientHeight / 2 - y * picture.at.scale;
    picture.moved();
  }
  picture.map.addEventListener("pointerdown", (event) => {
    held = true;
    picture.map.setPointerCapture(event.pointerId);
    travel(event);
  });
  picture.map.addEventListener("pointermove", (event) => { if (held) travel(event); });
  picture.map.addEventListener("pointerup", () => { held = false; });
};

// The whole scene in small, with the part that is on the stage.
window.gradtape.paintMap = function (canvas, scene, at, width, height) {
  const w = canvas.clientWidth, h = canvas.clientHeight, dense = window.devicePixelRatio || 1;
  if (!w) return;
  if (canvas.width !== Math.round(w * dense)) { canvas.width = Math.round(w * dense); canvas.height = Math.round(h * dense); }
  const scale = Math.min((w - 12) / scene.width, (h - 12) / scene.height);
  const map = { scale, x: (w - scene.width * scale) / 2, y: (h - scene.height * scale) / 2 };
  canvas.mapping = map;
  const pen = canvas.getContext("2d"), style = window.getComputedStyle(document.documentElement);
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, w, h);
  pen.fillStyle = style.getPropertyValue("--line");
  for (const g of scene.groups) {
    if (g.kind === "iteration") continue;
    pen.globalAlpha = 0.45;
    pen.fillRect(map.x + g.x * scale, map.y + g.y * scale, g.w * scale, g.h * scale);
  }
  pen.globalAlpha = 1;
  pen.fillStyle = style.getPropertyValue("--edge");
  for (const n of scene.nodes) {
    pen.fillRect(map.x + n.x * scale, map.y + n.y * scale, Math.max(n.w * scale, 1.2), Math.max(n.h * scale, 1.2));
  }
  pen.strokeStyle = style.getPropertyValue("--accent");
  pen.lineWidth = 1.5;
  const ratio = scale / at.scale;
  const x = Math.max(map.x - at.x * ratio, 1), y = Math.max(map.y - at.y * ratio, 1);
  const right = Math.min(map.x + (width - at.x) * ratio, w - 1), low = Math.min(map.y + (height - at.y) * ratio, h - 1);
  pen.strokeRect(x, y, Math.max(right - x, 2), Math.max(low - y, 2));
};

// What the panel shows when nothing is chosen: the legend, and the lines with the largest numbers.
window.gradtape.overview = function (picture) {
  const { element, bytes, seconds, number, count, shortFile } = window.gradtape.details;
  const data = picture.data, tape = data.tape, side = picture.side, measure = picture.measure;
  const form = { time: seconds, bytes, gradient: number, function: count }[measure];
  side.replaceChildren(picture.shut(), element("h2", "", "Overview"));
  if (tape.nan) side.append(element("p", "alarm", `NaN or infinity: ${tape.nan.op} at ${shortFile(tape.nan.at)}`),
    element("pre", "report-text", tape.nan.text));
  const say = (words) => side.append(element("p", "quiet", words));
  if (tape.spent) say(`Used up by the gradient at ${shortFile(tape.spent)}: the values are gone, the structure is kept.`);
  if (tape.by === "line") say(`${count(tape.records)} operations that do not repeat: a box is a line, or a block of lines.`);
  else if (tape.folded) say(`${count(tape.records)} operations: loops are drawn once, and a box tells about all its runs.`);
  if (measure === "function") {
    const list = element("ul", "legend");
    for (const [name, hue] of [...picture.hues].slice(0, 14)) {
      const swatch = element("span", "swatch");
      swatch.style.setProperty("--h", hue);
      list.append(element("li", "", swatch, name === "<module>" ? "top level of the script" : name.replace("<locals>.", "")));
    }
    if (list.children.length) side.append(element("h3", "", picture.byLine ? "lines" : "functions"), list);
  } else {
    const [low, high] = picture.range;
    const title = { time: "time", bytes: "bytes kept for the backward pass", gradient: "norm of the gradient" }[measure];
    const ends = element("div", "ends", element("span", "", form(low)), element("span", "", form(high)));
    side.append(element("h3", "", title), element("div", "ramp"), ends);
  }
  const lines = new Map();
  for (const node of data.nodes) {
    if (node.site === null || node.site === undefined) continue;
    const [file, line, , text] = data.sites[node.site], key = file + ":" + line;
    if (!lines.has(key)) lines.set(key, { file, line, text: node.kind === "line" ? node.op : text, ran: 0, value: 0 });
    const entry = lines.get(key);
    entry.ran += node.count || 1;
    const norm = node.gradient ? node.gradient.norm : null;
    if (measure === "time" && node.seconds) entry.value += node.seconds[0] + node.seconds[1];
    else if (measure === "bytes") entry.value += node.bytes || 0;
    else if (measure === "gradient" && typeof norm === "number") entry.value = Math.max(entry.value, norm);
    else if (measure === "function") entry.value = entry.ran;
  }
  const top = [...lines.values()].filter((l) => l.value > 0).sort((a, b) => b.value - a.value).slice(0, 12);
  if (!top.length) return;
  const list = element("div", "lines");
  for (const line of top) {
    const place = `${shortFile(line.file)}:${line.line}`;
    const words = form(line.value) + (measure !== "function" ? "" : line.ran === 1 ? " operation" : " operations");
    const under = element("span", "under", element("span", "", place), element("span", "", words));
    const made = element("button", "", element("span", "text", line.text || `line ${line.line}`), under);
    const meter = element("span", "meter");
    meter.style.width = (100 * line.value) / top[0].value + "%";
    made.append(meter);
    made.type = "button";
    made.addEventListener("click", () => { picture.input.value = place; picture.search(true); });
    list.append(made);
  }
  const heading = { time: "slowest lines", bytes: "lines that keep most", gradient: "lines with the largest gradients",
    function: "busiest lines" }[measure];
  side.append(element("h3", "", heading), list);
};
