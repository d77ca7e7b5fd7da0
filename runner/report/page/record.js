// SPDX-License-Identifier: MIT
// The record of a run: events, ranks, checkpoints, configuration, environment.
'use strict';

const kFirstRows = 16;

// Shows the first rows, and the rest on demand.
function longTable(columns, rows, attributes) {
  if (rows.length <= kFirstRows * 2) return tableOf(columns, rows, attributes);
  const box = element('div', {}, tableOf(columns, rows.slice(0, kFirstRows), attributes),
    element('button',
      {type: 'button', class: 'more', onclick: () => box.replaceChildren(tableOf(columns, rows, attributes))},
      `Show all ${whole(rows.length)}`));
  return box;
}

function eventsSection(run) {
  if (run.events.length === 0) return null;
  const rows =
    run.events
      .map((event) => [duration(event.time), event.step ? whole(event.step) : '', eventBadge(event.kind), event.text])
      .reverse();
  return section('events', 'Events', card(longTable(
    [{head: 'After', right: true}, {head: 'Step', right: true}, {head: 'Event'}, {head: ''}], rows, {class: 'tight'})));
}

function eventBadge(kind) {
  const mark = known(kMarks, kind, kNoMark);
  return element('span', {class: `badge ${mark.color}`}, kind);
}

// Shows what a step took on each rank of a run that has ended, and in how many measurements it was the slowest: the one
// with most work of its own, that the others wait for.
function ranksSection(run) {
  const curve = run.curves.find((one) => one.split === 'system' && one.name === 'slowest_rank');
  if (!curve || !(run.workers > 1)) return null;
  const slowest = curve.points.value.filter((rank) => rank !== null);
  const times = new Map();
  for (const rank of slowest) times.set(rank, (times.get(rank) ?? 0) + 1);
  const measured = (run.summary && run.summary.ranks) || [];
  const names = Object.keys(measured[0] ?? {}).filter((name) => measured.some((rank) => Number(rank[name]) > 0));
  const most = names.map((name) => Math.max(...measured.map((rank) => rank[name] ?? 0)));
  const bar = (value, largest, text) => element('span', {class: 'bar', style: `--share: ${value / largest}`}, text);
  const cells = (rank) => names.map((name, i) => {
    const value = measured[rank][name];
    return typeof value === 'number' ? bar(value, most[i], formatOf(name)(value)) : '-';
  });
  const ranks = measured.length > 0 ? [...measured.keys()] : [...times.keys()];
  const count = (rank) => times.get(rank) ?? 0;
  const rows = ranks.sort((a, b) => count(b) - count(a) || a - b)
    .map((rank) => [whole(rank), bar(count(rank), slowest.length, whole(count(rank))), ...cells(rank)]);
  return section('ranks', 'Ranks', card(longTable(
    [{head: 'Rank'}, ...[`Slowest of ${whole(slowest.length)}`, ...names.map(title)].map((head) => ({head, right: true}))],
    rows, {class: 'tight'})));
}

function checkpointsSection(run) {
  if (run.checkpoints.length === 0) return null;
  const flags = (one) => [
    one.best && element('span', {class: 'badge good'}, 'best'),
    one.last && element('span', {class: 'badge'}, 'last'),
  ];
  const rows = [...run.checkpoints].reverse().map(
    (one) => [element('code', {}, one.name), bytes(one.bytes), dateText(one.saved), flags(one)]);
  return section('checkpoints', 'Checkpoints', element('div', {class: 'card'},
    longTable([{head: 'Name'}, {head: 'Size', right: true}, {head: 'Saved'}, {head: ''}], rows, {class: 'tight'})));
}

// Returns the last two parts of a path, with the place in it.
function shortOrigin(origin) {
  return origin.startsWith('/') ? origin.split('/').slice(-2).join('/') : origin;
}

function configSection(run) {
  if (run.config.lines.length === 0) return null;
  const own = (origin) => (origin.startsWith('command line') ? ' own' : '');
  const lines = run.config.lines.map(([text, origin]) => element('div', {class: 'line'},
    element('code', {}, text || ' '),
    element('span', {class: `origin${own(origin)}`, title: origin}, shortOrigin(origin))));
  const overrides = run.overrides.length === 0 ? null : element('div', {class: 'card'}, element('h3', {}, 'Overrides'),
    element('div', {class: 'chips'}, run.overrides.map((text) => element('code', {}, text))));
  return section('config', 'Configuration', overrides, element('div', {class: 'card config'}, lines));
}

function textOf(value) {
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  if (value !== null && typeof value === 'object')
    return Object.entries(value).map(([key, one]) => `${key} ${textOf(one)}`).join(', ');
  return String(value);
}

function gpuText(gpus) {
  return Array.isArray(gpus) && gpus.length > 0 ? gpus.map((gpu) => gpu.model || textOf(gpu)).join(', ') : 'none';
}

function cpuText(cpu) {
  return cpu && `${cpu.model}, ${cpu.count} cores (${cpu.allowed} allowed)`;
}

function environmentSection(run) {
  const facts = run.environment;
  if (!facts) return null;
  const git = facts.git || {};
  const entries = [
    ['Host', facts.host], ['Started', facts.time], ['Folder', facts.folder], ['System', facts.system],
    ['GPUs', gpuText(facts.gpus)], ['Driver', facts.driver], ['CPU', cpuText(facts.cpu)], ['Memory', facts.memory],
    ['Versions', facts.versions && textOf(facts.versions)],
    ['Data', run.account],
    ['Git', git.sha && `${git.sha}${git.dirty ? ', with changes' : ''}`],
    ['Command', Array.isArray(facts.arguments) && facts.arguments.join(' ')],
  ];
  const lines = entries.filter(([, value]) => value).map(
    ([name, value]) => [element('dt', {}, name), element('dd', {}, String(value))]);
  return section('environment', 'Environment', element('div', {class: 'card'}, element('dl', {}, lines),
    folded('Environment variables', variableTable(facts.variables)), folded('Plugins', pluginTable(facts.plugins)),
    folded('Files that differ from the commit', git.status && element('pre', {}, git.status))));
}

function folded(name, content) {
  return content ? element('details', {}, element('summary', {}, name), content) : null;
}

function variableTable(variables) {
  const entries = Object.entries(variables || {});
  if (entries.length === 0) return null;
  const row = ([name, value]) => [element('code', {}, name), textOf(value)];
  return tableOf([{head: 'Name'}, {head: 'Value'}], entries.map(row));
}

function pluginTable(plugins) {
  if (!Array.isArray(plugins) || plugins.length === 0) return null;
  const row = (plugin) => [textOf(plugin.file), element('code', {}, textOf(plugin.sha256 || plugin.error))];
  return tableOf([{head: 'File'}, {head: 'SHA-256'}], plugins.map(row));
}
