// SPDX-License-Identifier: MIT
// The page of `ddprun predict --html`: the worst predictions of a split or of new files.
'use strict';

function predictedHead(shown) {
  const wrong = shown.samples - shown.correct;
  return [
    element('p', {class: 'muted'}, 'ddprun predict'),
    element('h1', {}, shown.name, ' ', element('small', {}, shown.split ? `split ${shown.split}` : 'new files')),
    element('div', {class: 'tiles'},
      tile('Samples', [whole(shown.samples)]),
      'correct' in shown ? tile('Correct', [`${(100 * shown.correct / shown.samples).toFixed(2)} %`, whole(shown.correct)]) : null,
      'correct' in shown ? tile('Misclassified', [whole(wrong)]) : null),
    element('p', {}, `By the checkpoint of ${shown.checkpoint}.`),
  ];
}

function predictedSection(shown) {
  const unknown = shown.rows.every((row) => row.truth === -1);
  const first = whole(shown.rows.length);
  const help = shown.classes.length === 0 ? `The ${first} samples that are furthest off.` :
    unknown ? `The ${first} samples that the model is least sure of.` :
      `Mistakes first, the surest at the top; then what it is least sure of: ${first} samples in all.`;
  const cards = shown.classes.length > 0 ?
    cardsOf(shown.rows, kFirstCards * 2, (row) => predictionCard(row, shown.classes), cardList(shown.classes)) :
    shown.rows.some((row) => row.image) ? cardsOf(shown.rows, kFirstPairs, errorCard, {class: 'pairs'}) : valueTable(shown);
  return section('predictions', 'Predictions', element('p', {class: 'muted'}, help), cards);
}

function errorCard(row) {
  return element('article', {class: 'card pair'}, element('figure', {},
    element('img', {src: row.image, alt: `sample ${row.id}`, loading: 'lazy'}),
    element('figcaption', {}, row.error === undefined ? `#${row.id}` : `#${row.id}, error ${plain(row.error)}`)));
}

function renderPredicted({predicted, version, written}) {
  document.getElementById('head').append(attempt('The head', () => element('div', {}, predictedHead(predicted))));
  document.getElementById('main').append(attempt('Predictions', () => predictedSection(predicted)));
  document.getElementById('foot').replaceChildren(
    element('p', {}, `Written by ddprun ${version}, ${dateText(written)}`, element('span', {class: 'muted'}, `, from ${predicted.run}`)));
  contents();
}
