/** The styles of the page. System fonts and our own colours, light and dark; nothing is fetched. */
export const STYLES = `
:root {
  --ground: #f5f6f4; --surface: #ffffff; --sunken: #eef0ed;
  --ink: #1a2024; --quiet: #56616a; --line: #dce0dc; --edge: #868f90;
  --accent: #0f6b5c; --accent-strong: #0a5347; --on-accent: #ffffff; --accent-soft: #e0f0ec;
  --good: #1c7440; --good-soft: #e3f3e8;
  --warn: #8a5200; --warn-soft: #fbefdb;
  --bad: #b0261e; --bad-soft: #fbe6e4;
  --shadow: 0 1px 2px rgb(20 30 30 / 6%);
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "Roboto Mono", "Noto Sans Mono", monospace;
  color-scheme: light dark;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #101415; --surface: #181d1f; --sunken: #21282a;
    --ink: #e6eaea; --quiet: #9eabae; --line: #2b3437; --edge: #6b777b;
    --accent: #5fd0b8; --accent-strong: #86e3cf; --on-accent: #06251f; --accent-soft: #17352f;
    --good: #6fcf8f; --good-soft: #173323;
    --warn: #efb764; --warn-soft: #36290f;
    --bad: #ff938a; --bad-soft: #3b1b19;
    --shadow: none;
  }
}
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }
body {
  margin: 0 auto; max-width: 1280px; padding: 0 28px 64px;
  background: var(--ground); color: var(--ink);
  font: 15px/1.5 var(--sans); -webkit-font-smoothing: antialiased;
}
h1, h2, h3, p, ul, ol, dl, dd, pre { margin: 0; padding: 0; }
ul, ol { list-style: none; }
h1 { font-size: 21px; font-weight: 650; letter-spacing: -0.015em; line-height: 1.25; }
h2 { font-size: 15px; font-weight: 650; letter-spacing: -0.005em; }
.quiet { color: var(--quiet); font-weight: 400; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.tasks:focus { outline: none; }
.skip { position: absolute; left: -999px; top: 8px; padding: 8px 14px; background: var(--surface); color: var(--accent); border-radius: 8px; }
.skip:focus { left: 16px; z-index: 1; }
.banner { margin: 16px 0 0; padding: 10px 16px; border-radius: 10px; background: var(--warn-soft); color: var(--warn); font-weight: 550; }

.away :is(.top, .workers, main) { filter: grayscale(1); }

.top { display: flex; flex-wrap: wrap; gap: 20px 40px; align-items: center; justify-content: space-between; padding: 28px 0 20px; }
.brand { display: flex; gap: 14px; align-items: center; min-width: 0; }
.brand > div { min-width: 0; }
.brand img { flex: none; }
.brand p { font-size: 13.5px; overflow-wrap: anywhere; }
.tag { margin-left: 2px; padding: 2px 7px; border-radius: 6px; background: var(--accent-soft); color: var(--accent); font-size: 12px; font-weight: 600; letter-spacing: 0; vertical-align: 3px; }
.counts { display: flex; gap: 6px; }
.counts > div { min-width: 84px; padding: 8px 14px 9px; border-radius: 10px; background: var(--surface); border: 1px solid var(--line); }
.counts dt { color: var(--quiet); font-size: 12.5px; }
.counts dd { font-size: 22px; font-weight: 600; line-height: 1.15; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.counts [data-count="running"].some dd { color: var(--accent); }
.counts [data-count="dead"].some dd { color: var(--bad); }
.counts [data-count="done"].some dd { color: var(--good); }

.workers { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; padding: 12px 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.workers h2 { font-size: 13.5px; font-weight: 550; color: var(--quiet); }
.workers ul { display: flex; flex-wrap: wrap; gap: 8px; min-height: 34px; }
.worker { display: flex; align-items: center; gap: 8px; padding: 3px 4px 3px 12px; border-radius: 999px; background: var(--surface); border: 1px solid var(--line); font-size: 13.5px; }
.worker::before { content: ""; width: 8px; height: 8px; border-radius: 50%; background: var(--edge); }
.worker.busy::before { background: var(--accent); }
.worker code { font: 500 13px var(--mono); }
.worker button { padding: 2px 10px; font-size: 13px; border-radius: 999px; border-color: transparent; background: transparent; color: var(--bad); }
.worker button:hover { background: var(--bad-soft); }

main { display: grid; gap: 32px; padding-top: 24px; align-items: start; }
main.with-shop { grid-template-columns: 352px minmax(0, 1fr); }
.shop { position: sticky; top: 20px; padding: 22px; border-radius: 14px; background: var(--surface); border: 1px solid var(--line); box-shadow: var(--shadow); }
.shop > p { margin-top: 6px; color: var(--quiet); font-size: 14px; }
.fields { display: grid; grid-template-columns: 1fr 1.45fr; gap: 12px; margin: 18px 0 16px; }
label { display: grid; gap: 5px; font-size: 13px; color: var(--quiet); }
input, select {
  width: 100%; height: 38px; padding: 0 10px; border: 1px solid var(--edge); border-radius: 8px;
  background: var(--surface); color: var(--ink); font: inherit; font-size: 14px;
}
button {
  padding: 8px 14px; border: 1px solid var(--edge); border-radius: 8px; cursor: pointer;
  background: var(--surface); color: var(--ink); font: 550 14px/1.4 var(--sans);
}
button:hover { background: var(--sunken); }
button.primary { border-color: var(--accent); background: var(--accent); color: var(--on-accent); }
button.primary:hover { border-color: var(--accent-strong); background: var(--accent-strong); }
button.danger { border-color: var(--bad); color: var(--bad); }
button.danger:hover { background: var(--bad-soft); }
button[aria-disabled="true"], button[aria-disabled="true"]:hover { border-color: var(--line); color: var(--quiet); cursor: default; background: transparent; }
.choice { margin-top: 12px; }
.choice button { width: 100%; }
.choice p { margin-top: 5px; font-size: 13px; color: var(--quiet); }
.crash { margin-top: 20px; padding-top: 20px; border-top: 1px solid var(--line); }
.shop > .message:not(:empty) { margin-top: 18px; padding: 10px 12px; border-radius: 9px; background: var(--accent-soft); color: var(--ink); }
.shop > .message.failed:not(:empty) { background: var(--bad-soft); }
details { margin-top: 18px; font-size: 13.5px; }
summary { color: var(--accent); cursor: pointer; }
pre { margin-top: 10px; padding: 12px 14px; border-radius: 9px; background: var(--sunken); overflow-x: auto; font: 12.5px/1.6 var(--mono); }
code { font-family: var(--mono); }

.life > h2 { margin-bottom: 14px; padding-top: 4px; }
.life h2 .quiet { margin-left: 6px; font-size: 13.5px; }
.tasks { display: grid; gap: 12px; }
.empty { padding: 44px 32px; border: 1.5px dashed var(--line); border-radius: 14px; color: var(--quiet); text-align: center; }
.empty h3 { margin-bottom: 8px; color: var(--ink); font-size: 17px; font-weight: 600; }
.empty p { max-width: 46ch; margin: 0 auto 4px; }
.empty pre { display: inline-block; color: var(--ink); text-align: left; }
.task { padding: 16px 20px 18px; border-radius: 14px; background: var(--surface); border: 1px solid var(--line); box-shadow: var(--shadow); }
.task header { display: flex; gap: 12px; align-items: baseline; justify-content: space-between; }
.task h3 { font-size: 15px; font-weight: 600; overflow-wrap: anywhere; }
.task .about { display: flex; flex-wrap: wrap; gap: 2px 14px; margin-top: 2px; color: var(--quiet); font-size: 13px; overflow-wrap: anywhere; }
.task .about code { font-size: 12.5px; }
.state { flex: none; padding: 2px 10px; border-radius: 999px; background: var(--sunken); color: var(--quiet); font-size: 13px; font-weight: 550; }
.state.running { background: var(--accent-soft); color: var(--accent); }
.state.waiting { background: var(--warn-soft); color: var(--warn); }
.state.done { background: var(--good-soft); color: var(--good); }
.state.dead { background: var(--bad-soft); color: var(--bad); }

.track { display: flex; flex-wrap: wrap; row-gap: 14px; margin-top: 16px; }
.track li { position: relative; flex: 0 1 auto; min-width: 108px; max-width: 190px; padding: 20px 20px 0 0; }
.track li::before {
  content: ""; position: absolute; left: 0; top: 1px; width: 11px; height: 11px; border-radius: 50%;
  background: var(--dot); border: 2px solid var(--dot);
}
.track li::after { content: ""; position: absolute; left: 16px; right: 5px; top: 6px; border-top: 2px solid var(--line); }
.track li:last-child::after { display: none; }
.track li:has(+ .next)::after { border-top-style: dotted; border-top-width: 2px; }
.track li { --dot: var(--edge); }
.track .live { --dot: var(--accent); }
.track .good { --dot: var(--good); }
.track .warn { --dot: var(--warn); }
.track .bad { --dot: var(--bad); }
.track .warn::before, .track .bad::before { border-radius: 2.5px; rotate: 45deg; scale: 0.9; }
.track .next::before { background: transparent; border-color: var(--line); }
.track b { display: block; font-size: 13.5px; font-weight: 600; line-height: 1.35; }
.track .warn b { color: var(--warn); }
.track .bad b { color: var(--bad); }
.track .good b { color: var(--good); }
.track .live b { color: var(--accent); }
.track .next b { color: var(--quiet); font-weight: 500; }
.track span { display: block; color: var(--quiet); font-size: 12.5px; line-height: 1.4; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }

.progress { display: grid; grid-template-columns: minmax(80px, 260px) 1fr; gap: 12px; align-items: center; margin-top: 16px; font-size: 13px; color: var(--quiet); }
.progress code { grid-column: 1 / -1; font-size: 12.5px; overflow-wrap: anywhere; }
progress { width: 100%; height: 6px; border: 0; border-radius: 3px; background: var(--sunken); appearance: none; overflow: hidden; color: var(--accent); }
progress::-webkit-progress-bar { background: var(--sunken); border-radius: 3px; }
progress::-webkit-progress-value { background: var(--accent); border-radius: 3px; }
progress::-moz-progress-bar { background: var(--accent); border-radius: 3px; }
.task footer { margin-top: 16px; }
.task footer button { padding: 6px 14px; }

@media (prefers-reduced-motion: no-preference) {
  .task { animation: arrive 0.35s ease-out; }
  body:not(.away) .track .live::before { animation: breathe 1.6s ease-in-out infinite; }
  .worker { animation: arrive 0.35s ease-out; }
  progress::-webkit-progress-value { transition: width 0.3s ease-out; }
  button { transition: background-color 0.12s, border-color 0.12s; }
}
@keyframes arrive { from { opacity: 0; transform: translateY(-4px); } }
@keyframes breathe { 50% { box-shadow: 0 0 0 5px var(--accent-soft); } }

@media (max-width: 940px) {
  main.with-shop { grid-template-columns: minmax(0, 1fr); }
  .shop { position: static; }
}
/* A panel that is higher than the window must scroll with it. */
@media (max-height: 820px) {
  .shop { position: static; }
}
@media (max-width: 640px) {
  body { padding: 0 16px 48px; }
  .top { padding: 20px 0 16px; gap: 16px; }
  .counts { width: 100%; gap: 0; border: 1px solid var(--line); border-radius: 10px; background: var(--surface); }
  .counts > div { flex: 1; min-width: 0; padding: 7px 4px 8px; border: 0; background: none; text-align: center; }
  .counts dt { font-size: 12px; }
  .counts dd { font-size: 19px; }
  main { padding-top: 20px; gap: 28px; }
  .shop, .task { padding: 16px; }
  .track { display: grid; row-gap: 0; }
  .track li { max-width: none; padding: 0 0 12px 24px; display: grid; grid-template-columns: minmax(96px, auto) 1fr; gap: 0 12px; }
  .track li:last-child { padding-bottom: 0; }
  .track li::before { top: 4px; }
  .track li::after { left: 4.5px; right: auto; top: 18px; bottom: 0; border-top: 0; border-left: 2px solid var(--line); }
  .track li:has(+ .next)::after { border-left-style: dotted; }
  .track b, .track span { line-height: 1.45; }
  .track .detail { grid-column: 1 / -1; }
  .progress { grid-template-columns: 1fr; gap: 6px; }
}
@media (forced-colors: active) {
  .track li::before, .worker::before { forced-color-adjust: none; }
}
`;
