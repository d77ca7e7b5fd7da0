// SPDX-License-Identifier: MIT
// Elements of the page. Texts go in as text nodes only: nothing of a run is ever parsed as HTML.
'use strict';

// element('a', {href: '#x', onclick: f}, 'text', child) takes attributes, handlers, and children; null and false are
// skipped.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      made.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== false && value !== undefined) {
      made.setAttribute(name, value === true ? '' : value);
    }
  }
  made.append(...children.flat(9).filter((child) => ![null, undefined, false, ''].includes(child)));
  return made;
}

// Makes a table that scrolls sideways on a narrow screen. `columns`: {head, right}; cells are texts or elements.
function tableOf(columns, rows, attributes = {}) {
  const style = (index) => (columns[index].right ? {class: 'number'} : {});
  const rowOf = (cells) => element('tr', {}, cells.map((cell, i) => element('td', style(i), cell)));
  return element('div', {class: 'scroll'},
    element('table', attributes,
      element('thead', {},
        element('tr', {}, columns.map((column, i) => element('th', {scope: 'col', ...style(i)}, column.head)))),
      element('tbody', {}, rows.map((row) => (row instanceof Element ? row : rowOf(row))))));
}

// Makes buttons of which one is pressed, initially the first.
function switchOf(items, text, choose) {
  const buttons = items.map((item, index) => {
    const button = element('button', {type: 'button', 'aria-pressed': String(index === 0)}, text(item));
    button.addEventListener('click', () => {
      for (const one of buttons) one.setAttribute('aria-pressed', String(one === button));
      choose(item);
    });
    return button;
  });
  return element('div', {class: 'switch', role: 'group'}, buttons);
}

// Shows one of several things, with a switch if there is a choice. `show` makes it.
function chosenOf(items, text, show) {
  const body = element('div', {}, show(items[0]));
  const choice = items.length > 1 ? switchOf(items, text, (item) => body.replaceChildren(show(item))) :
                                    element('p', {class: 'muted'}, text(items[0]));
  return [choice, body];
}

function splitAndStep(table) {
  return `${table.split}, step ${whole(table.step)}`;
}

// Shows `texts` above a canvas; nothing hides it.
const tip = {
  box: null,
  show(event, ...texts) {
    this.box ??= document.body.appendChild(element('div', {class: 'tip', role: 'status'}));
    this.box.replaceChildren(...texts.map((text) => element('div', {}, text)));
    this.box.hidden = false;
    const left = Math.min(event.clientX + 14, window.innerWidth - this.box.offsetWidth - 8);
    const above = event.clientY - this.box.offsetHeight - 14;
    this.box.style.left = `${Math.max(left, 8)}px`;
    this.box.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  },
  hide() {
    if (this.box) this.box.hidden = true;
  },
};

// Makes a canvas of this height in CSS pixels, sharp on any screen. `paint(context, width, height)` draws it, and again
// when its width or the colours change.
const painters = [];
function canvasOf(height, paint, label) {
  const canvas = element('canvas', {role: 'img', 'aria-label': label});
  const draw = () => {
    const width = canvas.parentElement ? canvas.parentElement.clientWidth : 0;
    if (width === 0) return;
    const tall = typeof height === 'function' ? height(width) : height;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${tall}px`;
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    paint(context, width, tall);
  };
  painters.push(draw);
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(element('div', {class: 'canvas'}, canvas));
  canvas.redraw = draw;
  return canvas;
}

// Returns colours of the style sheet for light, dark and paper. They are cached: asking costs the browser a layout.
const colors = new Map();
function color(name) {
  if (!colors.has(name))
    colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colors.get(name);
}

const kColors = 8;
function seriesColor(index) {
  return color(`series-${index % kColors}`);
}

function card(content) {
  return element('div', {class: 'card'}, content);
}

function section(id, title, ...children) {
  return element('section', {id}, element('h2', {}, title), ...children);
}
