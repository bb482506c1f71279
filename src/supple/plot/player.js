function (name, data) {
  "use strict";
  // Draws skeletons of robots on canvases side by side, all at the same time t; drag to turn.
  const root = document.getElementById(name);
  const style = document.createElement("style");
  style.textContent = `
.player .panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr));
  gap: 12px }
.player figure { margin: 0; border: 1px solid #dcdcdc; border-radius: 6px; background: #fafbfc }
.player figcaption { padding: 7px 10px 0; font-weight: 600; display: flex; gap: 10px;
  justify-content: space-between; flex-wrap: wrap }
.player figcaption span:last-child { color: #5c5c5c; font-weight: 400;
  font-variant-numeric: tabular-nums }
.player canvas { display: block; width: 100%; height: 320px; cursor: grab; touch-action: none }
.player .controls { display: flex; gap: 12px; align-items: center; padding: 10px 2px }
.player .controls input { flex: 1; accent-color: #0072b2 }
.player button { font: inherit; padding: 4px 14px; border: 1px solid #b5b5b5; border-radius: 5px;
  background: #fff; cursor: pointer; min-width: 5em }
.player output { font-variant-numeric: tabular-nums; min-width: 5.5em; text-align: right }`;
  root.append(style);
  const panels = document.createElement("div");
  panels.className = "panels";
  root.append(panels);
  const controls = document.createElement("div");
  controls.className = "controls";
  controls.innerHTML = '<button type="button">Pause</button>' +
    '<input type="range" min="0" value="0" aria-label="time"><output></output>';
  root.append(controls);
  const [button, slider, clock] = controls.children;
  const frames = data.t.length;
  slider.max = frames - 1;

  const turn = { a: -0.9, b: 0.38 };  // azimuth and elevation, shared by all panels
  const views = data.arms.map((arm) => {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const title = document.createElement("span"), note = document.createElement("span");
    title.textContent = arm.title;
    caption.append(title, note);
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", arm.title);
    figure.append(caption, canvas);
    panels.append(figure);
    let held = null;
    canvas.addEventListener("pointerdown", (e) => {
      held = [e.clientX, e.clientY];
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!held || arm.flat) return;
      turn.a -= 0.01 * (e.clientX - held[0]);
      turn.b = Math.max(-1.5, Math.min(1.5, turn.b + 0.01 * (e.clientY - held[1])));
      held = [e.clientX, e.clientY];
      draw();
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    return { arm, canvas, note };
  });

  // Returns a function from a point in the world to [right, down, depth] on the canvas.
  function projection(arm, width, height) {
    const a = arm.flat ? -Math.PI / 2 : turn.a, b = arm.flat ? Math.PI / 2 : turn.b;
    const sa = Math.sin(a), ca = Math.cos(a), sb = Math.sin(b), cb = Math.cos(b);
    const scale = 0.5 * Math.min(width, height) / (1.02 * arm.size);
    return (p) => {
      const x = p[0] - arm.center[0], y = p[1] - arm.center[1], z = p[2] - arm.center[2];
      const right = -sa * x + ca * y, up = -sb * (ca * x + sa * y) + cb * z;
      return [width / 2 + scale * right, height / 2 - scale * up,
        cb * (ca * x + sa * y) + sb * z];
    };
  }

  function shade(color, share) {  // toward black below 1, toward white above
    const n = parseInt(color.slice(1), 16);
    const part = (c) => Math.round(share < 1 ? c * share : c + (255 - c) * (share - 1));
    return `rgb(${part(n >> 16)},${part((n >> 8) & 255)},${part(n & 255)})`;
  }

  function path(g, points, color, width, dashes) {
    g.beginPath();
    points.forEach((p, i) => (i ? g.lineTo(p[0], p[1]) : g.moveTo(p[0], p[1])));
    g.strokeStyle = color;
    g.lineWidth = width;
    g.setLineDash(dashes || []);
    g.stroke();
    g.setLineDash([]);
  }

  function disk(g, p, radius, fill) {
    g.beginPath();
    g.arc(p[0], p[1], radius, 0, 7);
    g.fillStyle = fill;
    g.fill();
    g.strokeStyle = "#fff";
    g.lineWidth = 1.2;
    g.stroke();
  }

  function floor(g, arm, to) {
    const cells = 6, size = arm.size, step = (2 * size) / cells;
    const at = (i, j) => to([arm.center[0] - size + i * step, arm.center[1] - size + j * step,
      arm.base[2]]);
    for (let i = 0; i <= cells; ++i) {
      path(g, [at(i, 0), at(i, cells)], "#e3e6e9", 1);
      path(g, [at(0, i), at(cells, i)], "#e3e6e9", 1);
    }
  }

  let frame = 0;
  function drawArm({ arm, canvas, note }) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.lineCap = g.lineJoin = "round";
    const to = projection(arm, width, height);
    floor(g, arm, to);
    arm.tips[0].forEach((_, tip) => {
      const trail = arm.tips.slice(Math.max(0, frame - 60), frame + 1).map((x) => to(x[tip]));
      path(g, trail, "#d55e00", 1.6);
    });
    if (arm.target) {
      arm.target[0].forEach((_, k) => {
        path(g, arm.target.map((x) => to(x[k])), "#0072b2", 1, [3, 3]);
        disk(g, to(arm.target[frame][k]), 5, "#0072b2");
      });
    }
    const base = to(arm.base);
    g.fillStyle = "#1a1a1a";
    g.fillRect(base[0] - 11, base[1] - 3, 22, 7);
    const parts = arm.segments[frame].map((ends, i) => {
      const line = ends.map(to), thick = Math.max(12 - 1.3 * arm.depth[i], 4.5);
      return { depth: (line[0][2] + line[1][2]) / 2, draw: () => {
        path(g, line, shade(arm.color, 0.62), thick + 2.5);
        path(g, line, arm.color, thick);
        path(g, line, shade(arm.color, 1.35), thick / 4);
      } };
    });
    arm.joints[frame].forEach((place, j) => {
      const axis = arm.axes[frame][j], half = 0.045 * arm.size;
      const ends = [-half, half].map((s) => to(place.map((x, i) => x + s * axis[i])));
      parts.push({ depth: to(place)[2] + 1e-3 * arm.size, draw: () => {
        path(g, ends, "#7a5200", 9);
        path(g, ends, "#e69f00", 6.5);
      } });
    });
    parts.sort((x, y) => x.depth - y.depth).forEach((part) => part.draw());
    arm.tips[frame].forEach((tip) => disk(g, to(tip), 5, "#d55e00"));
    note.textContent = arm.note ? arm.note[frame] : "";
  }

  function draw() {
    views.forEach(drawArm);
    slider.value = frame;
    clock.textContent = `${data.t[frame].toFixed(2)} s`;
  }

  let playing = true, begun = null, offset = 0;
  function play(on) {
    playing = on;
    begun = null;
    offset = data.t[frame] - data.t[0];
    button.textContent = on ? "Pause" : "Play";
  }
  button.addEventListener("click", () => play(!playing));
  slider.addEventListener("input", () => {
    frame = Number(slider.value);
    play(false);
    draw();
  });
  const length = data.t[frames - 1] - data.t[0];
  function tick(now) {
    if (playing && length > 0) {
      if (begun === null) begun = now;
      const t = (offset + (now - begun) / 1000) % (length + 0.8);  // rests at the end
      const at = data.t[0] + Math.min(t, length);
      frame = data.t.findIndex((x) => x >= at - 1e-9);
      if (frame < 0) frame = frames - 1;
      draw();
    }
    requestAnimationFrame(tick);
  }
  window.addEventListener("resize", draw);
  draw();
  requestAnimationFrame(tick);
}
