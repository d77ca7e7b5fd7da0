// SPDX-License-Identifier: MIT
// Formats numbers for people.
'use strict';

// Looks up a name that a run has given, ignoring what all objects inherit.
function known(table, name, otherwise) {
  return Object.hasOwn(table, name) ? table[name] : otherwise;
}

const kUnits = ['', 'k', 'M', 'G', 'T'];

// Returns four digits: 0.9912, 1284, 12.8k, 3.2e-7.
function plain(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return 'not finite';
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size < 1e-3 || size >= 1e15) return value.toExponential(2).replace(/\.?0+e/, 'e');
  if (size < 1e4) return String(Number(value.toPrecision(4)));
  const power = Math.min(Math.floor(Math.log10(size) / 3), kUnits.length - 1);
  return Number((value / 1000 ** power).toPrecision(4)) + kUnits[power];
}

function whole(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString('en') : '-';
}

function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let power = 0;
  for (; Math.abs(value) >= 999.5 && power < units.length - 1; ++power) value /= 1000;
  return `${Number(value.toPrecision(4))} ${units[power]}`;
}

// True for what is shown in percent.
function isShare(name) {
  return /(accuracy|(^|\/)(top\d+|mfu))$/.test(name);
}

// Returns "1.4 TFLOP/s".
function operations(number) {
  const units = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  let unit = 0;
  for (; number >= 1000 && unit + 1 < units.length; ++unit) number /= 1000;
  return Number.isFinite(number) ? `${number.toPrecision(3)} ${units[unit]}FLOP/s` : '-';
}

function percent(fraction) {
  return Number.isFinite(fraction) ? `${(100 * fraction).toFixed(2)} %` : '-';
}

// Returns "90 %" for "90.00 %", for an axis.
function withoutZeros(text) {
  return text.replace(/\.0+ %$/, ' %').replace(/(\.\d*[1-9])0+ %$/, '$1 %');
}

// Returns 0.8 s, 12 s, 3 min 20 s, 1 h 02 min, 2 d 3 h.
function duration(seconds) {
  if (!Number.isFinite(seconds)) return '-';
  const sign = seconds < 0 ? '-' : '';
  const size = Math.abs(seconds);
  if (size === 0) return '0 s';
  if (size < 1e-3) return `${sign}${Number((size * 1e6).toPrecision(3))} µs`;
  if (size < 1) return `${sign}${Number((size * 1e3).toPrecision(3))} ms`;
  if (size < 60) return `${sign}${Number(size.toPrecision(3))} s`;
  const total = Math.round(size);
  const [days, hours, minutes, rest] =
    [total / 86400, (total / 3600) % 24, (total / 60) % 60, total % 60].map(Math.floor);
  const pair = (big, unit, small, other) => `${sign}${big} ${unit}${small ? ` ${small} ${other}` : ''}`;
  if (days > 0) return pair(days, 'd', hours, 'h');
  if (hours > 0) return pair(hours, 'h', minutes, 'min');
  return pair(minutes, 'min', rest, 's');
}

// Returns the ticks of an axis: 45s, 10m, 1h30.
function clock(seconds) {
  const total = Math.round(Math.abs(seconds));
  const hours = Math.floor(total / 3600), minutes = Math.floor(total / 60) % 60, rest = total % 60;
  if (total >= 86400) return `${Math.floor(hours / 24)}d${hours % 24 ? `${hours % 24}h` : ''}`;
  if (total >= 3600) return `${hours}h${minutes ? String(minutes).padStart(2, '0') : ''}`;
  if (total >= 60) return `${minutes}m${rest ? String(rest).padStart(2, '0') : ''}`;
  return `${rest}s`;
}

// Steps between round times, in the form dygraphs expects for its ticks.
const kTimeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
function timeTicks(from, to, pixels) {
  const wanted = (to - from) / Math.max(pixels / 80, 2);
  const step = kTimeSteps.find((one) => one >= wanted) || Math.ceil(wanted / 86400) * 86400;
  const ticks = [];
  for (let v = Math.ceil(from / step) * step; v <= to; v += step) ticks.push({v, label: clock(v)});
  return ticks;
}

function dateText(seconds) {
  if (!seconds) return '-';
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const kWords = {rss: 'memory', gpu: 'GPU', cpu: 'CPU', percent: '%'};

// Returns "GPU memory" for "gpu_memory_bytes", "Samples per second" for "samples_per_second": the numbers carry the
// unit.
function title(name) {
  const parts = name.replace(/_(seconds|bytes)$/, '').split('_');
  const words = parts.map((part) => known(kWords, part, part)).join(' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function statusText(status) {
  return status.replaceAll('_', ' ');
}
