// SPDX-License-Identifier: MIT
// The head of the page: how a run ended, or how several compare.
'use strict';

function shortNumber(value) {
  return Number((value || 0).toPrecision(3));
}

const kStatusColors = {
  completed: 'good',
  stopped_early: 'good',
  running: 'accent',
  preempted: 'warn',
  interrupted: 'warn',
  failed: 'bad'
};

function statusBadge(status) {
  return element('span', {class: `badge status ${known(kStatusColors, status, 'muted')}`}, statusText(status));
}

// Formats losses and the like as numbers, shares as percentages.
function metricText(name, value) {
  return isShare(name) ? percent(value) : plain(value);
}

// Says what was trained on what, when and where: the first questions of anyone who is sent the page.
function originText(run) {
  const named = (section) => known(run.config.values, `${section}.plugin`, '');
  const facts = run.environment || {}, git = facts.git || {};
  const trained = named('model') && [
    named('model'), run.parameters > 0 ? ` (${whole(run.parameters)} parameters)` : '',
    named('dataset') && ` on ${named('dataset')}`, named('optimizer') && ` with ${named('optimizer')}`
  ].join('');
  const parts = [
    trained, run.start > 0 && dateText(run.start), facts.host && `on ${textOf(facts.host)}`,
    git.sha && `commit ${textOf(git.sha).slice(0, 12)}${git.dirty ? ', with changes' : ''}`
  ].filter(Boolean);
  return parts.length > 0 ? element('p', {}, parts.join(' \u00b7 ')) : null;
}

// Says on how many workers a run has the same bits, and from where its steps can be made again.
function sameBitsText(run) {
  const shards = Number(known(run.config.values, 'trainer.shards', 0));
  if (!(shards > 0)) return null;
  const steps = run.checkpoints.map((checkpoint) => whole(checkpoint.step));
  const from = steps.length > 0 ? `, from step ${steps.join(', ')} on at once` : '';
  return element('p', {class: 'muted'}, `The same bits on 1 to ${whole(shards)} workers; replayable from the beginning${from}.`);
}

function speedText(rate) {
  return rate < 100 ? plain(rate) : whole(rate);
}

function numberOf(run, name) {
  const value = run.summary && run.summary[name];
  return typeof value === 'number' ? value : null;
}

// Returns " at epoch 3", or " at step 150" within an epoch.
function placeText(run, step) {
  const epoch = step / run.steps_per_epoch;
  return !(step > 0) ? '' : Number.isInteger(epoch) ? ` at epoch ${epoch}` : ` at step ${whole(step)}`;
}

// Returns "val/accuracy at epoch 3, val/loss 0.29".
function bestText(run) {
  if (run.best === null) return null;
  const loss = run.summary && run.summary.best && run.summary.best['val/loss'];
  const beside = typeof loss === 'number' && run.best_name !== 'val/loss' ? `, val/loss ${plain(loss)}` : '';
  return [metricText(run.best_name, run.best), `${run.best_name}${placeText(run, numberOf(run, 'best_step'))}${beside}`];
}

// Returns the test among the summary's `metrics`, of the last checkpoint, or among those of its `best`.
function testText(run, which) {
  const metrics = (run.summary && run.summary[which]) || {}, total = numberOf(run, 'test_total');
  const place = placeText(run, numberOf(run, which === 'best' ? 'best_step' : 'steps'));
  const share = metrics['test/accuracy'], loss = metrics['test/loss'];
  if (typeof share === 'number' && total > 0)
    return [percent(share), `${whole(Math.round(share * total))} of ${whole(total)} right${place}`];
  return typeof loss === 'number' ? [plain(loss), `test/loss${place}`] : null;
}

// Returns a tile for each checkpoint that was tested: one where the best is the last.
function testTiles(run) {
  if (run.summary && run.summary.best_step === run.summary.steps && testText(run, 'best'))
    return [['Test, best and last', testText(run, 'metrics')]];
  return [['Test, best', testText(run, 'best')], ['Test, last', testText(run, 'metrics')]];
}

function counted(number, one, many) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

function workersText(run) {
  const nodes = numberOf(run, 'nodes') || 1;
  if (!(run.workers > 0)) return null;
  return [whole(run.workers), `on ${counted(nodes, 'node', 'nodes')}`];
}

function tile(name, [value, note]) {
  return element(
    'div', {class: 'tile'}, element('span', {}, name), element('b', {}, value), element('small', {}, note || ' '));
}

