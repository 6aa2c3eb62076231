// The inbox: reports of wrong answers, drafts from them, and their proof; samples, which may become reports. page.js gives it what both use.
'use strict';
window.inboxView = ({$, api, h, bdi, fill, button, when, fact, tried, say, may, proofOf}) => {
  function reportBody(report) {
    return h('div', {class: 'small'}, `${report.number} \u00b7 `, when(report.at), ...[report.author, report.model].filter(Boolean).flatMap((text) => [' \u00b7 ', bdi(text)]),
      h('div', {class: 'fact'}, bdi(report.question), h('i', {}, '\u2192'), bdi(report.answer), report.correction ? h('b', {}, ' (right: ', bdi(report.correction), ')') : ''),
      report.comment ? h('div', {}, report.comment) : '');
  }

  function groupRow(group) {
    const numbers = group.reports.map((report) => report.number);
    const why = h('input', {'aria-label': 'Why these reports are closed', placeholder: 'Why'});
    const closing = h('form', {class: 'row', hidden: ''}, why, h('button', {}, 'Close them'));
    closing.addEventListener('submit', (event) => {
      event.preventDefault();
      tried(async () => {
        await api('inbox/close', {reports: numbers, reason: why.value.trim() || null});
        say(numbers.length === 1 ? 'The report is closed.' : `${numbers.length} reports are closed.`);
        await showReports();
      })();
    });
    return h('li', {'data-report': numbers[0]},
      h('div', {class: 'body'}, group.edit ? h('div', {class: 'small'}, `Near edit ${group.edit.id}: `, fact(group.edit)) : '', ...group.reports.map(reportBody), closing),
      h('div', {class: 'does'}, button('Draft an edit', tried(() => draft(numbers))), button('Close\u2026', () => { closing.hidden = false; why.focus(); })));
  }

  // The last row of a page of reports or samples, which shows those behind it.
  function moreRow(answer, show) {
    return answer.next ? [h('li', {class: 'none'}, button('Show the next ones', tried(() => show(answer.next))))] : [];
  }

  async function showReports(given) {
    const after = Number.isInteger(given) ? given : 0;
    const answer = await api(`inbox?after=${after}`);
    $('reported').textContent = answer.total ? `${answer.total.toLocaleString()} open ${answer.total === 1 ? 'report' : 'reports'}` : 'No open reports. Applications send them with POST /feedback.';
    fill($('reports'), ...answer.groups.map(groupRow), ...moreRow(answer, showReports));
  }

  async function draft(numbers) {
    const {changes} = await api('inbox/draft', {reports: numbers});
    const edit = changes[changes.length - 1];
    await showReports();
    showDraft(edit, h('p', {class: 'muted', role: 'status'}, 'Asking the model\u2026'), false);
    $('drafted').focus();
    showDraft(edit, await proofOf(edit.id), false);
  }

  // An edit that is drafted, or one that says already what is right and gets the question as a wording, which waits for approval.
  function showDraft(edit, proof, supersede) {
    const waits = edit.status === 'proposed';
    const put = tried(async () => {
      try {
        const [move, given] = waits ? ['approve', {version: edit.version, supersede}] : may('approve') ? ['status', {status: 'active', supersede, reason: edit.source}] : ['propose', {reason: edit.source}];
        const {changes} = await api(`edits/${edit.id}/${move}`, given);
        const last = changes[changes.length - 1];
        $('drafted').hidden = true;
        say(last.status === 'proposed' ? `Edit ${edit.id} is proposed, and waits for approval.` : `Edit ${edit.id} is in force.`);
      } catch (problem) {
        if (!problem.answer?.rivals?.length) throw problem;
        showDraft(edit, h('div', {}, h('p', {class: 'wrong', role: 'alert'}, problem.message), ...problem.answer.rivals.map((rival) => h('div', {}, `${rival.id}@${rival.version} `, fact(rival))), proof), true);
      }
    });
    const parts = [['Subject', edit.subject], ['Old answer', edit.target_true], ['Wordings', edit.wordings.join('\n')]].filter(([, value]) => value);
    fill($('drafted'), h('div', {class: 'card', 'data-id': edit.id}, h('h2', {}, waits ? `Edit ${edit.id} says this already` : `Draft: edit ${edit.id}`), h('div', {class: 'small'}, `Version ${edit.version}`), fact(edit),
      waits ? h('p', {class: 'muted'}, 'It missed the question, which is proposed as one of its wordings.') : '',
      h('dl', {}, ...parts.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])), proof,
      h('div', {class: 'row'}, button('Try it again', tried(async () => showDraft(edit, await proofOf(edit.id), false))), waits && !may('approve') ? '' : h('button', {type: 'button', class: supersede ? 'danger' : 'main', onclick: put}, supersede ? 'Retire these and put in force' : waits ? 'Approve' : may('approve') ? 'Put in force' : 'Propose'))));
    $('drafted').hidden = false;
  }

  async function showSamples(given) {
    const after = Number.isInteger(given) ? given : 0;
    const answer = await api(`inbox?state=sample&after=${after}`);
    const wrong = (sample) => button('This answer is wrong', tried(async () => {
      await api('inbox/wrong', {reports: [sample.number]});
      say('It is in the inbox.');
      await showSamples();
    }));
    const rows = answer.groups.flatMap((group) => group.reports).map((sample) => h('li', {'data-sample': sample.number}, h('div', {class: 'body'}, reportBody(sample)), h('div', {class: 'does'}, wrong(sample))));
    fill($('samples'), ...(rows.length ? [...rows, ...moreRow(answer, showSamples)] : [h('li', {class: 'none'}, 'No texts are kept. Whoever runs the gateway can let it keep some of each edit\u2019s answers.')]));
  }

  return {showReports, showSamples};
};
