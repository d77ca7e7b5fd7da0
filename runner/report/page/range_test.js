// SPDX-License-Identifier: MIT
// The loss of a range test over the learning rate, with the suggestion (`ddprun find-lr`).
'use strict';

function rangeTestSection(run) {
  const test = run.range_test;
  if (!test) return null;
  const code = (lr) => element('code', {}, `optimizer.lr=${lr}`);
  const [fastest, halfway, tenth] = test.suggested || [];
  const text = fastest ? [code(fastest), ', where the loss falls fastest; or ', code(halfway), ', halfway from there to where it is lowest; or ',
    code(tenth), ', a tenth of where it is lowest.'] : 'No learning rate can be suggested.';
  return section('range-test', 'Learning rate', element('p', {}, text),
    test.remark ? element('p', {class: 'muted'}, `${test.remark.charAt(0).toUpperCase()}${test.remark.slice(1)}.`) : null,
    test.smoothed.length > 1 ? rangeChart(test) : null);
}

function rangeChart(test) {
  const rows = test.lr.map((lr, i) => [Math.log10(lr), test.loss[i], test.smoothed[i]]);
  const describe = (row) => `lr ${plain(test.lr[row])} \u00b7 loss ${plain(test.loss[row])}, smoothed ${plain(test.smoothed[row])}`;
  return stillChart('Loss', rows, () => rangeLooks(test), describe, 'tall');
}

function rangeLooks(test) {
  const losses = [...test.loss, ...test.smoothed].filter((loss) => loss !== null && loss <= test.ceiling);
  const low = Math.min(...losses), high = Math.max(...losses), margin = 0.06 * (high - low || 1);
  return {
    labels: ['x', 'loss', 'smoothed'],
    xlabel: 'optimizer.lr',
    colors: [`${seriesColor(0)}60`, seriesColor(0)],
    series: {loss: {strokeWidth: 1}, smoothed: {strokeWidth: 2.5}},
    valueRange: [low - margin, high + margin],
    axes: {x: {ticker: decadeTicks}, y: {axisLabelWidth: 50, pixelsPerLabel: 26, axisLabelFormatter: plain}},
    underlayCallback: (context, plot, graph) => paintSuggestions(context, plot, graph, test.suggested || []),
  };
}

// Ticks at powers of ten; the places are logarithms.
function decadeTicks(from, to) {
  const ticks = [];
  for (let v = Math.ceil(from); v <= to; ++v) ticks.push({v, label: v < -3 || v > 3 ? `1e${v}` : plain(10 ** v)});
  return ticks;
}

function paintSuggestions(context, area, graph, suggested) {
  context.save();
  context.font = '11px system-ui, sans-serif';
  const names = [...suggested].reverse().map((lr) => {  // the suggestion itself last, on top
    const x = Math.round(graph.toDomXCoord(Math.log10(Number(lr)))) + 0.5;
    context.strokeStyle = color(lr === suggested[0] ? 'accent' : 'muted');
    paintMark(context, area, x, kNoMark);
    return {text: lr, x: x + 4, color: context.strokeStyle};
  });
  paintMarkNames(context, area, names);
  context.restore();
}
