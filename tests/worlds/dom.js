// The page's scripts on a stand-in for a document, without layout: node dom.js FOLDER ADDRESS, the actions on stdin.
// An action sees `$`, `press(label, inside)`, `input(id, text)`, `open(view)` and `told`, which is printed as JSON.
'use strict';
const fs = require('fs');
const [folder, address] = process.argv.slice(2);

class Node {
  constructor(tag) { Object.assign(this, {tag, kids: [], heard: {}, named: [], value: '', hidden: false, open: false, className: ''}); }
  setAttribute(name) { if (name === 'hidden') this.hidden = true; }
  removeAttribute() {}
  append(...kids) { for (const kid of kids) { if (typeof kid === 'object') kid.above = this; this.kids.push(kid); } }
  replaceChildren(...kids) { this.kids = []; this.append(...kids); }
  addEventListener(name, act) { (this.heard[name] ||= []).push(act); }
  async fire(name) { for (const act of this.heard[name] || []) await act({preventDefault() {}, target: this}); }
  get textContent() { return this.kids.map((kid) => (typeof kid === 'object' ? kid.textContent : String(kid))).join(''); }
  set textContent(text) { this.kids = [text]; }
  get parentElement() { return (this.above ||= new Node('label')); }
  get elements() { return Object.assign([...this.named], Object.fromEntries(this.named.map((field) => [field.name, field]))); }
  get inside() { return this.kids.flatMap((kid) => (typeof kid === 'object' ? [kid, ...kid.inside] : [])); }
  showModal() { this.open = true; }
  close() { this.open = false; }
  reset() { for (const field of this.named) field.value = field.first; }
  focus() {}
  contains() { return false; }
  querySelectorAll() { return []; }
}

const html = fs.readFileSync(`${folder}/index.html`, 'utf8'), nodes = {};
for (const [, id] of html.matchAll(/id="([\w-]+)"/g)) nodes[id] = new Node(id);
const form = html.slice(html.indexOf('id="entry"'), html.indexOf('</form>', html.indexOf('id="entry"')));
nodes.entry.named = [...form.matchAll(/name="(\w+)"/g)].map(([, name]) => Object.assign(new Node('input'), {name, first: name === 'status' ? 'active' : ''}));
const $ = (id) => { if (!nodes[id]) throw new Error(`no element ${id}`); return nodes[id]; };
const make = (tag) => new Node(tag), heard = {};
Object.assign(globalThis, {
  document: {getElementById: $, createElement: make, createElementNS: (space, tag) => make(tag), querySelectorAll: () => [], querySelector: () => make('a'), addEventListener() {}, hidden: true},
  window: {addEventListener: (name, act) => { heard[name] = act; }}, location: {hash: '#edits'}, setInterval() {},
});
const asked = globalThis.fetch;
let open_requests = 0;
globalThis.fetch = async (path, {method, headers, body}) => {
  open_requests += 1;
  try { return await asked(`${address}/${path}`, {method, headers, body: body || undefined}); } finally { open_requests -= 1; }
};
async function settled() {
  for (let quiet = 0; quiet < 5; quiet = open_requests ? 0 : quiet + 1) await new Promise((done) => setTimeout(done, 10));
}
async function press(label, inside) {
  const found = inside.inside.find((node) => node.tag === 'button' && node.textContent === label);
  if (!found) throw new Error(`no button ${label}: ${inside.inside.filter((node) => node.tag === 'button').map((node) => node.textContent)}`);
  await found.fire('click');
  await settled();
}
async function input(id, text) { $(id).value = text; await $(id).fire('change'); await settled(); }
async function open(view) { location.hash = `#${view}`; heard.hashchange(); await settled(); }

for (const script of ['inbox', 'life', 'page']) (0, eval)(fs.readFileSync(`${folder}/${script}.js`, 'utf8'));
const told = [], actions = fs.readFileSync(0, 'utf8');
const run = new (async () => {}).constructor('$', 'press', 'input', 'open', 'settled', 'told', actions);
settled().then(() => run($, press, input, open, settled, told)).then(() => process.stdout.write(JSON.stringify(told), () => process.exit(0)));
