#include "tools/serve/dashboard/assets.hpp"

#include "tools/cli/page/page_style.hpp"

namespace cudal1::serve {

namespace {

constexpr const char* frame_rules =
    R"(.dashboard>header{display:flex;flex-wrap:wrap;gap:.5rem 1.5rem;align-items:baseline;
padding-top:1.25rem;padding-bottom:.75rem;border-bottom:1px solid var(--rule);margin-bottom:2rem}
.brand{font-weight:650;margin:0}
.dashboard>header nav{flex:1 1 20rem}.dashboard>header nav ul{margin:0;font-size:.9375rem;gap:.25rem 1.1rem}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
nav a[aria-current]{color:var(--ink);font-weight:600;border-bottom:2px solid var(--accent)}
.dashboard>header,.dashboard>main,.dashboard>footer{max-width:84rem}
#live{margin:0;font-size:.875rem;color:var(--muted)}#live:empty{display:none}
.account{margin:0;font-size:.875rem;color:var(--muted);display:flex;gap:.5rem;align-items:baseline}
.dashboard main:focus{outline:none}.dashboard h2{margin-top:3rem}
.dashboard h1{margin-bottom:.75rem}.dashboard h3{font-size:1.0625rem;margin:1.5rem 0 .5rem}
.dashboard footer{min-height:5rem}
.actions{margin:1.25rem 0 0}
.problem{border-left:3px solid var(--bad);padding:.25rem 0 .25rem .9rem;overflow-wrap:anywhere}
.run{border:1px solid var(--rule);border-radius:6px;padding:1rem 1.25rem;margin:1rem 0}
.run h3{margin:0 0 .5rem}.run .over{font-weight:400;margin-left:.35rem}
progress{width:100%;height:.75rem;accent-color:var(--accent)}
.run-figures{display:flex;flex-wrap:wrap;gap:.15rem 1.5rem;max-width:none;font-variant-numeric:tabular-nums}
th a{color:inherit;text-decoration-color:var(--quiet)}
th[aria-sort] a{color:var(--ink);font-weight:600}
th[aria-sort=descending] a::after{content:" \25BC";font-size:.7em}
th[aria-sort=ascending] a::after{content:" \25B2";font-size:.7em}
.pages ul{align-items:baseline}
)";

constexpr const char* form_rules = R"(button,input,select,textarea{font:inherit;font-size:.9375rem;color:var(--ink);
background:var(--paper);border:1px solid var(--muted);border-radius:4px;padding:.35rem .6rem;max-width:100%}
button{background:var(--accent);border-color:var(--accent);color:var(--on-accent);font-weight:600;cursor:pointer}
button.quiet{background:none;border-color:transparent;color:var(--accent);font-weight:400;padding:0;
text-decoration:underline;font-size:.875rem}
button.danger{background:var(--bad);border-color:var(--bad)}
label{font-weight:600;font-size:.9375rem}
.field{margin:1.25rem 0;display:grid;gap:.35rem;max-width:30rem;justify-items:start}
.field textarea,.field input[type=password]{width:100%}.field .note{margin:0;overflow-wrap:anywhere}
.act{margin:.75rem 0}.filter{display:flex;flex-wrap:wrap;gap:.75rem 1.25rem;align-items:end;margin:1rem 0}
.filter div{display:grid;gap:.2rem;min-width:0}.filter select{max-width:18rem}
.names{columns:14rem;padding-left:1.2rem}
.dashboard{--on-accent:#fff}@media(prefers-color-scheme:dark){.dashboard{--on-accent:#0b1a24}}
@media(max-width:700px){.dashboard .long{min-width:20rem}.dashboard h2{margin-top:2.25rem}.filter div,.filter select{width:100%;max-width:none}}
)";

constexpr const char* script = R"("use strict";
(() => {
  const parts = () => document.querySelectorAll("[data-live]");
  if (parts().length === 0 || !("EventSource" in window)) return;
  const state = document.getElementById("live");
  const shownHtml = new Map([...parts()].map((p) => [p.id, p.innerHTML]));
  let source = null, loading = false, again = false, shown = document.body.dataset.revision;

  function say(text) {
    if (state && state.textContent !== text) state.textContent = text;
  }

  // Where the keyboard is, to be there again: a link by its address, a table or a text by its place.
  function focused(part) {
    const now = document.activeElement;
    if (!now || !part.contains(now)) return null;
    const path = [];
    for (let at = now; at !== part; at = at.parentElement) path.unshift([...at.parentElement.children].indexOf(at));
    return {href: now.getAttribute("href"), path};
  }
  function focusAgain(part, before) {
    if (!before) return;
    let at = part;
    for (const i of before.path) at = at && at.children[i];
    if (before.href && (!at || at.getAttribute("href") !== before.href))
      at = [...part.querySelectorAll("a")].find((a) => a.getAttribute("href") === before.href);
    if (at) at.focus({preventScroll: true});
  }

  function replace(next) {
    const selection = window.getSelection();
    for (const part of parts()) {
      const fresh = next.getElementById(part.id);
      if (!fresh || (fresh.innerHTML === shownHtml.get(part.id) && fresh.hidden === part.hidden)) continue;
      if (!selection.isCollapsed && part.contains(selection.anchorNode)) continue;
      const html = fresh.innerHTML, before = focused(part);
      const open = [...part.querySelectorAll("details")].map((d) => d.open);
      const scrolled = [...part.querySelectorAll(".scroll,pre")].map((s) => [s.scrollLeft, s.scrollTop]);
      part.replaceChildren(...document.adoptNode(fresh).childNodes);
      part.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || false; });
      part.querySelectorAll(".scroll,pre").forEach((s, i) => {
        if (scrolled[i]) [s.scrollLeft, s.scrollTop] = scrolled[i];
      });
      part.hidden = fresh.hidden;
      shownHtml.set(part.id, html);
      focusAgain(part, before);
    }
    document.title = next.title;
  }
  async function load() {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const answer = await fetch(location.href, {redirect: "manual"});
      if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch (e) { /* the stream of events says that the node is gone */ }
    loading = false;
    if (again) { again = false; load(); }
  }

  function listen() {
    if (source || document.hidden) return;
    source = new EventSource("/events");
    source.addEventListener("changed", (e) => {
      say("Live.");
      if (e.data === shown) return;
      shown = e.data;
      load();
    });
    source.onerror = () => say("Not connected: what is shown is of " + new Date().toLocaleTimeString() + " or older.");
  }
  function leave() {
    if (source) source.close();
    source = null;
  }
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : listen()));
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", listen);
  listen();
})();
)";

}  // namespace

std::string dashboard_style() {
  return cli::page_style() + frame_rules + form_rules;
}

std::string dashboard_script() {
  return script;
}

std::string dashboard_icon() {
  return R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0072b2"/>)"
         R"(<path d="M3 12L6.5 8.5L9 10.5L13 4" fill="none" stroke="#fff" stroke-width="2"/></svg>)";
}

}  // namespace cudal1::serve
