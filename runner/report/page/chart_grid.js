// SPDX-License-Identifier: MIT
// All charts and what they share: the axis, the smoothing, the visible stretch, and the visible runs.
'use strict';

const kAxes = [['step', 'Step'], ['epoch', 'Epoch'], ['time', 'Time']];
const kSeenAtOnce = 4;  // charts drawn at once
const kDenseCurve = 200;  // above this many points a curve's line is noise rather than form

class ChartGrid {
  constructor(runs) {
    const dense = runs.some((run) => run.curves.some((curve) => curve.split === 'train' && curve.count > kDenseCurve));
    this.view = {runs, axis: 'step', smoothing: dense ? 0.8 : 0, hidden: new Set(),
      range: () => this.range, zoom: (chart, range) => this.zoom(chart, range)};
    this.charts = chartsOf(runs).map((plan) => new Chart(plan, this.view));
  }

  section() {
    const grid = (system) => element('div', {class: 'grid'},
      this.charts.filter((chart) => chart.plan.system === system).map((chart) => chart.card));
    return section('curves', 'Curves', this.toolbar(), grid(false),
      this.charts.some((chart) => chart.plan.system) ? this.system(grid(true)) : null);
  }

  // Each measure of several runs has a chart of its own: too many to scroll past.
  system(grid) {
    const name = 'Where the time goes';
    if (this.view.runs.length === 1) return [element('h3', {class: 'between', id: 'system'}, name), grid];
    return element('details', {class: 'between', id: 'system'}, element('summary', {}, name), grid);
  }

  seen() {
    return this.charts.filter((chart) => chart.area.clientWidth > 0);
  }

  toolbar() {
    const {view} = this;
    const axes = kAxes.filter(([axis]) => axis !== 'epoch' || view.runs.some((run) => run.steps_per_epoch > 0));
    const choose = (axis) => {
      view.axis = axis;
      this.draw();
    };
    const amount = element('output', {}, view.smoothing);
    const slider = element('input', {
      type: 'range',
      min: 0,
      max: 0.99,
      step: 0.01,
      value: view.smoothing,
      'aria-label': 'Smoothing',
      oninput: () => {
        view.smoothing = Number(slider.value);
        amount.textContent = slider.value;
        if (!this.drawing)
          this.drawing = requestAnimationFrame(() => this.draw());  // not for every pixel that the slider moves
      }
    });
    return element('div', {class: 'toolbar'},
      switchOf(axes, ([, text]) => text, ([axis]) => choose(axis)),
      element('label', {class: 'slider'}, 'Smoothing', slider, amount),
      view.runs.length > 1 ? this.runSwitches() : null,
      element('span', {class: 'hint'}, this.marksText(),
        coarse ? 'Two fingers zoom, two taps reset' : 'Drag to zoom, double click to reset'));
  }

  marksText() {
    const {runs} = this.view;
    const marked = runs.length === 1 && runs[0].events.some((event) => event.kind === 'checkpoint');
    return marked ? '\u25b4 a checkpoint \u00b7 ' : '';
  }

  runSwitches() {
    const {hidden, runs} = this.view;
    return element('div', {class: 'legend runs'}, runs.map((run, index) => {
      const button =
        element('button', {type: 'button', 'aria-pressed': 'true', title: run.path}, runSwatch(index), run.label);
      button.addEventListener('click', () => {
        if (!hidden.delete(index)) hidden.add(index);
        button.setAttribute('aria-pressed', String(!hidden.has(index)));
        this.charts.forEach((chart) => chart.showVisible());
      });
      return button;
    }));
  }

  draw() {
    this.drawing = 0;
    this.measure();
    this.seen().forEach((chart) => chart.draw());
  }

  // Draws the first time: the visible charts at once, then the others one by one, so that the page stays responsive.
  // What is hidden, alone or with the whole page in a tab of another page, has no width; it is drawn when it gets one.
  async drawInTurn() {
    this.measure();
    for (const [index, chart] of this.seen().entries()) {
      if (index >= kSeenAtOnce) await new Promise((resolve) => setTimeout(resolve));
      chart.draw();
    }
    const observer = new ResizeObserver(() => requestAnimationFrame(() => this.fit()));
    this.charts.forEach((chart) => observer.observe(chart.area));
  }

  fit() {
    for (const chart of this.seen()) {
      if (chart.graph) chart.graph.resize(); else chart.draw();
    }
  }

  // Measures from the first place of all curves to the last.
  measure() {
    const {runs, axis} = this.view;
    const places = runs.flatMap((run) => run.curves.map(({points}) => placesOf(points, axis, run)));
    const ends = places.flatMap((one) => [one[0], one[one.length - 1]]);
    this.range = [Math.min(...ends), Math.max(...ends)];
  }

  // What one chart shows, all show.
  zoom(chart, range) {
    for (const other of this.charts) {
      if (other !== chart || range === null) other.graph?.updateOptions({dateWindow: range});
    }
  }

  resize() {
    this.charts.forEach((chart) => chart.graph?.resize());
  }
}
