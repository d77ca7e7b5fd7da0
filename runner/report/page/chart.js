// SPDX-License-Identifier: MIT
// One chart: its card, its legend, and its lines, drawn by dygraphs.
'use strict';

const kAxisNames = {step: 'step', epoch: 'epoch', time: 'time since the start'};
const kDense = 60;  // from this many points on, they get no dots
const coarse = window.matchMedia('(pointer: coarse)').matches;

class Chart {
  // `view`: {runs, axis, smoothing, hidden, range(), zoom(chart, range)}, shared by all charts of the page.
  constructor(plan, view) {
    this.plan = plan;
    this.view = view;
    this.log = spansDecades(plan);
    this.area = element('div', {class: 'plot'});
    this.place = element('span', {class: 'place'});
    this.legend = new Legend(plan, view, () => this.showVisible());
    this.card = element('figure', {class: 'card chart'},
      element('figcaption', {}, element('h3', {}, plan.title), this.place, this.logButton()), this.legend.box,
      this.area);
  }

  logButton() {
    if (!hasLog(this.plan)) return null;
    const button = element('button',
      {type: 'button', class: 'small', 'aria-pressed': String(this.log), title: 'Logarithmic scale'}, 'log');
    button.addEventListener('click', () => {
      this.log = !this.log;
      button.setAttribute('aria-pressed', String(this.log));
      this.graph?.updateOptions({logscale: this.log});
    });
    return button;
  }

  visibility() {
    return this.columns.map((column) => this.legend.isShown(this.plan.lines[column.line]));
  }

  showVisible() {
    this.graph?.updateOptions({visibility: this.visibility()});
  }

  // Puts the numbers for the chosen axis and smoothing into a new graph or the existing one.
  draw() {
    const {plan, view} = this;
    const smoothing = plan.rough && !plan.stacked ? view.smoothing : 0;
    this.lines = plan.lines.map((line) => drawn(line, view.runs, view.axis, smoothing));
    this.columns = [];
    this.lines.forEach(({raw, smooth}, line) => {
      this.columns.push({line, ...raw, faint: smooth !== null});
      if (smooth) this.columns.push({line, ...smooth, faint: false});
    });
    this.columns.sort((a, b) => b.faint - a.faint);  // faint ones below
    const rows = rowsOf(this.columns);
    const file = stretched(plan.stacked ? filled(rows) : rows, view.range());
    if (this.graph) {
      this.graph.updateOptions({file, ...this.looks(), dateWindow: null, valueRange: null});
    } else {
      this.graph = new Dygraph(this.area, file, {...this.looks(), ...this.behaviour()});
    }
  }

  looks() {
    const {plan} = this;
    const names = this.columns.map((_, index) => String(index));
    const line = (column) => plan.lines[column.line];
    return {
      labels: ['x', ...names],
      xlabel: kAxisNames[this.view.axis],
      colors: this.columns.map((column) => seriesColor(line(column).color) + (column.faint ? '40' : '')),
      visibility: this.visibility(),
      series: Object.fromEntries(this.columns.map((column, index) => [names[index], {
        strokePattern: line(column).dash,
        strokeWidth: column.faint ? 1 : 1.75,
        drawPoints: !column.faint && column.x.length <= kDense && !plan.stacked,
      }])),
      gridLineColor: color('grid'),
      axisLineColor: color('border'),
    };
  }

