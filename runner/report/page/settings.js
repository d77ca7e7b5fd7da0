// SPDX-License-Identifier: MIT
// What several runs reached, against each setting in which they differ.
'use strict';

const kFewestRuns = 3;  // with a value: two have a table
const kMostSettings = 12;
const kMostWords = 12;  // on an axis of values that are no numbers
const kFewValues = 5;  // are marked on the axis themselves
const kWide = 8;  // times the smallest value: below that, a logarithmic axis says no more than a plain one

// Returns a metric of a run at its best, or null.
function reached(run, name) {
  if (name === run.best_name) return run.best;
  const value = run.summary && run.summary.best && run.summary.best[name];
  return typeof value === 'number' ? value : null;
}

function settingsSection(runs) {
  const namesOf = (run) => [run.best_name, ...Object.keys((run.summary && run.summary.best) || {})];
  const known = new Set(runs.flatMap(namesOf));
  const of = (name) => runs.filter((run) => reached(run, name) !== null);
  const names = [...known].filter((name) => of(name).length >= kFewestRuns && settingAxes(of(name)).length > 0);
  if (names.length === 0) return null;
  return section('settings', 'Settings',
    element('p', {class: 'muted'},
      'A point is a run at its best. Those that are not filled were not trained to their end.'),
    chosenOf(names, (name) => name, (name) => settingsView(of(name), name)));
}

function settingsView(runs, name) {
  const axes = settingAxes(runs), left = axes.length - kMostSettings;
  return element('div', {},
    element('div', {class: 'grid settings'},
      axes.slice(0, kMostSettings).map((axis) => settingChart(runs, name, axis))),
    left > 0 ? element('p', {class: 'muted'}, `${whole(left)} more settings differ.`) : null);
}

function settingAxes(runs) {
  const keys = differingKeys(runs).filter((key) => !/^(seed$|name$|run\.|loggers\.)/.test(key));
  return keys.map((key) => settingAxis(runs, key)).filter(Boolean);
}

// Returns {key, place(run), ticks}: numbers on an axis that is logarithmic where that spreads them more evenly, words
// side by side; null for too many words.
function settingAxis(runs, key) {
  const textOf = (run) => run.config.values[key] ?? '-';
  const texts = runs.map(textOf);
  if (texts.some((text) => text === '' || !Number.isFinite(Number(text)))) {
    const words = [...new Set(texts)];
    const ticks = () => words.map((label, v) => ({v, label}));
    return words.length > kMostWords ? null : {key, place: (run) => words.indexOf(textOf(run)), ticks};
  }
  const values = texts.map(Number).sort((a, b) => a - b), different = [...new Set(values)];
  const log = isLogarithmic(values), scale = log ? Math.log10 : (value) => value;
  const few = () => different.map((value) => ({v: scale(value), label: plain(value)}));
  const ticks = different.length <= kFewValues ? few : log ? logTicks : null;
  return {key, place: (run) => scale(Number(textOf(run))), ticks};
}

function isLogarithmic(values) {
  const low = values[0], high = values[values.length - 1], middle = values[values.length >> 1];
  if (low <= 0 || high < kWide * low) return false;
  const offCentre = (scale) => Math.abs((scale(middle) - scale(low)) / (scale(high) - scale(low)) - 0.5);
  return offCentre(Math.log) < offCentre((value) => value);
}

// Powers of ten, and 2 and 5 of each where these are few.
function logTicks(from, to) {
  const steps = to - from > 2 ? [1] : [1, 2, 5], ticks = [];
  for (let power = Math.floor(from); power <= to; ++power)
    for (const step of steps) ticks.push({v: power + Math.log10(step), label: plain(step * 10 ** power)});
  return ticks.filter(({v}) => v >= from && v <= to);
}

function settingChart(runs, name, {key, place, ticks}) {
  const sorted = [...runs].sort((a, b) => place(a) - place(b));
  const isWhole = (run) => ['completed', 'stopped_early'].includes(run.status);
  const columns = [isWhole, (run) => !isWhole(run)];
  const rows = sorted.map((run) => [place(run), ...columns.map((has) => (has(run) ? reached(run, name) : null))]);
  const places = rows.map(([x]) => x), low = places[0], high = places[places.length - 1];
  const margin = 0.06 * (high - low || 1);
  const describe = (row) => {
    const run = sorted[row];
    return `${run.label}: ${run.config.values[key] ?? '-'} \u00b7 ${metricText(name, reached(run, name))}`;
  };
  const hollow = (graph, series, context, x, y, shade, size) => {
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.lineWidth = 1.5;
    context.strokeStyle = shade;
    context.stroke();
  };
  return stillChart(key, rows, () => ({
    labels: ['x', 'trained to the end', 'not'],
    colors: [seriesColor(0), seriesColor(1)],
    strokeWidth: 0,
    drawPoints: true,
    pointSize: 3.5,
    highlightCircleSize: 5,
    highlightSeriesOpts: {strokeWidth: 0},  // the nearest point, not the nearest place
    series: {not: {drawPointCallback: hollow}},
    dateWindow: [low - margin, high + margin],
    yRangePad: 10,
    axes: {
      x: {axisLabelFormatter: plain, ...(ticks ? {ticker: ticks} : {})},
      y: {axisLabelWidth: 50, pixelsPerLabel: 26, axisLabelFormatter: (value) => withoutZeros(metricText(name, value))},
    },
  }), describe);
}
