// SPDX-License-Identifier: MIT
// Shows the distribution of a tensor's numbers: a ridge for each step, the newest in front.
'use strict';

const kGroups = ['weights', 'gradients'];

function histogramsSection(run) {
  if (run.histograms.length === 0) return null;
  const tensors = new Map();  // "conv1.weight": {weights, gradients}
  for (const histogram of run.histograms) {
    const slash = histogram.name.indexOf('/');
    const group = kGroups.includes(histogram.name.slice(0, slash)) ? histogram.name.slice(0, slash) : '';
    const tensor = group ? histogram.name.slice(slash + 1) : histogram.name;
    if (!tensors.has(tensor)) tensors.set(tensor, []);
    tensors.get(tensor).push({group: group || 'values', steps: histogram.steps});
  }
  const body = element('div', {class: 'grid'});
  const show = (tensor) => body.replaceChildren(...tensors.get(tensor).map((one) => ridgeCard(one, tensor)));
  const names = [...tensors.keys()];
  const list = element('select', {'aria-label': 'Tensor', onchange: () => show(list.value)},
    names.map((name) => element('option', {value: name}, name)));
  show(names[0]);
  return section('histograms', 'Weights and gradients',
    element('div', {class: 'toolbar still'}, element('label', {class: 'choice'}, 'Tensor', list),
      element('span', {class: 'hint'}, `${names.length} tensors`)), body);
}

// Returns the share of a tensor's numbers per unit of the axis, so that bins of different widths compare.
function density(histogram) {
  const bins = histogram.counts.length;
  const total = histogram.counts.reduce((sum, count) => sum + count, 0) || 1;
  const edge = (i) =>
    (histogram.edges ? histogram.edges[i] : histogram.low + (histogram.high - histogram.low) * i / bins);
  return histogram.counts.map((count, i) => {
    const from = edge(i), to = edge(i + 1);
    return {x: (from + to) / 2, y: to > from ? count / total / (to - from) : 0};
  });
}

function ridgeCard({group, steps}, tensor) {
  const drawn = steps.filter((histogram) => histogram.counts.length > 0);
  const newest = steps[steps.length - 1];
  const lost = steps.reduce((sum, histogram) => sum + histogram.nonfinite, 0);
  const canvas = drawn.length > 0 ? ridges(drawn, `${group} of ${tensor}`) : null;
  return element('figure', {class: 'card'},
    element('figcaption', {}, element('h3', {}, title(group)),
      element('span', {class: 'place'},
        `step ${whole(newest.step)}: mean ${plain(newest.mean)}, spread ${plain(newest.stddev)}`)),
    canvas || element('p', {class: 'muted'}, 'No finite numbers.'),
    lost > 0 ? element('p', {class: 'bad'}, `✕ ${whole(lost)} numbers not finite over all steps`) : null);
}

function ridges(steps, label) {
  const rows = steps.map((histogram) => ({histogram, curve: density(histogram)}));
  const low = Math.min(...steps.map((one) => one.low)), high = Math.max(...steps.map((one) => one.high));
  const peaks = rows.map(({curve}) => Math.max(...curve.map((point) => point.y)));
  const peak =
    [...peaks].sort((a, b) => a - b)[Math.floor(peaks.length * 0.9)] || 1;  // a single needle must not flatten the others
  const layout = {};
  const canvas = canvasOf(rows.length > 1 ? Math.min(104 + 22 * (rows.length - 1), 260) : 160, (context, width, height) => {
    const pitch = Math.min((height - 104) / Math.max(rows.length - 1, 1), 22);
    Object.assign(
      layout, {left: 8, right: width - 52, bottom: height - 24, pitch, tall: rows.length > 1 ? 64 : height - 60});
    rows.forEach((row, index) => paintRidge(context, row.curve, index, rows.length, {...layout, low, high, peak}));
    paintRidgeAxes(context, steps, {...layout, low, high});
  }, label);
  const show = (event) => {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const index = rows.length - 1 - Math.round((layout.bottom - y) / layout.pitch);
    const {histogram} = rows[Math.max(0, Math.min(rows.length - 1, index))];
    tip.show(event, `Step ${whole(histogram.step)}`, `mean ${plain(histogram.mean)}, spread ${plain(histogram.stddev)}`,
      `${plain(histogram.min)} to ${plain(histogram.max)}`,
      ...(histogram.nonfinite ? [`${whole(histogram.nonfinite)} not finite`] : []));
  };
  canvas.addEventListener('pointermove', show);
  canvas.addEventListener('pointerdown', show);
  canvas.addEventListener('pointerleave', () => tip.hide());
  return canvas.parentElement;
}

// Limits a single needle to the canvas: above 1 it rises ever less, to 1.2 at most.
function bounded(share) {
  return share <= 1 ? share : 1.2 - 0.2 / share;
}

function paintRidge(context, curve, index, count, {left, right, bottom, pitch, tall, low, high, peak}) {
  const base = bottom - (count - 1 - index) * pitch;
  const place = (x) => left + (high > low ? (x - low) / (high - low) : 0.5) * (right - left);
  context.beginPath();
  context.moveTo(place(curve[0].x), base);
  for (const {x, y} of curve) context.lineTo(place(x), base - bounded(y / peak) * tall);
  context.lineTo(place(curve[curve.length - 1].x), base);
  context.closePath();
  context.fillStyle = color('surface');
  context.fill();
  context.globalAlpha = 0.15 + 0.55 * (count > 1 ? index / (count - 1) : 1);
  context.fillStyle = color('series-0');
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = color('surface');
  context.lineWidth = 1;
  context.stroke();
}

function paintRidgeAxes(context, steps, {left, right, bottom, pitch, low, high}) {
  context.fillStyle = color('muted');
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'top';
  [[low, left, 'left'], [(low + high) / 2, (left + right) / 2, 'center'], [high, right, 'right']].forEach(
    ([value, x, align]) => {
      context.textAlign = align;
      context.fillText(plain(Number(value.toPrecision(3))), x, bottom + 8);
    });
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  const every = Math.ceil(16 / Math.max(pitch, 1));
  for (let i = steps.length - 1; i >= 0; i -= every)
    context.fillText(plain(steps[i].step), right + 8, bottom - (steps.length - 1 - i) * pitch);
}
