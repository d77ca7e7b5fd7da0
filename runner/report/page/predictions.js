// SPDX-License-Identifier: MIT
// Predictions for single samples, mistakes first.
'use strict';

const kFirstCards = 24, kFirstPairs = 64;

function predictionsSection(run) {
  const tables = run.predictions.filter((table) => table.rows.length > 0).reverse();
  if (tables.length === 0) return null;
  const show = (table) => {
    if (table.classes.length > 0) return predictionCards(table);
    return table.rows.some((row) => row.output) ? outputCards(table) : sampleTable(table.rows);
  };
  return section('predictions', 'Predictions', chosenOf(tables, splitAndStep, show));
}

function predictionCards(table) {
  const wrong = table.rows.filter((row) => row.truth !== row.guess).length;
  return element('div', {},
    element('p', {class: 'muted'},
      `${whole(wrong)} of these ${whole(table.rows.length)} samples are misclassified; the surest mistakes come first.`),
    cardsOf(table.rows, kFirstCards, (row) => predictionCard(row, table.classes), cardList(table.classes)));
}

// The attributes of a list of cards: the names of the classes take the room that they need.
function cardList(classes) {
  const letters = Math.max(...classes.map((name) => name.length));
  return {class: 'predictions', style: `--letters: ${Math.min(Math.max(letters, 2), 8)}`};
}

// Makes a card for each row, the first few at once, the others on demand.
function cardsOf(rows, first, cardOf, attributes) {
  const list = element('div', attributes, rows.slice(0, first).map(cardOf));
  if (rows.length <= first) return [list];
  const more = element('button', {type: 'button', class: 'more', onclick: () => {
    list.append(...rows.slice(first).map(cardOf));
    more.remove();
  }}, `Show all ${whole(rows.length)}`);
  return [list, more];
}

function predictionCard(row, classes) {
  const name = (index) => classes[index] ?? String(index);
  const known = row.truth !== -1, right = !known || row.truth === row.guess;
  return element('article', {class: `card prediction ${right ? 'right' : 'wrong'}`},
    row.image ? element('img', {src: row.image, alt: `sample ${row.id}`, loading: 'lazy'}) : null,
    element('div', {class: 'verdict'},
      element('p', {},
        element('b', {}, `${!known ? '' : right ? '✓ ' : '✕ '}${name(row.guess)}`),
        right ? null : element('span', {}, `, in truth ${name(row.truth)}`),
        element('small', {class: 'muted'}, ` #${row.id}`)),
      row.file ? element('p', {class: 'file'}, element('small', {class: 'muted'}, row.file)) : null,
      row.input ? element('p', {}, element('small', {class: 'muted'}, row.input)) : null,
      row.scores.map(([index, score]) => scoreBar(name(index), score, index === row.truth)),
      !known || row.scores.some(([index]) => index === row.truth) ? null : scoreBar(name(row.truth), row.truth_score, true)));
}

function scoreBar(name, score, truth) {
  return element('div', {class: `score${truth ? ' truth' : ''}`, title: `${name}: ${plain(score)}`},
    element('span', {}, name), element('i', {style: `--share: ${Math.max(0, Math.min(1, score))}`}),
    element('span', {class: 'number'}, `${(100 * score).toFixed(1)} %`));
}

// Shows samples for which the model outputs images.
function outputCards(table) {
  return element('div', {},
    element('p', {class: 'muted'}, 'Each sample, and the image that the model gives for it.'),
    cardsOf(table.rows, kFirstPairs, pairCard, {class: 'pairs'}));
}

// Shows the picture of a sample, and that which the model makes of it, if it makes one.
function pairCard(row) {
  const picture = (source, kind) => element('figure', {},
    source ? element('img', {src: source, alt: `${kind} of sample ${row.id}`, loading: 'lazy'}) : null,
    element('figcaption', {}, kind));
  const error = row.error === undefined ? '' : `, error ${plain(row.error)}`;
  return element('article', {class: 'card pair'}, picture(row.image, `#${row.id}${error}`),
    row.output === undefined ? null : picture(row.output, 'output'));
}

// Shows samples that are no pictures, in the columns of what is known of them.
function sampleTable(samples) {
  const list = (values) => (Array.isArray(values) ? values.map(plain).join(', ') : values);
  const columns = [
    ['id', 'Sample', whole], ['loss', 'Loss', cellText], ['truth', 'Truth', list], ['values', 'Guess', list],
    ['error', 'Squared error', plain], ['input', 'Input', String], ['target', 'Target', String], ['file', 'File', String]
  ].filter(([key]) => samples.some((sample) => sample[key] !== undefined));
  return tableOf(columns.map(([key, head]) => ({head, right: ['id', 'loss'].includes(key)})),
    samples.map((sample) => columns.map(([key, , text]) => (sample[key] === undefined ? '' : text(sample[key])))));
}
