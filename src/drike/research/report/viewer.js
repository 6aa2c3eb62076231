"use strict";
// The case viewer: filters over all cases; only one page of them is in the document. `cases.packed` writes the data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const text = (i) => (i < 0 ? "" : data.strings[i]);
  const PROBE = 4, ANSWER = 7, PAGE = 25;
  const $ = (id) => document.getElementById(id);
  const haystacks = new Array(data.cases.length);
  let found = [], page = 0;

  const make = (tag, content = "", attributes = {}) => {
    const node = document.createElement(tag);
    node.textContent = content; // never innerHTML: queries and answers are anyone's text
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };

  // An editor's place in the answers of a case; -1 if it has none.
  const placeOf = (one, editor) => {
    for (let i = 0; i < one[4].length; i += ANSWER) if (one[4][i] === editor) return i;
    return -1;
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

  // Whether an editor's answers at some probes are as wanted; before: those that "fixed" and "broken" compare with.
  const fitsAnswer = (answer, right, at, before) => {
    if (answer === "0") return at.some((p) => right[p] === "0");
    if (answer === "1") return at.every((p) => right[p] !== "0") && at.some((p) => right[p] === "1");
    const change = answer === "fixed" ? "01" : "10";
    return before !== null && at.some((p) => before[p] + right[p] === change);
  };

  const wanted = () => {
    const words = $("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const run = $("f-run").value, editor = number("f-editor"), aspect = number("f-aspect");
    const answer = $("f-answer").value, before = number("f-before");
    return (one, n) => {
      if (run && `${one[0]}/${one[1]}` !== run) return false;
      if (words.length) {
        const hay = haystack(n);
        if (!words.every((word) => hay.includes(word))) return false;
      }
      if (editor >= 0 && placeOf(one, editor) < 0) return false;
      if (aspect < 0 && !answer) return true;
      const at = positions(one, aspect);
      if (!at.length || !answer) return at.length > 0;
      const from = placeOf(one, before), was = from < 0 ? null : one[4][from + 1];
      for (let i = 0; i < one[4].length; i += ANSWER)
        if ((editor < 0 || one[4][i] === editor) && fitsAnswer(answer, one[4][i + 1], at, was)) return true;
      return false;
    };
  };

  const row = (one) => {
    const details = make("details", "", { class: "case" }), summary = make("summary"), what = make("div");
    const was = one[3][3] < 0 ? "" : `${text(one[3][3])} \u2192 `;
    what.append(make("span", text(one[3][1]), { class: "query" }), " ", make("span", was + text(one[3][2]), { class: "objects" }), " ");
    what.append(make("small", text(one[2])));
    const tallies = make("div", "", { class: "tallies" });
    for (let i = 0; i < one[4].length; i += ANSWER) {
      const right = one[4][i + 1], hits = right.split("1").length - 1, judged = right.length - (right.split("-").length - 1);
      tallies.append(make("span", `${data.editors[one[4][i]]} ${hits}/${judged}`, { class: hits === judged ? "tally all" : "tally" }));
    }
    summary.append(what, tallies);
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(...detail(one));
    });
    return details;
  };

  // The probes of a case, each with the answers of the editors; those that the filters name, if they name some.
  const detail = (one) => {
    const editor = number("f-editor"), before = number("f-before");
    const places = [];
    for (let i = 0; i < one[4].length; i += ANSWER) if (editor < 0 || [editor, before].includes(one[4][i])) places.push(i);
    return positions(one, number("f-aspect")).map((p) => {
      const probe = make("section", "", { class: "probe" }), asked = make("div"), answers = make("ul", "", { class: "answers" });
      const [aspect, query, target, distractor] = one[3].slice(p * PROBE, (p + 1) * PROBE);
      asked.append(make("small", data.aspects[aspect]), make("p", text(query)));
      asked.append(make("small", `right: ${text(target)}${distractor < 0 ? "" : `; other: ${text(distractor)}`}`));
      for (const at of places) answers.append(answer(one[4].slice(at, at + ANSWER), p, probe));
      probe.append(asked, answers);
      return probe;
    });
  };

  const MARKS = { 1: ["\u2713", "right", "right"], 0: ["\u2717", "wrong", "wrong"], "-": ["\u2013", "", "not judged"] };
  const answer = ([editor, correct, nats, texts, shots, tokens, prompts], p, probe) => {
    const item = make("li"), [mark, kind, word] = MARKS[correct[p]];
    item.append(make("small", data.editors[editor]));
    const said = make("p", "", { class: kind }), written = texts && texts[p] >= 0;
    said.append(make("span", mark, { role: "img", "aria-label": word }), " ");
    said.append(written ? text(texts[p]).trim().split("\n")[0] || "(nothing)" : `${word}, not written`);
    const prompt = prompts && prompts[p] >= 0 ? data.prompts[prompts[p]] : null, facts = [];
    if (nats && nats[p] !== null) facts.push(`${nats[p] > 0 ? "+" : ""}${nats[p].toFixed(2)} nats`);
    if (tokens !== null) facts.push(`\u2248 ${tokens} tokens`);
    if (!prompt) facts.push(`${shots.length ? shots[p] : shots} retains`);
    item.append(said, make("small", facts.join(", ")));
    if (prompt) {
      const button = make("button", `Prompt: ${decision(prompt)}`, { type: "button", "aria-expanded": "false" });
      button.addEventListener("click", () => {
        const open = button.getAttribute("aria-expanded") === "true";
        for (const one of probe.querySelectorAll("button")) one.setAttribute("aria-expanded", "false");
        probe.querySelector(".prompt")?.remove();
        if (!open) probe.append(shownPrompt(prompt, data.editors[editor]));
        button.setAttribute("aria-expanded", String(!open));
      });
      item.append(make("br"), button);
    }
    return item;
  };

  // The demonstrations of a prompt by role: [place in the prompt from 1, text].
  const byRole = (prompt) => {
    const roles = new Map(data.roles.map((role) => [role, []])), flat = data.shown[prompt[0]];
    for (let i = 0; i < flat.length; i += 2) roles.get(data.roles[flat[i]]).push([i / 2 + 1, text(flat[i + 1])]);
    return [...roles].filter(([, all]) => all.length);
  };
  const PLURALS = { copy: "copies", update: "updates", retain: "retains", edit: "statements of the edit" };
  const counted = (role, all) => `${all.length} ${all.length === 1 ? PLURALS[role].replace(/ies$/, "y").replace(/s( |$)/, "$1") : PLURALS[role]}`;
  const decision = (prompt) => {
    const roles = byRole(prompt).filter(([role]) => role !== "edit");
    return roles.length ? roles.map(([role, all]) => counted(role, all)).join(", ") : "no demonstrations";
  };
  const shownPrompt = (prompt, editor) => {
    const box = make("div", "", { class: "prompt", role: "region", "aria-label": `Prompt of ${editor}` });
    box.append(make("small", `Prompt of ${editor}`));
    for (const [role, all] of byRole(prompt)) {
      const fold = make("details"), blocks = make("div", "", { class: "sides" });
      fold.append(make("summary", counted(role, all)), blocks);
      for (const [place, content] of all) {
        const block = make("pre", content);
        block.prepend(make("span", `block ${place}`, { class: "role" }));
        blocks.append(block);
      }
      box.append(fold);
    }
    box.append(make("pre", text(prompt[1])));
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
  const asked = new Set(data.cases.flatMap((one) => one[3].filter((_, i) => i % PROBE === 0)));
  const aspects = data.aspects.map((_, i) => i).filter((i) => asked.has(i));
  options("f-aspect", "all", aspects.map((i) => data.aspects[i]), aspects);
  options("f-before", null, data.editors);

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
  window.addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll(".fold")) fold.open = true; });
  $("filters").hidden = false;
  filter();
})();
