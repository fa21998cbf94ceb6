// The style of report pages: light, dark and print. Nobody but html.cc includes this.
//
// Series have the colours of Okabe and Ito in their order (classes s0 to s7); black becomes white
// on a dark ground.
#pragma once

namespace skep::simulator {

inline constexpr const char* kPageStyle = R"css(:root { color-scheme: light dark;
  --ground: #ffffff; --panel: #f6f7f8; --line: #d5d9dd; --grid: #e6e8ea; --text: #1b1f24;
  --soft: #57606a; --ink: #000000; --good: #1a7f37; --bad: #b3261e; --wait: #8a5a00; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #14171a; --panel: #1d2125; --line: #3a4046; --grid: #2a2f34; --text: #e6e8ea;
  --soft: #a6adb4; --ink: #ffffff; --good: #56d27a; --bad: #ff8a80; --wait: #f0b849; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); line-height: 1.5;
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; }
header, main { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
main { padding-bottom: 48px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 19px; line-height: 1.3; margin: 36px 0 10px; }
p { margin: 6px 0; }
.meta { color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.state { display: inline-block; font-size: 13px; font-weight: 600; border: 1px solid; border-radius: 11px;
  padding: 1px 11px; margin-left: 8px; vertical-align: 5px; color: var(--soft); }
.state.finished { color: var(--good); } .state.failed { color: var(--bad); }
.state.interrupted, .state.stopped, .state.running { color: var(--wait); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin-top: 22px; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; }
.card .label { color: var(--soft); font-size: 13px; }
.card .figure { font-size: 23px; font-weight: 600; line-height: 1.35; overflow-wrap: anywhere; }
.card .detail { color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 430px), 1fr)); gap: 0 28px; }
.pair > * { min-width: 0; }
figure { margin: 0; min-width: 0; max-width: 560px; }
figcaption { color: var(--soft); font-size: 13px; margin-bottom: 4px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--text); font: 12.6px system-ui, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
svg .soft { fill: var(--soft); }
svg .grid { stroke: var(--grid); stroke-width: 1; } svg .axis { stroke: var(--soft); stroke-width: 1; }
svg .goal { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 5 4; }
svg .stroke { fill: none; stroke-width: 1.9; stroke-linejoin: round; stroke-linecap: round; }
svg .dash { stroke-dasharray: 6 3; }
svg .s0 { fill: #0072B2; stroke: #0072B2; } svg .s1 { fill: #E69F00; stroke: #E69F00; }
svg .s2 { fill: #009E73; stroke: #009E73; } svg .s3 { fill: #D55E00; stroke: #D55E00; }
svg .s4 { fill: #CC79A7; stroke: #CC79A7; } svg .s5 { fill: #56B4E9; stroke: #56B4E9; }
svg .s6 { fill: #F0E442; stroke: #F0E442; } svg .s7 { fill: var(--ink); stroke: var(--ink); }
svg .bar, svg .band, svg .spot { stroke: none; } svg .band { opacity: 0.2; } svg .faint { fill-opacity: 0.55; }
svg .spot { fill-opacity: 0; } svg .spot:hover { fill-opacity: 0.9; } svg .bar:hover { opacity: 0.75; }
svg .stroke.s0, svg .stroke.s1, svg .stroke.s2, svg .stroke.s3,
svg .stroke.s4, svg .stroke.s5, svg .stroke.s6, svg .stroke.s7 { fill: none; }
details { margin: 6px 0 10px; font-size: 14px; } summary { cursor: pointer; color: var(--soft); }
.scroll { overflow: auto; max-height: 440px; margin: 8px 0; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
caption { text-align: left; color: var(--soft); padding: 6px 10px; }
th, td { text-align: left; padding: 4px 10px; border-top: 1px solid var(--line); vertical-align: top;
  font-weight: 400; overflow-wrap: break-word; max-width: 44ch; }
tbody th { overflow-wrap: anywhere; }
thead th { font-weight: 600; position: sticky; top: 0; background: var(--panel); overflow-wrap: normal; }
.n { text-align: right; white-space: nowrap; }
ul.notes { padding-left: 20px; margin: 6px 0; } ul.notes li { overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 10px 14px;
  overflow-x: auto; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media print { :root { --ground: #ffffff; --panel: #ffffff; --line: #999999; --grid: #dddddd;
  --text: #000000; --soft: #333333; --ink: #000000; --good: #000000; --bad: #000000; --wait: #000000; }
  @page { size: A4; margin: 14mm; }
  section, figure, .card { break-inside: avoid; } .scroll { max-height: none; overflow: visible; } }
)css";

// The same for a picture that stands alone: no variables, which few viewers know.
inline constexpr const char* kPictureStyle = R"css(svg { background: #ffffff; }
text { fill: #1b1f24; font: 12.5px "DejaVu Sans", sans-serif; } .soft { fill: #57606a; }
.grid { stroke: #e6e8ea; } .axis { stroke: #57606a; } .bar { stroke: none; } .faint { fill-opacity: 0.55; }
.s0 { fill: #0072B2; } .s1 { fill: #E69F00; } .s2 { fill: #009E73; } .s3 { fill: #D55E00; }
.s4 { fill: #CC79A7; } .s5 { fill: #56B4E9; } .s6 { fill: #F0E442; } .s7 { fill: #000000; }
)css";

}  // namespace skep::simulator
