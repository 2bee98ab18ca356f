// Light or dark, before anything is painted: as the reader's system says, until the reader chooses.
"use strict";
window.gradtape = window.gradtape || {};

window.gradtape.theme = (function () {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  // a page opened from a file may have no store
  try { chosen = window.localStorage.getItem("gradtape-theme"); } catch (error) { chosen = null; }

  function show() { document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light"); }

  function turn() {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { window.localStorage.setItem("gradtape-theme", chosen); } catch (error) { /* it holds for this visit */ }
    show();
    window.dispatchEvent(new Event("gradtape-theme"));
  }

  window.addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; }); // paper is white
  window.addEventListener("afterprint", show);
  system.addEventListener("change", () => { show(); window.dispatchEvent(new Event("gradtape-theme")); });
  show();
  return { turn };
})();
