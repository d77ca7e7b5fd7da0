// SPDX-License-Identifier: MIT
// Confusion matrices: a row is the truth, a column what the model took it for.
'use strict';

const kNamedCells = 24;  // pixels of a cell that has room for its count
const kMostNames = 40;   // classes that are named along the sides

function confusionSection(run) {
  if (run.confusions.length === 0) return null;
  return section('confusion', 'Confusion', chosenOf([...run.confusions].reverse(), splitAndStep, confusionView));
}

function confusionView(table) {
  const total = table.totals.reduce((sum, count) => sum + count, 0);
  const pairs = table.pairs.map(([truth, guess, count]) => [table.classes[truth], table.classes[guess], whole(count),
    percent(count / table.totals[truth])]);
  const columns =
    [{head: 'Truth'}, {head: 'Taken for'}, {head: 'Count', right: true}, {head: 'Of the truth', right: true}];
  const caption = element('figcaption', {class: 'muted'}, 'Rows: truth. Columns: guess. Colour: share of the truth.');
  const share = element('b', {}, percent(table.correct / total));
  return element('div', {class: 'columns'},
    table.counts && element('figure', {class: 'card'}, matrixCanvas(table), caption),
    element('div', {class: 'card'},
      element('p', {}, share, ` right: ${whole(table.correct)} of ${whole(total)}`),
      pairs.length > 0 && [element('h3', {}, 'Most often confused'), tableOf(columns, pairs)]));
}

function matrixCanvas(table) {
  const layout = {};
  const canvas = canvasOf((width) => Math.min(width, 720), (context, width, height) => {
    Object.assign(layout, matrixLayout(context, table, width, height));
    paintMatrix(context, table, layout);
  }, 'Confusion matrix');
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const guess = Math.floor((event.clientX - box.left - layout.left) / layout.cell);
    const truth = Math.floor((event.clientY - box.top - layout.top) / layout.cell);
    const inside = (index) => index >= 0 && index < table.classes.length;
    return inside(truth) && inside(guess) ? {truth, guess} : null;
  };
  const tell = (event) => {
    const cell = cellAt(event);
    if (!cell) return tip.hide();
    const count = table.counts[cell.truth][cell.guess];
    return tip.show(event, `Truth ${table.classes[cell.truth]}`, `Taken for ${table.classes[cell.guess]}`,
      `${whole(count)} of ${whole(table.totals[cell.truth])}: ${percent(count / table.totals[cell.truth])}`);
  };
  canvas.addEventListener('pointermove', tell);
  canvas.addEventListener('pointerdown', tell);
  canvas.addEventListener('pointerleave', () => tip.hide());
  return canvas.parentElement;
}

function matrixLayout(context, table, width, height) {
  const classes = table.classes.length;
  context.font = '12px system-ui, sans-serif';
  const named = classes <= kMostNames;
  const longest = named ? Math.max(...table.classes.map((name) => context.measureText(name).width)) : 0;
  const left = named ? Math.min(longest + 8, width * 0.3) : 4;
  const short = named && longest < (Math.min(width, height) - left) / classes - 4;  // names fit above their columns
  const top = !named ? 4 : short ? 20 : Math.min(longest * 0.75 + 14, 90);
  return {
    left,
    top,
    short,
    named,
    cell: Math.min((width - left - (short || !named ? 2 : 26)) / classes, (height - top) / classes)
  };
}

function paintMatrix(context, table, {left, top, short, named, cell}) {
  const gap = cell > 8 ? 1 : 0;
  table.counts.forEach((row, truth) => row.forEach((count, guess) => {
    const share = table.totals[truth] > 0 ? count / table.totals[truth] : 0;
    const x = left + guess * cell, y = top + truth * cell;
    context.globalAlpha = 1;
    context.fillStyle = color('cell');
    context.fillRect(x, y, cell - gap, cell - gap);
    if (count > 0) {
      context.globalAlpha = 0.18 + 0.82 * Math.sqrt(share);  // one mistake in a hundred is still seen
      context.fillStyle = color(truth === guess ? 'right' : 'wrong');
      context.fillRect(x, y, cell - gap, cell - gap);
    }
    context.globalAlpha = 1;
    if (cell < kNamedCells || count === 0) return;
    context.fillStyle = color(share > 0.3 ? 'on-cell' : 'text');
    context.font = `${Math.min(cell / 2.6, 13)}px system-ui, sans-serif`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillText(count < 1000 ? count : plain(count), x + (cell - gap) / 2, y + (cell - gap) / 2, cell - 4);
  }));
  if (named) paintNames(context, table.classes, {left, top, short, cell});
}

function paintNames(context, names, {left, top, short, cell}) {
  context.fillStyle = color('muted');
  context.font = `${Math.min(12, Math.max(cell * 0.9, 7))}px system-ui, sans-serif`;
  context.textBaseline = 'middle';
  names.forEach((name, index) => {
    context.textAlign = 'right';
    context.fillText(name, left - 6, top + (index + 0.5) * cell, left - 8);
    context.save();
    context.translate(left + (index + 0.5) * cell, top - 6);
    if (short) {
      context.textAlign = 'center';
      context.fillText(name, 0, -4);
    } else {
      context.rotate(-Math.PI / 4);
      context.textAlign = 'left';
      context.fillText(name, 0, 0, 110);
    }
    context.restore();
  });
}
