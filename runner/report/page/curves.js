// SPDX-License-Identifier: MIT
// Decides which curves share a chart, and which numbers are drawn.
'use strict';

const kShared = {  // charts of the split "system" with several metrics in each, where one run is shown
  phases: {title: 'Step time by phase', stacked: true, lines: {data_seconds: 'data', forward_seconds: 'forward',
    backward_seconds: 'backward', wait_seconds: 'wait', optimizer_seconds: 'optimizer', graph_seconds: 'CUDA graph', logging_seconds: 'logging', other_seconds: 'other'}},
  step: {title: 'Step time', lines: {step_seconds: 'whole step', slowest_rank_seconds: 'own work of the slowest rank'}},
  memory: {title: 'Memory of a rank', lines: {rss_bytes: 'process', gpu_memory_bytes: 'GPU'}},
  load: {title: 'Load', lines: {cpu_percent: 'CPU of a worker', gpu_percent: 'GPU'}},
};
const kTitles = {lr: 'Learning rate', samples_per_second: 'Throughput, samples/s', tokens_per_second: 'Throughput, tokens/s',
  model_flops_per_second: 'Model FLOP/s', mfu: 'Model FLOP utilisation (MFU)', grad_norm: 'Gradient norm',
  slowest_rank_seconds: 'Own work of the slowest rank'};
const kFirst = ['loss', 'accuracy'],
  kLast = ['lr', 'grad_norm', 'tokens_per_second', 'samples_per_second', 'model_flops_per_second', 'mfu'];
const kSplits = ['train', 'val', 'test'];
const kMostApart = 3;  // metrics whose names begin alike and that have charts of their own: more are those of classes
const kFewPoints = 20;  // a shorter curve is not smoothed: each of its points was measured with care

function formatOf(name) {
  if (name.endsWith('_seconds')) return duration;
  if (name.endsWith('_bytes')) return bytes;
  if (isShare(name)) return percent;
  if (name === 'model_flops_per_second') return operations;
  if (name.endsWith('_per_second')) return speedText;
  if (name.endsWith('_percent')) return (value) => `${plain(value)} %`;
  return plain;
}

function rankOf(name) {
  if (kFirst.includes(name)) return kFirst.indexOf(name);
  return kLast.includes(name) ? 100 + kLast.indexOf(name) : 10;
}

const kSystem =
  ['phases', 'step', 'step_seconds', 'slowest_rank_seconds', 'memory', 'rss_bytes', 'load'];

function placeOfSystem(id) {
  const place = kSystem.indexOf(id.slice('system:'.length));
  return place >= 0 ? place : kSystem.length;
}

// These are not curves, but a share of each rank (record.js), the work of a slowest one of one, and the time a CPU
// replays CUDA graphs.
function isIdle({split, name, points}, workers) {
  if (split !== 'system') return false;
  return name === 'slowest_rank' || (name === 'slowest_rank_seconds' && workers === 1) ||
    (name === 'graph_seconds' && !points.value.some(Boolean));
}

// Returns the chart that a curve of the only run shares with others, {id, title, stacked, lines: {name: label}}: of a
// rank's measurements, or of a metric of each class. Null if there is none.
function sharedChart(run, {split, name}) {
  if (split === 'system') {
    const found = Object.entries(kShared).find(([, chart]) => Object.hasOwn(chart.lines, name));
    return found ? {id: `system:${found[0]}`, ...found[1]} : null;
  }
  const slash = name.indexOf('/') + 1;
  const alike = (curve) => curve.split !== 'system' && curve.name.startsWith(name.slice(0, slash));
  const names = slash > 1 ? new Set(run.curves.filter(alike).map((curve) => curve.name)) : new Set();
  if (names.size <= kMostApart) return null;
  const lines = Object.fromEntries([...names].map((one) => [one, one.slice(slash)]));
  return {id: name.slice(0, slash), title: `${title(name.slice(0, slash - 1))} by class`, lines};
}

// Returns the charts of these runs: [{id, title, format, stacked, rough, lines: [{run, curve, label}]}]. Rough:
// smoothed.
function chartsOf(runs) {
  const charts = new Map();
  const alone = runs.length === 1;
  runs.forEach((run, index) => {
    for (const curve of run.curves) {
      if (isIdle(curve, run.workers)) continue;
      const system = curve.split === 'system';
      const shared = alone ? sharedChart(run, curve) : null;
      const id = shared ? shared.id : `${system ? 'system:' : ''}${curve.name}`;
      if (!charts.has(id)) {
        charts.set(id, {
          id,
          system,
          name: curve.name,
          lines: [],
          names: shared && Object.keys(shared.lines),
          title: shared ? shared.title : known(kTitles, curve.name, title(curve.name)),
          format: formatOf(curve.name),
          stacked: Boolean(shared && shared.stacked),
          rough: !curve.name.endsWith('_bytes')
        });
      }
      const ofClass = shared && !system && curve.split !== 'val' ? ` ${curve.split}` : '';
      const label = shared ? shared.lines[curve.name] + ofClass : system ? title(curve.name) : curve.split;
      charts.get(id).lines.push(
        {run: index, curve, label: alone ? label : `${run.label}${system ? '' : ` ${curve.split}`}`});
    }
  });
  const place = (chart) => (chart.system ? placeOfSystem(chart.id) : rankOf(chart.name));
  const sorted = [...charts.values()].sort((a, b) => a.system - b.system || place(a) - place(b));
  sorted.forEach((chart) => dress(chart, alone));
  return sorted;
}

