// Draws the timeline and the memory of a run from the page's facts. Without it the page still has
// all tables.
"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const ROW = 22, HEAD = 24, GAP = 10;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const time = (ns) =>
    ns < 1e3 ? `${ns.toFixed(0)} ns` : ns < 1e6 ? `${(ns / 1e3).toFixed(1)} µs` : `${(ns / 1e6).toFixed(2)} ms`;
  const bytes = (n) => {
    if (n < 1024) return `${Math.round(n)} B`;
    for (const unit of ["KiB", "MiB", "GiB"]) {
      n /= 1024;
      if (n < 1024 || unit === "GiB") return `${n.toFixed(2)} ${unit}`;
    }
  };

  /** A canvas in the screen's own pixels, `height` CSS pixels high. */
  function prepare(canvas, height) {
    const scale = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const draw = canvas.getContext("2d");
    draw.setTransform(scale, 0, 0, scale, 0, 0);
    draw.clearRect(0, 0, width, height);
    draw.font = "12px system-ui, sans-serif";
    draw.textBaseline = "middle";
    return [draw, width];
  }

  /** Round times between two, some 90 pixels apart. */
  function ticks(from, to, pixels) {
    const rough = (to - from) / Math.max(2, pixels / 90), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) found.push(t);
    return found;
  }

  // --- the timeline: a row for each track, bars in the order of time

  const rows = [];
  let total = 1;
  for (const process of facts.processes) {
    rows.push({ title: process.step ? `${process.name}, step ${process.step}` : process.name });
    for (const lane of process.lanes) {
      rows.push({ lane: lane.name, bars: lane.bars, process: process.name });
      // Bars that wait lie over what they wait for: the later, the further in front.
      for (const [begin, length] of lane.bars) total = Math.max(total, begin + length);
    }
  }
  const firstLane = rows.findIndex((row) => row.bars);
  const canvas = document.getElementById("timeline"), told = document.getElementById("bar");
  let from = 0, to = total, at = null; // at: the row and the bar that are shown

  const left = () => (canvas.parentElement.clientWidth < 600 ? 62 : 92);
  const width = () => canvas.parentElement.clientWidth - left();
  const x = (t) => left() + ((t - from) / (to - from)) * width();
  const tops = (() => {
    const found = [];
    let y = HEAD;
    for (const row of rows) {
      if (row.title && found.length) y += GAP;
      found.push(y);
      y += ROW;
    }
    return [...found, y];
  })();

  function drawTimeline() {
    const height = tops[rows.length] + 6;
    const [draw, all] = prepare(canvas, height);
    draw.fillStyle = colour("quiet");
    draw.strokeStyle = colour("line");
    for (const t of ticks(from, to, width())) {
      draw.beginPath();
      draw.moveTo(x(t), HEAD - 4);
      draw.lineTo(x(t), height);
      draw.stroke();
      draw.fillText(time(t), Math.min(x(t) + 3, all - draw.measureText(time(t)).width - 3), 12);
    }
    rows.forEach((row, r) => {
      const y = tops[r];
      if (row.title) {
        draw.fillStyle = colour("ground");
        draw.fillRect(0, y, all, ROW);
        draw.fillStyle = colour("text");
        draw.font = "bold 12px system-ui, sans-serif";
        draw.fillText(row.title, 6, y + ROW / 2, all - 12);
        draw.font = "12px system-ui, sans-serif";
        return;
      }
      drawBars(draw, row, y, all);
      draw.fillStyle = colour("ground");
      draw.fillRect(0, y, left() - 2, ROW);
      draw.fillStyle = colour("quiet");
      draw.fillText(row.lane, 6, y + ROW / 2, left() - 12);
    });
    if (at) {
      const [begin, length] = rows[at.row].bars[at.bar];
      draw.strokeStyle = colour("text");
      draw.lineWidth = 2;
      draw.strokeRect(Math.max(left(), x(begin)), tops[at.row] + 1, Math.max(2, x(begin + length) - x(begin)), ROW - 2);
    }
  }

  function drawBars(draw, row, y, all) {
    const fills = {};
    let drawnTo = -1;
    for (const [begin, length, command] of row.bars) {
      if (begin + length < from || begin > to) continue;
      const kind = facts.commands[command].kind;
      const a = Math.max(left(), x(begin)), b = Math.min(all, x(begin + length));
      // Bars of less than a pixel are one together.
      if (b <= drawnTo && kind !== "exposed") continue;
      draw.fillStyle = fills[kind] ??= colour(kind) || colour("event");
      draw.fillRect(a, y + 2, Math.max(1, b - a - (b - a > 3 ? 1 : 0)), ROW - 4);
      drawnTo = Math.max(drawnTo, Math.floor(a) + 1);
      if (b - a > 40) {
        draw.save();
        draw.beginPath();
        draw.rect(a, y, b - a - 3, ROW);
        draw.clip();
        draw.fillStyle = "#101418";
        draw.fillText(facts.commands[command].name, a + 4, y + ROW / 2);
        draw.restore();
      }
    }
  }

  /** Shows a bar, and says what it is. */
  function tell(row, bar) {
    at = { row, bar };
    const [begin, length, number] = rows[row].bars[bar], command = facts.commands[number];
    const parts = [`${rows[row].process}, ${rows[row].lane}: ${time(begin)} to ${time(begin + length)}, ${time(length)}`];
    if (command.predicted_us !== undefined) parts.push(`predicted ${time(command.predicted_us * 1e3)}`);
    if (command.bytes) parts.push(bytes(command.bytes));
    if (command.moved && length) parts.push(`${(command.moved / length).toFixed(1)} GB/s`);
    if (command.flops && length) parts.push(`${(command.flops / length).toFixed(1)} GFLOP/s`);
    const where = [];
    if (command.module) where.push(`module ${command.module}`);
    if (command.unit) where.push(`unit ${command.unit}`);
    if (command.source) where.push(command.source);
    if (command.gives) where.push(`gives ${command.gives}`);
    if (command.command !== undefined) where.push(`command ${command.command}`);
    const name = document.createElement("b");
    name.textContent = command.name;
    const lines = [parts.join(", "), where.join(", ")].map((line) => {
      const element = document.createElement("div");
      element.textContent = line;
      return element;
    });
    told.replaceChildren(name, ...lines);
    drawTimeline();
  }

  function show(begin, end) {
    const least = Math.max(20, total / 1e5), span = Math.min(total, Math.max(least, end - begin));
    from = Math.min(Math.max(0, (begin + end) / 2 - span / 2), total - span);
    to = from + span;
    drawTimeline();
  }
  function zoom(factor, middle = (from + to) / 2) {
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }
  const move = (share) => show(from + share * (to - from), to + share * (to - from));

  /** The first bar of a row that ends behind `t`, or its last. */
  function nearest(row, t) {
    const found = rows[row].bars.findIndex(([begin, length]) => begin + length > t);
    return found < 0 ? rows[row].bars.length - 1 : found;
  }
  function toRow(direction) {
    let row = at.row + direction;
    while (rows[row] && !rows[row].bars) row += direction;
    if (rows[row]) tell(row, nearest(row, rows[at.row].bars[at.bar][0]));
  }
  function follow() {
    const [begin, length] = rows[at.row].bars[at.bar];
    if (begin < from || begin + length > to) show(begin + length / 2 - (to - from) / 2, begin + length / 2 + (to - from) / 2);
  }

  const doing = { in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => show(0, total) };
  for (const button of document.querySelectorAll("button[data-do]"))
    button.addEventListener("click", doing[button.dataset.do]);

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || firstLane < 0) return;
    const keys = {
      ArrowRight: () => (at ? at.bar + 1 < rows[at.row].bars.length && tell(at.row, at.bar + 1) : tell(firstLane, nearest(firstLane, from))),
      ArrowLeft: () => at && at.bar && tell(at.row, at.bar - 1),
      ArrowDown: () => (at ? toRow(1) : tell(firstLane, nearest(firstLane, from))),
      ArrowUp: () => at && toRow(-1),
      "+": doing.in, "=": doing.in, "-": doing.out, "0": doing.all, Home: doing.all,
      w: doing.in, s: doing.out, a: doing.left, d: doing.right, A: doing.left, D: doing.right,
      Enter: () => {
        if (!at) return;
        const [begin, length] = rows[at.row].bars[at.bar];
        show(begin - length, begin + 2 * length);
      },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
    if (at && event.key.startsWith("Arrow")) follow();
  });

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const t = from + ((event.clientX - box.left - left()) / width()) * (to - from);
    const row = tops.findIndex((top, r) => r < rows.length && event.clientY - box.top >= top && event.clientY - box.top < top + ROW);
    if (row < 0 || !rows[row].bars || t < from) return null;
    const near = (2 / width()) * (to - from);
    let best = null;
    rows[row].bars.forEach(([begin, length], bar) => {
      if (t >= begin - near && t <= begin + length + near && (!best || length <= rows[row].bars[best.bar][1])) best = { row, bar };
    });
    return best;
  }
  let held = null;
  canvas.addEventListener("pointerdown", (event) => (held = { x: event.clientX, from, to }));
  window.addEventListener("pointerup", () => (held = null));
  canvas.addEventListener("pointermove", (event) => {
    if (held && Math.abs(event.clientX - held.x) > 3) {
      const by = ((held.x - event.clientX) / width()) * (held.to - held.from);
      return show(held.from + by, held.to + by);
    }
    const found = under(event);
    if (found && !(at && at.row === found.row && at.bar === found.bar)) tell(found.row, found.bar);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    const t = from + ((event.clientX - canvas.getBoundingClientRect().left - left()) / width()) * (to - from);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, t);
  }, { passive: false });

  // --- memory: the prediction's, by kind, in the order of the legend

  function drawMemory() {
    const picture = document.getElementById("memory-picture"), counter = facts.processes[0].memory.memory;
    const height = 260, [draw, all] = prepare(picture, height);
    const length = facts.processes[0].length, room = left(), below = height - 26;
    const most = Math.max(...counter.points.map(([, values]) => values.reduce((a, b) => a + b, 0)));
    const xOf = (t) => room + (t / length) * (all - room - 8), yOf = (n) => below - (n / most) * (below - 16);
    draw.fillStyle = colour("quiet");
    draw.strokeStyle = colour("line");
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      draw.beginPath();
      draw.moveTo(room, yOf(share * most));
      draw.lineTo(all, yOf(share * most));
      draw.stroke();
      draw.fillText(bytes(share * most), 4, yOf(share * most), room - 8);
    }
    for (const t of ticks(0, length, all - room)) draw.fillText(time(t), Math.min(xOf(t), all - 50), height - 10);
    const base = counter.points.map(() => 0);
    counter.kinds.forEach((kind, k) => {
      draw.fillStyle = colour(`c${k % 10}`);
      draw.beginPath();
      const top = counter.points.map(([, values], i) => base[i] + (values[k] || 0));
      const until = (i) => (i + 1 < counter.points.length ? counter.points[i + 1][0] : length);
      counter.points.forEach(([t], i) => {
        draw.lineTo(xOf(t), yOf(top[i]));
        draw.lineTo(xOf(until(i)), yOf(top[i]));
      });
      for (let i = counter.points.length - 1; i >= 0; --i) {
        draw.lineTo(xOf(until(i)), yOf(base[i]));
        draw.lineTo(xOf(counter.points[i][0]), yOf(base[i]));
      }
      draw.fill();
      top.forEach((value, i) => (base[i] = value));
    });
    document.getElementById("memory-legend").replaceChildren(
      ...counter.kinds.map((kind, k) => {
        const entry = document.createElement("span"), key = document.createElement("i");
        entry.className = "entry";
        key.className = "key";
        key.style.background = `var(--c${k % 10})`;
        entry.append(key, ` ${kind}`);
        return entry;
      })
    );
  }

  const drawAll = () => { drawTimeline(); drawMemory(); };
  window.addEventListener("resize", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
