#include "tools/cli/page/page_style.hpp"

#include "tools/charts/drawing.hpp"

namespace cudal1::cli {

namespace {

constexpr const char* colours = R"(:root{color-scheme:light dark;--paper:#fff;--raised:#f6f7f9;--ink:#1c1f23;
--muted:#5c6570;--rule:#e3e6ea;--accent:#0072b2;--quiet:#a9b1ba;--bad:#b3440a;--good:#00664b;
--k:#8a3b8f;--t:#0b6a75;--n:#9a4d00;--s:#2f6b1f;--c:#68727d;--f:#1f5fa8}
@media(prefers-color-scheme:dark){:root{--paper:#15181c;--raised:#1c2025;--ink:#e8eaed;--muted:#a2abb5;
--rule:#33383f;--accent:#56b4e9;--quiet:#6b747e;--bad:#f08a4b;--good:#4ec9a0;
--k:#d6a0dc;--t:#74c7d1;--n:#e8b06a;--s:#9fd08a;--c:#8f99a4;--f:#8fbdf2}}
)";

constexpr const char* text_rules = R"(*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
main,header,footer{max-width:66rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:3.5rem}footer{padding-top:2rem;padding-bottom:4rem;color:var(--muted);font-size:.875rem}
.over{color:var(--muted);font-size:.875rem;margin:0 0 .75rem}
h1{font-size:clamp(1.5rem,1.1rem + 2vw,2.25rem);line-height:1.2;letter-spacing:-.015em;font-weight:650;
margin:0 0 1rem;max-width:24em;text-wrap:balance}
h2{font-size:1.375rem;line-height:1.3;letter-spacing:-.01em;font-weight:650;margin:4rem 0 .75rem}
h4{font-size:1rem;font-weight:650;margin:2rem 0 .5rem}
h1,h2,p,li,.figures dt,figcaption,summary{overflow-wrap:anywhere}
p{max-width:44em;margin:.5rem 0}.lead{font-size:1.0625rem;color:var(--muted)}
.note{color:var(--muted);font-size:.875rem}.state{border-left:3px solid var(--accent);padding:.25rem 0 .25rem .9rem}
a{color:var(--accent);text-underline-offset:.15em}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.5rem}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:2rem 0 0;font-size:.875rem}
.figures{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:1.75rem 2rem;margin:2rem 0 0;
padding:1.5rem 0;border-top:1px solid var(--rule);border-bottom:1px solid var(--rule)}
.four{grid-template-columns:repeat(4,minmax(0,1fr))}
.figures div{display:flex;flex-direction:column-reverse;justify-content:flex-end}
.figures dt{color:var(--muted);font-size:.875rem;line-height:1.4}
.figures dd{margin:0;font-size:1.875rem;line-height:1.2;font-weight:600;letter-spacing:-.02em;
font-variant-numeric:tabular-nums}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.5rem;margin:1.5rem 0 0;font-size:.9375rem}
.facts dt{color:var(--muted)}.facts dd{margin:0;overflow-wrap:anywhere}
)";

constexpr const char* table_rules = R"(.scroll{overflow-x:auto;margin:1.25rem 0}
table{border-collapse:collapse;font-size:.875rem;line-height:1.4;min-width:100%}
caption{text-align:left;color:var(--muted);padding:0 0 .5rem;font-size:.875rem}
th,td{text-align:left;padding:.4rem .9rem .4rem 0;border-bottom:1px solid var(--rule);vertical-align:top;
font-weight:400}
caption span{position:sticky;left:0;display:inline-block;max-width:min(46em,calc(100vw - 2.5rem))}
thead th{color:var(--muted);border-bottom:1px solid var(--quiet);white-space:nowrap;vertical-align:bottom}
tbody th{font-weight:500}.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.num,th.num{padding-left:.25rem}tr>:last-child{padding-right:.25rem}
td,tbody th{white-space:nowrap}
.long{white-space:normal!important;min-width:14rem;overflow-wrap:anywhere}
tbody th a{text-decoration-color:var(--quiet)}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
figure{margin:1.5rem 0}figcaption{color:var(--muted);font-size:.875rem;max-width:46em;margin-top:.5rem}
figure h4{margin:0 0 .5rem}.narrow{display:none}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(17.5rem,100%),1fr));gap:0 2rem;align-items:start}
)";

constexpr const char* task_rules = R"(.task{border-top:1px solid var(--rule);scroll-margin-top:1rem}
.task:last-of-type{border-bottom:1px solid var(--rule)}
.task>summary{display:grid;grid-template-columns:1fr auto;gap:0 1rem;align-items:baseline;padding:.7rem .25rem .7rem 1.5rem;
cursor:pointer;list-style:none;position:relative}
.task>summary::-webkit-details-marker{display:none}
.task>summary::before{content:"";position:absolute;left:.3rem;top:1.15rem;width:.42rem;height:.42rem;
border:solid var(--muted);border-width:0 1.5px 1.5px 0;transform:rotate(-45deg)}
.task[open]>summary::before{transform:rotate(45deg)}
.task>summary:hover{background:var(--raised)}
.task h3{font-size:1rem;font-weight:600;margin:0;overflow-wrap:anywhere}
.task .score{font-weight:600;font-variant-numeric:tabular-nums;text-align:right;white-space:nowrap}
.task .score.even{font-weight:400;color:var(--muted)}
.task .times{grid-column:1/-1;color:var(--muted);font-size:.875rem;font-variant-numeric:tabular-nums}
.body{padding:.5rem 0 2.5rem 1.5rem}
ol.moves{padding-left:1.4rem;max-width:46em}ol.moves li{margin:.35rem 0;overflow-wrap:anywhere}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.8125rem}
p code{overflow-wrap:anywhere}
details.more{margin:1rem 0}details.more>summary{cursor:pointer;color:var(--accent);font-size:.9375rem}
pre{background:var(--raised);border:1px solid var(--rule);border-radius:6px;padding:1rem;overflow:auto;max-height:36rem;
line-height:1.5;tab-size:2;margin:.75rem 0}
.k{color:var(--k)}.t{color:var(--t)}.n{color:var(--n)}.s{color:var(--s)}.c{color:var(--c);font-style:italic}
.p{color:var(--k)}.f{color:var(--f)}
)";

constexpr const char* size_rules =
    R"(@media(max-width:700px){header{padding-top:2rem}main,header,footer{padding-left:1rem;
padding-right:1rem}h2{margin-top:3rem}.wide{display:none}.narrow{display:block}.figures,.four{gap:1.25rem 1rem;
grid-template-columns:repeat(2,minmax(0,1fr))}.figures dd{font-size:1.5rem}.body{padding-left:0}
.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.6rem}}
@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@media print{:root{--paper:#fff;--raised:#fff;--ink:#000;--muted:#444;--rule:#ccc;--accent:#0072b2;--quiet:#999;
--bad:#b3440a;--good:#00664b;--k:#000;--t:#000;--n:#000;--s:#000;--c:#555;--f:#000}
body{font-size:10.5pt}nav,.skip{display:none}main,header,footer{max-width:none}h2,h3,h4,summary{break-after:avoid}
figure,tr,dl{break-inside:avoid}details::details-content{content-visibility:visible;block-size:auto;display:block}
pre{max-height:none;white-space:pre-wrap}.scroll{overflow:visible}}
)";

}  // namespace

std::string page_style() {
  return std::string(colours) + text_rules + table_rules + task_rules + charts::chart_style() + size_rules;
}

}  // namespace cudal1::cli
