// SPDX-License-Identifier: MIT
// The page of `ddprun data`: an experiment's samples before it trains.
'use strict';

const kFirstClasses = 30;
const kSmallSide = 64;  // pictures up to this side are enlarged, pixel by pixel

function dataHead(data) {
  const facts = [
    ['Samples', [whole(data.splits.reduce((sum, split) => sum + split.samples, 0)),
      data.splits.map((split) => `${split.name} ${whole(split.samples)}`).join(', ')]],
    ['A sample', [data.sample.replace(/ (\S+)$/, ''), data.sample.split(' ').pop()]],
    ['Classes', data.classes.length > 0 && [whole(data.classes.length), balanceText(data)]],
  ];
  return [
    element('p', {class: 'muted'}, 'ddprun data'),
    element('h1', {}, data.name, ' ', element('small', {}, `dataset ${data.dataset}`)),
    element('div', {class: 'tiles'}, facts.filter(([, value]) => value).map(([name, value]) => tile(name, value))),
    data.account.text ? element('p', {}, `Found: ${data.account.text}.`) : null,
    data.doubts.length > 0 ? element('div', {class: 'notice'}, element('b', {}, 'Look at this'),
      element('ul', {}, data.doubts.map((doubt) => element('li', {}, doubt)))) : null,
  ];
}

// Describes the training samples.
function balanceText(data) {
  const counts = data.splits[0].per_class;
  if (counts.length === 0) return '';
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  return least === most ? `${whole(most)} of each in ${data.splits[0].name}` :
                          `${whole(least)} to ${whole(most)} in ${data.splits[0].name}`;
}

// Shows a stored picture, and beside it what the first epochs of the training see in its place.
function sampleRow(sample) {
  const picture = (source, title) => element('img', {src: source, alt: title, title, loading: 'lazy'});
  return element('div', {class: 'sample'}, picture(sample.stored, `sample ${sample.id}, as it is stored`),
    sample.views.length > 0 ? element('span', {class: 'views'}, sample.views.map((view, epoch) =>
      picture(view, `sample ${sample.id}, as epoch ${epoch + 1} sees it`))) : null);
}

function groupCard(group, data) {
  const name = group.label < 0 ? 'Samples' : data.classes[group.label] ?? String(group.label);
  const count = data.splits[0].per_class[group.label];
  const views = group.samples.some((sample) => sample.views.length > 0);
  return element('article', {class: `card ${views ? 'seen' : 'plain'}`},
    element('h3', {}, name, ' ', count === undefined ? null : element('small', {class: 'muted'}, `${whole(count)} samples`)),
    element('div', {class: 'samples'}, group.samples.map(sampleRow)));
}

function samplesSection(data) {
  const pictures = data.groups.some((group) => group.samples.some((sample) => sample.stored));
  const augmentation = element('p', {class: 'muted'}, `Augmentation: ${data.augmentation}.`);
  if (!pictures) {
    const columns = [{head: 'Sample', right: true}, {head: 'Input'}, {head: 'Target'}];
    const rows = data.groups.flatMap((group) => group.samples.map((one) => [whole(one.id), one.values, one.target]));
    return section('samples', 'Training samples', augmentation, element('div', {class: 'card'}, tableOf(columns, rows)));
  }
  const changed = data.groups.some((group) => group.samples.some((sample) => sample.views.length > 0));
  const help = changed ? 'The first picture of each row is the sample as it is stored; the others are what the first ' +
    'epochs see in its place.' : null;
  const some = data.groups.length < data.classes.length ?
    element('p', {class: 'muted'}, `Shown are ${whole(data.groups.length)} of ${whole(data.classes.length)} classes.`) : null;
  return section('samples', 'Training samples', augmentation, help ? element('p', {class: 'muted'}, help) : null, some,
    cardsOf(data.groups, kFirstClasses, (group) => groupCard(group, data),
      {class: Math.max(...data.shape) > kSmallSide ? 'groups large' : 'groups'}));
}

function countRow(name, splits, countOf) {
  const most = (split) => Math.max(1, ...split.per_class);
  const cell = (split) => element('td', {}, element('span', {class: 'count'},
    element('i', {style: `--share: ${Math.min(1, countOf(split) / most(split))}`}),
    element('span', {class: 'number'}, whole(countOf(split)))));
  return element('tr', {}, element('th', {scope: 'row'}, name), splits.map(cell));
}

function countsSection(data) {
  const splits = data.splits.filter((split) => split.per_class.length > 0);
  if (splits.length === 0) return null;
  const some = splits.filter((split) => split.counted < split.samples)
    .map((split) => `${whole(split.counted)} of ${whole(split.samples)} of ${split.name}`);
  return section('counts', 'Counts of each class',
    some.length > 0 ? element('p', {class: 'muted'}, `Counted are ${some.join(', ')}, spread evenly.`) : null,
    element('div', {class: 'card'}, tableOf([{head: 'Class'}, ...splits.map((split) => ({head: split.name}))],
      [...data.classes.map((name, index) => countRow(name, splits, (split) => split.per_class[index])),
        ...(splits.some((split) => split.ignored > 0) ? [countRow('ignored', splits, (split) => split.ignored)] : [])],
      {class: 'counts'})));
}

function valuesSection(data) {
  const columns = ['Split', 'Samples', 'Looked at', 'Least', 'Greatest', 'Mean', 'Std'].map(
    (head, index) => ({head, right: index > 0}));
  const row = (name, split, range) => [name, whole(split.samples), whole(split.looked_at),
    ...['least', 'greatest', 'mean', 'std'].map((key) => plain(range[key]))];
  const rows = data.splits.flatMap((split) => [
    split.input ? row(split.name, split, split.input) : null,
    split.target ? row(`${split.name}, target`, split, split.target) : null,
    ...split.extras.filter((extra) => extra.range).map((extra) => row(`${split.name}, ${extra.name}`, split, extra.range)),
  ]).filter(Boolean);
  return section('values', 'Values, as the model gets them', element('div', {class: 'card'}, tableOf(columns, rows)));
}

function renderData({data, version, written}) {
  document.getElementById('head').append(attempt('The head', () => element('div', {}, dataHead(data))));
  const parts = {Samples: samplesSection, Counts: countsSection, Values: valuesSection};
  const made = Object.entries(parts).map(([name, make]) => attempt(name, () => make(data)));
  document.getElementById('main').append(...made.filter(Boolean));
  document.getElementById('foot').replaceChildren(
    element('p', {}, `Written by ddprun ${version}, ${dateText(written)}`));
  contents();
}
