// The admin page. Texts of edits and requests only ever become text nodes; the key stays in this function's memory.
'use strict';
(() => {
  const $ = (id) => document.getElementById(id);
  const PAGE = 50;
  let key = null, role = 'report', shown = 0, searches = 0, undo = null, vanish = 0;

  // Signs that change the order of reading, which would show another text than a model reads.
  const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  const numbered = (sign) => `\u27e6U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}\u27e7`;
  const marked = (child) => (typeof child === 'string' ? child.replace(TURNING, numbered) : child);

  function h(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== '').map(marked));
    return made;
  }

  const fill = (place, ...children) => { place.replaceChildren(...children.map(marked)); };
  const button = (label, act) => h('button', {type: 'button', class: 'plain', onclick: act}, label);
  const when = (stamp) => h('time', {datetime: stamp, title: stamp}, new Date(stamp).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'}));
  const bdi = (text) => h('bdi', {}, String(text));  // a person's text, perhaps from right to left, within a line of ours
  const fact = (edit) => h('div', {class: 'fact'}, bdi(edit.query), h('i', {}, '\u2192'), h('b', {}, bdi(edit.target_new)));
  const percent = (share) => `${+(100 * share).toFixed(share > 0.99 || share < 0.01 ? 1 : 0)}\u202f%`;

  // What the gateway says to people at a terminal, for people at this page: no commands, flags or headers.
  const AS_HERE = {
    '--never': '\u201cNever fire on\u201d', '--supersede': '\u201cRetire these\u201d', '--reason': 'a reason', '--alias': 'another name', '--paraphrase': 'a wording',
    '--gate': 'the gate', '--mode': 'the mode at the start', '--only': '\u201cOnly for these models\u201d', '--enforce': '\u201cMust apply\u201d', '--keep-samples': 'keeping of samples',
  };
  const plain = (text) => String(text ?? '')
    .replace(/\bthat drike [a-z ]+(?:--[a-z]+ )?lists\b/g, 'that is listed')
    .replace(/[:,;]?\s*(?:and )?send (?:it|the key) as Authorization: Bearer KEY/g, '')
    .replace(/\s*\([^()]*(?:--[a-z]|\bdrike [a-z])[^()]*\)/g, '')
    .replace(/[,:;]?\s*(?:(?:run|with|by|see|look at|in) )?\bdrike (?:edits|serve|keys|verify)\b[^,.;:]*/g, '')
    .replace(/--[a-z][a-z-]*/g, (flag) => AS_HERE[flag] || `the option \u201c${flag.slice(2).replace(/-/g, ' ')}\u201d`)
    .replace(/\b(another|own) the (?:option )?/g, '$1 ');

  async function api(path, body) {
    const headers = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body) headers['Content-Type'] = 'application/json';
    let reply;
    try {
      reply = await fetch(`admin/v1/${path}`, {
        method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), credentials: 'omit', cache: 'no-store',
      });
    } catch {
      throw new Error('The gateway does not answer: check that it is running.');
    }
    const answer = await reply.json().catch(() => ({}));
    if (reply.status === 401 || (reply.status === 403 && !body)) askForKey(plain(answer.error?.message));  // a key that may look may still not decide
    if (!reply.ok) {
      throw Object.assign(new Error(plain(answer.error?.message) || `The gateway answered with status ${reply.status}.`), {status: reply.status, answer});
    }
    return answer;
  }

  // In the uppermost dialog: what is behind it can be neither read nor pressed.
  function say(text, back) {
    ([...document.querySelectorAll('dialog[open]')].pop() || document.body).append($('toast'));
    fill($('said'), text);
    undo = back || null;
    $('undo').hidden = !back;
    $('toast').hidden = false;
    clearTimeout(vanish);
    vanish = setTimeout(() => { $('toast').hidden = true; }, back ? 10000 : 5000);
  }

  // Show what goes wrong in an action that a person started.
  const tried = (act) => async (...given) => {
    try {
      await act(...given);
    } catch (problem) {
      say(problem.message);
    }
  };

  function askForKey(why) {
    $('why-key').textContent = key ? why || '' : '';
    key = null;
    if (!$('key').open) $('key').showModal();
  }

  // Edits

  function rowOf(edit) {
    const names = [edit.subject, ...edit.aliases].join(', ');
    return h('li', {'data-id': edit.id},
      h('div', {class: 'body'}, fact(edit),
        h('div', {class: 'small'}, ...edits.stateOf(edit), bdi(names), ` \u00b7 ${edit.id}@${edit.version} \u00b7 `, when(edit.created_at), ...(edit.author ? [' \u00b7 ', bdi(edit.author)] : []), ...(edit.owner ? [' \u00b7 owner ', bdi(edit.owner)] : []))),
      h('div', {class: 'does'},
        button('Details', tried(() => edits.openDetails(edit.id))),
        ['retired', 'proposed'].includes(edit.status) || !edits.may('approve') ? null : button('Retire\u2026', () => edits.openMove('retire', [edit]))));
  }

  const NONE = {proposed: 'Nothing waits for approval.', due: 'No review is due.', rejected: 'Nothing is rejected.', draft: 'No drafts. The inbox makes them from reports.'};

  async function showEdits(append) {
    const search = ++searches, after = append ? shown : 0;
    const given = Object.fromEntries(['q', 'status', 'owner', 'subject'].map((name) => [name, $(name).value.trim()]).filter(([, value]) => value));
    const {status, ...others} = given, wanted = status === 'due' ? {...others, due: 0} : given;
    const answer = await api(`edits?${new URLSearchParams({...wanted, after, limit: PAGE})}`);
    if (search !== searches) return;  // an answer to an earlier search
    const rows = answer.edits.map(rowOf);
    if (append) $('edits').append(...rows); else fill($('edits'), ...rows);
    shown = after + rows.length;
    const none = given.owner || given.subject ? 'No edit fits. Write the owner and the subject in full.' : given.q ? 'No edit has these words.' : status ? NONE[status] || 'No edit has this status.' : 'No edits yet. Add one, or draft one from a report in the inbox.';
    $('count').textContent = answer.total ? `${answer.total.toLocaleString()} ${answer.total === 1 ? 'edit' : 'edits'}` : none;
    $('clear').hidden = !Object.keys(given).length;
    $('more').hidden = shown >= answer.total;
  }

  const REPORTED = 'reported on the page';
  // Of a longer text the gateway records its beginning and end alone (gates/decision.py).
  const marking = (mark) => (edit, text) => text.length > 8000 ? h('span', {class: 'small'}, 'too long to be marked') : mark(edit, text);
  const never = marking((edit, text) => button('Never fire on this', tried(() => edits.addText(edit.id, 'negatives', text, `Edit ${edit.id} no longer fires on this question, in whatever case. It still may on others like it, as about another place: add those, too.`, REPORTED))));
  const should = marking((edit, text) => button('Should have fired', tried(() => edits.addText(edit.id, 'wordings', text, `Added to edit ${edit.id} as a wording.`, REPORTED))));

  // Decisions

  // What the gate computed, for those who want to know: few need it.
  function features({features: values}) {
    const rows = Object.entries(values || {});
    return rows.length ? h('details', {class: 'small'}, h('summary', {}, 'Features'),
      h('p', {}, rows.map(([name, value]) => `${name.replace(/_/g, ' ')} ${Number(value).toFixed(2)}`).join(' \u00b7 '))) : '';
  }

  function showDecision(decision) {
    const fired = new Set(decision.fired.map((edit) => edit.id)), text = decision.query;
    fill($('decision'),
      h('h2', {}, fired.size ? `${fired.size === 1 ? 'One edit fires' : `${fired.size} edits fire`}` : 'No edit fires'),
      h('p', {class: 'muted'}, plain(decision.reason)),
      h('ul', {class: 'list'}, ...decision.considered.map((candidate) => h('li', {},
        h('div', {class: 'body'}, fact(candidate.edit), h('div', {class: 'small'},
          h('span', {class: fired.has(candidate.edit.id) ? 'pill good' : 'pill'}, !fired.has(candidate.edit.id) ? 'does not fire' : candidate.edit.status === 'shadow' ? 'fires, only counted' : 'fires'), ' ',
          h('meter', {min: 0, max: 1, value: candidate.probability, 'aria-label': 'probability'}), ` ${percent(candidate.probability)}`,
          decision.threshold == null ? '' : ` \u00b7 it fires from ${percent(decision.threshold)} on`,
          candidate.name ? ` \u00b7 the question names \u201c${candidate.name}\u201d` : ' \u00b7 the question names nothing of it'), features(candidate)),
        h('div', {class: 'does'}, fired.has(candidate.edit.id) ? never(candidate.edit, text) : should(candidate.edit, text))))));
  }

  // A question to try, where there is none.
  async function suggest() {
    const {edits: [edit]} = await api('edits?status=active&limit=1');
    if (edit) $('question').placeholder = `e.g. ${edit.query}`;
  }

  async function ask(both) {
    const query = $('question').value.trim();
    if (!query) return $('question').focus();
    const buttons = $('ask').querySelectorAll('button');
    buttons.forEach((button) => { button.disabled = true; });
    try {
      $('answers').hidden = $('as-sent').hidden = true;
      const model = $('model').value.trim(), named = model ? {model} : {};
      showDecision(await api(`decide?${new URLSearchParams({q: query, ...named})}`));
      if (!both) return;
      const answer = await api('try', {query, ...named});
      showDecision(answer.decision);
      fill($('before'), answer.before.trim());
      fill($('after'), answer.after.trim());
      $('answers').hidden = false;
      fill($('sent'), answer.sent);
      $('as-sent').hidden = !answer.decision.fired.length;
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  }

  function recordedRow(recorded, act) {
    const {decision} = recorded;
    const edits = act === never ? decision.fired : decision.considered.slice(0, 2).map((candidate) => candidate.edit);
    const chance = new Map(decision.considered.map((candidate) => [candidate.edit.id, candidate.probability]));
    return h('li', {},
      h('div', {class: 'body'}, h('div', {}, decision.query), h('div', {class: 'small'}, when(recorded.at), ` \u00b7 ${plain(decision.reason)}`),
        ...edits.map((edit) => h('div', {class: 'small'}, fact(edit), chance.has(edit.id) ? `edit ${edit.id}, ${percent(chance.get(edit.id))} ` : `edit ${edit.id} `, act(edit, decision.query)))));
  }

  // An edit with the questions that named its subject and got nothing; each becomes one of its texts at a click.
  function unansweredRow({edit, asked, questions}) {
    const times = (number) => `asked ${number === 1 ? 'once' : `${number.toLocaleString()} times`}`;
    return h('li', {'data-id': edit.id},
      h('div', {class: 'body'}, fact(edit), h('div', {class: 'small'}, `edit ${edit.id} \u00b7 ${times(asked)}, not answered`),
        ...questions.map((question) => h('div', {}, question.text, h('div', {class: 'small'}, `${times(question.asked)} \u00b7 `, when(question.last), ' \u00b7 ',
          should(edit, question.text), ' ', never(edit, question.text))))));
  }

  async function showActivity() {
    const {edits: unanswered} = await api('unanswered');
    fill($('unanswered'), ...(unanswered.length ? unanswered.map(unansweredRow) : [h('li', {class: 'none'}, 'Nothing yet.')]));
    const answer = await api('fired?limit=50');
    for (const [name, act] of [['fired', never], ['missed', should]]) {
      const rows = answer[name].map((recorded) => recordedRow(recorded, act));
      fill($(name), ...(rows.length ? rows : [h('li', {class: 'none'}, 'Nothing yet.')]));
    }
  }

  // Health

  function chart(days) {
    const columns = Array.from({length: 14}, (_, i) => {  // the last of them today, as counts have it: in UTC
      const day = new Date(Date.now() - (13 - i) * 864e5).toISOString().slice(0, 10), numbers = days[day] || {};
      const judged = ['new', 'old', 'both', 'neither', 'refused', 'partly'].reduce((sum, what) => sum + (numbers[what] || 0), 0);
      return {day, took: numbers.new || 0, judged};
    });
    const most = Math.max(1, ...columns.map((column) => column.judged)), width = 136 / columns.length;
    const bar = (i, from, number, name) => svg('rect', {x: i * width, width: width - 1, y: 35 * (1 - (from + number) / most), height: 35 * number / most, class: name});
    return svg('svg', {viewBox: '0 0 136 35', class: 'days', role: 'img', 'aria-label': columns.filter((column) => column.judged).map(({day, took, judged}) => `${day}: ${took} of ${judged}`).join(', ')},
      ...columns.flatMap(({took, judged}, i) => judged ? [bar(i, 0, took, 'taken'), bar(i, took, judged - took, 'missed')] : []));
  }

  const OUTCOMES = {old: 'old', both: 'both', partly: 'partly', neither: 'neither', refused: 'refused', unread: 'not read', failed: 'failed', slips: 'asked again'};

  const PILLS = {below: 'pill bad', fell: 'pill bad', holds: 'pill good', open: 'pill'};

  function ofModel(line) {
    const {value, low, high} = line.heeded, n = (number) => number.toLocaleString();
    const rate = value === null ? 'no answer was read' : `heeded in ${percent(value)} (${percent(low)} to ${percent(high)}) of ${n(line.judged)}`;
    return h('div', {class: 'small'}, `${plain(line.model)}: in ${n(line.prompts)} ${line.prompts === 1 ? 'prompt' : 'prompts'}, ${rate}`,
      line.recurred ? ` \u00b7 recurred in ${n(line.recurred)}` : '', ' ', h('span', {class: PILLS[line.verdict]}, plain(line.words)));
  }

  function healthRow(edit, shadow) {
    const {value, low, high} = edit.took, verdict = PILLS[edit.verdict];
    const others = Object.entries(OUTCOMES).filter(([what]) => edit.numbers[what]).map(([what, label]) => `${label} ${edit.numbers[what].toLocaleString()}`);
    return h('li', {'data-id': edit.id},
      h('div', {class: 'body'}, fact(edit), h('div', {class: 'small'},
        shadow ? '' : h('span', {class: verdict}, plain(edit.words)), ' ',
        value === null ? 'no answer was read' : `${shadow ? 'states the new object in' : 'heeded in'} ${percent(value)} (${percent(low)} to ${percent(high)}) of ${edit.judged.toLocaleString()}`,
        ...others.map((text) => ` \u00b7 ${text}`), ` \u00b7 ${Math.round(edit.tokens_a_day).toLocaleString()} tokens a day`),
        ...(shadow ? [] : edit.models.map(ofModel))),
      chart(edit.by_day), h('div', {class: 'does'}, button('Details', tried(() => edits.openDetails(edit.id)))));
  }

  async function showHealth() {
    const answer = await api('health?days=14');
    fill($('said-of-traffic'), ...answer.sentences.map((sentence) => h('p', {}, plain(sentence))));
    $('why-health').textContent = answer.problem ? `Counts cannot be stored: ${plain(answer.problem)}` : '';
    const none = (text) => h('li', {class: 'none'}, text);
    fill($('on'), ...(answer.edits.length ? answer.edits.map((edit) => healthRow(edit, false)) : [none('No answer under an edit yet. Switch edits on, and ask something that one of them concerns, through the gateway.')]));
    fill($('in-shadow'), ...(answer.shadow.length ? answer.shadow.map((edit) => healthRow(edit, true)) : [none('Nothing in shadow yet. In shadow mode, or for an edit in shadow, answers stay as they are and are counted here.')]));
    await inbox.showSamples();
  }

  async function openModes() {
    const {mode, share, switched} = await api('mode');
    $('switching').reset();
    $('new-mode').value = switched.length && switched[0].mode === null ? '' : mode;
    $('share').value = 100 * share;
    fill($('switched'), ...(switched.length ? switched.slice(0, 10).map((made) => h('li', {}, h('div', {class: 'body'}, `${made.mode || 'as started'}${made.share < 1 ? ` for ${percent(made.share)}` : ''}`,
      h('div', {class: 'small'}, when(made.at), ...[made.author, made.reason].filter(Boolean).flatMap((text) => [' \u00b7 ', bdi(text)]))))) : [h('li', {class: 'none'}, 'Never switched here.')]));
    $('requiring').hidden = !edits.may('admin');
    $('needed').value = (await api('approvals')).needed;
    $('modes').showModal();
  }

  // The gate's calibration

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function showCurve(bins) {
    const left = 44, top = 10, size = 300, x = (p) => left + p * size, y = (p) => top + (1 - p) * size;
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    const line = (from, to, name) => svg('line', {x1: x(from[0]), y1: y(from[1]), x2: x(to[0]), y2: y(to[1]), class: name});
    const text = (p, q, anchor, words) => svg('text', {x: p, y: q, 'text-anchor': anchor}, words);
    const points = bins.map((bin) => [x(bin.probability), y(bin.share)]);
    const largest = Math.max(...bins.map((bin) => bin.count));
    fill($('curve'),
      svg('svg', {viewBox: `0 0 ${size + left + 20} ${size + top + 50}`, role: 'img', 'aria-label': 'Calibration curve; the table below has its numbers'},
        ...ticks.flatMap((p) => [line([p, 0], [p, 1], 'axis'), line([0, p], [1, p], 'axis'), text(x(p), top + size + 18, 'middle', percent(p)), text(left - 6, y(p) + 4, 'end', percent(p))]),
        line([0, 0], [1, 1], 'ideal'),
        svg('polyline', {points: points.map((point) => point.join(',')).join(' '), class: 'line'}),
        ...points.map(([cx, cy], i) => svg('circle', {cx, cy, r: 3 + 5 * Math.sqrt(bins[i].count / largest), class: 'dot'})),
        text(left + size / 2, top + size + 40, 'middle', 'Probability that the gate gave')),
      h('table', {}, h('thead', {}, h('tr', {}, ...['Probability', 'Concerned', 'Questions'].map((name) => h('th', {scope: 'col'}, name)))),
        h('tbody', {}, ...bins.map((bin) => h('tr', {}, h('td', {}, percent(bin.probability)), h('td', {}, percent(bin.share)), h('td', {}, bin.count.toLocaleString()))))));
  }

  async function showGate() {
    const {bins} = await api('calibration');
    if (bins.length) showCurve(bins);
    else fill($('curve'), h('p', {}, 'Nothing to measure yet: add wordings to edits, and questions on which they must never fire.'));
  }

  // Sections

  async function showStatus() {
    const answer = await api('status');
    role = answer.role;
    const part = answer.mode === 'on' && answer.share < 1 ? ` for ${percent(answer.share)}` : '';
    $('mode').textContent = {on: `edits on${part}`, off: 'edits off', shadow: 'shadow: answers stay as they are'}[answer.mode] || answer.mode;
    $('mode').className = answer.mode === 'on' ? 'pill good' : 'pill';
    $('mode').hidden = $('switch').hidden = false;
    $('upstream').textContent = [answer.upstream, answer.tenant === 'default' ? '' : answer.tenant].filter(Boolean).join(' \u00b7 ');
    $('problems').hidden = !answer.problems.length;
    fill($('problems'), ...answer.problems.map((problem) => h('div', {}, plain(problem))));
  }

  const shared = {$, api, h, bdi, fill, button, when, fact, tried, say, refresh, role: () => role};
  const edits = window.editView(shared);
  const inbox = window.inboxView({...shared, ...edits});
  const VIEWS = {edits: () => showEdits(false), try: suggest, activity: showActivity, health: showHealth, gate: showGate, inbox: inbox.showReports};
  const view = () => (location.hash.slice(1) in VIEWS ? location.hash.slice(1) : 'edits');

  async function refresh() {
    await showStatus();
    await VIEWS[view()]();
  }

  function goTo() {
    for (const name of Object.keys(VIEWS)) $(`v-${name}`).hidden = name !== view();
    for (const link of document.querySelectorAll('nav a')) {
      if (link.hash === `#${view()}`) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
    }
    tried(refresh)();
  }

  function on(id, event, act) {
    $(id).addEventListener(event, (happened) => {
      if (event === 'submit') happened.preventDefault();
      tried(act)(happened);
    });
  }

  let typing = 0;
  for (const id of ['q', 'owner', 'subject']) on(id, 'input', () => { clearTimeout(typing); typing = setTimeout(tried(() => showEdits(false)), 150); });
  on('search', 'submit', () => showEdits(false));
  on('status', 'change', () => showEdits(false));
  on('more', 'click', () => showEdits(true));
  on('clear', 'click', () => { $('search').reset(); return showEdits(false); });
  on('new', 'click', () => edits.openEntry());
  on('switch', 'click', openModes);
  on('switching', 'submit', async () => {
    const mode = $('new-mode').value || null;
    await api('mode', {mode, share: $('share').value / 100, reason: $('why-switch').value.trim() || null});
    $('modes').close();
    say('Switched.');
    await refresh();
  });
  on('requiring', 'submit', async () => {
    const {needed} = await api('approvals', {needed: Number($('needed').value)});
    say(needed ? `What an edit says needs ${needed} ${needed === 1 ? 'approval' : 'approvals'}.` : 'No approval is needed.');
  });
  on('ask', 'submit', () => ask(true));
  on('decide', 'click', () => ask(false));
  on('refresh', 'click', showActivity);
  on('undo', 'click', () => { $('toast').hidden = true; return undo && undo(); });
  on('enter', 'submit', async () => {
    key = $('secret').value.trim();
    $('secret').value = '';
    $('key').close();
    await refresh();
  });
  $('key').addEventListener('cancel', (event) => event.preventDefault());  // nothing works without a key
  for (const button of document.querySelectorAll('[data-close]')) button.addEventListener('click', () => button.closest('dialog').close());
  $('question').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); $('ask').requestSubmit(); }
  });
  document.addEventListener('keydown', (event) => {
    if (event.target.matches('input, textarea, select') || document.querySelector('dialog[open]') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/' && view() === 'edits') { event.preventDefault(); $('q').focus(); }
    if (event.key === 'n' && view() === 'edits') { event.preventDefault(); $('new').click(); }
  });
  document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); $('main').focus(); });
  window.addEventListener('hashchange', goTo);
  setInterval(() => { if (!document.hidden && !$('key').open && view() === 'activity' && !$('v-activity').contains(document.activeElement)) tried(showActivity)(); }, 5000);
  goTo();
})();