  behaviour() {
    const {plan, view} = this;
    const ofTime = () => view.axis === 'time';
    return {
      legend: 'never',
      labelsDiv: element('div'),
      connectSeparatedPoints: true,
      logscale: this.log,
      stackedGraph: plan.stacked,
      fillAlpha: 0.55,
      includeZero: plan.stacked,
      pointSize: 2.5,
      highlightCircleSize: 3.5,
      xRangePad: 4,
      yRangePad: 8,
      rightGap: 10,
      axisLabelFontSize: 12,
      axes: {
        x: {
          pixelsPerLabel: 64,
          axisLabelFormatter: (x) => (ofTime() ? clock(x) : plain(x)),
          ticker: (from, to, pixels, ...rest) =>
            (ofTime() ? timeTicks : Dygraph.numericTicks)(from, to, pixels, ...rest)
        },
        y: {
          axisLabelWidth: plan.format === bytes || plan.format === speedText ? 62 : 50,
          pixelsPerLabel: 26,
          axisLabelFormatter: (y) => withoutZeros(plan.format(y))
        },
      },
      highlightCallback: (event, x) => this.read(x, event),
      unhighlightCallback: () => this.silence(),
      zoomCallback: () => view.zoom(this, this.graph.isZoomed('x') ? this.graph.xAxisRange() : null),
      underlayCallback: (context, area, graph) => this.paintMarks(context, area, graph),
      ...(coarse ? {interactionModel: touchModel((x, event) => this.read(x, event))} : {}),
    };
  }

  read(x, event) {
    const text = this.placeText(x);
    this.place.textContent = text;
    this.legend.show(
      {x, range: this.graph.xAxisRange(), text, event}, this.lines.map(({raw, smooth}) => smooth || raw));
  }

  silence() {
    this.place.textContent = '';
    this.legend.silence();
  }

  // Returns "step 1,200", with the event that happened there.
  placeText(x) {
    const {axis, runs} = this.view;
    const where = axis === 'time' ? duration(x) : `${axis} ${axis === 'step' ? whole(x) : plain(x)}`;
    if (runs.length > 1) return where;
    const [from, to] = this.graph.xAxisRange();
    const near = ({event}) => Math.abs(placeOfEvent(event, runs[0], axis) - x) < (to - from) / 60;
    const found = marksOf(runs[0], true).reverse().find(near);
    return found ? `${where} · ${found.event.kind}: ${found.event.text}` : where;
  }

  paintMarks(context, area, graph) {
    context.save();
    paintEvents(context, area, graph, this.view);
    this.plan.lines.forEach((line, index) => {
      if (line.curve.nonfinite > 0 && this.legend.isShown(line)) paintLost(context, area, graph, this.lines[index].raw);
    });
    context.restore();
  }
}

// Returns the card of a chart that the page's axis, smoothing and zoom do not change. `looks()` are options of dygraphs,
// asked for at each drawing; `describe(row)` is the text about a point.
function stillChart(title, rows, looks, describe, shape = '') {
  const place = element('span', {class: 'place'}), area = element('div', {class: `plot ${shape}`});
  let graph = null;
  const draw = () => {
    if (area.offsetWidth === 0) return;
    if (graph) graph.destroy();
    graph = new Dygraph(area, rows, {
      legend: 'never',
      labelsDiv: element('div'),
      xRangePad: 4,
      rightGap: 10,
      axisLabelFontSize: 12,
      gridLineColor: color('grid'),
      axisLineColor: color('border'),
      interactionModel: {},
      highlightCallback: (event, x, points, row) => (place.textContent = describe(row)),
      unhighlightCallback: () => (place.textContent = ''),
      ...looks(),
    });
  };
  painters.push(draw);
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(area);
  return element('figure', {class: 'card chart'}, element('figcaption', {}, element('h3', {}, title), place), area);
}

// One finger moves along the curve and reads it, two fingers zoom, two taps show everything; up and down scrolls the
// page.
function touchModel(report) {
  const own = Dygraph.defaultInteractionModel;
  const read = (event, graph) => {
    const x = event.touches[0].clientX - graph.graphDiv.getBoundingClientRect().left;
    graph.setSelection(graph.findClosestRow(x));
    report(graph.toDataXCoord(x), event.touches[0]);
  };
  const one = (action) => (event, graph, context) => {
    if (event.touches.length > 1) own[action](event, graph, context); else read(event, graph);
  };
  let tapped = 0;
  return {
    touchstart: one('touchstart'),
    touchmove: one('touchmove'),
    touchend(event, graph, context) {
      own.touchend(event, graph, context);
      if (event.timeStamp - tapped < 300) graph.resetZoom();
      tapped = event.timeStamp;
      tip.hide();
    },
    mousedown: own.mousedown, mousemove: own.mousemove, mouseup: own.mouseup, dblclick: own.dblclick,
  };
}
