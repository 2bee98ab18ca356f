// A layered drawing of one acyclic level of a graph (after Sugiyama, Tagawa and Toda, 1981): ranks by longest path, order by
// barycentres with exchanges, coordinates by least squares under separation (pool adjacent violators). It knows boxes and
// arrows only. Invariant: boxes of one rank do not overlap, and an arrow between ranks never runs through a box.
"use strict";
window.gradtape = window.gradtape || {};

window.gradtape.layered = (function () {
  const RANK_GAP = 30, NODE_GAP = 20, LANE_GAP = 12, LONGEST = 36;

  // nodes: [{w, h, top, bottom, anchor}], edges: [{s, t, sx, tx, weight}]: indices, offsets of the ends from the middle of a
  // box, and how much the edge wants to be straight.
  // Gives {width, height}; sets x (left), y (top) of nodes and points of edges (null for those it leaves to the caller).
  function layered(nodes, edges) {
    const count = nodes.length;
    if (!count) return { width: 0, height: 0 };
    const kept = acyclic(count, edges);
    const rank = ranks(nodes, kept);
    const cells = nodes.map((node, i) => ({ node: i, w: node.w, h: node.h, rank: rank[i], up: [], down: [], real: true,
      anchor: node.anchor || 0 }));
    for (const edge of edges) { edge.chain = null; edge.points = null; }
    for (const edge of kept) {
      const span = rank[edge.t] - rank[edge.s];
      if (span > LONGEST) continue;
      const chain = [edge.s];
      for (let r = rank[edge.s] + 1; r < rank[edge.t]; r++) {
        cells.push({ node: -1, w: 2, h: 0, rank: r, up: [], down: [], real: false, anchor: 0 });
        chain.push(cells.length - 1);
      }
      chain.push(edge.t);
      edge.chain = chain;
      for (let k = 0; k + 1 < chain.length; k++) {
        const a = chain[k], b = chain[k + 1];
        const weight = (cells[a].real ? 1 : 3) * (cells[b].real ? 1 : 3) * edge.weight;
        const ax = k === 0 ? edge.sx : 0, bx = k + 2 === chain.length ? edge.tx : 0;
        cells[a].down.push({ cell: b, weight, own: ax, other: bx });
        cells[b].up.push({ cell: a, weight, own: bx, other: ax });
      }
    }
    const layers = [];
    cells.forEach((cell, i) => { (layers[cell.rank] = layers[cell.rank] || []).push(i); });
    order(cells, layers);
    place(cells, layers);
    const height = rows(cells, layers);
    let left = Infinity, right = -Infinity;
    for (const cell of cells) {
      left = Math.min(left, cell.x - cell.w / 2);
      right = Math.max(right, cell.x + cell.w / 2);
    }
    nodes.forEach((node, i) => { node.x = cells[i].x - left - node.w / 2; node.y = cells[i].y; });
    for (const edge of kept) if (edge.chain) edge.points = route(edge, cells, layers, left);
    return { width: right - left, height };
  }

  // The edges without those that close a cycle (found depth first, in the order of the nodes).
  function acyclic(count, edges) {
    const out = Array.from({ length: count }, () => []);
    edges.forEach((edge, i) => { if (edge.s !== edge.t) out[edge.s].push(i); });
    const state = new Uint8Array(count), back = new Set();
    for (let start = 0; start < count; start++) {
      if (state[start]) continue;
      const stack = [[start, 0]];
      state[start] = 1;
      while (stack.length) {
        const top = stack[stack.length - 1];
        if (top[1] >= out[top[0]].length) { state[top[0]] = 2; stack.pop(); continue; }
        const index = out[top[0]][top[1]++], next = edges[index].t;
        if (state[next] === 1) back.add(index);
        else if (state[next] === 0) { state[next] = 1; stack.push([next, 0]); }
      }
    }
    return edges.filter((edge, i) => edge.s !== edge.t && !back.has(i));
  }

  function ranks(nodes, edges) {
    const count = nodes.length, rank = new Int32Array(count), missing = new Int32Array(count);
    const ins = Array.from({ length: count }, () => []), outs = Array.from({ length: count }, () => []);
    for (const edge of edges) { ins[edge.t].push(edge.s); outs[edge.s].push(edge.t); missing[edge.t]++; }
    const topological = [];
    for (let i = 0; i < count; i++) if (!missing[i]) topological.push(i);
    for (let k = 0; k < topological.length; k++) {
      const i = topological[k];
      for (const t of outs[i]) if (--missing[t] === 0) topological.push(t);
    }
    const shift = nodes.some((node) => node.top) ? 1 : 0;
    for (const i of topological) {
      rank[i] = nodes[i].top ? 0 : shift;
      for (const s of ins[i]) rank[i] = Math.max(rank[i], rank[s] + 1);
    }
    // what takes no more than it feeds stands close to what it feeds: side branches join late, arrows get short
    for (let k = topological.length - 1; k >= 0; k--) {
      const i = topological[k];
      if (nodes[i].top || !outs[i].length || outs[i].length < ins[i].length) continue;
      let lowest = Infinity;
      for (const t of outs[i]) lowest = Math.min(lowest, rank[t] - 1);
      rank[i] = Math.max(rank[i], lowest);
    }
    let last = 0;
    for (let i = 0; i < count; i++) if (!nodes[i].bottom) last = Math.max(last, rank[i]);
    for (let i = 0; i < count; i++) if (nodes[i].bottom) rank[i] = last + 1;
    const used = [...new Set(rank)].sort((a, b) => a - b), dense = new Map(used.map((r, i) => [r, i]));
    return Array.from(rank, (r) => dense.get(r));
  }

  // -- order within ranks ---------------------------------------------------------------------------------------------

  function order(cells, layers) {
    const number = () => { for (const layer of layers) layer.forEach((c, i) => { cells[c].place = i; }); };
    number();
    let best = layers.map((layer) => layer.slice()), least = crossings(cells, layers);
    const rounds = cells.length > 4000 ? 4 : 14;
    for (let round = 0; round < rounds && least > 0; round++) {
      const down = round % 2 === 0;
      const sweep = down ? layers.slice(1) : layers.slice(0, -1).reverse();
      for (const layer of sweep) {
        for (const c of layer) {
          const near = down ? cells[c].up : cells[c].down;
          let sum = 0, total = 0;
          for (const link of near) { sum += link.weight * at(cells, link); total += link.weight; }
          cells[c].pull = total ? sum / total : cells[c].place;
        }
        layer.sort((a, b) => cells[a].pull - cells[b].pull || cells[a].place - cells[b].place);
        layer.forEach((c, i) => { cells[c].place = i; });
      }
      if (cells.length <= 3000) exchange(cells, layers);
      const now = crossings(cells, layers);
      if (now < least) { least = now; best = layers.map((layer) => layer.slice()); }
    }
    best.forEach((layer, i) => { layers[i] = layer; });
    number();
  }

  // Where an arrow ends: the place of the box, and where on the box.
  function at(cells, link) { return cells[link.cell].place + link.other / 1000; }

  // Arrows that cross between each two ranks, counted by an index tree (Barth, Jünger and Mutzel, 2002).
  function crossings(cells, layers) {
    let total = 0;
    for (let r = 0; r + 1 < layers.length; r++) {
      const ends = [];
      for (const c of layers[r]) {
        const places = cells[c].down.map((link) => at(cells, link)).sort((a, b) => a - b);
        for (const place of places) ends.push(place);
      }
      const known = [...new Set(ends)].sort((a, b) => a - b), index = new Map(known.map((place, i) => [place, i]));
      const size = known.length, tree = new Int32Array(size + 1);
      let seen = 0;
      for (const end of ends) {
        const place = index.get(end);
        let below = 0;
        for (let i = place + 1; i > 0; i -= i & -i) below += tree[i];
        total += seen - below;
        for (let i = place + 1; i <= size; i += i & -i) tree[i]++;
        seen++;
      }
    }
    return total;
  }

  // Exchange neighbours while that removes crossings.
  function exchange(cells, layers) {
    for (const layer of layers) {
      for (let i = 0; i + 1 < layer.length; i++) {
        const a = cells[layer[i]], b = cells[layer[i + 1]];
        const now = pairs(cells, a.up, b.up) + pairs(cells, a.down, b.down);
        if (!now) continue;
        if (pairs(cells, b.up, a.up) + pairs(cells, b.down, a.down) < now) {
          [layer[i], layer[i + 1]] = [layer[i + 1], layer[i]];
          a.place = i + 1;
          b.place = i;
        }
      }
    }
  }

  function pairs(cells, left, right) {
    if (left.length * right.length > 400) return 0;
    let total = 0;
    for (const a of left) for (const b of right) if (at(cells, a) > at(cells, b)) total++;
    return total;
  }

  // -- coordinates ----------------------------------------------------------------------------------------------------

  function place(cells, layers) {
    for (const layer of layers) {
      let x = 0;
      layer.forEach((c, i) => { x += i ? apart(cells[layer[i - 1]], cells[c]) : 0; cells[c].x = x; });
      for (const c of layer) cells[c].x -= x / 2;
    }
    const rounds = Math.max(6, Math.min(72, Math.round(60000 / cells.length)));
    for (let round = 0; round < rounds; round++) {
      const both = round >= rounds / 2, down = round % 2 === 0;
      for (const layer of down ? layers : layers.slice().reverse()) settle(cells, layer, both || down, both || !down);
    }
  }

  function apart(a, b) {
    return (a.w + b.w) / 2 + (a.real && b.real ? NODE_GAP : LANE_GAP);
  }

  // Least squares: each cell near the mean of its neighbours, in order, far enough apart (isotonic regression).
  function settle(cells, layer, useUp, useDown) {
    const blocks = [];
    let offset = 0;
    layer.forEach((c, i) => {
      const cell = cells[c];
      if (i) offset += apart(cells[layer[i - 1]], cell);
      let sum = 0, weight = 0;
      const links = useUp && useDown ? cell.up.concat(cell.down) : useUp ? cell.up : cell.down;
      for (const link of links) {
        sum += link.weight * (cells[link.cell].x + link.other - link.own);
        weight += link.weight;
      }
      weight += cell.anchor; // large boxes stay near the middle line, else long chains of them drift to one side
      if (!weight) { weight = 0.05; sum = weight * cell.x; }
      blocks.push({ sum: sum - weight * offset, weight, size: 1 });
      while (blocks.length > 1) {
        const last = blocks[blocks.length - 1], before = blocks[blocks.length - 2];
        if (before.sum / before.weight <= last.sum / last.weight) break;
        before.sum += last.sum;
        before.weight += last.weight;
        before.size += last.size;
        blocks.pop();
      }
    });
    let i = 0;
    offset = 0;
    for (const block of blocks) {
      const at = block.sum / block.weight;
      for (let k = 0; k < block.size; k++, i++) {
        if (i) offset += apart(cells[layer[i - 1]], cells[layer[i]]);
        cells[layer[i]].x = at + offset;
      }
    }
  }

  function rows(cells, layers) {
    let y = 0;
    layers.forEach((layer, r) => {
      let height = 0;
      for (const c of layer) height = Math.max(height, cells[c].h);
      for (const c of layer) {
        cells[c].top = y;
        cells[c].bottom = y + height;
        cells[c].y = y + (height - cells[c].h) / 2;
      }
      y += height;
      if (r + 1 < layers.length) y += gap(cells, layer, height === 0 || layers[r + 1].every((c) => !cells[c].h));
    });
    return y;
  }

  // Ranks stand further apart where arrows go far to the side, and close where only ends of arrows stand.
  function gap(cells, layer, ends) {
    let widest = 0;
    for (const c of layer) {
      for (const link of cells[c].down) widest = Math.max(widest, Math.abs(cells[c].x - cells[link.cell].x));
    }
    return (ends ? RANK_GAP / 3 : RANK_GAP) + Math.min(widest / 12, 30);
  }

  // Corner points from the lower side of the source to the upper side of the sink; straight down beside other boxes.
  function route(edge, cells, layers, left) {
    const points = [];
    edge.chain.forEach((c, k) => {
      const cell = cells[c], x = cell.x - left;
      if (k === 0) {
        points.push([x + edge.sx, cell.y + cell.h]);
        if (cell.bottom > cell.y + cell.h) points.push([x + edge.sx, cell.bottom]);
      } else if (k + 1 === edge.chain.length) {
        if (cell.top < cell.y) points.push([x + edge.tx, cell.top]);
        points.push([x + edge.tx, cell.y]);
      } else {
        points.push([x, cell.top]);
        if (cell.bottom > cell.top) points.push([x, cell.bottom]);
      }
    });
    return points;
  }

  return layered;
})();
