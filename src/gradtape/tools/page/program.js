// What the page adds to the data before it is drawn: values that nobody watches, as light leaves beside their uses, and the
// programs of compiled functions, as groups that open. A program comes as the text of its intermediate representation.
// Invariant: the nodes of the tape keep their numbers.
"use strict";
window.gradtape = window.gradtape || {};

window.gradtape.opened = (function () {
  const LONGEST = 400, MOST = 4000; // operations of a program that is drawn, and of all of them
  const NAME = /%(?:"(?:[^"\\]|\\.)*"|\w+)(?:\.\d+)?/g;

  // "carried(%a: float32[3], %b) consts()" → Map { carried: ["%a", "%b"], consts: [] }
  function named(text) {
    const found = new Map();
    for (const [, name, inside] of text.matchAll(/(\w+)\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)/g)) found.set(name,
      inside.match(NAME) || []);
    return found;
  }

  // The lines of a program as nested objects: { head, place, body } for what has braces, { head, place } for the rest.
  function nested(text) {
    const root = { body: [] }, open = [root];
    for (const line of text.split("\n")) {
      const [, head, place] = line.trim().match(/^(.*?)(?: {2}@ (.*))?$/);
      const top = open[open.length - 1];
      if (head === "}") open.pop();
      else if (head.endsWith("{")) {
        const made = { head: head.slice(0, -1).trim(), place, body: [] };
        top.body.push(made);
        open.push(made);
      } else if (head) top.body.push({ head, place });
    }
    return open.length === 1 && root.body.length === 1 ? root.body[0] : null; // null: the text was shortened
  }

  function size(part) { return part.body ? part.body.reduce((sum, p) => sum + size(p), 0) : 1; }

  class Program {
    constructor(data, title, inputs) {
      this.data = data;
      this.title = title;
      this.values = new Map(); // name → numbers of the nodes it comes from
      this.inputs = inputs; // of the call: where each comes from
    }

    read(tree) {
      const params = tree.head.slice(tree.head.indexOf("(")).match(NAME) || [];
      params.forEach((name, k) => this.values.set(name, this.inputs[k] || []));
      const items = this.block(tree), gives = this.gives.get("outputs") || [];
      return [items, gives.flatMap((name) => this.values.get(name) || [])];
    }

    block(tree) {
      const items = [];
      this.gives = new Map();
      for (const part of tree.body) {
        if (part.head.startsWith("give ")) this.gives = named(part.head.slice(5));
        else if (part.body) items.push(...this.structured(part));
        else items.push(...this.plain(part));
      }
      return items;
    }

    site(place) {
      if (!place) return null;
      const [, file, line] = place.match(/^(.*):(\d+)$/) || [null, place, "0"], sites = this.data.sites;
      const known = sites.findIndex((s) => s[1] === Number(line) && s[0].split(/[\\/]/).pop() === file);
      return known >= 0 ? known : sites.push([file, Number(line), this.title, "", 0, 0]) - 1;
    }

    node(kind, op, type, place, operands) {
      const shape = type && /^\w+\[([^\]]*)\]/.exec(type), made = { kind, op, site: this.site(place), shape: null };
      if (shape) {
        made.shape = shape[1] ? shape[1].split(",").map((d) => (/^\d+$/.test(d) ? Number(d) : d)) : [];
        made.dtype = type.slice(0, type.indexOf("["));
      }
      const number = this.data.nodes.push(made) - 1;
      operands.forEach((sources, slot) => sources.forEach((s) => this.data.edges.push([s, number, slot, 1, 0])));
      return number;
    }

    sources(names) { return names.map((name) => this.values.get(name) || []); }

    plain(part) {
      const [, left, op, right] = part.head.match(/^(.*?) = ([\w.]+)\((.*)\)$/) || [];
      if (!op) return [];
      const results = left.match(NAME) || [];
      if (op === "constant") { results.forEach((name) => this.values.set(name, [])); return []; }
      const type = left.slice(left.indexOf(":") + 1).trim();
      const number = this.node("op", op, results.length === 1 ? type : null, part.place, this.sources(right.match(NAME) || []));
      results.forEach((name) => this.values.set(name, [number]));
      return [number];
    }

    // A loop, a branch, or another operation with programs inside.
    structured(part) {
      const [, left, op, right] = part.head.match(/^(.*?) ?= (\w+)(.*)$/) || [null, "", part.head.split(" ")[0], ""];
      const operands = named(right), loop = op === "scan" || op === "while" || op === "checkpointed";
      const number = this.next(), given = new Map(), where = part.place || "", parts = [];
      const starts = this.sources(operands.get("carried") || []); // what the first iteration has; later ones what was given
      const holders = starts.map(() => ({}));
      for (const region of part.body.filter((p) => p.body)) {
        for (const [name, list] of named(region.head)) {
          const outer = operands.get(name) || [];
          list.forEach((p, k) => this.values.set(p, loop && name === "carried" ? [holders[k]] :
            this.values.get(outer[k]) || []));
        }
        const items = this.block(region);
        for (const [name, list] of this.gives) {
          const known = given.get(name) || given.set(name, list.map(() => [])).get(name);
          list.forEach((value, k) => known[k] && known[k].push(...(this.values.get(value) || [])));
        }
        parts.push([region.head.split(/[ (]/)[0], items]);
      }
      if (loop) this.carry(holders, starts, given, number);
      for (const [name, list] of named(left)) list.forEach((value, k) => this.values.set(value, (given.get(name) ||
        [])[k] || []));
      const inside = parts.flatMap(([, items]) => items);
      if (loop) {
        const turns = /length=(\d+)/.exec(right);
        return inside.length ? [{ kind: "loop", number, counts: turns ? [Number(turns[1])] : [], title: where, lines:
          [0, 0], iterations: [inside] }] : [];
      }
      if (op !== "cond") return inside.length ? [{ kind: "call", number, title: op, where, items: inside }] : [];
      const test = this.node("stop", "if", null, part.place, this.sources(operands.get("pred") || []));
      const sides = parts.filter(([, items]) => items.length).map(([name, items]) =>
        ({ kind: "call", number: this.next(), title: name === "then" ? "then" : "else", mark: "", where, items }));
      return [{ kind: "call", number, title: "if", mark: "", where, items: [test, ...sides] }];
    }

    // What an iteration gives to the next one: arrows back to those who use it.
    carry(holders, starts, given, loop) {
      const turned = given.get("carried") || [], edges = [];
      const real = (source) => (holders.includes(source) ? starts[holders.indexOf(source)] : [source]);
      for (const list of given.values()) list.forEach((sources, k) => { list[k] = [...new Set(sources.flatMap(real))]; });
      for (const edge of this.data.edges) {
        const [source, ...rest] = edge, k = holders.indexOf(source);
        if (k < 0) { edges.push(edge); continue; }
        for (const s of starts[k]) edges.push([s, ...rest]);
        for (const s of turned[k] || []) if (!starts[k].includes(s)) edges.push([s, ...rest.slice(0, 3), loop]);
      }
      this.data.edges = edges;
    }

    next() { this.data.last += 1; return this.data.last; }
  }

  function numbered(items, most = 0) {
    for (const item of items) {
      if (typeof item === "number") continue;
      most = Math.max(most, item.number);
      for (const inner of item.kind === "call" ? [item.items] : item.iterations) most = numbered(inner, most);
    }
    return most;
  }

  return function opened(given) {
    const data = { ...given, nodes: [...given.nodes], edges: [...given.edges], sites: [...given.sites], last:
      numbered(given.groups) };
    const count = given.nodes.length, groups = new Map();
    for (let i = 0; i < count; i++) {
      for (const [slot, text] of given.nodes[i].constants || []) {
        if (text) data.edges.push([data.nodes.push({ kind: "data", op: text, site: null, shape: null }) - 1, i, slot, 1, 0]);
      }
    }
    const trees = given.programs.map(nested);
    let room = MOST;
    for (let i = 0; i < count; i++) {
      const node = given.nodes[i], tree = node.program === undefined ? null : trees[node.program];
      if (!tree || size(tree) > LONGEST || (room -= size(tree)) < 0) continue;
      const inputs = [], outgoing = data.edges.filter(([s]) => s === i);
      for (const [s, t, slot] of data.edges) if (t === i) (inputs[slot] = inputs[slot] || []).push(s);
      data.edges = data.edges.filter(([s, t]) => s !== i && t !== i);
      const [items, results] = new Program(data, node.op, inputs).read(tree);
      data.last += 1;
      groups.set(i, { kind: "call", number: data.last, title: node.op, where: "", items, shut: i });
      for (const [, t, ...rest] of outgoing) for (const s of results.length ? results : [i]) data.edges.push([s, t, ...rest]);
    }
    const placed = (items) => items.map((item) => typeof item === "number" ? groups.get(item) || item
      : item.kind === "call" ? { ...item, items: placed(item.items) } : { ...item, iterations: item.iterations.map(placed) });
    data.groups = placed(given.groups);
    return data;
  };
})();
