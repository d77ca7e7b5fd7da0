// SPDX-License-Identifier: MIT
// Marks on a chart: events, and points that were not finite.
'use strict';

const kMarks = {  // of events, the most important last, on top
  checkpoint: {color: 'muted', tick: true},
  resumed: {color: 'accent', line: true},
  rollback: {color: 'warn', line: true},
  nonfinite: {color: 'warn', line: true},
  failure: {color: 'bad', line: true},
};
const kNoMark = {color: 'muted'};

// Returns the marks of a run by importance; with several runs in a chart, only what went wrong.
function marksOf(run, all) {
  const kinds =
    Object.keys(kMarks).filter((kind) => all || kMarks[kind].color === 'bad' || kMarks[kind].color === 'warn');
  const marks =
    run.events.filter((event) => kinds.includes(event.kind)).map((event) => ({event, mark: kMarks[event.kind]}));
  return marks.sort((a, b) => kinds.indexOf(a.event.kind) - kinds.indexOf(b.event.kind));
}

function paintEvents(context, area, graph, {runs, axis, hidden}) {
  const names = [];
  const alone = runs.length === 1;
  context.font = '11px system-ui, sans-serif';
  runs.forEach((run, index) => {
    if (hidden.has(index)) return;
    for (const {event, mark} of marksOf(run, alone)) {
      const x = Math.round(graph.toDomXCoord(placeOfEvent(event, run, axis))) + 0.5;
      if (x < area.x || x > area.x + area.w) continue;
      context.strokeStyle = context.fillStyle = alone ? color(mark.color) : seriesColor(index);
      paintMark(context, area, x, mark);
      if (mark.line && alone) names.push({text: event.kind, x: x + 4, color: context.fillStyle});
    }
  });
  paintMarkNames(context, area, names);
}

function paintMark(context, area, x, mark) {
  const bottom = area.y + area.h;
  context.beginPath();
  if (mark.tick) {
    context.moveTo(x - 3, bottom);
    context.lineTo(x, bottom - 6);
    context.lineTo(x + 3, bottom);
    context.fill();
    return;
  }
  context.setLineDash([4, 3]);
  context.moveTo(x, area.y);
  context.lineTo(x, bottom);
  context.stroke();
  context.setLineDash([]);
}

// Puts names at the top of their lines, the most important first; omits those that would overlap another.
function paintMarkNames(context, area, names) {
  const taken = [];
  for (const name of names.reverse()) {
    const end = name.x + context.measureText(name.text).width;
    if (end > area.x + area.w || taken.some((other) => name.x < other.end + 4 && end + 4 > other.x)) continue;
    context.fillStyle = name.color;
    context.fillText(name.text, name.x, area.y + 10);
    taken.push({x: name.x, end});
  }
}

// Draws a cross at the top for each point of a line that was not finite.
function paintLost(context, area, graph, {x: places, y: values}) {
  context.strokeStyle = color('bad');
  context.lineWidth = 1.5;
  places.forEach((place, i) => {
    const x = graph.toDomXCoord(place), y = area.y + 18;
    if (Number.isFinite(values[i]) || x < area.x || x > area.x + area.w) return;
    context.beginPath();
    context.moveTo(x - 3, y - 3);
    context.lineTo(x + 3, y + 3);
    context.moveTo(x - 3, y + 3);
    context.lineTo(x + 3, y - 3);
    context.stroke();
  });
}
