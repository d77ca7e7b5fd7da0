// SPDX-License-Identifier: MIT
// The pages of `ddprun data`, `predict --html` and `replay`: a head, and sections with a table or with samples.
'use strict';

const kFirstGroups = 30, kFirstSamples = 48;

// A text as it is, such as that of a loss which is not finite.
function cellText(value) {
  return typeof value === 'number' ? plain(value) : value ?? '';
}

function texts(lines, attributes = {}) {
  return (lines ?? []).filter(Boolean).map((line) => element('p', attributes, line));
}

function sheetHead({command, name, about, tiles, text, notice}) {
  return [
    element('p', {class: 'muted'}, command),
    element('h1', {}, name, ' ', element('small', {}, about)),
    element('div', {class: 'tiles'}, tiles.map(([name, value, note]) => tile(name, [cellText(value), note]))),
    texts(text),
    notice && notice.lines.length > 0 ? element('div', {class: 'notice'}, element('b', {}, notice.title),
      element('ul', {}, notice.lines.map((line) => element('li', {}, line)))) : null,
  ];
}

// Numbers of a table with bars are counts, of which each column's largest has the longest.
function sheetTable({head, rows, bars}) {
  const columns = head.map((name, index) => ({head: title(name), right: index > 0 && !bars}));
  if (!bars) return tableOf(columns, rows.map((row) => row.map(cellText)));
  const count = (text) => Number(text.replaceAll(',', ''));
  const most = head.map((_, index) => Math.max(1, ...rows.map((row) => (index > 0 ? count(row[index]) : 0))));
  const cell = (text, index) => element('span', {class: 'count'}, element('i', {style: `--share: ${count(text) / most[index]}`}),
    element('span', {class: 'number'}, text));
  return tableOf(columns, rows.map((row) => row.map((text, index) => (index > 0 ? cell(text, index) : text))), {class: 'counts'});
}

function samplePicture(source, sample, seen) {
  const text = `sample ${sample.id}, as ${seen}`;
  return element('img', {src: source, alt: text, title: text, loading: 'lazy'});
}

// Shows a stored picture, and beside it what the first epochs of the training see in its place.
function sampleRow(sample) {
  return element('div', {class: 'sample'}, samplePicture(sample.stored, sample, 'it is stored'),
    sample.views.length > 0 ? element('span', {class: 'views'}, sample.views.map((view, epoch) =>
      samplePicture(view, sample, `epoch ${epoch + 1} sees it`))) : null);
}

function groupCard(group) {
  const views = group.samples.some((sample) => sample.views.length > 0);
  return element('article', {class: `card ${views ? 'seen' : 'plain'}`},
    element('h3', {}, group.title, ' ', element('small', {class: 'muted'}, group.note)),
    element('div', {class: 'samples'}, group.samples.map(sampleRow)));
}

// Shows a sample of a step; of many only the worst have pictures.
function lossCard(sample) {
  return element('article', {class: 'card prediction'},
    sample.stored ? samplePicture(sample.stored, sample, 'it is stored') : null,
    (sample.views ?? []).map((view) => samplePicture(view, sample, 'this step saw it')),
    element('div', {class: 'verdict'},
      element('p', {}, 'loss ', element('b', {}, cellText(sample.loss))),
      sample.target ? element('p', {}, `target ${sample.target}`) : null,
      element('p', {}, element('small', {class: 'muted'}, `#${sample.id}`))));
}

function predictedCards({classes, rows}) {
  if (classes.length > 0)
    return cardsOf(rows, kFirstCards * 2, (row) => predictionCard(row, classes), cardList(classes));
  return rows.some((row) => row.image) ? cardsOf(rows, kFirstPairs, pairCard, {class: 'pairs'}) : card(sampleTable(rows));
}

function sheetSection({id, title: name, text, table, groups, large, samples, predicted}) {
  const pictures = samples && samples.some((sample) => sample.stored);
  return section(id, name, texts(text, {class: 'muted'}),
    table ? card(sheetTable(table)) : null,
    groups ? cardsOf(groups, kFirstGroups, groupCard, {class: large ? 'groups large' : 'groups'}) : null,
    pictures ? cardsOf(samples, kFirstSamples, lossCard, {class: 'predictions'}) : null,
    samples && !pictures ? card(sampleTable(samples)) : null,
    predicted ? predictedCards(predicted) : null);
}

function renderSheet(report) {
  const {sheet} = report;
  document.getElementById('head').append(attempt('The head', () => element('div', {}, sheetHead(sheet))));
  document.getElementById('main').append(...sheet.sections.map((part) => attempt(part.title, () => sheetSection(part))));
  document.getElementById('foot').replaceChildren(footText(report, sheet.run));  // without charts
  contents();
}
