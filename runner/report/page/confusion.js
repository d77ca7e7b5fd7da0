// SPDX-License-Identifier: MIT
// Confusion matrices: a row is the truth, a column is what the model took it for.
'use strict';

const kNamedCells = 24;  // pixels of a cell with room for its count
const kNamedRows = 13;  // pixels of a row with room for its name
const kNameFont = '12px system-ui, sans-serif';
const kWidest = 720, kLargestCell = 76, kLongestAslant = 100;  // pixels

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
  const measure = document.createElement('canvas').getContext('2d');
  let layout = null;
  const height = (width) => {
    layout = matrixLayout(measure, table.classes, Math.min(width, kWidest));
    return layout.top + layout.cell * table.classes.length;
  };
  const canvas = canvasOf(height, (context) => paintMatrix(context, table, layout), 'Confusion matrix');
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const guess = Math.floor((event.clientX - box.left - layout.left) / layout.cell);
    const truth = Math.floor((event.clientY - box.top - layout.top) / layout.cell);
    const inside = (index) => index >= 0 && index < table.classes.length;
    return inside(truth) && inside(guess) ? {truth, guess} : null;
  };
  const show = (event) => {
    const cell = cellAt(event);
    if (!cell) return tip.hide();
    const count = table.counts[cell.truth][cell.guess];
    return tip.show(event, `Truth ${table.classes[cell.truth]}`, `Taken for ${table.classes[cell.guess]}`,
      `${whole(count)} of ${whole(table.totals[cell.truth])}: ${percent(count / table.totals[cell.truth])}`);
  };
  canvas.addEventListener('pointermove', show);
  canvas.addEventListener('pointerdown', show);
  canvas.addEventListener('pointerleave', () => tip.hide());
  return canvas.parentElement;
}

// Places names beside their rows, and above their columns if they fit there, otherwise slanted.
function matrixLayout(context, names, width) {
  context.font = kNameFont;
  const named = width * 0.75 > names.length * kNamedRows;
  const longest = named ? Math.max(...names.map((name) => context.measureText(name).width)) : 0;
  const left = named ? Math.min(longest + 10, width * 0.3) : 4;
  const upright = named && longest < (width - left) / names.length - 4;
  const top = !named ? 4 : upright ? 20 : Math.min(longest, kLongestAslant) * 0.75 + 14;
  const right = named && !upright ? 30 : 2;
  return {left, top, upright, named, cell: Math.min((width - left - right) / names.length, kLargestCell)};
}

// Returns as much of a name as fits.
function fitted(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  let length = name.length;
  while (length > 1 && context.measureText(`${name.slice(0, length)}…`).width > width) --length;
  return `${name.slice(0, length)}…`;
}

function paintMatrix(context, table, {left, top, upright, named, cell}) {
  const gap = cell > 8 ? 1 : 0;
  table.counts.forEach((row, truth) => row.forEach((count, guess) => {
    const share = table.totals[truth] > 0 ? count / table.totals[truth] : 0;
    const x = left + guess * cell, y = top + truth * cell;
    context.globalAlpha = 1;
    context.fillStyle = color('cell');
    context.fillRect(x, y, cell - gap, cell - gap);
    if (count > 0) {
      context.globalAlpha = 0.18 + 0.82 * Math.sqrt(share);  // so that one mistake in a hundred is visible
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
  if (named) paintNames(context, table.classes, {left, top, upright, cell});
}

function paintNames(context, names, {left, top, upright, cell}) {
  context.fillStyle = color('muted');
  context.font = kNameFont;
  context.textBaseline = 'middle';
  names.forEach((name, index) => {
    context.textAlign = 'right';
    context.fillText(fitted(context, name, left - 8), left - 6, top + (index + 0.5) * cell);
    context.save();
    context.translate(left + (index + 0.5) * cell, top - 6);
    if (upright) {
      context.textAlign = 'center';
      context.fillText(name, 0, -4);
    } else {
      context.rotate(-Math.PI / 4);
      context.textAlign = 'left';
      context.fillText(fitted(context, name, kLongestAslant), 0, 0);
    }
    context.restore();
  });
}
