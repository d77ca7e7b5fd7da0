// SPDX-License-Identifier: MIT
// The names of a chart's lines, which of them are shown, and their values under the pointer.
'use strict';

const kMostValues = 14;  // in the box at the pointer

class Legend {
  // Calls `changed()` when a line is switched on or off.
  constructor(plan, view, changed) {
    this.plan = plan;
    this.view = view;
    this.off = new Set();
    this.alone = view.runs.length === 1;
    const splits = [...new Set(plan.lines.map((line) => line.curve.split))];
    const keys = this.alone ? plan.lines.map((line) => line.label) : splits.length > 1 ? splits : [];
    this.entries = new Map(keys.map((key) => [key, this.entry(key, changed)]));
    this.box = element('div', {class: 'legend'}, [...this.entries.values()].map((entry) => entry.button));
  }

  keyOf(line) {
    return this.alone ? line.label : line.curve.split;
  }

  entry(key, changed) {
    const line = this.plan.lines.find((one) => this.keyOf(one) === key);
    const lost = this.alone ? line.curve.nonfinite : 0;
    const value = element('output');
    const shape = line.dash ? (line.dash[0] === 2 ? 'dots' : 'dashes') : '';
    const color = this.alone ? `series-${line.color % kColors}` : 'muted';
    const button = element('button', {type: 'button', 'aria-pressed': 'true', title: 'Show or hide'},
      element('i', {class: shape, style: `--line: var(--${color})`}), element('span', {}, key), value,
      lost > 0 ? element('em', {title: 'points that were NaN or infinite'}, `✕ ${whole(lost)} not finite`) : null);
    button.addEventListener('click', () => {
      if (!this.off.delete(key)) this.off.add(key);
      button.setAttribute('aria-pressed', String(!this.off.has(key)));
      changed();
    });
    return {button, value};
  }

  isShown(line) {
    return !this.off.has(this.keyOf(line)) && !this.view.hidden.has(line.run);
  }

  // Shows the values at a place of the axis, which spans `range`: beside the names, or with several runs in a box at
  // the pointer. `lines`: {x, y} of each line.
  show({x, range, text: placeText, event}, lines) {
    const values = [];
    this.plan.lines.forEach((line, index) => {
      const {x: places, y} = lines[index];
      const at = nearest(places, x);
      if (this.isShown(line) && Math.abs(places[at] - x) <= reachOf(places, range))
        values.push({line, text: this.plan.format(y[at])});
    });
    if (this.alone) {
      for (const {value} of this.entries.values()) value.textContent = '';
      for (const {line, text} of values) this.entries.get(line.label).value.textContent = text;
      return;
    }
    const rows = values.slice(0, kMostValues).map(({line, text}) => element('div', {class: 'value'},
      runSwatch(line.color), element('span', {}, line.label), element('b', {}, text)));
    tip.show(
      event, placeText, ...rows, ...(values.length > kMostValues ? [`and ${values.length - kMostValues} more`] : []));
  }

  silence() {
    for (const {value} of this.entries.values()) value.textContent = '';
    if (!this.alone) tip.hide();
  }
}

// Returns how far from its place a value is still shown: to the next one; a lone one anywhere in sight.
function reachOf(places, [from, to]) {
  return Math.max((places[places.length - 1] - places[0]) / Math.max(places.length - 1, 1), (to - from) * 0.03);
}

function runSwatch(index) {
  return element('i', {class: 'run', style: `--line: var(--series-${index % kColors})`});
}
