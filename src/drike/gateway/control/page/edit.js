// An edit: its view, its log, and the moves of its life. page.js gives it what all views use.
'use strict';
window.ROLES = ['report', 'use', 'propose', 'approve', 'admin'];

// Of an edit's versions, the latest last, the one that decides what is in force; the latest while none does.
window.decidedOf = (versions) => versions.findLast(({status}) => !['proposed', 'rejected'].includes(status)) || versions.at(-1);

// The moves that its versions and the role of a key allow.
window.movesOf = (versions, role) => {
  const last = versions.at(-1), now = window.decidedOf(versions), inUse = (edit) => ['active', 'shadow'].includes(edit.status);
  const waits = last.status === 'proposed', gone = now.status === 'retired', decides = window.ROLES.indexOf(role) >= 3;
  const allowed = {
    approve: decides && waits,
    reject: decides && waits,
    propose: !waits && !(decides && inUse(last)),
    change: waits || !gone,
    review: decides && !waits && inUse(now),
    shadow: decides && !waits && now.status === 'active',
    active: decides && !waits && ['shadow', 'draft'].includes(now.status),
    retire: decides && !gone,
  };
  return window.ROLES.indexOf(role) < 2 ? [] : Object.keys(allowed).filter((name) => allowed[name]);
};

window.editView = ({$, api, h, bdi, fill, button, when, fact, tried, say, refresh, role}) => {
  const MOVES = {
    approve: ['Approve', 'It takes effect once enough people have approved it.'],
    reject: ['Reject', 'What was in force before stays. The reason is for its author.'],
    propose: ['Propose', 'It waits until somebody approves it.'],
    change: ['Change'],
    review: ['Review', 'It still holds, and is to be reviewed again later.'],
    shadow: ['Put into shadow', 'Requests that it matches are counted; answers stay as they are.'],
    active: ['Put in force', 'Answers follow it, once the approvals that the store requires are there.'],
    retire: ['Retire', 'It takes no effect any more. Its history stays.'],
    rollback: ['Go back', 'A new version says what this one says.'],
  };
  const DONE = {active: 'is in force', shadow: 'is in shadow', proposed: 'waits for approval', retired: 'is retired', draft: 'is a draft'};
  const MOVED = {propose: 'proposed', approve: 'approved', reject: 'rejected', review: 'reviewed'};
  const FIELDS = {query: 'Query', target_new: 'New answer', target_true: 'Old answer', subject: 'Subject', aliases: 'Other names', not_names: 'Not found as', relation: 'Relation', wordings: 'Wordings', negatives: 'Never fires on', object_aliases: 'Other names of the answer', only: 'Only for', valid_from: 'Holds from', valid_to: 'Until', priority: 'Priority', enforce: 'Must apply', owner: 'Owner', review_by: 'Review by', review_days: 'Days between reviews', source: 'Source'};
  const LISTS = ['aliases', 'not_names', 'wordings', 'negatives', 'object_aliases', 'only'];
  let versions = [], move = null, entered = {}, others = null;

  const may = (wanted) => window.ROLES.indexOf(role()) >= window.ROLES.indexOf(wanted);
  const pill = (text, kind = '') => h('span', {class: `pill ${kind}`}, text);
  const oneLine = (text) => String(text).replace(/\s*[\r\n]+\s*/g, ' ');
  const shownAs = (value) => (Array.isArray(value) ? value.map(oneLine).join('\n') : {true: 'yes', false: ''}[value] ?? oneLine(value ?? ''));
  const by = (edit) => edit.author || 'somebody';

  // What an edit is at the moment.
  function stateOf(edit) {
    const idle = edit.status === 'active' && edit.in_force === false;
    const name = {active: idle ? 'not valid now' : 'in force', proposed: 'waits for approval'}[edit.status] || edit.status;
    return [pill(name, edit.status === 'active' && !idle ? 'good' : ''), edit.due ? pill('review due', 'bad') : '', edit.proposal ? pill('a change waits') : ''].filter(Boolean).flatMap((one) => [one, ' ']);
  }

  const rivalsOf = (problem) => [h('p', {}, problem.message), ...(problem.answer?.rivals || []).map((rival) => h('div', {}, `${rival.id}@${rival.version} `, fact(rival)))];

  // Tell of a change, offer to undo it where that is a move of its own, and show what is so now.
  async function changed({changes}, done, undo) {
    const {id, status} = changes.at(-1);
    const back = async () => changed(await api(`edits/${id}/rollback`, {reason: 'undone on the page'}), `Edit ${id} is as before.`, false);
    say(done || `Edit ${id} ${DONE[status]}.`, undo && status !== 'proposed' && may('approve') ? tried(back) : null);
    if ($('details').open) await openDetails(versions[0].id);
    await refresh();
  }

  async function addText(id, where, text, done, reason) {
    const answer = await api(`edits/${id}/${where}`, {text, reason});
    if (where === 'negatives') await offerOthers(id, text, reason);
    await changed(answer, answer.changes.at(-1).status === 'proposed' ? '' : done, true);
  }

  // A question that one edit shall not match: which others match it about their subjects, as Norway's beside Sweden's.
  async function offerOthers(id, text, reason) {
    const {edits} = await api(`edits/${id}/alike?${new URLSearchParams({text})}`).catch(() => ({edits: []}));
    if (!edits.length) return;
    others = {id, text, reason};
    fill($('others'), ...edits.map(({edit, text: question}) => h('li', {}, h('div', {class: 'body'}, bdi(question), h('div', {class: 'small'}, `edit ${edit.id}: `, fact(edit))))));
    $('alike').showModal();
  }

  async function giveOthers() {
    const {changes} = await api(`edits/${others.id}/alike`, {text: others.text, reason: others.reason || `as of edit ${others.id}`});
    $('alike').close();
    const waits = changes.some(({status}) => status === 'proposed');
    say(`${changes.length === 1 ? 'One more edit has' : `${changes.length} more edits have`} the question as one on which it never fires${waits ? ', once that is approved' : ''}.`);
    await refresh();
  }

  // The view of an edit

  function standing(approvals) {
    const last = versions.at(-1), now = window.decidedOf(versions), lines = [stateOf(now)];
    const told = last.status === 'proposed' ? versions : versions.slice(0, versions.indexOf(now) + 1);
    const written = told.findLastIndex(({move}) => !move || move === 'propose');
    const people = told.slice(written + 1).filter(({move}) => move === 'approve').map(by).join(', ');
    if (last.status === 'proposed') {
      const needed = Math.max(approvals.needed, 1), goal = last.approved_as === 'shadow' ? ' for shadow' : '';
      lines.push([`Proposed${goal} by `, bdi(by(versions[written])), `, version ${last.version} \u00b7 approved by ${approvals.by.length} of ${needed}`, ...(people ? [': ', bdi(people)] : [])]);
    } else if (people && now.status !== 'rejected') lines.push(['Proposed by ', bdi(by(told[written])), ', approved by ', bdi(people)]);
    if (last.status === 'rejected') lines.push([`Version ${last.version} was rejected by `, bdi(by(last)), ': ', bdi(last.reason)]);
    const due = now.review_by ? [`to be reviewed by ${now.review_by.slice(0, 10)}`] : [];
    lines.push(now.owner ? ['Owner: ', bdi(now.owner), ...due.map((text) => ` \u00b7 ${text}`)] : due);
    fill($('standing'), ...lines.filter((line) => line.length).map((line) => h('p', {}, ...[line].flat())));
  }

  // The fields of the latest version, each with what is in force where a proposal would change it; or these alone.
  function fieldsOf(known, changedOnly) {
    const last = known.at(-1), now = window.decidedOf(known);
    const rows = Object.entries(FIELDS).map(([name, label]) => [label, shownAs(last[name]), shownAs(now[name])]);
    const wanted = rows.filter(([, value, was]) => (changedOnly ? value !== was : value || was));
    return h('dl', {}, ...wanted.flatMap(([label, value, was]) => [
      h('dt', {}, label), h('dd', {}, bdi(value || '\u2013'), value === was ? '' : h('div', {class: 'small'}, 'now: ', bdi(was || '\u2013')))]));
  }

  function logRow(edit, before) {
    const name = edit.move === 'approve' && edit.status === 'proposed' ? 'approved, waits for more' : MOVED[edit.move] || edit.status;
    return h('li', {},
      h('div', {class: 'body'}, fact(edit), h('div', {class: 'small'}, `${edit.id}@${edit.version} ${name} \u00b7 `, bdi(by(edit)), ' \u00b7 ', when(edit.created_at), ...(edit.reason ? [' \u00b7 ', bdi(edit.reason)] : []))),
      edit === versions.at(-1) ? h('span', {class: 'small'}, 'latest') : before && may('approve') ? button('Go back to this\u2026', () => openMove('rollback', versions, edit)) : '');
  }

  async function openDetails(id) {
    const answer = await api(`edits/${id}`);
    versions = answer.versions;
    const now = window.decidedOf(versions), moves = window.movesOf(versions, role());
    $('h-details').textContent = `Edit ${id}`;
    standing(answer.approvals);
    fill($('fields'), fieldsOf(versions));
    fill($('moves'), ...moves.map((name) => h('button', {type: 'button', class: {approve: 'main', retire: 'danger', reject: 'danger'}[name] || '', onclick: () => (name === 'change' ? openEntry(versions) : openMove(name, versions))}, `${MOVES[name][0]}\u2026`)));
    fill($('proof'));
    $('teach').reset();
    $('teach').hidden = $('suggest').hidden = !moves.includes('change');
    const decides = ({status}) => !['proposed', 'rejected'].includes(status);
    fill($('versions'), ...[...versions].reverse().map((edit) => logRow(edit, edit.version < now.version && decides(edit))));
    if (!$('details').open) $('details').showModal();
    $('h-details').focus();
  }

  // What the model says under an edit that is in force for these questions alone.
  async function proofOf(id) {
    let proof;
    try {
      const model = $('model').value.trim();
      proof = await api(`edits/${id}/verify`, model ? {model} : {});
    } catch (problem) {
      return h('p', {class: 'wrong'}, `It could not be tried: ${problem.message}`);
    }
    return h('div', {role: 'status'},
      pill(`took ${proof.took} of ${proof.asked}`, proof.took === proof.asked ? 'good' : 'bad'), ' ',
      proof.others ? pill(`leaked to ${proof.leaked} of ${proof.others}`, proof.leaked ? 'bad' : 'good') : h('span', {class: 'small'}, 'nothing was asked that it does not concern'),
      h('ul', {class: 'list'}, ...proof.failures.map((failure) => h('li', {}, h('div', {class: 'body'}, failure.question, h('div', {class: 'small'}, `${failure.problem}: ${failure.answer}`))))));
  }

  // Questions that the model would expect of people: those to store are ticked, and what must not be stored says why.
  async function suggest() {
    const {id} = versions.at(-1), model = $('model').value.trim();
    fill($('proof'), h('p', {class: 'muted', role: 'status'}, 'Asking the model\u2026'));
    let answer;
    try {
      answer = await api(`edits/${id}/suggest`, model ? {model} : {});
    } catch (problem) {
      return fill($('proof'), h('p', {class: 'wrong'}, `It could not be asked: ${problem.message}`));
    }
    const boxes = [];
    const row = (one) => {
      const box = h('input', {type: 'checkbox', checked: ''});
      if (!one.problem) boxes.push([box, one]);
      return h('li', {}, one.problem ? h('span', {class: 'small'}, h('s', {}, bdi(one.text)), ` ${one.problem}`) : h('label', {class: 'tick'}, box, ' ', bdi(one.text)));
    };
    const list = (never, heading) => {
      const of = answer.suggestions.filter((one) => one.never === never);
      return of.length ? [h('h3', {}, heading), h('ul', {class: 'list'}, ...of.map(row))] : [];
    };
    const lists = [...list(false, 'It will answer'), ...list(true, 'It must not answer')];
    const keep = tried(async () => {
      const texts = boxes.filter(([box]) => box.checked).map(([, {text, never}]) => ({text, never}));
      if (!texts.length) return fill($('proof'));
      const made = await api(`edits/${id}/suggested`, {texts, model: answer.model, version: answer.version});
      await changed(made, made.changes.at(-1).status === 'proposed' ? '' : 'The ticked questions are stored.', true);
    });
    fill($('proof'), ...lists, boxes.length ? h('div', {class: 'row'}, h('button', {type: 'button', class: 'main', onclick: keep}, may('approve') ? 'Store the ticked ones' : 'Propose the ticked ones')) : h('p', {class: 'muted'}, 'The model wrote no question that could be stored.'));
  }

  // Moves

  function openMove(name, known, to) {
    const last = known.at(-1), now = window.decidedOf(known), [label, meaning] = MOVES[name];
    move = {name, id: last.id, version: (to || last).version};
    $('h-move').textContent = `${label}: edit ${last.id}`;
    const shown = to || (name === 'review' ? now : last), waits = name === 'approve' && last !== now;
    fill($('what'), h('div', {class: 'small'}, `Version ${shown.version} \u00b7 by `, bdi(by(shown)), ' \u00b7 ', when(shown.created_at)), fact(shown), waits ? fieldsOf(known, true) : '');
    $('meaning').textContent = meaning;
    $('do-move').textContent = label;
    $('do-move').className = ['retire', 'reject'].includes(name) ? 'danger' : 'main';
    $('moving').reset();
    fill($('why-move'));
    $('replace').hidden = true;
    const goals = {active: ['shadow'], shadow: ['active']}[last.status] || (last.status !== 'retired' && last.approved_as === 'shadow' ? ['shadow', 'active'] : ['active', 'shadow']);
    fill($('into'), ...goals.map((goal) => h('option', {}, goal)));
    $('for-into').hidden = name !== 'propose';
    $('for-until').hidden = name !== 'review';
    $('until').required = name === 'review' && !now.review_days;
    $('reason').required = name === 'reject';
    $('move').showModal();
  }

  async function makeMove(supersede) {
    const {name, id, version} = move, reason = $('reason').value.trim() || null, text = {review: `Edit ${id} is reviewed.`, reject: `What was proposed for edit ${id} is rejected.`};
    const body = {
      approve: {version, supersede}, reject: {version}, propose: {into: $('into').value}, review: {until: $('until').value || null},
      shadow: {status: 'shadow'}, active: {status: 'active', supersede}, rollback: {version},
    }[name] || {};
    let answer;
    try {
      answer = await api(`edits/${id}/${['shadow', 'active'].includes(name) ? 'status' : name}`, {...body, reason});
    } catch (problem) {
      fill($('why-move'), ...rivalsOf(problem));
      $('replace').hidden = !problem.answer?.rivals?.length || name === 'rollback';
      return;
    }
    $('move').close();
    const waits = name === 'approve' && answer.changes.at(-1).status === 'proposed';
    await changed(answer, waits ? `You have approved edit ${id}; it waits for more approvals.` : text[name], ['retire', 'shadow', 'active'].includes(name));
  }

  // The form of a new edit, or with the values of one that is to be changed.
  function openEntry(known) {
    const form = $('entry'), last = known?.at(-1);
    const base = last && (last.status === 'proposed' ? last : window.decidedOf(known));
    entered = {id: last?.id, seen: last?.version, base: base || {}};
    form.reset();
    for (const field of [...form.elements].filter(({name}) => base && FIELDS[name])) {
      if (field.type === 'checkbox') field.checked = base[field.name];
      else field.value = shownAs(base[field.name]);
    }
    $('h-add').textContent = base ? `Change edit ${last.id}` : 'Add an edit';
    $('put').textContent = may('approve') ? (base ? 'Change' : 'Add') : 'Propose';
    $('supersede').textContent = base ? 'Retire these and change' : 'Retire these and add';
    $('for-approval').hidden = !base || !may('approve') || base.status === 'proposed';
    $('supersede').hidden = true;
    $('for-status').hidden = !!base;
    $('further').open = !!base;
    fill($('why-add'));
    $('add').showModal();
    return showNames();
  }

  // The short forms by which the edit in the form will be found, each of which can be struck out.
  async function showNames() {
    const {subject, query, aliases, not_names: struck} = $('entry').elements, lines = () => valueOf(struck);
    const named = subject.value.trim();
    const {short} = named ? await api('names', {subject: named, query: query.value, aliases: valueOf(aliases)}) : {short: []};
    const strike = (name, found) => { struck.value = [...lines().filter((line) => line !== name), ...(found ? [] : [name])].join('\n'); };
    const box = (name) => h('label', {class: 'tick'}, h('input', {type: 'checkbox', ...(lines().includes(name) ? {} : {checked: ''}), onchange: ({target}) => strike(name, target.checked)}), ` ${name}`);
    $('found-as').hidden = !short.length;
    fill($('found-as'), h('legend', {}, 'Also found as'), ...short.map(box));
  }

  function valueOf(field) {
    const text = field.value.trim();
    if (field.type === 'checkbox') return field.checked;
    if (LISTS.includes(field.name)) return text.split('\n').map((line) => line.trim()).filter(Boolean);
    return field.type === 'number' && text ? Number(text) : text || null;
  }

  async function enter(more) {
    const form = $('entry'), {id, seen, base} = entered, changes = {}, reason = form.elements.reason.value.trim() || null;
    $('supersede').hidden = true;
    fill($('why-add'));
    const missing = ['subject', 'query', 'target_new'].find((name) => !form.elements[name].value.trim());
    if (missing) {
      fill($('why-add'), 'Subject, query and new answer are needed.');
      form.elements[missing].focus();
      return;
    }
    for (const field of form.elements) {
      if (!FIELDS[field.name] && (id || field.name !== 'status')) continue;
      if (id && field.type !== 'checkbox' && field.value === shownAs(base[field.name])) continue;  // line breaks stay as they are
      const value = valueOf(field), none = Array.isArray(value) ? [] : value === false ? false : null;
      if (JSON.stringify(value) !== JSON.stringify(base[field.name] ?? none)) changes[field.name] = value;
    }
    if (id && !Object.keys(changes).length) return fill($('why-add'), 'Nothing is changed yet.');
    let answer;
    try {
      answer = id ? await api(`edits/${id}/change`, {changes, reason, version: seen, ...more}) : await api('edits', {...changes, reason, ...more});
    } catch (problem) {
      fill($('why-add'), ...rivalsOf(problem));
      $('supersede').hidden = !problem.answer?.rivals?.length;
      return;
    }
    $('add').close();
    const edit = answer.changes.at(-1);
    await changed(answer, edit.status === 'proposed' ? '' : `Edit ${edit.id} is ${id ? 'changed' : 'stored'}.`, !!id);
  }

  const act = (id, event, does) => $(id).addEventListener(event, (happened) => {
    if (event === 'submit') happened.preventDefault();
    tried(does)(happened);
  });
  act('moving', 'submit', () => makeMove(false));
  act('replace', 'click', () => makeMove(true));
  act('entry', 'submit', () => enter({}));
  act('entry', 'change', ({target}) => (['subject', 'query', 'aliases'].includes(target.name) ? showNames() : null));
  act('supersede', 'click', () => enter({supersede: true}));
  act('for-approval', 'click', () => enter({propose: true}));
  act('teach', 'submit', (event) => addText(versions[0].id, event.submitter.value, $('text').value, `Edit ${versions[0].id} is changed.`));
  act('give-others', 'click', giveOthers);
  act('verify', 'click', async () => {
    fill($('proof'), h('p', {class: 'muted', role: 'status'}, 'Asking the model\u2026'));
    fill($('proof'), await proofOf(versions[0].id));
  });
  act('suggest', 'click', suggest);
  act('ask-it', 'click', () => {
    $('details').close();
    $('question').value = versions.at(-1).query;
    location.hash = '#try';
  });

  return {addText, may, openDetails, openEntry, openMove, proofOf, stateOf};
};
