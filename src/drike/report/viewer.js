"use strict";
// The case viewer: filters over all cases; only one page of them is in the document. `cases.packed` writes the data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const text = (i) => (i < 0 ? "" : data.strings[i]);
  const PROBE = 4, ANSWER = 6, PAGE = 25;
  const $ = (id) => document.getElementById(id);
  const haystacks = new Array(data.cases.length);
  let found = [], page = 0;

  const make = (tag, content = "", attributes = {}) => {
    const node = document.createElement(tag);
    node.textContent = content; // never innerHTML: queries and answers are anyone's text
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };

  const answersOf = (one) => {
    const answers = new Map();
    for (let i = 0; i < one[4].length; i += ANSWER) answers.set(one[4][i], i);
    return answers;
  };
  const rightOf = (one, editor) => {
    for (let i = 0; i < one[4].length; i += ANSWER) if (one[4][i] === editor) return one[4][i + 1];
    return null;
  };

  const haystack = (n) => {
    if (haystacks[n] === undefined) {
      const one = data.cases[n], parts = [text(one[2])];
      for (let i = 0; i < one[3].length; i += PROBE) parts.push(text(one[3][i + 1]), text(one[3][i + 2]), text(one[3][i + 3]));
      for (let i = 0; i < one[4].length; i += ANSWER) if (one[4][i + 3]) for (const t of one[4][i + 3]) parts.push(text(t));
      haystacks[n] = parts.join("\n").toLowerCase();
    }
    return haystacks[n];
  };

  // Positions of the probes of an aspect (-1: of all).
  const positions = (one, aspect) => {
    const at = [];
    for (let i = 0, n = 0; i < one[3].length; i += PROBE, n++) if (aspect < 0 || one[3][i] === aspect) at.push(n);
    return at;
  };

  const runs = [...new Set(data.cases.map((one) => `${one[0]}/${one[1]}`))];
  const number = (id) => ($(id).value === "" ? -1 : Number($(id).value));

  const wanted = () => {
    const words = $("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const run = $("f-run").value, editor = number("f-editor"), aspect = number("f-aspect");
    const answer = $("f-answer").value, from = number("f-from"), to = number("f-to"), change = $("f-change").value;
    return (one, n) => {
      if (run && `${one[0]}/${one[1]}` !== run) return false;
      if (words.length) {
        const hay = haystack(n);
        if (!words.every((word) => hay.includes(word))) return false;
      }
      if (editor < 0 && aspect < 0 && !answer && (from < 0 || to < 0)) return true;
      const at = positions(one, aspect);
      if (!at.length) return false;
      if (editor >= 0 || answer) {
        let some = false;
        for (let i = 0; i < one[4].length; i += ANSWER) {
          if (editor >= 0 && one[4][i] !== editor) continue;
          const wrong = at.some((p) => one[4][i + 1][p] === "0");
          if (!answer || (answer === "0") === wrong) some = true;
        }
        if (!some) return false;
      }
      if (from >= 0 && to >= 0) {
        const a = rightOf(one, from), b = rightOf(one, to);
        if (a === null || b === null) return false;
        if (!at.some((p) => a[p] !== b[p] && (!change || change === a[p] + b[p]))) return false;
      }
      return true;
    };
  };

  const row = (one) => {
    const summary = make("summary");
    summary.append(make("span", text(one[2]), { class: "id" }), " ");
    summary.append(make("span", text(one[3][1]), { class: "query" }), " ");
    const was = one[3][3] < 0 ? "" : `${text(one[3][3])} \u2192 `;
    summary.append(make("span", was + text(one[3][2]), { class: "objects" }), " ");
    const tallies = make("span", "", { class: "tallies" });
    for (let i = 0; i < one[4].length; i += ANSWER) {
      const right = one[4][i + 1], hits = [...right].filter((c) => c === "1").length;
      tallies.append(make("span", `${data.editors[one[4][i]]} ${hits}/${right.length}`, {
        class: hits === right.length ? "tally all" : "tally",
      }), " ");
    }
    summary.append(tallies);
    const details = make("details");
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(detail(one));
    });
    return details;
  };

  const detail = (one) => {
    const box = make("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Case ${text(one[2])}` });
    const table = make("table", "", { class: "wide" }), head = make("tr");
    table.append(make("caption", `${data.groups[one[0]]}, seed ${one[1]}, case ${text(one[2])}`));
    const editors = [...answersOf(one)];
    for (const heading of ["query", "aspect", "right answer", "other answer", ...editors.map(([e]) => data.editors[e])])
      head.append(make("th", heading, { scope: "col" }));
    const thead = make("thead"), body = make("tbody");
    thead.append(head);
    for (let i = 0, p = 0; i < one[3].length; i += PROBE, p++) {
      const line = make("tr");
      line.append(make("th", text(one[3][i + 1]), { scope: "row" }), make("td", data.aspects[one[3][i]]));
      line.append(make("td", text(one[3][i + 2])), make("td", text(one[3][i + 3])));
      for (const [, at] of editors) {
        const right = one[4][at + 1][p] === "1", nats = one[4][at + 2], said = one[4][at + 3];
        const cell = make("td", right ? "\u2713 right" : "\u2717 wrong", { class: right ? "right" : "wrong" });
        if (said && said[p] >= 0) cell.append(make("span", ` ${text(said[p]).trim().split("\n")[0]}`, { class: "said" }));
        if (nats && nats[p] !== null) cell.append(" ", make("small", `${nats[p] > 0 ? "+" : ""}${nats[p].toFixed(2)} nats`));
        line.append(cell);
      }
      body.append(line);
    }
    const foot = make("tr");
    foot.append(make("th", "retains and tokens of the prompt", { scope: "row", colspan: "4" }));
    for (const [, at] of editors) {
      const tokens = one[4][at + 5];
      foot.append(make("td", `${one[4][at + 4]} retains${tokens === null ? "" : `, ${tokens} tokens`}`));
    }
    body.append(foot);
    table.append(thead, body);
    box.append(table);
    return box;
  };

  const show = () => {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(Math.max(0, page), pages - 1);
    $("list").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map((n) => row(data.cases[n])));
    $("count").textContent = `${found.length.toLocaleString("en")} of ${data.cases.length.toLocaleString("en")} cases`;
    $("p-where").textContent = `page ${page + 1} of ${pages}`;
    for (const id of ["p-first", "p-previous"]) $(id).disabled = page === 0;
    for (const id of ["p-next", "p-last"]) $(id).disabled = page === pages - 1;
    $("pager").hidden = pages === 1;
  };

  const filter = () => {
    const fits = wanted();
    found = [];
    data.cases.forEach((one, n) => { if (fits(one, n)) found.push(n); });
    page = 0;
    show();
  };

  const options = (id, first, names, values = names.map((_, i) => i)) => {
    if (first !== null) $(id).append(make("option", first, { value: "" }));
    names.forEach((name, i) => $(id).append(make("option", name, { value: values[i] })));
  };
  options("f-run", "all", runs.map((run) => `${data.groups[Number(run.split("/")[0])]}, seed ${run.split("/")[1]}`), runs);
  options("f-editor", "any", data.editors);
  options("f-aspect", "all", data.aspects);
  options("f-from", "any", data.editors);
  options("f-to", "any", data.editors);

  let waiting = 0;
  $("f-text").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  $("filters").addEventListener("change", filter);
  $("filters").addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  $("filters").addEventListener("reset", () => setTimeout(filter));
  const turn = (id, to) => $(id).addEventListener("click", () => { page = to(); show(); $("count").scrollIntoView(); });
  turn("p-first", () => 0);
  turn("p-previous", () => page - 1);
  turn("p-next", () => page + 1);
  turn("p-last", () => found.length);
  $("filters").hidden = false;
  filter();
})();
