// SPDX-License-Identifier: MIT
// The page of `ddprun replay`: one step from inside.
'use strict';

const kFirstStepSamples = 48;

// A number, or the text of one that is not finite.
function numberText(value) {
  return value === null ? '' : typeof value === 'string' ? value : plain(value);
}

function usualText(range) {
  return range ? `${numberText(range[0])} to ${numberText(range[1])} in the steps before` : '';
}

function stepHead(step) {
  const {without} = step;
  const names = without ? without.samples.map((id) => `#${id}`).join(', ') : '';
  return [
    element('p', {class: 'muted'}, 'ddprun replay'),
    element('h1', {}, step.name, ' ', element('small', {}, `step ${whole(step.step)}`)),
    element('div', {class: 'tiles'},
      tile('Loss', [numberText(step.loss), usualText(step.usual_loss)]),
      tile('Norm of all gradients', [numberText(step.norm), usualText(step.usual_norm)]),
      without ? tile(`Loss without ${names}`, [numberText(without.loss), `norm ${numberText(without.norm)}`]) : null),
    element('p', {}, `${step.head}.`),
    step.odd ? element('div', {class: 'notice'}, element('b', {}, 'The first odd operator'), element('p', {}, `${step.odd}.`)) : null,
  ];
}

function stepSampleCard(sample) {
  const picture = (source, text) => element('img', {src: source, alt: text, title: text, loading: 'lazy'});
  return element('article', {class: 'card prediction'},
    sample.stored ? picture(sample.stored, `sample ${sample.id}, as it is stored`) : null,
    (sample.views ?? []).map((view) => picture(view, `sample ${sample.id}, as this step saw it`)),
    element('div', {class: 'verdict'},
      element('p', {}, 'loss ', element('b', {}, numberText(sample.loss))),
      sample.target ? element('p', {}, `target ${sample.target}`) : null,
      element('p', {}, element('small', {class: 'muted'}, `#${sample.id}`))));
}

function stepSamplesSection(step) {
  if (step.losses_problem)
    return section('samples', 'Samples', element('p', {class: 'notice'}, `There are no losses of single samples: ${step.losses_problem}`));
  const help = element('p', {class: 'muted'},
    'What each sample of the batch loses alone, in evaluation mode, the worst first; with its target and its number.');
  if (!step.samples.some((sample) => sample.stored)) {
    const columns = [{head: 'Sample', right: true}, {head: 'Loss', right: true}, {head: 'Input'}, {head: 'Target'}];
    return section('samples', 'Samples', help, element('div', {class: 'card'}, tableOf(columns,
      step.samples.map((one) => [whole(one.id), numberText(one.loss), one.values ?? '', one.target ?? '']))));
  }
  return section('samples', 'Samples', help, cardsOf(step.samples, kFirstStepSamples, stepSampleCard, {class: 'predictions'}));
}

function stepGradientsSection(step) {
  const compared = step.steps_before > 0;
  const columns = [{head: 'Parameter'}, {head: 'Norm', right: true}];
  if (compared) columns.push({head: 'At most before', right: true}, {head: 'Times', right: true});
  const times = (one) => typeof one.norm === 'number' && one.usual > 0 ? (one.norm / one.usual).toFixed(2) : '';
  return section('gradients', 'Norms of the gradients, by parameter', element('div', {class: 'card'}, tableOf(columns,
    step.gradients.map((one) => [one.name, numberText(one.norm), ...(compared ? [numberText(one.usual), times(one)] : [])]))));
}

function renderStep({step, version, written}) {
  document.getElementById('head').append(attempt('The head', () => element('div', {}, stepHead(step))));
  const parts = {Samples: stepSamplesSection, Gradients: stepGradientsSection};
  document.getElementById('main').append(...Object.entries(parts).map(([name, make]) => attempt(name, () => make(step))));
  document.getElementById('foot').replaceChildren(
    element('p', {}, `Written by ddprun ${version}, ${dateText(written)}`, element('span', {class: 'muted'}, `, from ${step.run}`)));
  contents();
}