function tiles(run) {
  const rate = numberOf(run, 'samples_per_second'), train = numberOf(run, 'train_seconds');
  const tokens = numberOf(run, 'tokens_per_second'), mfu = numberOf(run, 'mfu');
  const epochs = shortNumber(run.epochs);
  const facts = [
    ['Best', bestText(run)],
    ...testTiles(run),
    ['Duration', run.seconds > 0 && [duration(run.seconds), train ? `${duration(train)} in steps` : '']],
    ['Throughput', tokens ? [speedText(tokens), 'tokens/s'] : rate && [speedText(rate), 'samples/s']],
    ['MFU', mfu && [percent(mfu), operations(numberOf(run, 'model_flops_per_second'))]],
    ['Steps', run.steps > 0 && [whole(run.steps), epochs > 0 ? `${epochs} ${epochs === 1 ? 'epoch' : 'epochs'}` : '']],
    ['Workers', workersText(run)],
  ];
  return element('div', {class: 'tiles'}, facts.filter(([, value]) => value).map(([name, value]) => tile(name, value)));
}

function pretendedNotice(run) {
  if (!run.environment || !run.environment.pretended_gpus) return null;
  return element('div', {class: 'notice'}, element('b', {}, 'The GPUs of this run were pretended'),
    ' It computed on the CPU: its speeds and its memory mean nothing.');
}

function problemList(run) {
  if (run.problems.length === 0) return null;
  return element('div', {class: 'notice'}, element('b', {}, 'Not all of this run could be read'),
    element('ul', {}, run.problems.map((problem) => element('li', {}, problem))));
}

function runHead(run) {
  return [
    element('p', {class: 'muted'}, 'ddprun report'),
    element('h1', {}, run.name, ' ', element('small', {}, run.folder === run.name ? '' : run.folder), ' ',
      statusBadge(run.status)),
    originText(run),
    sameBitsText(run),
    run.reason ? element('p', {class: run.status === 'failed' ? 'bad' : ''}, run.reason) : null,
    run.last_words.length > 0 ? element('pre', {}, run.last_words.join('\n')) : null,
    tiles(run),
    pretendedNotice(run), problemList(run),
  ];
}

function comparisonHead(runs) {
  const row = (run, index) => [
    element('span', {class: 'run-name', title: run.path}, runSwatch(index), run.label),
    statusBadge(run.status),
    run.best !== null ? metricText(run.best_name, run.best) : '-',
    ...['best', 'metrics'].map((which) => (testText(run, which) || ['-'])[0]),
    run.seconds > 0 ? duration(run.seconds) : '-',
    numberOf(run, 'samples_per_second') ? speedText(numberOf(run, 'samples_per_second')) : '-',
    run.epochs > 0 ? shortNumber(run.epochs) : '-',
    whole(run.steps),
    run.workers || '-',
  ];
  const names = [...new Set(runs.filter((run) => run.best_name).map((run) => run.best_name))];
  const columns = [
    {head: 'Run'}, {head: 'Status'}, {head: names.length === 1 ? `Best ${names[0]}` : 'Best', right: true},
    {head: 'Test, best', right: true}, {head: 'Test, last', right: true}, {head: 'Duration', right: true}, {head: 'Samples/s', right: true},
    {head: 'Epochs', right: true}, {head: 'Steps', right: true}, {head: 'Workers', right: true}
  ];
  return [element('p', {class: 'muted'}, 'ddprun report'), element('h1', {}, `${runs.length} runs`),
    element('div', {class: 'card'}, tableOf(columns, runs.map(row)))];
}

// Returns the keys of config.yaml whose values differ between runs.
function differingKeys(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.config.values)))];
  return keys.filter((key) => key !== 'run.dir' && new Set(runs.map((run) => run.config.values[key])).size > 1);
}

// Lists the values that differ between runs: a column for each run, or a row where there are more runs than keys.
function differencesSection(runs) {
  const keys = differingKeys(runs);
  const card = (content) => section('differences', 'What differs', element('div', {class: 'card'}, content));
  if (keys.length === 0) return card(element('p', {}, 'All runs have the same configuration.'));
  const nameOf = (run, index) => element('span', {class: 'run-name'}, runSwatch(index), run.label);
  const codeOf = (key) => element('code', {}, key);
  const valueOf = (run, key) => {
    const {values} = run.config;
    return Object.hasOwn(values, key) ? codeOf(values[key]) : element('span', {class: 'muted'}, '-');
  };
  const [first, heads, rows] = runs.length > keys.length ?
    ['Run', keys.map(codeOf), runs.map((run, index) => [nameOf(run, index), ...keys.map((key) => valueOf(run, key))])] :
    ['Key', runs.map(nameOf), keys.map((key) => [codeOf(key), ...runs.map((run) => valueOf(run, key))])];
  return card(tableOf([{head: first}, ...heads.map((head) => ({head}))], rows, {class: 'keys'}));
}

// Labels runs as briefly as distinguishes them.
function labelRuns(runs) {
  const tries = [
    (run) => (/^\d{4}-\d\d-\d\d_/.test(run.folder) ? `${run.name} ${run.folder}` : run.folder), (run) => `${run.name} ${run.folder}`, (run) => run.path.split('/').slice(-2).join('/'),
    (run) => run.path
  ];
  const label = tries.find((one) => new Set(runs.map(one)).size === runs.length) || tries[3];
  for (const run of runs) run.label = label(run);
}