// Colours distinguish splits, or runs; with several runs, dashes distinguish splits.
function dress(chart, alone) {
  const order = (line) =>
    (chart.names ? chart.names.indexOf(line.curve.name) : line.run * 10 + kSplits.indexOf(line.curve.split));
  chart.lines.sort((a, b) => order(a) - order(b));
  chart.lines.forEach((line, index) => {
    const split = Math.max(kSplits.indexOf(line.curve.split), 0);
    line.color = alone ? (chart.names ? index : split) : line.run;
    line.dash = alone || split === 0 ? null : split === 1 ? [6, 3] : [2, 3];
  });
}

// Returns the points' positions on the axis: step, epoch, or seconds since the run's start.
function placesOf(columns, axis, run) {
  if (axis === 'time') return columns.time;
  if (axis === 'epoch' && run.steps_per_epoch > 0) return columns.step.map((step) => step / run.steps_per_epoch);
  return columns.step;
}

// Values that are not finite become NaN, which leaves a gap in a line.
function valuesOf(columns) {
  return columns.value.map((value) => (value === null ? NaN : value));
}

// Each value pulls a running mean towards itself, with a correction for the first ones.
function smoothed(values, weight) {
  let sum = 0, share = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return NaN;
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

// Returns what is drawn of a line: {x, y} as measured and, if it is to be smoothed, {x, y} of that.
function drawn(line, runs, axis, weight) {
  const {points, means} = line.curve;
  const raw = {x: placesOf(points, axis, runs[line.run]), y: valuesOf(points)};
  if (weight === 0 || line.curve.count < kFewPoints) return {raw, smooth: null};
  const base = means || points;
  return {raw, smooth: {x: placesOf(base, axis, runs[line.run]), y: smoothed(valuesOf(base), weight)}};
}

// Returns rows for dygraphs: [x, value of each column or null].
function rowsOf(columns) {
  const rows = new Map();
  columns.forEach(({x, y}, index) => {
    for (let i = 0; i < x.length; ++i) {
      let row = rows.get(x[i]);
      if (!row) rows.set(x[i], row = [x[i], ...Array(columns.length).fill(null)]);
      row[index + 1] = y[i];
    }
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

// Stacked areas need every value in every row.
function filled(rows) {
  const last = [];
  return rows.map((row) => row.map((value, i) => (last[i] = value === null ? (last[i] ?? 0) : value)));
}

// A logarithmic scale needs numbers above zero.
function hasLog(chart) {
  const values = chart.lines.flatMap((line) => line.curve.points.value).filter((value) => value !== null);
  return !chart.stacked && values.some((value) => value > 0) && values.every((value) => value >= 0);
}

// True if a plain scale would only show the greatest values, as of a loss that once exploded.
function spansDecades(chart) {
  if (chart.name !== 'loss' || !hasLog(chart)) return false;
  const values =
    chart.lines.flatMap((line) => line.curve.points.value).filter((value) => value > 0).sort((a, b) => a - b);
  return values[values.length - 1] > 30 * values[values.length >> 1];
}

// Extends rows from end to end of what all charts show.
function stretched(rows, [from, to]) {
  const empty = (x) => [x, ...Array(rows[0].length - 1).fill(null)];
  if (rows[0][0] > from) rows.unshift(empty(from));
  if (rows[rows.length - 1][0] < to) rows.push(empty(to));
  return rows;
}

// Returns the index of the nearest of ascending places.
function nearest(places, x) {
  let low = 0, high = places.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - places[low - 1] < places[low] - x ? low - 1 : low;
}

// The launcher does not know the step; the rows that were written before its event do.
function placeOfEvent(event, run, axis) {
  if (axis === 'time') return event.time;
  let step = event.step;
  if (!step && run.curves.length > 0) {
    const {time, step: steps} = run.curves[0].points;
    for (let i = 0; i < time.length && time[i] <= event.time; ++i) step = steps[i];
  }
  return axis === 'epoch' && run.steps_per_epoch > 0 ? step / run.steps_per_epoch : step;
}
