// The life of an edit: what waits or is due, and the moves that its status and the key's role allow. For page.js.
'use strict';
window.lifeOf = ({$, api, h, fill, fact, tried, say, refresh, openDetails, openChange}) => {
  const ROLES = ['report', 'use', 'propose', 'approve', 'admin'], IN_USE = ['active', 'shadow'];
  const isDue = (edit) => IN_USE.includes(edit.status) && edit.review_by && edit.review_by <= new Date().toISOString();
  const button = (label, act, kind) => h('button', {type: 'button', class: kind || '', onclick: tried(act)}, label);

  // Beside an edit's status.
  function marks(edit) {
    return [edit.proposal ? h('span', {class: 'pill'}, 'change proposed') : '', isDue(edit) ? h('span', {class: 'pill bad'}, 'due for review') : ''];
  }

  async function move(edit, how, body, done) {
    try {
      await api(`edits/${edit.id}/${how}`, {...body, reason: $('why-move').value.trim() || null});
    } catch (problem) {
      if (!problem.answer?.rivals?.length || body.supersede) throw problem;
      fill($('move-buttons'), h('p', {class: 'wrong', role: 'alert'}, problem.message), ...problem.answer.rivals.map((rival) => h('div', {}, `${rival.id}@${rival.version} `, fact(rival))),
        button('Retire these, too', () => move(edit, how, {...body, supersede: true}, done), 'danger'));
      return;
    }
    say(done);
    await refresh();
    await openDetails(edit.id);
  }

  function showMoves(edit, approvals, role) {
    const may = (needed) => ROLES.indexOf(role) >= ROLES.indexOf(needed), decides = may('approve');
    const waits = edit.status === 'proposed', used = IN_USE.includes(edit.status);
    const version = {version: edit.version};
    const moves = [
      waits && decides && button('Approve', () => move(edit, 'approve', version, `Approved: version ${edit.version} of edit ${edit.id}.`), 'main'),
      waits && decides && button('Reject', () => move(edit, 'reject', version, `Rejected: version ${edit.version} of edit ${edit.id}.`)),
      !waits && !used && may('propose') && button('Propose', () => move(edit, 'propose', {}, `Edit ${edit.id} is proposed.`), 'main'),
      used && decides && button('Confirm until then', () => move(edit, 'review', {until: $('until').value || null}, `Edit ${edit.id} is confirmed.`)),
      edit.status !== 'retired' && may('propose') && button('Change\u2026', () => openChange(edit)),
    ].filter(Boolean);
    const who = approvals?.by.length ? `, by ${approvals.by.join(', ')}` : '';
    $('approvals').textContent = approvals ? `Waits for approval: ${approvals.by.length} of ${Math.max(1, approvals.needed)}${who}.` : isDue(edit) ? 'Its review is due. It stays in force until somebody decides otherwise.' : '';
    $('moving').reset();
    $('moving').hidden = !moves.length;
    $('until').parentElement.hidden = !used || !decides;
    fill($('move-buttons'), ...moves);
  }

  return {marks, showMoves};
};
