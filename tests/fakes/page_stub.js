// As much of a browser's document as the admin page needs, for node: it loads the page of a gateway, and answers each
// line of its input, a script as JSON, with its value as JSON. Layout, styles and keys are missing.
'use strict';
const [origin, hash] = process.argv.slice(2);
const VOID = ['meta', 'link', 'input'];

class Text {
  constructor(text) { this.textContent = text; }
}

class Element {
  constructor(tag) { Object.assign(this, {tag, attributes: {}, nodes: [], heard: {}, parentElement: null, given: undefined}); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  removeAttribute(name) { delete this.attributes[name]; }
  get children() { return this.nodes.filter((node) => node instanceof Element); }
  get all() { return this.children.flatMap((child) => [child, ...child.all]); }
  get textContent() { return this.nodes.map((node) => node.textContent).join(''); }
  set textContent(text) { this.replaceChildren(...(text === '' ? [] : [text])); }
  append(...nodes) {
    for (const node of nodes) {
      const made = node instanceof Element ? node : new Text(String(node));
      if (made.parentElement) made.parentElement.nodes = made.parentElement.nodes.filter((other) => other !== made);
      made.parentElement = this;
      this.nodes.push(made);
    }
  }
  replaceChildren(...nodes) { this.nodes = []; this.append(...nodes); }
  addEventListener(type, act) { (this.heard[type] ||= []).push(act); }
  dispatchEvent(event) {
    event.target ||= this;
    for (const act of this.heard[event.type] || []) act(event);
    if (event.bubbles && this.parentElement) this.parentElement.dispatchEvent(event);
  }
  get options() { return this.all.filter((child) => child.tag === 'option').map((option) => option.attributes.value ?? option.textContent); }
  get value() {
    const first = this.tag === 'select' ? this.options[0] : this.attributes.value ?? '';
    return this.given === undefined || (this.tag === 'select' && !this.options.includes(this.given)) ? first : this.given;
  }
  set value(value) { this.given = String(value ?? ''); }
  get name() { return this.attributes.name || ''; }
  get type() { return this.attributes.type || (this.tag === 'button' ? 'submit' : this.tag); }
  get hash() { return this.attributes.href; }
  get offsetParent() { return this.hidden || (this.tag === 'dialog' && !this.open) ? null : this.parentElement ? this.parentElement.offsetParent : this; }
  get elements() {
    const fields = this.all.filter((child) => ['input', 'select', 'textarea', 'button'].includes(child.tag));
    return Object.assign(fields, Object.fromEntries(fields.filter(({name}) => name).map((field) => [field.name, field])));
  }
  reset() { for (const field of this.elements) { field.given = undefined; field.checked = false; } }
  closest(tag) { return this.tag === tag ? this : this.parentElement?.closest(tag); }
  contains(other) { return this === other || this.all.includes(other); }
  showModal() { if (this.open) throw new Error(`${this.attributes.id} is open already`); this.open = true; }
  close() { this.open = false; }
  focus() { document.activeElement = this; }
  click() {
    this.dispatchEvent({type: 'click'});
    const form = this.tag === 'button' && this.type === 'submit' && this.closest('form');
    if (form) form.requestSubmit(this);
  }
  requestSubmit(submitter) {
    const empty = !('novalidate' in this.attributes) && this.elements.find((field) => field.required && !field.value);
    if (empty) throw new Error(`${empty.attributes.id} is required`);
    this.dispatchEvent({type: 'submit', submitter, preventDefault() {}});
  }
  querySelectorAll(selector) {
    return this.all.filter((child) => selector.split(',').some((one) => matches(child, one.trim().match(/(?:\[[^\]]*\]|\S)+/g))));
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null; }
}
for (const name of ['hidden', 'open', 'required', 'disabled', 'checked']) {
  Object.defineProperty(Element.prototype, name, {
    get() { return name in this.attributes; },
    set(on) { if (on) this.attributes[name] = ''; else delete this.attributes[name]; },
  });
}
for (const [name, attribute] of [['id', 'id'], ['className', 'class'], ['placeholder', 'placeholder']]) {
  Object.defineProperty(Element.prototype, name, {get() { return this.attributes[attribute] ?? ''; }, set(value) { this.attributes[attribute] = String(value); }});
}

function matches(element, parts) {
  const fits = (part) => part.match(/\[[^\]]*\]|[#.]?[\w-]+/g).every((piece) => {
    if (piece[0] === '#') return element.id === piece.slice(1);
    if (piece[0] === '.') return element.className.split(' ').includes(piece.slice(1));
    if (piece[0] !== '[') return element.tag === piece;
    const [name, value] = piece.slice(1, -1).split('=');
    return name in element.attributes && (value === undefined || element.attributes[name] === value.replaceAll('"', ''));
  });
  if (!fits(parts.at(-1))) return false;
  const above = parts.slice(0, -1);
  for (let outer = element.parentElement; above.length && outer; outer = outer.parentElement) if (matches(outer, above)) return true;
  return !above.length;
}

function parsed(html) {
  const root = new Element('root'), open = [root];
  for (const [, comment, end, tag, attributes, text] of html.matchAll(/(<!.*?>)|<\/(\w+)>|<(\w+)((?:\s+[\w-]+(?:="[^"]*")?)*)\s*>|([^<]+)/g)) {
    if (comment) continue;
    if (end) open.splice(open.findLastIndex((element) => element.tag === end));
    else if (text !== undefined) open.at(-1).append(text);
    else {
      const made = new Element(tag);
      for (const [, name, value] of attributes.matchAll(/([\w-]+)(?:="([^"]*)")?/g)) made.setAttribute(name, value ?? '');
      open.at(-1).append(made);
      if (!VOID.includes(tag)) open.push(made);
    }
  }
  return root;
}

async function main() {
  const read = async (path) => (await realFetch(`${origin}/${path}`)).text();
  const realFetch = fetch;
  const root = parsed(await read(''));
  const document = Object.assign(root, {
    body: root.querySelector('body'), activeElement: null, getElementById: (id) => root.all.find((element) => element.id === id) ?? null,
    createElement: (tag) => new Element(tag), createElementNS: (space, tag) => new Element(tag),
  });
  Object.assign(globalThis, {
    window: globalThis, document, location: {hash}, addEventListener() {}, setInterval() {}, Event: class { constructor(type, given) { Object.assign(this, {type}, given); } },
    fetch: (path, given) => realFetch(`${origin}/${path}`, given),
  });
  for (const script of root.querySelectorAll('script')) (0, eval)(await read(script.attributes.src));
  for await (const line of require('node:readline').createInterface({input: process.stdin})) {
    let answer;
    try {
      answer = {value: (0, eval)(`(${JSON.parse(line)})`) ?? null};
    } catch (problem) {
      answer = {problem: String(problem)};
    }
    console.log(JSON.stringify(answer));
  }
}
main();
