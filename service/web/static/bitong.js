// What pages gain with JavaScript; everything can be read and confirmed without it. No part of it makes markup from data.
"use strict";
(() => {
  const body = document.body, base = body.dataset.base, $ = (where, from = document) => [...from.querySelectorAll(where)];
  const chinese = document.documentElement.lang.startsWith("zh");

  // Fresh parts: an event names what changed; htmx asks for the same page again and takes the part from it.
  const SOONEST_MS = 150, AGAIN_MS = 5000;
  const line = document.getElementById("line");
  let fresh = new Date(), source = null, retry = 0;
  const last = {}, due = {};
  const refresh = (name) => {
    if (due[name]) return;
    const wait = Math.max(0, (last[name] || 0) + SOONEST_MS - Date.now());
    due[name] = setTimeout(() => { due[name] = 0; last[name] = Date.now(); fresh = new Date(); body.dispatchEvent(new Event(name)); }, wait);
  };
  const wanted = () => (document.getElementById("live")?.dataset.on || "").split(" ");
  const happened = (kind) => {
    if (kind === "reset" || wanted().includes(kind)) refresh("live");
    if (["confirmation", "sync", "reset"].includes(kind)) refresh("notices");
  };
  const lost = (yes) => {
    line.hidden = !yes;
    line.textContent = yes ? body.dataset.lost + fresh.toLocaleTimeString() : "";
  };
  const listen = () => {
    clearTimeout(retry);
    if (source || document.hidden || !body.dataset.events) return;
    source = new EventSource(body.dataset.events);
    let opened = false;
    source.onopen = () => { if (opened || !line.hidden) happened("reset"); opened = true; lost(false); };
    source.onerror = () => {
      lost(true);
      if (source && source.readyState === EventSource.CLOSED) { hush(); retry = setTimeout(() => { happened("reset"); listen(); }, AGAIN_MS); }
    };
    for (const kind of ["run", "confirmation", "registration", "index", "sync", "reset"]) source.addEventListener(kind, () => happened(kind));
  };
  const hush = () => { source?.close(); source = null; };
  // A browser keeps few connections to one host: a page nobody looks at holds none.
  document.addEventListener("visibilitychange", () => { if (document.hidden) hush(); else { happened("reset"); listen(); } });
  addEventListener("pagehide", hush);
  addEventListener("pageshow", (event) => { if (event.persisted) { happened("reset"); listen(); } });
  if (body.dataset.events) listen();

  // One run as it goes: what comes is appended as text; whoever scrolls up is left where they are.
  const tail = document.querySelector("[data-tail]");
  if (tail) {
    const run = new EventSource(tail.dataset.tail), MOST = 65536;
    const boxes = { stdout: document.getElementById("stdout"), stderr: document.getElementById("stderr") };
    const signs = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
      .replace(/[\u007f-\u009f\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, (c) => "⟨U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
    run.addEventListener("output", (event) => {
      const told = JSON.parse(event.data), box = boxes[told.stream];
      const below = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
      if (!box.dataset.begun) { box.textContent = ""; box.dataset.begun = "1"; }
      box.textContent = (box.textContent + signs(told.text)).slice(-MOST);
      if (below) box.scrollTop = box.scrollHeight;
    });
    run.addEventListener("state", (event) => { if (JSON.parse(event.data).state !== tail.dataset.state) location.reload(); });
    run.addEventListener("end", () => { run.close(); location.reload(); });
  }

  // Times grow old while a page is open.
  const ages = [[60, "秒", "s"], [60, "分钟", "min"], [24, "小时", "h"], [Infinity, "天", "d"]];
  const age = (moment) => {
    let amount = Math.round((Date.now() - Date.parse(moment)) / 1000);
    const past = amount >= 0;
    amount = Math.abs(amount);
    if (amount < 5) return chinese ? "刚刚" : "just now";
    for (const [next, zh, en] of ages) {
      if (amount < next) return chinese ? `${amount} ${zh}${past ? "前" : "后"}` : past ? `${amount} ${en} ago` : `in ${amount} ${en}`;
      amount = Math.floor(amount / next);
    }
  };
  const clock = (since) => {
    const all = Math.max(0, Math.floor((Date.now() - Date.parse(since)) / 1000)), two = (amount) => String(amount).padStart(2, "0");
    const hours = Math.floor(all / 3600), rest = two(Math.floor(all / 60) % 60) + ":" + two(all % 60);
    return hours ? hours + ":" + rest : rest;
  };
  setInterval(() => $("[data-since]").forEach((one) => { const now = clock(one.dataset.since); if (one.textContent !== now) one.textContent = now; }), 1000);
  setInterval(() => $("time[data-ago]").forEach((time) => { const now = age(time.dateTime); if (time.textContent !== now) time.textContent = now; }), 5000);

  // Small things
  const furnish = () => {
    $(".copy[hidden]").forEach((button) => { button.hidden = !navigator.clipboard; });
    $("[data-wrap][hidden]").forEach((button) => { button.hidden = false; });
    $("[data-needs-script][hidden]").forEach((one) => { one.hidden = false; });
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.copy) navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = button.dataset.done; });
    if (button?.dataset.paste) navigator.clipboard.writeText(document.getElementById(button.dataset.paste).textContent).then(() => { button.textContent = button.dataset.done; });
    if (button && "wrap" in button.dataset) {
      const off = document.getElementById(button.dataset.wrap).classList.toggle("nowrap");
      button.setAttribute("aria-pressed", String(!off));
    }
    $("details.account[open]").forEach((open) => { if (!open.contains(event.target)) open.open = false; });
  });
  document.addEventListener("htmx:after:swap", () => { furnish(); mark(); plots(); });
  furnish();

  // Keyboard: / search, j k rows, Enter opens, ? help. Nothing that changes anything has a key.
  let at = -1;
  const rows = () => $(".rows tbody tr").filter((row) => row.querySelector("a.row"));
  const mark = (focus) => {
    const all = rows();
    all.forEach((row, place) => row.classList.toggle("at", place === at));
    if (focus && all[at]) all[at].querySelector("a.row").focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur?.();
      return;
    }
    const search = document.getElementById("q");
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
    if (event.key === "?") location.href = base + "/keys";
    if (event.key === "j" || event.key === "k") {
      const all = rows(), here = all.findIndex((row) => row.contains(document.activeElement));
      if (here >= 0) at = here;
      at = Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)));
      mark(true);
    }
    if (event.key === "Escape") $("details[open].account").forEach((open) => { open.open = false; });
  });

  // Plots: uPlot comes only to a page that has one, once it is looked at; the server's drawing and the table stay for others.
  const plots = () => $("figure[data-plot]:not([data-drawn])").forEach((figure) => seen.observe(figure));
  const script = (address) => new Promise((done, failed) => {
    const tag = document.createElement("script");
    tag.src = address; tag.onload = done; tag.onerror = failed;
    document.head.append(tag);
  });
  let coming = null;
  const draw = async (figure) => {
    if (figure.dataset.drawn) return;
    figure.dataset.drawn = "1";
    if (!coming) {
      const style = document.createElement("link");
      style.rel = "stylesheet"; style.href = figure.dataset.style;
      document.head.append(style);
      coming = script(figure.dataset.script);
    }
    await coming;
    const told = JSON.parse(figure.dataset.plot), place = figure.querySelector(".drawing");
    const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
    const bars = uPlot.paths.bars({ size: [0.8, 60] });
    const series = told.series.map((one) => ({
      label: one.label, stroke: ink(one.colour), fill: ink(one.colour), width: 0, paths: bars, points: { show: false },
      value: (_, __, ___, place) => (place == null ? "–" : String(one.told[place])),
    }));
    const step = (told.times[1] ?? told.times[0] + 86400) - told.times[0];
    const axis = { stroke: ink("faint"), grid: { stroke: ink("rule"), width: 1 }, ticks: { stroke: ink("rule") } };
    const options = {
      width: place.clientWidth, height: 180, legend: { live: true }, cursor: { y: false },
      scales: { x: { range: (_, first, end) => [first - step * 0.6, end + step * 0.6] }, y: { range: (_, __, most) => [0, most ? most * 1.1 : 1] } },
      axes: [axis, { ...axis, size: 56, values: (_, all) => all.map((value) => (Number.isInteger(value) ? String(value) : "")) }],
      series: [{ label: told.label, value: (_, value) => (value == null ? "–" : new Date(value * 1000).toLocaleString()) }, ...series],
    };
    place.replaceChildren();
    const plot = new uPlot(options, [told.times, ...told.series.map((one) => one.values)], place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 180 })).observe(place);
  };
  const seen = new IntersectionObserver((entries) => entries.forEach((entry) => { if (entry.isIntersecting) draw(entry.target); }));
  plots();
})();
