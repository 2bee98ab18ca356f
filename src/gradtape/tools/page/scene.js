// From the data of a picture and what the reader folded or closed to boxes and curves with coordinates. Loops that are folded
// show one iteration with all members on top of each other; variables used in many places become chips beside each use.
// It draws nothing. Invariant: every record is behind exactly one visible box.
"use strict";
window.gradtape = window.gradtape || {};

window.gradtape.scene = (function () {
  const HEADER = 24, PAD = 14, LANE = 9, SHARED = 3;
  const ruler = document.createElement("canvas").getContext("2d");
  const widths = new Map();

  function measured(text, font) {
    const key = font + text;
    if (!widths.has(key)) { ruler.font = font; widths.set(key, ruler.measureText(text).width); }
    return widths.get(key);
  }

  const FONT = "600 12.5px ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const SMALL = "11px ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

  function shapeText(node) {
    const shape = node.shape;
    if (!shape) return "";
    if (!Array.isArray(shape)) return shape.outputs.length + " outputs";
    return shape.length > 1 ? shape.join("×") : shape.length ? `(${shape[0]},)` : "scalar";
  }

  // -- what is visible ------------------------------------------------------------------------------------------------

  class View {
    constructor(data, states) {
      this.data = data;
      this.states = states;
      this.owner = new Map(); // node number → visible box
      this.rounds = new Map(); // node number → [[loop, iteration], ...], outermost first
      this.clock = 0;
      this.nodes = [];
      this.groups = [];
      this.root = { kind: "root", children: [], parent: null, depth: 0 };
      this.fill(this.root, [data.groups], [[]]);
    }

    // `rows` are runs of the same body, one per iteration of the folded loops around; `rounds` say which iterations.
    fill(parent, rows, rounds) {
      for (let i = 0; i < rows[0].length; i++) {
        const column = rows.map((row) => row[i]), first = column[0];
        if (typeof first === "number") this.addNode(parent, column, rounds);
        else if (first.kind === "call") this.addCall(parent, column, rounds);
        else this.addLoop(parent, column, rounds);
      }
    }

    addNode(parent, members, rounds) {
      const box = { kind: "node", id: "n" + members[0], members, parent };
      members.forEach((m, k) => { this.owner.set(m, box); this.rounds.set(m, rounds[k]); });
      parent.children.push(box);
      this.nodes.push(box);
    }

    addCall(parent, column, rounds) {
      const call = column[0];
      if (call.shut !== undefined && this.states.get(call.number) !== "open") {
        this.addNode(parent, column.map((c) => c.shut), rounds); // the call, as the tape recorded it
        const box = this.nodes[this.nodes.length - 1];
        box.opens = call.number;
        column.forEach((c, k) => collect(c, (m) => { this.owner.set(m, box); this.rounds.set(m, rounds[k]); }));
        return;
      }
      const group = this.group(parent, "call", call, call.title);
      group.mark = call.mark === undefined ? "ƒ " : call.mark;
      group.shut = call.shut;
      for (const c of column) if (c.shut !== undefined) this.owner.set(c.shut, group);
      if (this.closes(group, column, rounds)) return;
      this.fill(group, column.map((c) => c.items), rounds);
    }

    addLoop(parent, column, rounds) {
      const loop = column[0], group = this.group(parent, "loop", loop, loop.title);
      const counts = column.flatMap((c) => c.counts), low = Math.min(...counts), high = Math.max(...counts);
      group.count = !counts.length ? "…" : low === high ? counted(low) : counted(low) + "–" + counted(high);
      group.size = loop.iterations.length;
      group.expandable = column.length === 1 && loop.iterations.length > 1;
      if (this.closes(group, column, rounds)) return;
      if (group.expandable && this.states.get(loop.number) === "all") {
        group.expanded = true;
        loop.iterations.forEach((iteration, k) => {
          const one = this.group(group, "iteration", { number: loop.number + ":" + k }, String(k + 1));
          this.fill(one, [iteration], rounds);
        });
        return;
      }
      const rows = [], places = [];
      column.forEach((c, k) => {
        for (const iteration of c.iterations) {
          rows.push(iteration);
          places.push([...rounds[k], [loop.number, ++this.clock]]);
        }
      });
      this.fill(group, rows, places);
    }

    group(parent, kind, source, title) {
      const group = { kind, id: "g" + source.number, number: source.number, title, where: source.where || "", children: [],
        parent, depth: parent.depth + 1, folded: kind === "loop" };
      parent.children.push(group);
      this.groups.push(group);
      return group;
    }

    // A closed group is one box that stands for all that is in it.
    closes(group, column, rounds) {
      if (this.states.get(group.number) !== "closed") return false;
      group.closed = true;
      group.members = [];
      column.forEach((item, k) => collect(item, (m) => {
        group.members.push(m);
        this.owner.set(m, group);
        this.rounds.set(m, rounds[k]);
      }));
      this.nodes.push(group);
      return true;
    }
  }

  function counted(n) { return n.toLocaleString("en-US"); }

  function collect(item, tell) {
    if (typeof item === "number") tell(item);
    else if (item.kind === "call") item.items.forEach((i) => collect(i, tell));
    else item.iterations.forEach((iteration) => iteration.forEach((i) => collect(i, tell)));
  }

  function carriedBy(from, to) {
    for (let i = 0; i < Math.min(from.length, to.length); i++) {
      if (from[i][0] !== to[i][0]) return 0;
      if (from[i][1] !== to[i][1]) return from[i][0];
    }
    return 0;
  }

  // -- arrows between visible boxes -----------------------------------------------------------------------------------

  function connect(view) {
    const arrows = new Map(), uses = new Map();
    for (const [s, t, slot, , loop] of view.data.edges) {
      const to = view.owner.get(t), from = view.owner.get(s);
      if (!to) continue;
      if (!from) {
        if (!uses.has(s)) uses.set(s, []);
        uses.get(s).push([to, slot]);
        continue;
      }
      const carrier = loop || carriedBy(view.rounds.get(s) || [], view.rounds.get(t) || []);
      if (from === to && (!carrier || from.closed)) continue;
      const key = from.id + ">" + to.id + (carrier ? "~" + carrier : "");
      if (!arrows.has(key)) arrows.set(key, { from, to, slot, carrier, count: 0 });
      arrows.get(key).count++;
    }
    addLeaves(view, uses, arrows);
    return [...arrows.values()];
  }

  // Variables and watched values: merged where each iteration of a folded loop has its own, repeated where shared.
  function addLeaves(view, uses, arrows) {
    const inTree = view.owner, merged = new Map();
    view.data.nodes.forEach((node, number) => {
      if (inTree.has(number)) return;
      const used = uses.get(number) || [];
      const signature = used.map(([box, slot]) => box.id + "." + slot).sort().join(" ");
      const many = used.length && used.every(([box]) => box.kind === "node" && box.members.length > 1);
      const key = many ? signature : "#" + number;
      if (!merged.has(key)) merged.set(key, { members: [], used });
      merged.get(key).members.push(number);
    });
    for (const { members, used } of merged.values()) {
      const sinks = new Map();
      for (const [box, slot] of used) if (!sinks.has(box)) sinks.set(box, slot);
      const shared = sinks.size >= SHARED || new Set([...sinks.keys()].map((box) => box.parent)).size > 1;
      const parents = shared ? [...sinks.keys()].map((box) => box.parent) : [common([...sinks.keys()]) || view.root];
      const targets = shared ? [...sinks.entries()].map((entry) => [entry]) : [[...sinks.entries()]];
      parents.forEach((parent, k) => {
        const id = "n" + members[0] + (k ? "@" + targets[k][0][0].id : "");
        const chip = { kind: "node", leaf: true, id, members, parent, shared };
        parent.children.push(chip);
        view.nodes.push(chip);
        if (!k) for (const m of members) view.owner.set(m, chip);
        for (const [to, slot] of targets[k]) arrows.set(id + ">" + to.id, { from: chip, to, slot, carrier: 0, count: 1 });
      });
    }
  }

  function path(box) {
    const found = [];
    for (let b = box.parent; b; b = b.parent) found.push(b);
    return found.reverse();
  }

  function common(boxes) {
    if (!boxes.length) return null;
    let shared = path(boxes[0]);
    for (const box of boxes.slice(1)) {
      const other = path(box);
      let k = 0;
      while (k < shared.length && shared[k] === other[k]) k++;
      shared = shared.slice(0, k);
    }
    return shared[shared.length - 1] || null;
  }

  // -- coordinates ----------------------------------------------------------------------------------------------------

  function size(view, box) {
    const data = view.data.nodes;
    if (box.closed) {
      const label = (box.kind === "loop" ? "×" + box.count + "  " : "") + box.title;
      box.label = label;
      box.sub = box.members.length + (box.members.length === 1 ? " operation" : " operations");
      box.w = Math.max(measured(label, FONT), measured(box.sub, SMALL)) + 50;
      box.h = 42;
      return;
    }
    const node = data[box.members[box.members.length - 1]];
    box.node = node;
    const own = box.members.reduce((sum, m) => sum + (data[m].count || 1), 0);
    box.total = own;
    box.label = node.op.length > 34 ? node.op.slice(0, 33) + "…" : node.op;
    box.sub = node.kind === "line" ? counted(own) + (own === 1 ? " operation" : " operations") : shapeText(node);
    if (box.leaf) {
      if (own > 1) box.label += " … ×" + own;
      box.w = measured(box.label, FONT) + (box.sub ? measured(box.sub, SMALL) + 8 : 0) + 24;
      box.h = 24;
    } else {
      box.w = Math.max(58, measured(box.label, FONT) + 26, measured(box.sub, SMALL) + 22);
      box.h = 40;
    }
  }

  // Where each arrow enters and leaves the groups it crosses: one port per source.
  function addPorts(arrows) {
    for (const arrow of arrows) {
      if (arrow.carrier) continue;
      const a = path(arrow.from), b = path(arrow.to);
      let k = 0;
      while (k < a.length && k < b.length && a[k] === b[k]) k++;
      const chainA = [...a.slice(k), arrow.from], chainB = [...b.slice(k), arrow.to];
      link(a[k - 1], chainA[0], chainB[0], arrow);
      for (let i = 0; i + 1 < chainA.length; i++) port(chainA[i], "outs", arrow.from).set(chainA[i + 1], arrow);
      for (let i = 0; i + 1 < chainB.length; i++) port(chainB[i], "ins", arrow.from).set(chainB[i + 1], arrow);
    }
  }

  function port(group, side, source) {
    group[side] = group[side] || new Map();
    if (!group[side].has(source)) group[side].set(source, new Map());
    return group[side].get(source);
  }

  function link(group, from, to, arrow) {
    group.links = group.links || new Map();
    const key = arrow.from.id + ">" + to.id;
    if (!group.links.has(key)) group.links.set(key, { from, to, source: arrow.from, slot: arrow.slot, sinks: [] });
    group.links.get(key).sinks.push(arrow.to);
  }

  function sinksBelow(group, source) {
    const found = [];
    (function visit(g) {
      const doors = g.ins && g.ins.get(source);
      if (!doors) return;
      for (const child of doors.keys()) child.children && !child.closed ? visit(child) : found.push(child);
    })(group);
    return found;
  }

  // Where arrows end on each plain box of a group: side by side, in the order of the operands. A single computed operand
  // comes in at the middle, so that chains of operations are straight.
  function entrances(group) {
    const entering = new Map(), offsets = new Map();
    const enter = (child, source, slot) => {
      if (child.doors) return;
      if (!entering.has(child)) entering.set(child, []);
      entering.get(child).push([slot, source]);
    };
    for (const one of group.links ? group.links.values() : []) enter(one.to, one.source, one.slot);
    for (const [source, doors] of group.ins || []) for (const [child, arrow] of doors) enter(child, source, arrow.slot);
    for (const [child, list] of entering) {
      list.sort((p, q) => p[0] - q[0]);
      const step = Math.min(16, (child.w - 24) / list.length);
      const main = list.findIndex(([, source]) => !source.leaf), alone = list.filter(([, source]) => !source.leaf).length === 1;
      const zero = alone ? main : (list.length - 1) / 2;
      const most = child.w / 2 - 8;
      offsets.set(child, new Map(list.map(([, source], i) => [source, Math.max(-most, Math.min((i - zero) * step, most))])));
    }
    return offsets;
  }

  // Variables stand beside the chain of operations, not in its way.
  function weight(source) { return source.leaf ? 0.08 : 1; }

  function layout(view, group) {
    for (const child of group.children) {
      if (child.children && !child.closed) layout(view, child);
      else size(view, child);
    }
    const anchor = (child) => (child.children && !child.closed ? 0.05 : 0);
    const nodes = group.children.map((child) => ({ w: child.w, h: child.h, anchor: anchor(child) }));
    const index = new Map(group.children.map((child, i) => [child, i])), edges = [], entries = [];
    const offsets = entrances(group);
    for (const one of group.links ? group.links.values() : []) {
      const sx = one.from.doors ? one.from.doors.get("o" + one.source.id) : 0;
      const tx = one.to.doors ? one.to.doors.get("i" + one.source.id) : offsets.get(one.to).get(one.source);
      const piece = { source: one.source, sinks: one.sinks, head: !one.to.doors };
      edges.push({ s: index.get(one.from), t: index.get(one.to), sx, tx, weight: weight(one.source), piece });
    }
    for (const side of ["ins", "outs"]) {
      for (const [source, doors] of group[side] || []) {
        const at = nodes.push({ w: 2, h: 0, top: side === "ins", bottom: side === "outs" }) - 1;
        entries.push({ at, source, side });
        for (const [child, arrow] of doors) {
          const key = (side === "ins" ? "i" : "o") + source.id;
          const offset = child.doors ? child.doors.get(key) : side === "ins" ? offsets.get(child).get(source) : 0;
          const sinks = side === "ins" ? (child.doors ? sinksBelow(child, source) : [child]) : [arrow.to];
          const piece = { source, sinks, head: side === "ins" && !child.doors, port: side };
          const own = index.get(child), straight = weight(source);
          edges.push(side === "ins" ? { s: at, t: own, sx: 0, tx: offset, weight: straight, piece }
            : { s: own, t: at, sx: offset, tx: 0, weight: straight, piece });
        }
      }
    }
    const area = window.gradtape.layered(nodes, edges);
    const inset = group.parent ? PAD : 0, header = group.parent ? HEADER : 0;
    const lanes = Math.min(group.lanes || 0, 6) * LANE;
    const titled = group.parent ? measured(headerText(group), FONT) + 92 : 0;
    group.w = Math.max(area.width + 2 * inset + lanes, titled);
    group.h = area.height + 2 * inset + header + (lanes ? 8 : 0);
    const left = (group.w - lanes - area.width) / 2;
    group.children.forEach((child, i) => { child.x = left + nodes[i].x; child.y = header + inset + nodes[i].y; });
    group.doors = new Map();
    for (const { at, source, side } of entries) {
      group.doors.set((side === "ins" ? "i" : "o") + source.id, left + nodes[at].x + 1 - group.w / 2);
    }
    group.pieces = edges.map((edge) => finished(edge, group, left, header + inset));
  }

  function finished(edge, group, left, top) {
    const piece = edge.piece;
    if (!edge.points) {
      piece.free = [edge.s < group.children.length ? group.children[edge.s] : null,
        edge.t < group.children.length ? group.children[edge.t] : null, edge.sx, edge.tx];
      return piece;
    }
    piece.points = edge.points.map(([x, y]) => [left + x, top + y]);
    if (piece.port === "ins") piece.points.unshift([piece.points[0][0], 0]);
    if (piece.port === "outs") piece.points.push([piece.points[piece.points.length - 1][0], group.h]);
    return piece;
  }

  function headerText(group) {
    if (group.kind === "iteration") return group.title;
    return (group.kind === "loop" ? "×" + group.count + "  " : "") + group.title + (group.alarm ? "  " + group.alarm : "");
  }

  // Whether gradients vanish or explode along a loop: by how much the norm of some box changes from the last iteration to the
  // first, where that is a factor of a thousand and more.
  function alarm(view, loop) {
    let most = 0;
    for (const box of view.nodes) {
      if (box.leaf || !path(box).includes(loop)) continue;
      const known = window.gradtape.details.numbers(view.data, box.members).series;
      const series = (known || []).filter((v) => typeof v === "number" && v > 0);
      const change = series.length > 2 ? Math.log10(series[0] / series[series.length - 1]) : 0;
      if (Math.abs(change) > Math.abs(most)) most = change;
    }
    if (Math.abs(most) < 3) return "";
    return `⚠ gradient ${most < 0 ? "vanishes" : "explodes"}: 10${most < 0 ? "⁻" : ""}` +
      [...String(Math.round(Math.abs(most)))].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("");
  }

  function absolute(group, x, y, pieces) {
    group.x = x;
    group.y = y;
    for (const child of group.children) {
      if (child.children && !child.closed) absolute(child, x + child.x, y + child.y, pieces);
      else { child.x += x; child.y += y; }
    }
    for (const piece of group.pieces) {
      if (piece.points) piece.points = piece.points.map(([px, py]) => [px + x, py + y]);
      else {
        const [from, to, sx, tx] = piece.free;
        if (!from || !to) continue;
        piece.points = aside([from.x + from.w / 2 + sx, from.y + from.h], [to.x + to.w / 2 + tx, to.y]);
        piece.far = true;
      }
      pieces.push(piece);
    }
  }

  // A long way round for arrows the layers have no room for.
  function aside(a, b) {
    return [a, [a[0], a[1] + 12], [b[0], b[1] - 12], b];
  }

  function curve(points) {
    let d = "M" + points[0].map(round).join(" ");
    for (let i = 1; i < points.length; i++) {
      const [x0, y0] = points[i - 1], [x1, y1] = points[i];
      if (Math.abs(x0 - x1) < 0.5) { d += "V" + round(y1); continue; }
      const middle = (y0 + y1) / 2;
      d += "C" + [x0, middle, x1, middle, x1, y1].map(round).join(" ");
    }
    return d;
  }

  // From the lower side of one box round the right side of its loop to the upper side of another.
  function carriedCurve(arrow, loop, lane) {
    const { from, to } = arrow, right = loop.x + loop.w - 8 - (lane % 6) * LANE;
    const x0 = from.x + from.w / 2 + 6, y0 = from.y + from.h, x1 = to.x + to.w / 2 + Math.min(14, to.w / 4), y1 = to.y;
    const down = y0 + 13, up = y1 - 13, bend = 7;
    return "M" + [x0, y0].map(round).join(" ") + "V" + round(down - bend) +
      "Q" + [x0, down, x0 + bend, down].map(round).join(" ") + "H" + round(right - bend) +
      "Q" + [right, down, right, down - bend].map(round).join(" ") + "V" + round(up + bend) +
      "Q" + [right, up, right - bend, up].map(round).join(" ") + "H" + round(x1 + bend) +
      "Q" + [x1, up, x1, up + bend].map(round).join(" ") + "V" + round(y1);
  }

  function round(v) { return Math.round(v * 10) / 10; }

  // Everything with coordinates: nodes, groups, pieces ({d, source, sinks, end, head}).
  function scene(data, states) {
    const view = new View(data, states), arrows = connect(view);
    addPorts(arrows);
    const loops = new Map(view.groups.filter((g) => g.kind === "loop").map((g) => [g.number, g]));
    const carried = arrows.filter((arrow) => arrow.carrier && loops.has(arrow.carrier) && !loops.get(arrow.carrier).closed);
    for (const arrow of carried) {
      const loop = loops.get(arrow.carrier);
      arrow.lane = loop.lanes = (loop.lanes || 0) + 1;
    }
    for (const loop of loops.values()) if (!loop.closed) loop.alarm = alarm(view, loop);
    layout(view, view.root);
    const pieces = [];
    absolute(view.root, 0, 0, pieces);
    const curves = pieces.map((piece) => ({ d: curve(piece.points), end: piece.points[piece.points.length - 1],
      source: piece.source, sinks: piece.sinks, head: piece.head, far: piece.far }));
    for (const arrow of carried) {
      const to = arrow.to;
      curves.push({ d: carriedCurve(arrow, loops.get(arrow.carrier), arrow.lane - 1), carried: true, source: arrow.from,
        sinks: [to], head: true, end: [to.x + to.w / 2 + Math.min(14, to.w / 4), to.y] });
    }
    return { nodes: view.nodes, groups: view.groups.filter((g) => !g.closed), curves, arrows, owner: view.owner,
      width: view.root.w, height: view.root.h };
  }

  // How many boxes there would be.
  scene.visible = (data, states) => {
    const view = new View(data, states);
    connect(view);
    return view.nodes.length;
  };
  scene.shapeText = shapeText;
  scene.headerText = headerText;
  return scene;
})();
