// SPDX-License-Identifier: MIT
// The page as a whole. When it is complete, <html data-state="ready"> says so, with the milliseconds it took and the
// errors.
'use strict';

const errors = [];
window.addEventListener('error', (event) => errors.push(String(event.message)));

// Shows a failing part's error in its place; the other parts are not affected.
function attempt(name, make) {
  try {
    return make();
  } catch (error) {
    errors.push(`${name}: ${error.message}`);
    return element('p', {class: 'notice'}, `${name} cannot be shown: ${error.message}`);
  }
}

function recordOf(run, prefix = '') {
  const parts = {
    Confusion: confusionSection,
    Predictions: predictionsSection,
    Histograms: histogramsSection,
    Ranks: ranksSection,
    Events: eventsSection,
    Checkpoints: checkpointsSection,
    Configuration: configSection,
    Environment: environmentSection
  };
  const made = Object.entries(parts).map(([name, make]) => attempt(name, () => make(run)));
  if (prefix) made.forEach((part) => part && part.id && (part.id = `${prefix}-${part.id}`));
  return made;
}

function foldedRun(run, index) {
  const details = element('details', {class: 'one-run', id: `run-${index}`},
    element('summary', {}, runSwatch(index), element('b', {}, run.label), ' ', statusBadge(run.status)));
  details.addEventListener('toggle', () => {  // drawn when it is opened
    if (details.open && details.children.length === 1)
      details.append(
        ...[run.reason ? element('p', {}, run.reason) : null, tiles(run), problemList(run), rangeTestSection(run), ...recordOf(run, index)]
          .filter(Boolean));
  });
  return details;
}

function contents() {
  const links = [...document.querySelectorAll('main > section')].map((part) =>
    element('a', {href: `#${part.id}`}, part.querySelector('h2').textContent));
  document.getElementById('contents').replaceChildren(...links);
}

function footText(report, run) {
  return element('p', {}, `Written by ddprun ${report.version}, ${dateText(report.written)}`,
    run ? element('span', {class: 'muted'}, `, from ${run}`) : null);
}

// Redraws for light, dark and paper, which have colours of their own; paper also has another width.
function followColors(grid) {
  const redraw = () => {
    colors.clear();
    grid?.draw();
    painters.forEach((paint) => paint());
  };
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  const print = (on) => () => {
    document.documentElement.classList.toggle('paper', on);
    grid?.resize();
    redraw();
  };
  window.addEventListener('beforeprint', print(true));
  window.addEventListener('afterprint', print(false));
}

// Resolves when everything is drawn.
async function render(report) {
  if (report.sheet) return renderSheet(report);
  const {runs} = report;
  labelRuns(runs);
  const main = document.getElementById('main');
  const alone = runs.length === 1;
  const head = attempt('The head', () => element('div', {}, alone ? runHead(runs[0]) : comparisonHead(runs)));
  document.getElementById('head').append(head);
  if (!alone) {
    const parts = {Differences: differencesSection, Settings: settingsSection};
    main.append(...Object.entries(parts).map(([name, make]) => attempt(name, () => make(runs))).filter(Boolean));
  }
  const range = alone && attempt('The range test', () => rangeTestSection(runs[0]));
  if (range) main.append(range);
  const grid = runs.some((run) => run.curves.length > 0) ? new ChartGrid(runs) : null;
  if (grid) main.append(grid.section());
  const parts = alone ? recordOf(runs[0]).filter(Boolean) : [section('runs', 'Each run', runs.map(foldedRun))];
  main.append(...parts);
  document.getElementById('foot').prepend(footText(report, alone ? runs[0].path : null));
  contents();
  followColors(grid);
  await grid?.drawInTurn();
}

// Resolves once a frame is drawn, or after a second: a background tab draws none.
function shown() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, 1000);
  });
}

async function run() {
  try {
    await render(JSON.parse(document.getElementById('data').textContent));
  } catch (error) {
    errors.push(error.message);
    const notice = element('p', {class: 'notice'}, `The report cannot be shown: ${error.message}`);
    document.getElementById('main').prepend(notice);
  }
  await shown();
  const milliseconds = Math.round(performance.now());
  Object.assign(document.documentElement.dataset, {state: 'ready', milliseconds, errors: errors.join('; ')});
}

run();
